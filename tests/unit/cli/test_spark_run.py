"""`kafwire spark run` without a session: job files, checkpoints, and the report of a job that is played."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest
from click.testing import CliRunner, Result

pytest.importorskip("pyspark", exc_type=ImportError)

from kafwire.cli import main, spark_session
from kafwire.errors import ConfigError
from kafwire.spark.job import Stop
from tests.support.spark.checkpoint import write_batch, write_start


def check(folder: Path, *arguments: str, checkpoint: str = "") -> Result:
    job = folder / "archive.toml"
    job.write_text(
        f"""
        checkpoint = "{checkpoint or folder / "checkpoint"}"
        kafka.bootstrap.servers = "h:1"
        source.subscribe = "a"
        sink = {{ path = "rows", format = "parquet" }}
        """
    )
    return CliRunner().invoke(main, ["spark", "run", "--check", str(job), *arguments])


def test_a_job_is_shown(tmp_path: Path) -> None:
    result = check(tmp_path)
    assert result.stdout == f"{tmp_path}/archive.toml is a valid job: a -> rows, available-now\n"
    assert result.exit_code == 0


def test_a_first_batch_of_spark_s_own_source_is_refused(tmp_path: Path) -> None:
    write_start(tmp_path / "checkpoint", 0, '{"a":{"0":5}}')
    result = check(tmp_path)
    assert (result.exit_code, "its start is a-0: 5" in result.stderr) == (1, True)
    write_batch(tmp_path / "checkpoint", 0, {"a": {"0": 8}})
    assert check(tmp_path).exit_code == 0


def test_a_file_system_that_spark_alone_reads_is_a_warning(tmp_path: Path) -> None:
    result = check(tmp_path, checkpoint="nosuch://x/checkpoint")
    assert "the checkpoint was not checked for batches of Spark's source: nosuch://" in result.stderr
    assert result.exit_code == 0


def test_mistakes_are_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "wrong.toml").write_text("sorce = 3")
    result = CliRunner().invoke(main, ["spark", "run", str(tmp_path / "wrong.toml")])
    assert result.exit_code == 1
    assert result.stderr == "kafwire: unknown key sorce in the job file: did you mean source?\n"
    result = check(tmp_path, "--plot", str(tmp_path / "missing" / "plot.png"))
    assert "its folder does not exist" in result.stderr
    result = check(tmp_path, "--conf", "nothing")
    assert (result.exit_code, "--conf: it must be NAME=VALUE" in result.stderr) == (2, True)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    assert "pip install 'kafwire[plot]'" in check(tmp_path, "--plot", str(tmp_path / "plot.png")).stderr
    monkeypatch.setitem(sys.modules, "pyspark", None)
    assert "this command needs PySpark: pip install 'kafwire[spark]'" in check(tmp_path).stderr


Play = Callable[[Callable[[dict[str, Any]], object], Stop], object]


def played(folder: Path, monkeypatch: pytest.MonkeyPatch, play: Play) -> Result:
    """The command, whose job is `play`."""
    sessions: list[MagicMock] = []

    def session(*_: Any, hide_traceback: bool) -> MagicMock:
        assert hide_traceback
        sessions.append(MagicMock())
        return sessions[-1]

    def run(_spark: object, _job: object, report: Callable[[dict[str, Any]], object], stop: Stop) -> None:
        play(report, stop)

    monkeypatch.setattr("kafwire.cli.spark_run.session", session)
    monkeypatch.setattr("kafwire.spark.job.run", run)
    check(folder)
    result = CliRunner().invoke(main, ["spark", "run", str(folder / "archive.toml")])
    sessions[0].stop.assert_called_once_with()
    return result


BATCH = {"batch": 0, "rows": 10, "seconds": 2.0, "rows_per_second": 5.0, "topics": {}}


def test_each_batch_is_a_line_and_the_summary_comes_last(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    result = played(tmp_path, monkeypatch, lambda report, _stop: report(BATCH))
    assert result.stderr == "batch 0: 10 rows in 2.00 s, 5/s\n"
    lines = [line.split() for line in result.stdout.splitlines()]
    assert lines[:2] == [["batches", "1"], ["rows", "10"]]
    assert lines[-1] == ["0", "#" * 40, "5", "rows/s"]
    assert result.exit_code == 0


@pytest.mark.parametrize(
    ("error", "line"),
    [
        (ConfigError("option x is wrong"), "option x is wrong"),
        (RuntimeError("Job aborted\nTraceback\nValueError: no such row\n\tat org"), "ValueError: no such row"),
    ],
)
def test_a_job_that_fails_prints_its_error_and_its_batches(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception, line: str
) -> None:
    def play(report: Callable[[dict[str, Any]], object], _stop: Stop) -> None:
        report(BATCH)
        raise error

    result = played(tmp_path, monkeypatch, play)
    assert result.exit_code == 1
    assert result.stderr.splitlines()[-1] == f"kafwire: spark run: {line}"
    assert result.stdout.startswith("batches")


@pytest.mark.parametrize(("number", "code"), [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_signal_asks_for_a_stop_and_a_second_one_for_it_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, code: int
) -> None:
    asked: list[int] = []

    def play(_report: object, stop: Stop) -> None:
        for _ in range(2):
            os.kill(os.getpid(), number)
            asked.append(stop.asked)
        raise RuntimeError("Job 3 cancelled")

    before = signal.getsignal(number)
    result = played(tmp_path, monkeypatch, play)
    assert (asked, result.exit_code) == ([1, 2], code)
    assert result.stderr == "stopping after the running batch; a second signal stops at once\n"
    assert signal.getsignal(number) is before


def test_a_second_request_ends_a_call_that_looks_at_nothing() -> None:
    ended: list[bool] = []
    stop = Stop()
    stop.at_once = lambda: ended.append(True)
    stop.ask()
    assert ended == []
    stop.ask()
    assert ended == [True]


def test_a_session_hides_tracebacks_of_its_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    builder = MagicMock()
    for step in ("appName", "master", "config"):
        getattr(builder, step).return_value = builder
    monkeypatch.setattr("pyspark.sql.SparkSession", SimpleNamespace(builder=builder))
    monkeypatch.delenv("SPARK_HIDE_TRACEBACK", raising=False)
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    spark_session.session("name", "local[2]", {"a": "b"}, hide_traceback=False)
    assert "SPARK_HIDE_TRACEBACK" not in os.environ
    spark_session.session("name", "local[2]", {"a": "b"}, hide_traceback=True)
    assert os.environ.pop("SPARK_HIDE_TRACEBACK") == "1"
    builder.config.assert_any_call("spark.executorEnv.SPARK_HIDE_TRACEBACK", "1")
    builder.config.assert_any_call("a", "b")
    builder.master.assert_called_with("local[2]")
