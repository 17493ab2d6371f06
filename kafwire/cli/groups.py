"""`kafwire groups`: groups of every type, their members, committed offsets and lags."""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.admin_client import Failures, planned
from kafwire.cli.connection import connection_options_for
from kafwire.cli.group_requests import Groups, open_groups
from kafwire.cli.output import print_table, say, write_json
from kafwire.cli.partition_names import named_partitions
from kafwire.errors import BrokerError, KafkaError
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.admin import GroupDescription, GroupMember

__all__ = ["command"]

_HELP = """List groups of every type, show their members and lags, reset and delete their offsets.

\b
  kafwire groups list -b localhost:9092
  kafwire groups describe billing
  kafwire groups lag billing --watch 2
  kafwire groups reset-offsets billing --to-time 2026-11-25T12:00:00Z
  kafwire groups reset-offsets billing --to-time 2026-11-25T12:00:00Z --execute
  kafwire groups delete billing

Options without a command are those of `list`.
"""

_GROUP_HEADER = ("GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR")
_MEMBER_HEADER = ("GROUP", "MEMBER", "INSTANCE", "CLIENT", "HOST", "EPOCH", "PARTITIONS", "TASKS")
_LAG_HEADER = ("GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG", "MEMBER")
_LAG_KEYS = ("group", "topic", "partition", "committed", "end", "lag", "memberIds")
_RESET_HEADER = ("GROUP", "TOPIC", "PARTITION", "BEFORE", "AFTER")


class _ListByDefault(click.Group):
    """Options without a command are those of `list`, as in `kafwire topics`."""

    def parse_args(self, ctx: click.Context, args: list[str]) -> list[str]:
        if args and args[0].startswith("-") and args[0] not in ctx.help_option_names:
            args = ["list", *args]
        return super().parse_args(ctx, args)


