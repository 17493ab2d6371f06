"""`kafwire transactions`: transactional ids, their states, and hanging transactions."""

from __future__ import annotations

import datetime as dt
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.connection import client_options, connection_options_for, only
from kafwire.cli.output import JsonWriter, print_table, say
from kafwire.cli.partition_names import named_partitions
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Admin
    from kafwire.admin import HangingTransaction

__all__ = ["command"]

_HELP = """List transactional ids, describe them, find and abort hanging transactions.

\b
  kafwire transactions list --state Ongoing --longer-than 60 -b localhost:9092
  kafwire transactions describe billing-1
  kafwire transactions hanging
  kafwire transactions abort payments:3
  kafwire transactions abort payments:3 --execute

A hanging transaction is open in a partition, and its coordinator does not know that. It hides all later records of the
partition from readers of committed records, until it is aborted.
"""

_LIST_HEADER = ("TRANSACTIONAL-ID", "STATE", "PRODUCER", "COORDINATOR")
_DESCRIPTION_HEADER = (*_LIST_HEADER[:3], "EPOCH", "COORDINATOR", "TIMEOUT-MS", "STARTED", "PARTITIONS")
_HANGING_HEADER = ("TOPIC", "PARTITION", "OFFSET", "PRODUCER", "EPOCH", "COORDINATOR-EPOCH", "LAST-RECORD")
_Settings = tuple[str, ...]
_connected = connection_options_for("ClientConfig")
_as_json = click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each.")
_longest = click.option(
    "--longer-than",
    type=click.FloatRange(min=0),
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="Leave out producers that wrote within this time. Give at least the brokers' transaction.max.timeout.ms.",
)


