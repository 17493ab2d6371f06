"""`kafwire spark doctor`: finds what prevents Spark from using a cluster, on the driver and on each executor."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.connection import client_options, settings_options, timeout_ms, timeout_option
from kafwire.cli.doctor import quiet
from kafwire.cli.output import JsonWriter, say
from kafwire.cli.spark_session import NAME_AND_VALUE, default_master, named_values, needed, session

if TYPE_CHECKING:
    from kafwire.cli.spark_diagnosis import SparkFinding

__all__ = ["doctor"]

_HELP = """Check what a Spark query over Kafka needs: Java, pyspark and kafwire on the driver, options, a checkpoint,
ACLs; and, with a small job, packages and reachability on each executor.

\b
  kafwire spark doctor localhost:9092
  kafwire spark doctor kafka:9093 -F client.properties --master spark://host:7077 --option subscribe=flights
  kafwire spark doctor localhost:9092 --option topic=summary --option delivery=exactly-once

"?" before a line: this check could not run. Exit code 1: a check failed.
"""


@click.command("doctor", help=_HELP)
@click.argument("servers", metavar="HOST[:PORT],...")
@settings_options
@click.option("--master", metavar="URL", help="Spark's master.  [default: from spark-submit, else local[2]]")
@click.option("--conf", "confs", multiple=True, metavar=NAME_AND_VALUE, help="A setting of Spark; may be repeated.")
@click.option(
    "--option", "given", multiple=True, metavar=NAME_AND_VALUE, help="An option of the query's source or sink."
)
@click.option("--checkpoint", metavar="LOCATION", help="A query's checkpointLocation.")
@click.option("--no-executors", is_flag=True, help="Run no job: check only the driver and the cluster.")
@click.option("-J", "--json", "as_json", is_flag=True, help="Print a JSON object per check.")
@timeout_option
def doctor(
    servers: str,
    settings: tuple[str, ...],
    config_file: Path | None,
    master: str | None,
    confs: tuple[str, ...],
    given: tuple[str, ...],
    checkpoint: str | None,
    no_executors: bool,
    as_json: bool,
) -> int:
    """Print one line for each check."""
    needed()
    from kafwire.config import ClientConfig

    options = client_options(ClientConfig, servers, settings, config_file)
    query = named_values("--option", given)
    conf = named_values("--conf", confs)
    writer = JsonWriter(pretty=False) if as_json else None
    wrong = False
    findings = _findings(servers, options, query, checkpoint, None if no_executors else (master, conf))
    with quiet(), closing(findings):
        for finding in findings:
            wrong |= finding.state == "WRONG"
            if writer is not None:
                writer.write({**asdict(finding), "ok": finding.state != "WRONG"})
                writer.flush()
                continue
            say(f"{finding.state:5}  {finding.step:12}  {finding.where}: {finding.seen}")
            if finding.change:
                say(f"{'':19}  -> {finding.change}")
    return int(wrong)


def _findings(
    servers: str,
    options: Mapping[str, Any],
    query: Mapping[str, str],
    checkpoint: str | None,
    job: tuple[str | None, Mapping[str, str]] | None,
) -> Generator[SparkFinding, None, None]:
    from kafwire.cli import spark_diagnosis as diagnosis
    from kafwire.cli.spark_probe import Probe

    here = Probe((), {}, 0.0).look()
    yield diagnosis.java_finding(*_java())
    yield from diagnosis.package_findings("driver", here["packages"], here["packages"])
    if query:
        yield from diagnosis.options_findings({"kafka.bootstrap.servers": servers, **query})
    if checkpoint is not None:
        yield _checkpoint(checkpoint)
    yield from _cluster(options, query)
    if job is not None:
        yield from _executors(servers, options, here["packages"], *job)


def _java() -> tuple[str | None, str]:
    """Return the output of `java -version`, None without java, and the program's path."""
    home = os.environ.get("JAVA_HOME")
    path = f"{home}/bin/java" if home else shutil.which("java") or "java"
    try:
        done = subprocess.run([path, "-version"], capture_output=True, text=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None, path
    return done.stderr + done.stdout, path


def _checkpoint(location: str) -> SparkFinding:
    from kafwire.cli.spark_diagnosis import SparkFinding
    from kafwire.errors import ConfigError
    from kafwire.spark.checkpoint import committed, open_checkpoint, refuse_unfinished_start, shown

    try:
        folder = open_checkpoint(location)
        refuse_unfinished_start(folder, location)
        newest = committed(folder)
    except (ConfigError, OSError) as error:
        return SparkFinding("checkpoint", "WRONG", location, str(error))
    seen = (
        "no batch is committed yet" if newest is None else f"batch {newest.batch} is committed: {shown(newest.offsets)}"
    )
    return SparkFinding("checkpoint", "ok", location, seen)


def _cluster(options: Mapping[str, Any], query: Mapping[str, str]) -> Iterator[SparkFinding]:
    from kafwire import Client
    from kafwire.cli.spark_diagnosis import SparkFinding, cluster_findings
    from kafwire.errors import ConfigError, KafkaError

    lowered = {name.lower(): value for name, value in query.items()}
    try:
        with Client(**options) as client:
            yield from cluster_findings(
                client,
                reads=_topics(lowered),
                writes=[lowered["topic"]] if "topic" in lowered else [],
                group=lowered.get("commitgroup", ""),
                exactly_once=lowered.get("delivery", "").strip().lower() in ("exactly-once", "atomic"),
            )
            yield SparkFinding("cluster", "ok", "driver", f"cluster {client.metadata([]).cluster_id} responds")
    except (KafkaError, ConfigError) as error:
        change = "run 'kafwire doctor' for the step that fails"
        yield SparkFinding("cluster", "WRONG", "driver", " ".join(str(error).split()), change)


def _topics(query: Mapping[str, str]) -> list[str]:
    """Return the topics in the options; none for a pattern."""
    from kafwire.errors import ConfigError
    from kafwire.spark.offsets import parse_partitions

    try:
        assigned = parse_partitions("assign", query["assign"]) if "assign" in query else ()
    except ConfigError:  # has a finding of its own
        assigned = ()
    named = [name.strip() for name in query.get("subscribe", "").split(",") if name.strip()]
    return list(dict.fromkeys([*named, *(place.topic for place in assigned)]))


def _executors(
    servers: str,
    options: Mapping[str, Any],
    packages: Mapping[str, str | None],
    master: str | None,
    conf: Mapping[str, str],
) -> Iterator[SparkFinding]:
    from pyspark import cloudpickle as untyped

    from kafwire.cli import spark_diagnosis as diagnosis
    from kafwire.cli import spark_probe
    from kafwire.config.bootstrap import parse_servers
    from kafwire.secret import Secret

    plain = {name: value.reveal() if isinstance(value, Secret) else value for name, value in options.items()}
    for name in ("bootstrap_servers", "default_api_timeout_ms"):
        plain.pop(name, None)
    probe = spark_probe.Probe(tuple(parse_servers(servers)), plain, timeout_ms() / 1000)
    cloudpickle: Any = untyped
    cloudpickle.register_pickle_by_value(spark_probe)  # kafwire may be missing on an executor
    try:
        spark = session("kafwire spark doctor", master or default_master("local[2]"), conf, hide_traceback=False)
        try:
            context = spark.sparkContext
            tasks = 2 * context.defaultParallelism
            probes = context.parallelize(range(tasks), tasks).mapPartitions(probe).collect()
            infos: Any = context._jsc.sc().statusTracker().getExecutorInfos()
            # The infos include the driver, the only process of a local master.
            executors = max(1, len(infos) - 1)
        finally:
            spark.stop()
    except Exception as error:  # noqa: BLE001 - Spark raises many classes, of Java too
        seen = f"the job failed: {diagnosis.failure_of_job(error)}"
        change = "correct that, and run it again: the executors were not checked"
        yield diagnosis.SparkFinding("executors", "WRONG", "cluster", seen, change)
        return
    finally:
        cloudpickle.unregister_pickle_by_value(spark_probe)
    yield from diagnosis.executor_findings(probes, executors, packages)
    yield from diagnosis.traceback_finding(probes)