@click.group("groups", cls=_ListByDefault, help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


_connected = connection_options_for("ClientConfig")
_Settings = tuple[str, ...]


@command.command("list")
@_connected
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each group.")
def list_groups(brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool) -> int:
    """List all groups: consumer groups and others."""
    failures = Failures("groups")
    with open_groups(brokers, settings, config_file) as groups:
        found = groups.admin.list_groups(on_error=failures)
    if as_json:
        write_json(
            {
                "group": each.group_id,
                "type": each.type or None,
                "state": each.state,
                "protocolType": each.protocol_type or None,
                "coordinator": each.coordinator,
            }
            for each in found
        )
        return failures.code
    rows = [(each.group_id, each.type, each.state, each.protocol_type, str(each.coordinator)) for each in found]
    print_table(_GROUP_HEADER, rows)
    return failures.code


@command.command("describe")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@_connected
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each group.")
def describe(
    names: Sequence[str], brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool
) -> int:
    """Show states and coordinators of groups."""
    with open_groups(brokers, settings, config_file) as groups:
        found, code = _described(groups, names)
    if as_json:
        write_json(_as_json(group) for group in found)
        return code
    header = (*_GROUP_HEADER[:3], "ASSIGNOR", "COORDINATOR", "MEMBERS")
    print_table(
        header,
        [(g.group_id, g.type, g.state, g.assignor, str(g.coordinator), str(len(g.members))) for g in found],
    )
    return code


@command.command("members")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@_connected
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each member.")
def members(
    names: Sequence[str], brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool
) -> int:
    """Show the members of groups, and the partitions that each reads."""
    with open_groups(brokers, settings, config_file) as groups:
        found, code = _described(groups, names)
    if as_json:
        write_json({"group": group.group_id, **_member_json(member)} for group in found for member in group.members)
        return code
    rows = [
        (
            group.group_id,
            member.member_id,
            member.instance_id or "",
            member.client_id,
            member.host,
            "" if member.epoch is None else str(member.epoch),
            "?" if member.problem else _runs(member.assignment),
            " ".join(map(str, member.streams.assignment.active)) if member.streams is not None else "",
        )
        for group in found
        for member in group.members
    ]
    print_table(_MEMBER_HEADER, rows)
    return code


@command.command("lag")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@_connected
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each partition.")
@click.option(
    "--watch", type=click.FloatRange(min=0.1), metavar="SECONDS", help="Repeat after this time, until Ctrl-C."
)
@click.option("--rounds", type=click.IntRange(min=1), help="With --watch: stop after this number of repetitions.")
def lag(
    names: Sequence[str],
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
    watch: float | None,
    rounds: int | None,
) -> int:
    """Show the committed offsets of groups, the end offsets of the partitions, and the lags.

    The lag of a partition without a committed offset is unknown. For a share group, the start offset counts as
    committed, and the broker computes the lag, without acknowledged records.
    """
    if rounds is not None and watch is None:
        raise click.UsageError("--rounds needs --watch")
    with open_groups(brokers, settings, config_file) as groups:
        while True:
            found, code = _described(groups, names)
            rows, failed = _rows_of(groups, found)
            code |= failed
            if as_json:
                write_json(dict(zip(_LAG_KEYS, row, strict=True)) for row in rows)
            elif found:
                print_table(_LAG_HEADER, [_lag_cells(row) for row in rows])
                say(_summary(rows))
            for where, why in groups.unavailable.items():
                say(f"kafwire groups: {where.topic}-{where.partition} has no known end: {why}", err=True)
                code = 1
            rounds = None if rounds is None else rounds - 1
            if watch is None or rounds == 0:
                return code
            time.sleep(watch)
            if not as_json:
                click.echo()


@command.command("reset-offsets")
@click.argument("name", metavar="GROUP")
@_connected
@click.option(
    "-t",
    "--topic",
    "topics",
    multiple=True,
    metavar="TOPIC[:N,...]",
    help="Default: all partitions with a committed offset.",
)
@click.option("--to-earliest", "to", flag_value="earliest", help="To the first records.")
@click.option("--to-latest", "to", flag_value="latest", help="To the end offsets.")
@click.option(
    "--to-time", metavar="TIME", help="To the first records at or after this time: 2026-11-25T12:00:00Z, or ms."
)
@click.option("--to-offset", type=click.IntRange(min=0), metavar="N", help="To this offset, in each partition.")
@click.option("--by", type=int, metavar="N", help="Forward by N offsets; a negative N goes back.")
@click.option("--execute", is_flag=True, help="Set the offsets.  [default: show the plan, and change nothing]")
@click.option("--dry-run", is_flag=True, help="Show the plan, as without --execute.")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each partition.")
def reset_offsets(
    name: str,
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    topics: Sequence[str],
    to: str | None,
    to_time: str | None,
    to_offset: int | None,
    by: int | None,
    execute: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Plan, and with --execute set, the committed offsets of a group. The group must be empty: stop its members first.

    An offset out of range becomes the nearest one in range. For a share group, these are the start offsets.
    """
    if execute and dry_run:
        raise click.UsageError("give either --execute or --dry-run")
    ways = {"--to-earliest or --to-latest": to, "--to-time": to_time, "--to-offset": to_offset, "--by": by}
    if sum(way is not None for way in ways.values()) != 1:
        raise click.UsageError(f"give one of {', '.join(ways)}")
    from kafwire.cli.consume_source import milliseconds, warn_of_seconds

    when = to if to_time is None else milliseconds("--to-time", to_time, to_time)
    warn_of_seconds("groups", [to_time or ""], "--to-time ")
    with open_groups(brokers, settings, config_file) as groups:
        try:
            group: GroupDescription | None = groups.admin.describe_groups([name])[name]
        except BrokerError as error:
            if error.name != "GROUP_ID_NOT_FOUND" or not topics:
                raise
            group = None  # the commit creates the group
        if group is not None and not group.is_empty:
            say(f"kafwire groups: {name} has {len(group.members)} member(s) that commit: stop them first", err=True)
            return 1
        before = groups.offsets(group)[0] if group is not None else {}
        chosen = _chosen(groups, before, topics)
        after = _targets(groups, chosen, before, when=when, to_offset=to_offset, by=by)
        _show_plan([(name, *where, before.get(where), offset) for where, offset in after.items()], as_json=as_json)
        for where in [where for where in chosen if where not in after]:
            if where in groups.unavailable:
                why = groups.unavailable[where]
                say(f"kafwire groups: {where.topic}-{where.partition} is unchanged: {why}", err=True)
                continue
            has_no_base = by is not None and where not in before
            what = "--by needs a committed offset, and there is none" if has_no_base else "does not exist"
            say(f"kafwire groups: {where.topic}-{where.partition}: {what}", err=True)
        if execute and after:
            groups.admin.alter_group_offsets(name, after, type=None if group is None else group.type)
        elif after and not dry_run:
            planned("groups")
        return int(len(after) < len(chosen) or not chosen)


def _show_plan(rows: Sequence[tuple[str, str, int, int | None, int]], *, as_json: bool) -> None:
    if as_json:
        write_json(dict(zip(map(str.lower, _RESET_HEADER), row, strict=True)) for row in rows)
        return
    print_table(_RESET_HEADER, [(*row[:2], str(row[2]), _text(row[3]), str(row[4])) for row in rows])


@command.command("delete")
@click.argument("names", nargs=-1, required=True, metavar="GROUP...")
@_connected
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(names: Sequence[str], brokers: str | None, settings: _Settings, config_file: Path | None, yes: bool) -> int:
    """Delete groups without members, with all their committed offsets."""
    from kafwire.cli.topic_changes import confirmed

    if not yes and not confirmed(f"Delete {', '.join(names)} and the offsets in it?"):
        say("kafwire groups delete: no group was deleted", err=True)
        return 1
    failures = Failures("groups")
    with open_groups(brokers, settings, config_file) as groups:
        groups.admin.delete_groups(names, on_error=failures)
    for name in dict.fromkeys(names):
        if name not in failures.keys:
            say(f"deleted {name}")
    return failures.code


# -- shared functions


def _described(groups: Groups, names: Iterable[str]) -> tuple[list[GroupDescription], int]:
    """Return the existing groups, and an exit code."""
    failures = Failures("groups")
    found = [*groups.admin.describe_groups(names, on_error=failures).values()]
    for group in found:
        for member in (each for each in group.members if each.problem):
            what = f"the assignment of member {member.member_id} of group {group.group_id} cannot be decoded"
            say(f"kafwire groups: {what}: {member.problem}", err=True)
    return found, failures.code


_Row = tuple[str, str, int, int | None, int | None, int | None, list[str]]


def _rows_of(groups: Groups, found: Iterable[GroupDescription]) -> tuple[list[_Row], int]:
    """Return the lags of all groups that do not fail, and an exit code."""
    rows, code = list[_Row](), 0
    for group in found:
        try:
            rows += _lags(groups, group)
        except KafkaError as error:
            say(f"kafwire groups: {error}", err=True)
            code = 1
    return rows, code


def _lags(groups: Groups, group: GroupDescription) -> list[_Row]:
    committed, lags = groups.offsets(group)
    read = {where for member in group.members for where in member.assignment}
    places = sorted({*committed, *read, *(lags or ())})
    ends = groups.ends(places, "latest")
    rows: list[_Row] = []
    for where in places:
        at, end = committed.get(where), ends.get(where)
        behind = None if at is None or end is None else max(0, end - at)
        if lags is not None:
            behind = lags.get(where)
        readers = [owner.instance_id or owner.member_id for owner in group.owners(where)]
        rows.append((group.group_id, where.topic, where.partition, at, end, behind, readers))
    return rows


def _lag_cells(row: _Row) -> tuple[str, ...]:
    """Return the cells of one line: "-" for an end offset that no leader returns, and for an unknown lag."""
    group, topic, partition, at, end, behind, readers = row
    lag = "-" if behind is None and at is not None else _text(behind)
    return (group, topic, str(partition), _text(at), "-" if end is None else str(end), lag, " ".join(readers))


def _summary(rows: Sequence[_Row]) -> str:
    """Return the last line of a table: the sum of the lags, and the number of partitions without a known lag."""
    known = [row[5] for row in rows if row[5] is not None]
    uncommitted = sum(row[3] is None for row in rows)
    endless = sum(row[3] is not None and row[4] is None for row in rows)
    unknown = sum(row[3] is not None and row[4] is not None and row[5] is None for row in rows)
    texts = [f"{sum(known)} record(s) behind"] if known or not rows else []
    texts += [f"{uncommitted} partition(s) without a committed offset"] * bool(uncommitted)
    texts += [f"{endless} partition(s) without a known end"] * bool(endless)
    texts += [f"{unknown} partition(s) whose lag the broker does not know"] * bool(unknown)
    return ", ".join(texts)


def _chosen(groups: Groups, before: Mapping[TopicPartition, int], topics: Sequence[str]) -> list[TopicPartition]:
    """Return the partitions of --topic; without it, those with a committed offset."""
    named = {
        TopicPartition(topic, number)
        for topic, numbers in named_partitions(topics, "--topic ")
        for number in (groups.client.partitions_for(topic) if numbers is None else numbers)
    }
    return sorted(named if topics else before)


def _targets(
    groups: Groups,
    chosen: Sequence[TopicPartition],
    before: Mapping[TopicPartition, int],
    *,
    when: str | int | None,
    to_offset: int | None,
    by: int | None,
) -> dict[TopicPartition, int]:
    first = groups.ends(chosen, "earliest")
    last = groups.ends(first, "latest")
    found = groups.ends(last, when) if when is not None else {}
    after = {}
    for where in chosen:
        if where not in last or where in groups.unavailable:
            continue
        if when is not None:
            offset = found.get(where, -1)
            offset = last[where] if offset < 0 else offset  # no record is as new as that time
        elif to_offset is not None:
            offset = to_offset
        elif where in before and by is not None:
            offset = before[where] + by
        else:
            continue
        after[where] = min(max(offset, first[where]), last[where])
    return after


def _as_json(group: GroupDescription) -> dict[str, Any]:
    return {
        "group": group.group_id,
        "type": group.type,
        "state": group.state,
        "assignor": group.assignor,
        "coordinator": group.coordinator,
        "members": [_member_json(member) for member in group.members],
    }


def _member_json(member: GroupMember) -> dict[str, Any]:
    tasks = None if member.streams is None else member.streams.assignment
    return {
        "memberId": member.member_id,
        "instanceId": member.instance_id,
        "clientId": member.client_id,
        "host": member.host,
        "epoch": member.epoch,
        "partitions": None if member.problem else [where._asdict() for where in member.assignment],
        "tasks": None
        if tasks is None
        else {role: [str(task) for task in getattr(tasks, role)] for role in ("active", "standby", "warmup")},
    }


def _runs(partitions: Iterable[TopicPartition]) -> str:
    """Return partitions in the form "orders:0-2,5 payments:1"."""
    texts = []
    ordered = sorted(partitions)
    for topic in dict.fromkeys(where.topic for where in ordered):
        runs: list[list[int]] = []
        for where in ordered:
            if where.topic != topic:
                continue
            if runs and runs[-1][-1] + 1 == where.partition:
                runs[-1][1:] = [where.partition]
            else:
                runs.append([where.partition])
        texts.append(f"{topic}:{','.join('-'.join(map(str, run)) for run in runs)}")
    return " ".join(texts)


def _text(offset: int | None) -> str:
    return "" if offset is None else str(offset)