@click.group("transactions", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@contextmanager
def _admin(brokers: str | None, settings: _Settings, config_file: Path | None) -> Iterator[Admin]:
    from kafwire import Admin
    from kafwire.config import ClientConfig, ConsumerConfig

    options = only(client_options(ConsumerConfig, brokers, settings, config_file), ClientConfig)
    with Admin(**options) as admin:
        yield admin


class _Failures:
    """Prints errors by key, and keeps the exit code."""

    def __init__(self) -> None:
        self.code = 0

    def __call__(self, _: object, error: KafkaError) -> None:
        self.code = 1
        say(f"kafwire transactions: {error}", err=True)


@command.command("list")
@_connected
@click.option("--state", "states", multiple=True, help="Only ids in this state, such as Ongoing; may be repeated.")
@click.option("--producer", "producers", multiple=True, type=click.IntRange(min=0), help="Only of this producer id.")
@click.option("--longer-than", type=click.FloatRange(min=0), metavar="SECONDS", help="Only if begun before this time.")
@click.option("--pattern", metavar="RE2", help="Only ids that this regular expression matches as a whole.")
@click.option("--prefix", metavar="TEXT", help="Only ids that begin with this text.")
@_as_json
def list_transactions(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    states: Sequence[str],
    producers: Sequence[int],
    longer_than: float | None,
    pattern: str | None,
    prefix: str | None,
    as_json: bool,
) -> int:
    """List transactional ids of all coordinators."""
    failures = _Failures()
    with _admin(brokers, settings, config_file) as admin:
        found = admin.list_transactions(
            states=states,
            producer_ids=producers,
            longer_than_ms=None if longer_than is None else round(longer_than * 1000),
            pattern=pattern,
            prefix=prefix,
            on_error=failures,
        )
    rows = [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found]
    _print(_LIST_HEADER, ("transactionalId", "state", "producerId", "coordinator"), rows, as_json=as_json)
    return failures.code


@command.command("describe")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_connected
@_as_json
def describe(
    ids: Sequence[str], brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool
) -> int:
    """Show the states of transactional ids, and the partitions of open transactions."""
    failures = _Failures()
    with _admin(brokers, settings, config_file) as admin:
        found = list(admin.describe_transactions(ids, on_error=failures).values())
    if as_json:
        _write(
            {
                "transactionalId": each.transactional_id,
                "state": each.state,
                "producerId": each.producer_id,
                "producerEpoch": each.producer_epoch,
                "coordinator": each.coordinator,
                "timeoutMs": each.timeout_ms,
                "startedMs": each.started_ms,
                "partitions": [where._asdict() for where in each.partitions],
            }
            for each in found
        )
        return failures.code
    rows = [
        (
            each.transactional_id,
            each.state,
            str(each.producer_id),
            str(each.producer_epoch),
            str(each.coordinator),
            str(each.timeout_ms),
            _time(each.started_ms),
            " ".join(f"{topic}:{number}" for topic, number in each.partitions),
        )
        for each in found
    ]
    print_table(_DESCRIPTION_HEADER, rows)
    return failures.code


@command.command("hanging")
@click.argument("topics", nargs=-1, metavar="[TOPIC...]")
@_connected
@click.option("--broker", type=click.IntRange(min=0), metavar="ID", help="Only the replicas on this broker.")
@_longest
@_as_json
def hanging(
    topics: Sequence[str],
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    broker: int | None,
    longer_than: float,
    as_json: bool,
) -> int:
    """Find hanging transactions, in these topics or in all. The exit code is 1 if there are any."""
    failures = _Failures()
    with _admin(brokers, settings, config_file) as admin:
        found = admin.find_hanging_transactions(
            topics or None, broker=broker, longer_than_ms=round(longer_than * 1000), on_error=failures
        )
    _show_hanging(found, as_json=as_json)
    return 1 if found else failures.code


@command.command("abort")
@click.argument("partition", metavar="TOPIC:N")
@_connected
@click.option(
    "--start-offset",
    type=click.IntRange(min=0),
    metavar="OFFSET",
    help="The open transaction that begins there, even if its coordinator knows it.  [default: all that hang]",
)
@_longest
@click.option("--execute", is_flag=True, help="Abort.  [default: show the plan, and change nothing]")
@_as_json
def abort(
    partition: str,
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    start_offset: int | None,
    longer_than: float,
    execute: bool,
    as_json: bool,
) -> int:
    """Plan, and with --execute do, the abortion of hanging transactions in one partition.

    An abort marker is written to that partition only. If the coordinator knows the transaction, the other partitions
    may still be committed: let its producer or its time-out end it.
    """
    where = _partition(partition)
    with _admin(brokers, settings, config_file) as admin:
        if start_offset is None:
            found = admin.find_hanging_transactions([where.topic], longer_than_ms=round(longer_than * 1000))
            found = [each for each in found if each.partition == where]
        else:
            found = _open_at(admin, where, start_offset)
        if not found:
            what = "no transaction hangs" if start_offset is None else f"no transaction begins at {start_offset}"
            say(f"kafwire transactions: {what} in {where.topic}:{where.partition}", err=True)
            return 1
        _show_hanging(found, as_json=as_json)
        if not execute:
            say("kafwire transactions: this is only the plan: add --execute to apply it", err=True)
            return 0
        for each in found:
            admin.abort_transaction(
                each.partition,
                producer_id=each.producer_id,
                producer_epoch=each.producer_epoch,
                coordinator_epoch=each.coordinator_epoch,
            )
    return 0


def _open_at(admin: Admin, where: TopicPartition, start_offset: int) -> list[HangingTransaction]:
    from kafwire.admin import HangingTransaction

    return [
        HangingTransaction(
            where,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            start_offset,
            each.last_timestamp_ms,
        )
        for each in admin.describe_producers([where])[where]
        if each.start_offset == start_offset
    ]


def _partition(text: str) -> TopicPartition:
    ((topic, numbers),) = named_partitions([text], "")
    if numbers is None or len(numbers) != 1:
        raise click.UsageError(f"{text}: a partition is needed: TOPIC:0")
    return TopicPartition(topic, numbers[0])


def _show_hanging(found: Iterable[HangingTransaction], *, as_json: bool) -> None:
    keys = ("topic", "partition", "startOffset", "producerId", "producerEpoch", "coordinatorEpoch", "lastMs")
    rows: list[tuple[Any, ...]] = [
        (
            *each.partition,
            each.start_offset,
            each.producer_id,
            each.producer_epoch,
            each.coordinator_epoch,
            each.last_timestamp_ms if as_json else _time(each.last_timestamp_ms),
        )
        for each in found
    ]
    _print(_HANGING_HEADER, keys, rows, as_json=as_json)


def _print(header: Sequence[str], keys: Sequence[str], rows: Sequence[tuple[Any, ...]], *, as_json: bool) -> None:
    if as_json:
        _write(dict(zip(keys, row, strict=True)) for row in rows)
    else:
        print_table(header, [["" if cell is None else str(cell) for cell in row] for row in rows])


def _write(values: Iterable[Mapping[str, Any]]) -> None:
    writer = JsonWriter(pretty=False)
    for value in values:
        writer.write(value)
    writer.flush()


def _time(ms: int | None) -> str:
    if ms is None or ms < 0:
        return ""
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC).isoformat("T", "milliseconds").replace("+00:00", "Z")
