"""`kafwire acls`: the access rules of a cluster."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any, TypeVar

import click

from kafwire.cli.admin_client import admin_of, planned
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_rows, say

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])
_Settings = tuple[str, ...]

_HELP = """List, add and remove access rules (ACLs). Names of types and operations are Kafka's, in any case.

\b
  kafwire acls list -b localhost:9092
  kafwire acls list --resource Topic:orders --pattern match
  kafwire acls add --resource Topic:orders --principal User:alice --operation Read
  kafwire acls add --resource Topic:tmp- --pattern prefixed --principal User:alice --operation All
  kafwire acls remove --principal User:alice
  kafwire acls remove --principal User:alice --execute
"""

_HEADER = ("RESOURCE", "NAME", "PATTERN", "PRINCIPAL", "HOST", "OPERATION", "PERMISSION")
_KEYS = ("resourceType", "resource", "patternType", "principal", "host", "operation", "permission")
_connected = connection_options_for("ClientConfig")
_as_json = click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each rule.")
_resource = click.option(
    "--resource",
    metavar="TYPE[:NAME]",
    help="Topic:orders, Group:billing, Cluster:kafka-cluster, TransactionalId:x, User:User:bob; the name * means all.",
)
_pattern = click.option("--pattern", metavar="TYPE", help="literal or prefixed; in lists also match: rules for a name.")
_host = click.option("--host", metavar="ADDRESS", help="The address of the clients.")


def _filter_options(function: F) -> F:
    """Add the options that choose rules."""
    for option in (
        click.option("--deny", "permission", flag_value="Deny", help="Only rules that deny."),
        click.option("--allow", "permission", flag_value="Allow", help="Only rules that allow."),
        _host,
        click.option("--operation", metavar="NAME", help="Only rules for this operation."),
        click.option("--principal", metavar="TYPE:NAME", help="Only rules of this principal: User:alice."),
        _pattern,
        _resource,
    ):
        function = option(function)
    return function


@click.group("acls", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@command.command("list")
@_filter_options
@_connected
@_as_json
def list_acls(
    brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool, **wanted: str | None
) -> None:
    """List access rules."""
    chosen = _filter(**wanted)
    with admin_of(brokers, settings, config_file) as admin:
        _show(admin.describe_acls(chosen), as_json=as_json)


@command.command("add")
@_resource
@_pattern
@click.option("--principal", "principals", multiple=True, required=True, metavar="TYPE:NAME", help="User:alice.")
@click.option("--operation", "operations", multiple=True, required=True, metavar="NAME", help="Such as Read.")
@_host
@click.option("--deny", is_flag=True, help="Deny the operations.  [default: allow them]")
@_connected
@_as_json
def add(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    resource: str | None,
    pattern: str | None,
    principals: Sequence[str],
    operations: Sequence[str],
    host: str | None,
    deny: bool,
    as_json: bool,
) -> None:
    """Add access rules: one for each principal and operation."""
    from kafwire.admin import AclBinding

    kind, name = _named(resource)
    if kind is None or name is None:
        raise click.UsageError("--resource TYPE:NAME is missing: Topic:orders, for example")
    permission = "Deny" if deny else "Allow"
    rules = [
        AclBinding(kind, name, principal, operation, permission, host or "*", pattern or "Literal")
        for principal in principals
        for operation in operations
    ]
    with admin_of(brokers, settings, config_file) as admin:
        admin.create_acls(rules)
    _show(rules, as_json=as_json)


@command.command("remove")
@_filter_options
@click.option("--execute", is_flag=True, help="Remove the rules.  [default: show them, and change nothing]")
@_connected
@_as_json
def remove(
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
    execute: bool,
    **wanted: str | None,
) -> int:
    """Plan, and with --execute apply, the removal of access rules."""
    if not any(wanted.values()):
        raise click.UsageError("give an option that chooses rules, such as --principal: without one all would match")
    chosen = _filter(**wanted)
    with admin_of(brokers, settings, config_file) as admin:
        found = admin.delete_acls([chosen])[chosen] if execute else admin.describe_acls(chosen)
    _show(found, as_json=as_json)
    if not found:
        say("kafwire acls remove: no rule matches", err=True)
        return 1
    if not execute:
        planned("acls remove")
    return 0


def _named(resource: str | None) -> tuple[str | None, str | None]:
    """Return the type and the name of a resource; None: not given."""
    if resource is None:
        return None, None
    kind, colon, name = resource.partition(":")
    return kind, name if colon else None


def _filter(
    *,
    resource: str | None,
    pattern: str | None,
    principal: str | None,
    operation: str | None,
    host: str | None,
    permission: str | None,
) -> Any:
    from kafwire.admin import AclFilter

    kind, name = _named(resource)
    return AclFilter(kind, name, principal, operation, permission, host, pattern)


def _show(rules: Iterable[Any], *, as_json: bool) -> None:
    rows = (
        (
            each.resource_type,
            each.name,
            each.pattern_type,
            each.principal,
            each.host,
            each.operation,
            each.permission,
        )
        for each in rules
    )
    print_rows(_HEADER, _KEYS, sorted(rows), as_json=as_json)
