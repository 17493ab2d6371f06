"""`kafwire reassign`: move partitions to other brokers, after a plan."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafwire.cli.admin_client import admin_of, planned
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_table, say, write_json
from kafwire.cli.partition_names import named_partitions
from kafwire.cli.reassignment_plan import plan
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Client
    from kafwire.errors import KafkaError

__all__ = ["command"]

_HELP = """Move partitions to other brokers. A plan is shown first; --execute carries it out.

\b
  kafwire reassign move orders --to 1,2,3 -b localhost:9092
  kafwire reassign move orders:0,3 --to 2,3 --replication-factor 2 --execute
  kafwire reassign list
  kafwire reassign cancel orders --execute
"""

_json_option = click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each partition.")
_execute_option = click.option("--execute", is_flag=True, help="Do it.  [default: show the plan, and change nothing]")
_connected = connection_options_for("ClientConfig")
_Settings = tuple[str, ...]
_HEADER = ("TOPIC", "PARTITION", "BEFORE", "AFTER")


@click.group("reassign", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@command.command("list")
@_connected
@_json_option
def list_moves(brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool) -> None:
    """Show the reassignments in progress."""
    with admin_of(brokers, settings, config_file) as admin:
        found = sorted(admin.list_partition_reassignments().items())
    if as_json:
        write_json(
            {
                "topic": place.topic,
                "partition": place.partition,
                "assigned": list(its.replicas),
                "adding": list(its.adding_replicas),
                "removing": list(its.removing_replicas),
            }
            for place, its in found
        )
        return
    print_table(
        ("TOPIC", "PARTITION", "REPLICAS", "ADDING", "REMOVING"),
        [
            (
                place.topic,
                str(place.partition),
                *(_nodes(each) for each in (its.replicas, its.adding_replicas, its.removing_replicas)),
            )
            for place, its in found
        ],
    )


@command.command("move")
@click.argument("partitions", nargs=-1, required=True, metavar="TOPIC[:N,...]...")
@_connected
@click.option("--to", "wanted", required=True, metavar="BROKER,...", help="The brokers that get the replicas.")
@click.option(
    "--replication-factor",
    "factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition.  [default: as many as it has]",
)
@_execute_option
@_json_option
def move(
    partitions: tuple[str, ...],
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    wanted: str,
    factor: int | None,
    execute: bool,
    as_json: bool,
) -> int:
    """Plan, and with --execute begin, the move of partitions to brokers.

    The plan divides the replicas evenly among the brokers, with the fewest moves. The cluster copies records in the
    background: 'kafwire reassign list' shows the moves in progress.
    """
    nodes = _wanted(wanted)
    asked = named_partitions(partitions, "")
    from kafwire.cli.topic_changes import client_of

    with client_of(brokers, settings, config_file) as client:
        current = _current(client, asked)
    most = factor or max(map(len, current.values()))
    if most > len(nodes):
        raise click.UsageError(f"--to {wanted}: {most} replicas of a partition need {most} brokers")
    chosen = plan(current, nodes, factor)
    moves = {place: its for place, its in chosen.items() if its != list(current[place])}
    _show({place: (current[place], its) for place, its in moves.items()}, as_json)
    if not moves:
        return 0
    return _carry_out(moves, execute, "move", admin_options=(brokers, settings, config_file))


@command.command("cancel")
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:N,...]]...")
@_connected
@_execute_option
@_json_option
def cancel(
    partitions: tuple[str, ...],
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    execute: bool,
    as_json: bool,
) -> int:
    """Plan, and with --execute do, the return of moving partitions to their brokers. By default of all of them."""
    asked = named_partitions(partitions, "")
    with admin_of(brokers, settings, config_file) as admin:
        ongoing = admin.list_partition_reassignments()
    moves = {
        place: its
        for place, its in sorted(ongoing.items())
        if not asked or any(place.topic == topic and (ns is None or place.partition in ns) for topic, ns in asked)
    }
    _show(
        {
            place: (its.replicas, [each for each in its.replicas if each not in its.adding_replicas])
            for place, its in moves.items()
        },
        as_json,
    )
    if not moves:
        if asked:
            say("kafwire reassign cancel: these partitions have no reassignment in progress", err=True)
        return int(bool(asked))
    return _carry_out(dict.fromkeys(moves), execute, "cancel", admin_options=(brokers, settings, config_file))


def _carry_out(
    moves: Mapping[TopicPartition, Sequence[int] | None],
    execute: bool,
    name: str,
    *,
    admin_options: tuple[str | None, _Settings, Path | None],
) -> int:
    if not execute:
        planned(f"reassign {name}")
        return 0
    errors: dict[TopicPartition, KafkaError] = {}
    with admin_of(*admin_options) as admin:
        admin.alter_partition_reassignments(moves, on_error=errors.__setitem__)
    for place, error in errors.items():
        say(f"kafwire reassign {name}: {place.topic}-{place.partition}: {error}", err=True)
    return int(bool(errors))


def _wanted(text: str) -> list[int]:
    numbers = [number.strip() for number in text.split(",")]
    if not all(number.isascii() and number.isdecimal() for number in numbers):
        raise click.UsageError(f"--to {text}: expected the ids of brokers: 1,2,3")
    return list(dict.fromkeys(map(int, numbers)))


def _current(
    client: Client, asked: Iterable[tuple[str, Sequence[int] | None]]
) -> dict[TopicPartition, tuple[int, ...]]:
    """Return the brokers of the asked partitions."""
    found = {}
    for topic, numbers in asked:
        known = client.topic(topic).partitions
        for number in sorted(known) if numbers is None else numbers:
            if number not in known:
                raise click.UsageError(f"topic {topic!r} has no partition {number}")
            found[TopicPartition(topic, number)] = known[number].replicas
    return found


def _show(moves: dict[TopicPartition, tuple[Sequence[int], Sequence[int]]], as_json: bool) -> None:
    if as_json:
        write_json(
            {"topic": place.topic, "partition": place.partition, "before": list(before), "after": list(after)}
            for place, (before, after) in moves.items()
        )
    else:
        rows = [
            (place.topic, str(place.partition), _nodes(before), _nodes(after))
            for place, (before, after) in moves.items()
        ]
        print_table(_HEADER, rows)


def _nodes(nodes: Iterable[int]) -> str:
    return ",".join(map(str, nodes))
