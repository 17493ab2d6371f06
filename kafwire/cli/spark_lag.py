"""`kafwire spark lag`: the lag of a stream, by its checkpoint or by its consumer group."""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import click

from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_table, say, write_json

if TYPE_CHECKING:
    from kafwire.cli.group_requests import Groups
    from kafwire.spark.checkpoint import Committed
    from kafwire.types import TopicPartition

__all__ = ["lag"]

_HELP = """Show the lag of a stream.

\b
  kafwire spark lag /data/archive/checkpoint -b localhost:9092
  kafwire spark lag s3://bucket/checkpoint -b localhost:9092
  kafwire spark lag --group archive -b localhost:9092

CHECKPOINT is a query's checkpointLocation: the offsets of its newest committed batch are compared with the ends of the
partitions. --group: the offsets that a query commits by its option commitGroup. "-" stands for an unknown number.

Exit code 1: a number is unknown, or the checkpoint has no committed batch.
"""
_HEADER = ("TOPIC", "PARTITION", "COMMITTED", "END", "LAG")


class _Row(NamedTuple):
    topic: str
    partition: int
    committed: int | None
    end: int | None

    @property
    def lag(self) -> int | None:
        """The difference of both offsets; None if one is unknown."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


@click.command("lag", help=_HELP)
@click.argument("checkpoint", required=False)
@click.option("--group", metavar="GROUP", help="The group of the option commitGroup, instead of a checkpoint.")
@connection_options_for("ClientConfig")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each partition.")
def lag(
    checkpoint: str | None,
    group: str | None,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    as_json: bool,
) -> int:
    """Show committed offsets, ends and the difference."""
    if (checkpoint is None) == (group is None):
        raise click.UsageError("give either CHECKPOINT or --group GROUP")
    from kafwire.cli.group_requests import committed_offsets, open_groups

    batch = _newest(checkpoint) if checkpoint is not None else None
    if checkpoint is not None and batch is None:
        say(f"kafwire spark lag: {checkpoint} has no committed batch yet", err=True)
        return 1
    with open_groups(brokers, settings, config_file) as groups:
        offsets = batch.offsets if batch is not None else committed_offsets(groups.admin, str(group))
        rows = _rows(groups, offsets)
    code = _print(rows, batch, as_json=as_json)
    for where, why in groups.unavailable.items():
        say(f"kafwire spark lag: {where.topic}-{where.partition} has no known end: {why}", err=True)
    return code


def _newest(checkpoint: str) -> Committed | None:
    from kafwire.spark.checkpoint import committed, open_checkpoint

    found = committed(open_checkpoint(checkpoint))
    if found is not None and not found.offsets:
        raise click.ClickException(f"batch {found.batch} of {checkpoint} has no offsets of a Kafka source")
    return found


def _rows(groups: Groups, offsets: Mapping[TopicPartition, int]) -> list[_Row]:
    # Partitions of the same topics that the query has not read yet have a lag, too.
    places = sorted({*offsets, *groups.existing(place.topic for place in offsets)})
    ends = groups.ends(places, "latest")
    return [_Row(place.topic, place.partition, offsets.get(place), ends.get(place)) for place in places]


def _print(rows: list[_Row], batch: Committed | None, *, as_json: bool) -> int:
    """Print the rows; return the exit code."""
    code = int(any(row.lag is None for row in rows))
    if as_json:
        number = None if batch is None else batch.batch
        write_json({**row._asdict(), "lag": row.lag, "batch": number} for row in rows)
        return code
    print_table(_HEADER, [_cells(row) for row in rows])
    known = [row.lag for row in rows if row.lag is not None]
    texts = [f"{sum(known)} offset(s) behind"] if known else []
    texts += [f"{len(rows) - len(known)} partition(s) with an unknown lag"] * (len(known) < len(rows))
    if batch is not None:
        texts.append(f"batch {batch.batch} is committed{_planned(batch.time_ms)}")
    say(", ".join(texts) if texts else "no offset is committed")
    return code


def _planned(time_ms: int | None) -> str:
    if time_ms is None:
        return ""
    return f", planned {dt.datetime.fromtimestamp(time_ms // 1000, dt.UTC):%Y-%m-%dT%H:%M:%SZ}"


def _cells(row: _Row) -> tuple[str, ...]:
    numbers = (row.committed, row.end, row.lag)
    return (row.topic, str(row.partition), *("-" if number is None else str(number) for number in numbers))
