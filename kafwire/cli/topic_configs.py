"""`kafwire topics configs` and `kafwire topics alter`: the options of topics, and their number of partitions."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafwire.cli.admin_client import Failures, admin_of
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_rows, say
from kafwire.cli.topic_changes import named, setting

if TYPE_CHECKING:
    from kafwire import Admin
    from kafwire.admin.configs import Change, ConfigEntry, ConfigSynonym

__all__ = ["alter", "configs"]

_OWN = "DYNAMIC_TOPIC_CONFIG"
_CONFIG_HEADER = ("TOPIC", "OPTION", "VALUE", "SOURCE")
_PLAN_HEADER = ("TOPIC", "OPTION", "FROM", "TO", "NOTE")

_CONFIGS_HELP = """Show the options that are set for topics, or all of them.

\b
  kafwire topics configs orders
  kafwire topics configs orders payments --all
  kafwire topics configs orders -J | jq -r 'select(.option == "retention.ms").value'
"""

_ALTER_HELP = """Change options of topics, or add partitions.

\b
  kafwire topics alter orders --partitions 12
  kafwire topics alter orders --config max.message.bytes=2000000 --delete-config segment.ms
  kafwire topics alter orders --append cleanup.policy=compact
  kafwire topics alter orders --config retention.ms=3600000 --execute

A change that could lose records is only planned, unless --execute is given: the plan has a note about it.

