"""`kafwire quotas`: the quotas of users, client ids and addresses."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from kafwire.cli.admin_client import admin_of, planned
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_table, say, write_json

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
_Settings = tuple[str, ...]

_HELP = """List, set and remove quotas of users, client ids and addresses.

\b
  kafwire quotas list -b localhost:9092
  kafwire quotas set --user alice producer_byte_rate=1000000 consumer_byte_rate=2000000
  kafwire quotas set --default user --client-id batch request_percentage=50
  kafwire quotas remove --user alice consumer_byte_rate
  kafwire quotas remove --user alice consumer_byte_rate --execute

--default TYPE is the quota of all users, client ids or addresses without one of their own; lists show it as <default>.
"""

_HEADER = ("USER", "CLIENT-ID", "IP", "QUOTA", "VALUE")
_TYPES = {"user": "user", "client-id": "client_id", "ip": "ip"}
_KEYS = {"user": "user", "client_id": "clientId", "ip": "ip"}
_DEFAULT = "<default>"
_connected = connection_options_for("ClientConfig")
_as_json = click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each quota.")


def _entity_options(function: F) -> F:
    """Add the options that name an entity."""
    for option in (
        click.option(
            "--default", "defaults", multiple=True, type=click.Choice([*_TYPES]), help="The default of a type."
        ),
        click.option("--ip", metavar="ADDRESS", help="The address of clients."),
        click.option("--client-id", metavar="ID", help="A client id."),
        click.option("--user", metavar="NAME", help="A user, without 'User:'."),
    ):
        function = option(function)
    return function


@click.group("quotas", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@command.command("list")
@_entity_options
@click.option("--any", "anything", multiple=True, type=click.Choice([*_TYPES]), help="Any name of a type.")
@click.option("--strict", is_flag=True, help="Omit entities with more than the named types.")
@_connected
@_as_json
def list_quotas(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
    anything: Sequence[str],
    strict: bool,
    **entity: Any,
) -> None:
    """List quotas."""
    from kafwire.admin import QuotaFilter, QuotaMatch

    named = _names(**entity)
    for kind in anything:
        _put(named, kind, QuotaMatch.ANY, "--any")
    with admin_of(brokers, settings, config_file) as admin:
        _show(admin.describe_client_quotas(QuotaFilter(**named, strict=strict)), as_json=as_json)


@command.command("set")
@click.argument("quotas", nargs=-1, required=True, metavar="QUOTA=VALUE...")
@_entity_options
@_connected
@_as_json
def set_quotas(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
    quotas: Sequence[str],
    **entity: Any,
) -> None:
    """Set quotas of one entity, and show all of its quotas."""
    _change(brokers, settings, config_file, entity, dict(_setting(text) for text in quotas), as_json=as_json)


@command.command("remove")
@click.argument("quotas", nargs=-1, metavar="[QUOTA]...")
@_entity_options
@click.option("--execute", is_flag=True, help="Remove the quotas.  [default: show them, and change nothing]")
@_connected
@_as_json
def remove(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
    execute: bool,
    quotas: Sequence[str],
    **entity: Any,
) -> int:
    """Plan, and with --execute apply, the removal of quotas of one entity; without a name, of all its quotas."""
    chosen = _entity(entity)
    with admin_of(brokers, settings, config_file) as admin:
        held = _of_entity(admin, chosen)
        found = {key: value for key, value in held.items() if not quotas or key in quotas}
        if execute and found:
            admin.alter_client_quotas({chosen: dict.fromkeys(found)})
    _show({chosen: found}, as_json=as_json)
    missing = [key for key in quotas if key not in held]
    for key in missing:
        say(f"kafwire quotas remove: {chosen} has no quota {key!r}", err=True)
    if not found and not missing:
        say(f"kafwire quotas remove: {chosen} has no quotas", err=True)
    elif found and not execute:
        planned("quotas remove")
    return int(bool(missing) or not found)


def _change(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    entity: Mapping[str, Any],
    changes: Mapping[str, float | None],
    *,
    as_json: bool,
) -> None:
    chosen = _entity(entity)
    with admin_of(brokers, settings, config_file) as admin:
        before = _of_entity(admin, chosen)
        admin.alter_client_quotas({chosen: changes})
    after = {**before, **changes}  # the broker shows the change a moment later
    _show({chosen: {key: value for key, value in after.items() if value is not None}}, as_json=as_json)


def _of_entity(admin: Any, entity: Any) -> dict[str, float]:
    """Return the quotas of exactly this entity."""
    from kafwire.admin import QuotaFilter

    exact = QuotaFilter(entity.user, entity.client_id, entity.ip, strict=True)
    found: dict[str, float] = admin.describe_client_quotas(exact).get(entity, {})
    return found


def _setting(text: str) -> tuple[str, float]:
    key, equals, value = text.partition("=")
    try:
        if equals and key:
            return key, float(value)
    except ValueError:
        pass
    raise click.UsageError(f"{text}: it must be QUOTA=NUMBER, such as producer_byte_rate=1000000")


def _names(*, user: str | None, client_id: str | None, ip: str | None, defaults: Sequence[str]) -> dict[str, Any]:
    """Return names and defaults by the fields of an entity."""
    from kafwire.admin import QuotaMatch

    named: dict[str, Any] = {"user": user, "client_id": client_id, "ip": ip}
    for kind in defaults:
        _put(named, kind, QuotaMatch.DEFAULT, "--default")
    return {field: name for field, name in named.items() if name is not None}


def _put(named: dict[str, Any], kind: str, value: Any, option: str) -> None:
    field = _TYPES[kind]
    if named.get(field) is not None:
        raise click.UsageError(f"{option} {kind}: another option names the {kind}")
    named[field] = value


def _entity(given: Mapping[str, Any]) -> Any:
    from kafwire.admin import QuotaEntity

    named = _names(**given)
    if not named:
        raise click.UsageError("give --user, --client-id, --ip or --default: the owner of the quotas")
    return QuotaEntity(**named)


def _text(name: Any) -> str:
    if name is None:
        return ""
    return name if isinstance(name, str) else _DEFAULT


def _number(value: float) -> int | float | str:
    if not math.isfinite(value):
        return str(value)  # other clients may set it, and JSON has no such number
    return int(value) if value.is_integer() else value


def _show(found: Mapping[Any, Mapping[str, float]], *, as_json: bool) -> None:
    rows = sorted(
        (*(_text(getattr(entity, field)) for field in _TYPES.values()), key, _number(value))
        for entity, values in found.items()
        for key, value in values.items()
    )
    if not as_json:
        print_table(_HEADER, [(*map(str, row),) for row in rows])
        return
    write_json(
        {name: text for name, text in zip(_KEYS.values(), names, strict=True) if text} | {"quota": key, "limit": value}
        for *names, key, value in rows
    )
