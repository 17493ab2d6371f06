"""`kafwire spark recover`: takes over the exactly-once sink of a Spark job by hand."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafwire.cli.connection import client_options, connection_options_for
from kafwire.cli.output import print_table, say
from kafwire.errors import ConfigError

if TYPE_CHECKING:
    from kafwire.spark.exactly_once.outcomes import HalfCommittedError
    from kafwire.spark.exactly_once.sink import Sink

__all__ = ["recover"]

_HELP = """Take over the exactly-once sink SINK: commit decided batches, abort transactions that belong to no batch.

A job that runs with this sink fails, and takes over again when it restarts.

A batch is half committed if it was decided, and some of its transactions ended before their commit: by
transaction.timeout.ms, or by another producer with their ids. Its partitions are listed, and the exit code is 1. Then
one of two options lets the job continue: --accept-loss leaves the batch unchanged, and aborted records are lost.
--rewrite makes Spark run the batch again, and the records that it committed become duplicates.
"""

_HEADER = ("QUERY", "BATCH", "TOPIC", "PARTITIONS", "RECORDS", "OUTCOME")


@click.command("recover", help=_HELP)
@click.argument("sink", metavar="SINK")
@connection_options_for("ProducerConfig")
@click.option("--state-topic", metavar="TOPIC", help="The job's option stateTopic.  [default: kafwire-sink-SINK]")
@click.option("--accept-loss", is_flag=True, help="Leave half-committed batches unchanged.")
@click.option("--rewrite", is_flag=True, help="Make Spark run half-committed batches again.")
def recover(
    sink: str,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    state_topic: str | None,
    accept_loss: bool,
    rewrite: bool,
) -> int:
    """Take over a sink."""
    from kafwire.config import ProducerConfig
    from kafwire.spark.exactly_once import sinks
    from kafwire.spark.exactly_once.decisions import check_sink_name
    from kafwire.spark.options import TRANSACTION_TIMEOUT_MS, WriteOptions

    if accept_loss and rewrite:
        raise click.UsageError("--accept-loss and --rewrite exclude each other")
    try:
        check_sink_name(sink)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    given = client_options(ProducerConfig, brokers, settings, config_file)
    given.setdefault("transaction_timeout_ms", TRANSACTION_TIMEOUT_MS)
    options = WriteOptions(given, None, sink, state_topic or f"kafwire-sink-{sink}")

    async def take_over(taken: Sink) -> list[HalfCommittedError]:
        failures = await taken.half_committed()
        for failure in failures:
            if accept_loss:
                await taken.accept_loss(failure.decision)
            elif rewrite:
                await taken.rewrite(failure.decision)
        return failures

    failures = sinks.run(options, take_over)
    if not failures:
        say(f"the sink {sink} has no half-committed batch")
        return 0
    print_table(_HEADER, [row for failure in failures for row in _rows(failure)])
    if accept_loss or rewrite:
        what = "is left unchanged" if accept_loss else "is written again by the next run of the job"
        say("; ".join(f"batch {each.decision.batch} of query {each.decision.query} {what}" for each in failures))
        return 0
    say("choose --accept-loss (aborted records are lost) or --rewrite (committed records become duplicates)")
    return 1


def _rows(failure: HalfCommittedError) -> list[tuple[str, ...]]:
    found: list[tuple[str, ...]] = []
    for each, outcome in zip(failure.decision.prepared, failure.outcomes, strict=True):
        for topic, numbers in sorted(each.partitions.items()):
            place = (topic, ",".join(map(str, numbers)))
            found.append(
                (failure.decision.query, str(failure.decision.batch), *place, str(each.records), outcome.value)
            )
    return found
