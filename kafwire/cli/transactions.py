"""`kafwire transactions`: transactional ids, their states, and hanging transactions."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.admin_client import Failures, admin_of, planned
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_rows, print_table, say, time_text, write_json
from kafwire.cli.partition_names import named_partitions
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


def _milliseconds(_context: click.Context, _option: click.Parameter, seconds: float | None) -> int | None:
    if seconds is not None and not math.isfinite(seconds):
        raise click.BadParameter(f"{seconds} is not a number of seconds")
    return None if seconds is None else round(seconds * 1000)


_longest = click.option(
    "--longer-than",
    "longer_than_ms",
    type=click.FloatRange(min=0),
    callback=_milliseconds,
    default=900,
    show_default=True,
    metavar="SECONDS",
    help="Leave out producers that wrote within this time. Give at least the brokers' transaction.max.timeout.ms.",
)


@click.group("transactions", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@command.command("list")
@_connected
@click.option("--state", "states", multiple=True, help="Only ids in this state, such as Ongoing; may be repeated.")
@click.option("--producer", "producers", multiple=True, type=click.IntRange(min=0), help="Only of this producer id.")
@click.option(
    "--longer-than",
    "longer_than_ms",
    type=click.FloatRange(min=0),
    callback=_milliseconds,
    metavar="SECONDS",
    help="No open transactions that are younger than this.",
)
@click.option("--pattern", metavar="RE2", help="Only ids that this regular expression matches as a whole.")
@click.option("--prefix", metavar="TEXT", help="Only ids that begin with this text.")
@_as_json
def list_transactions(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    states: Sequence[str],
    producers: Sequence[int],
    longer_than_ms: int | None,
    pattern: str | None,
    prefix: str | None,
    as_json: bool,
) -> int:
    """List transactional ids of all coordinators."""
    failures = Failures("transactions")
    with admin_of(brokers, settings, config_file) as admin:
        found = admin.list_transactions(
            states=states,
            producer_ids=producers,
            longer_than_ms=longer_than_ms,
            pattern=pattern,
            prefix=prefix,
            on_error=failures,
        )
    rows = [(each.transactional_id, each.state, each.producer_id, each.coordinator) for each in found]
    print_rows(_LIST_HEADER, ("transactionalId", "state", "producerId", "coordinator"), rows, as_json=as_json)
    return failures.code


@command.command("describe")
@click.argument("ids", nargs=-1, required=True, metavar="ID...")
@_connected
@_as_json
def describe(
    ids: Sequence[str], brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool
) -> int:
    """Show the states of transactional ids, and the partitions of open transactions."""
    failures = Failures("transactions")
    with admin_of(brokers, settings, config_file) as admin:
        found = list(admin.describe_transactions(ids, on_error=failures).values())
    if as_json:
        write_json(
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
            time_text(each.started_ms),
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
    longer_than_ms: int,
    as_json: bool,
) -> int:
    """Find hanging transactions, in these topics or in all. The exit code is 1 if there are any."""
    failures = Failures("transactions")
    with admin_of(brokers, settings, config_file) as admin:
        found = admin.find_hanging_transactions(
            topics or None, broker=broker, longer_than_ms=longer_than_ms, on_error=failures
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
    longer_than_ms: int,
    execute: bool,
    as_json: bool,
) -> int:
    """Plan, and with --execute do, the abortion of hanging transactions in one partition.

    An abort marker is written to that partition only. If the coordinator knows the transaction, the other partitions
    may still be committed: let its producer or its time-out end it.
    """
    where = _partition(partition)
    with admin_of(brokers, settings, config_file) as admin:
        if start_offset is None:
            found = admin.find_hanging_transactions([where.topic], longer_than_ms=longer_than_ms)
            found = [each for each in found if each.partition == where]
        else:
            found = _open_at(admin, where, start_offset)
        if not found:
            what = "no transaction hangs" if start_offset is None else f"no transaction begins at {start_offset}"
            say(f"kafwire transactions: {what} in {where.topic}:{where.partition}", err=True)
            return 1
        _show_hanging(found, as_json=as_json)
        if not execute:
            planned("transactions")
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
    from kafwire.admin.hanging_transactions import open_transactions

    found = open_transactions(where, admin.describe_producers([where])[where])
    return [each for each in found if each.start_offset == start_offset]


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
            each.last_timestamp_ms if as_json else time_text(each.last_timestamp_ms),
        )
        for each in found
    ]
    print_rows(_HANGING_HEADER, keys, rows, as_json=as_json)
