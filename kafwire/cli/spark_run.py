"""`kafwire spark run`: runs a pipeline over Kafka from a job file."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.output import say
from kafwire.cli.spark_session import NAME_AND_VALUE, default_master, named_values, needed, session

if TYPE_CHECKING:
    from kafwire.spark.job import Stop
    from kafwire.spark.job_file import Job
    from kafwire.spark.job_report import JobReport

__all__ = ["run"]

_HELP = """Run a Spark job: read a topic or a table, decode and query it, and write to a topic, to files or to a table.

\b
  kafwire spark run archive.toml
  kafwire spark run archive.toml --master spark://host:7077 --plot archive.png
  kafwire spark run archive.toml --check

docs/guide/spark.md has the keys of a job file. A line per batch goes to standard error, the summary to standard output.
Ctrl-C and SIGTERM stop the job after the running batch, a second one at once.
"""


@click.command("run", help=_HELP)
@click.argument("file", metavar="JOB.TOML", type=click.Path(exists=True, dir_okay=False, path_type=Path))
@click.option("--master", metavar="URL", help="Spark's master; overrides the one in the file.")
@click.option("--conf", "confs", multiple=True, metavar=NAME_AND_VALUE, help="A setting of Spark; may be repeated.")
@click.option("--plot", metavar="FILE", help="Write the throughput as a picture; needs the package matplotlib.")
@click.option("--check", is_flag=True, help="Only check the job file and its checkpoint.")
def run(file: Path, master: str | None, confs: tuple[str, ...], plot: str | None, check: bool) -> int:
    """Run one job."""
    needed()
    from kafwire.spark.job_file import read_job
    from kafwire.spark.job_report import JobReport, batch_line

    job = read_job(file.read_text(encoding="utf-8"), os.environ, file.stem)
    plot = plot or job.plot
    if plot is not None:
        _check_plot(plot)
    conf = {**job.conf, **named_values("--conf", confs)}
    _check_checkpoint(job)
    if check:
        say(f"{file} is a valid job: {job}")
        return 0
    report = JobReport()

    def on_batch(batch: Mapping[str, Any]) -> None:
        report.add(batch)
        say(batch_line(batch), err=True)

    began = time.monotonic()
    code, problem = _run(job, master or job.master or default_master("local[*]"), conf, on_batch)
    report.seconds = time.monotonic() - began
    _print(report)
    if plot is not None:
        _draw(report, plot, job.name)
    if problem:
        raise click.ClickException(f"spark run: {problem}")
    return code


def _run(job: Job, master: str | None, conf: Mapping[str, str], on_batch: Any) -> tuple[int, str]:
    """Run the job; return the exit code, and the reason of a failure."""
    from kafwire.cli.spark_diagnosis import failure_of_job
    from kafwire.errors import ConfigError
    from kafwire.spark import job as jobs

    stop = jobs.Stop()
    came: list[int] = []
    try:
        spark = session(job.name, master, conf, hide_traceback=True)
        try:
            # after the session is created: it sets a handler that kills all tasks
            with _stopped_by_signals(stop, came):
                jobs.run(spark, job, on_batch, stop)
        finally:
            spark.stop()
    except ConfigError as error:
        return 1, str(error)
    except Exception as error:  # noqa: BLE001 - Spark raises many classes, of Java too
        if len(came) < 2:  # a second signal ends the batch with an error
            return 1, failure_of_job(error)
    return (128 + came[0] if came else 0), ""


@contextmanager
def _stopped_by_signals(stop: Stop, came: list[int]) -> Iterator[None]:
    """Stop the job at Ctrl-C or SIGTERM; `came` collects the signals' numbers."""

    def ask(number: int, _frame: FrameType | None) -> None:
        if not came:
            say("stopping after the running batch; a second signal stops at once", err=True)
        came.append(number)
        stop.ask()

    if threading.current_thread() is not threading.main_thread():  # only the main thread may set signal handlers
        yield
        return
    before = {number: signal.signal(number, ask) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _check_checkpoint(job: Job) -> None:
    """Refuse a checkpoint whose first batch Spark's own source began.

    File systems that only Spark can read are unchecked.
    """
    if job.checkpoint is None or not job.source.is_topic:
        return
    from kafwire.errors import ConfigError
    from kafwire.spark.checkpoint import open_folder, refuse_unfinished_start

    try:
        folder = open_folder(job.checkpoint)
    except ConfigError as error:
        say(f"kafwire spark run: the checkpoint was not checked for batches of Spark's source: {error}", err=True)
        return
    refuse_unfinished_start(folder, job.checkpoint)


def _check_plot(path: str) -> None:
    """Check before the job runs that the plot can be written after it."""
    try:
        import matplotlib as mpl  # noqa: F401
    except ImportError:
        raise click.ClickException("a plot needs the package matplotlib: pip install 'kafwire[plot]'") from None
    if not Path(path).absolute().parent.is_dir():
        raise click.ClickException(f"the plot {path}: its folder does not exist")


def _print(report: JobReport) -> None:
    lines = report.summary()
    width = max(len(name) for name, _ in lines)
    for name, value in lines:
        say(f"{name:{width}}  {value}")
    bars = report.text_plot()
    if bars:
        say("")
        for bar in bars:
            say(bar.rstrip())


def _draw(report: JobReport, path: str, title: str) -> None:
    from kafwire.spark.job_report import draw

    draw(report, path, title)
    say(f"the plot is in {path}")