Exit code 1: a topic does not exist, or the broker refuses a change.
"""


class Planned(NamedTuple):
    """A change in a plan. `note`: how records could be lost by it, or ""."""

    topic: str
    option: str
    old: str | None
    new: str | None
    note: str


@click.command("configs", help=_CONFIGS_HELP)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@connection_options_for("ClientConfig")
@click.option("--all", "show_all", is_flag=True, help="Show the options with a default or a broker's value too.")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each option.")
def configs(
    topics: tuple[str, ...],
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    show_all: bool,
    as_json: bool,
) -> int:
    """Show the options of topics."""
    failures = Failures("topics")
    with admin_of(brokers, settings, config_file) as admin:
        found = _described(admin, named(topics), failures)
    rows = [
        (topic, entry.name, entry.value, entry.source)
        for topic, entries in found.items()
        for entry in sorted(entries.values(), key=lambda entry: entry.name)
        if show_all or entry.source == _OWN
    ]
    _show(_CONFIG_HEADER, rows, as_json=as_json)
    return failures.code


@click.command("alter", help=_ALTER_HELP)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@connection_options_for("ClientConfig", short=True)
@click.option("--config", "to_set", multiple=True, metavar="NAME=VALUE", help="Set an option; may be repeated.")
@click.option("--delete-config", "to_delete", multiple=True, metavar="NAME", help="Give an option its default again.")
@click.option("--append", "to_append", multiple=True, metavar="NAME=VALUE", help="Add a value to a list.")
@click.option("--subtract", "to_subtract", multiple=True, metavar="NAME=VALUE", help="Remove a value from a list.")
@click.option("--partitions", type=click.IntRange(min=1), help="The number of partitions afterwards.")
@click.option("--execute", is_flag=True, help="Make the changes even if records could be lost.")
@click.option("--dry-run", is_flag=True, help="Show the plan, and change nothing.")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each change.")
def alter(
    topics: tuple[str, ...],
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    to_set: tuple[str, ...],
    to_delete: tuple[str, ...],
    to_append: tuple[str, ...],
    to_subtract: tuple[str, ...],
    partitions: int | None,
    execute: bool,
    dry_run: bool,
    as_json: bool,
) -> int:
    """Change options of topics."""
    if execute and dry_run:
        raise click.UsageError("give either --execute or --dry-run")
    changes = _changes(to_set, to_delete, to_append, to_subtract)
    if not changes and partitions is None:
        raise click.UsageError("no change is given: see --config, --delete-config, --append, --subtract, --partitions")
    failures = Failures("topics")
    with admin_of(brokers, settings, config_file) as admin:
        before = _described(admin, named(topics), failures, names=changes) if changes else {}
        plan = [planned for topic in before for planned in _plan_of(topic, before[topic], changes)]
        counts = {} if partitions is None else _counts(admin, before if changes else named(topics), failures)
        plan += [Planned(topic, "partitions", f"{count}", f"{partitions}", "") for topic, count in counts.items()]
        executes = execute or not (dry_run or any(planned.note for planned in plan))
        _apply(admin, before, changes, dict.fromkeys(counts, partitions), failures, validate_only=not executes)
    _show(_PLAN_HEADER, plan, as_json=as_json)
    if plan and not (executes or dry_run):
        say("kafwire topics: records could be lost: this is only the plan: add --execute to apply it", err=True)
    return failures.code


def _described(
    admin: Admin, topics: Iterable[str], failures: Failures, *, names: Iterable[str] | None = None
) -> dict[str, dict[str, ConfigEntry]]:
    """Return the options of each topic that can be described."""
    from kafwire.admin import ConfigResource

    found = admin.describe_configs(
        [ConfigResource.topic(topic) for topic in topics],
        names=names,
        synonyms=names is not None,
        on_error=failures,
    )
    return {resource.name: entries for resource, entries in found.items()}


def _counts(admin: Admin, topics: Iterable[str], failures: Failures) -> dict[str, int]:
    """Return the present number of partitions of each topic."""
    found = admin.describe_topics(topics, on_error=failures)
    return {description.name: len(description.partitions) for description in found.values()}


def _apply(
    admin: Admin,
    topics: Iterable[str],
    changes: Mapping[str, Change],
    counts: Mapping[str, Any],
    failures: Failures,
    *,
    validate_only: bool,
) -> None:
    """Make the changes, or have the brokers check them."""
    from kafwire.admin import ConfigResource

    by_topic = {ConfigResource.topic(topic): changes for topic in topics}
    if by_topic:
        admin.alter_configs(by_topic, validate_only=validate_only, on_error=failures)
    if counts:
        admin.create_partitions(counts, validate_only=validate_only, on_error=failures)


def _changes(
    to_set: tuple[str, ...], to_delete: tuple[str, ...], to_append: tuple[str, ...], to_subtract: tuple[str, ...]
) -> dict[str, Change]:
    """Return the change of each option."""
    from kafwire.admin import Append, Subtract

    found: dict[str, Change] = {}
    given: list[tuple[str, Change]] = [setting(text) for text in to_set]
    given += [(name.strip(), None) for name in to_delete]
    for option, kind, texts in (("--append", Append, to_append), ("--subtract", Subtract, to_subtract)):
        for text in texts:
            name, value = setting(text, option)
            given.append((name, kind(value.split(","))))
    for name, change in given:
        if not name:
            raise click.UsageError("the name of an option is empty")
        if name in found:
            raise click.UsageError(f"{name}: give one change of each option; values of lists are separated by commas")
        found[name] = change
    return found


def _plan_of(topic: str, entries: Mapping[str, ConfigEntry], changes: Mapping[str, Change]) -> Iterable[Planned]:
    for name, change in changes.items():
        entry = entries.get(name)
        old = None if entry is None else entry.value
        new = _value_after(entry, change)
        yield Planned(topic, name, old, new, note_of(name, old, new))


def _value_after(entry: ConfigEntry | None, change: Change) -> str | None:
    """Return the value that an option will have; None if it is not known."""
    from kafwire.admin import Append, Subtract

    if change is None:
        if entry is None or entry.source != _OWN:
            return None if entry is None else entry.value
        return next((_in_ms(each) for each in entry.synonyms if each.source != _OWN), None)
    if not isinstance(change, Append | Subtract):
        return str(change)
    now = _elements(None if entry is None else entry.value)
    if isinstance(change, Append):
        return ",".join(dict.fromkeys((*now, *change.values)))
    return ",".join(each for each in now if each not in set(change.values))


def _in_ms(synonym: ConfigSynonym) -> str | None:
    """Return the value of a broker's option in the topic option's unit: `log.retention.hours` is for `retention.ms`."""
    factor = {"hours": 3_600_000, "minutes": 60_000}.get(synonym.name.rpartition(".")[2])
    return synonym.value if factor is None or synonym.value is None else str(int(synonym.value) * factor)


def note_of(name: str, old: str | None, new: str | None) -> str:
    """Return how records could be lost by a change of an option; "" if by none."""
    if old == new:
        return ""
    if name in ("retention.ms", "retention.bytes"):
        return "deletes more records" if _amount(new) < _amount(old) else ""
    if name == "cleanup.policy":
        added = set(_elements(new)) - set(_elements(old))
        if new is None or "compact" in added:
            return "deletes all but the last record of each key"
        return "deletes old records" if "delete" in added else ""
    if name == "min.insync.replicas":
        return "acknowledged records are on fewer replicas" if _amount(new) < _amount(old) else ""
    if name == "unclean.leader.election.enable":
        return "" if new == "false" else "an election may lose records"
    if name == "remote.storage.enable":
        return "records in remote storage may be deleted" if new != "true" else ""
    return ""


def _amount(text: str | None) -> float:
    """Return a number of which -1 is no limit; the least for a value that is not known."""
    try:
        number = float(text or "")
    except ValueError:
        return float("-inf")
    return float("inf") if number < 0 else number


def _elements(text: str | None) -> list[str]:
    return [each.strip() for each in (text or "").split(",") if each.strip()]


def _show(header: Sequence[str], rows: Iterable[Sequence[str | None]], *, as_json: bool) -> None:
    print_rows(header, [name.lower() for name in header], rows, as_json=as_json, none="-")
