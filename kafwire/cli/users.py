"""`kafwire users`: the users of a cluster with SCRAM credentials."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from kafwire.cli.admin_client import Failures, admin_of, planned
from kafwire.cli.connection import connection_options_for
from kafwire.cli.output import print_rows, say
from kafwire.config.sasl_mechanisms import SCRAM_NUMBERS

if TYPE_CHECKING:
    from kafwire.secret import Secret

__all__ = ["command"]

_Settings = tuple[str, ...]

_HELP = """List users with SCRAM credentials, set their passwords, remove credentials.

\b
  kafwire users list -b localhost:9092
  kafwire users set alice
  kafwire users set alice --mechanism SCRAM-SHA-256 --password-file alice.txt
  kafwire users remove alice
  kafwire users remove alice --execute

A password is no option: every user of this machine can see command lines.
"""

_HEADER = ("USER", "MECHANISM", "ITERATIONS")
_KEYS = ("user", "mechanism", "iterations")
_MECHANISMS = tuple(SCRAM_NUMBERS)
_connected = connection_options_for("ClientConfig")
_as_json = click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each credential.")


@click.group("users", help=_HELP, no_args_is_help=True)
def command() -> None:
    """List the subcommands."""


@command.command("list")
@click.argument("names", nargs=-1, metavar="[USER]...")
@_connected
@_as_json
def list_users(
    names: Sequence[str], brokers: str | None, settings: _Settings, config_file: Path | None, as_json: bool
) -> int:
    """List credentials of users, without their secrets; without a name, of all users."""
    failures = Failures("users")
    with admin_of(brokers, settings, config_file) as admin:
        found = admin.describe_user_scram_credentials(names or None, on_error=failures)
    print_rows(
        _HEADER,
        _KEYS,
        [(user, each.mechanism, each.iterations) for user in found for each in found[user]],
        as_json=as_json,
    )
    return failures.code


@command.command("set")
@click.argument("name", metavar="USER")
@click.option("--mechanism", type=click.Choice(_MECHANISMS), default=_MECHANISMS[1], show_default=True)
@click.option("--iterations", type=click.IntRange(4096, 16384), default=4096, show_default=True)
@click.option(
    "--password-file",
    type=click.Path(dir_okay=False, allow_dash=True, path_type=Path),
    help="A file whose first line is the password; -: standard input.  [default: ask for it]",
)
@_connected
@_as_json
def set_password(
    name: str,
    mechanism: str,
    iterations: int,
    password_file: Path | None,
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
) -> None:
    """Set the password of a user for a mechanism."""
    from kafwire.admin import ScramUpsertion

    change = ScramUpsertion(name, mechanism, _password(name, password_file), iterations)
    with admin_of(brokers, settings, config_file) as admin:
        admin.alter_user_scram_credentials([change])
    print_rows(_HEADER, _KEYS, [(name, mechanism, iterations)], as_json=as_json)


@command.command("remove")
@click.argument("name", metavar="USER")
@click.option("--mechanism", type=click.Choice(_MECHANISMS), help="Only this credential.  [default: all of the user]")
@click.option("--execute", is_flag=True, help="Remove the credentials.  [default: show them, and change nothing]")
@_connected
@_as_json
def remove(
    name: str,
    mechanism: str | None,
    execute: bool,
    brokers: str | None,
    settings: _Settings,
    config_file: Path | None,
    as_json: bool,
) -> int:
    """Plan, and with --execute apply, the removal of a user's credentials."""
    from kafwire.admin import ScramDeletion

    with admin_of(brokers, settings, config_file) as admin:
        held = admin.describe_user_scram_credentials([name])[name]
        found = [each for each in held if mechanism in (None, each.mechanism)]
        for each in found if execute else ():
            admin.alter_user_scram_credentials([ScramDeletion(name, each.mechanism)])
    print_rows(_HEADER, _KEYS, [(name, each.mechanism, each.iterations) for each in found], as_json=as_json)
    if not found:
        say(f"kafwire users remove: {name} has no credential of {mechanism}", err=True)
        return 1
    if not execute:
        planned("users remove")
    return 0


def _password(name: str, file: Path | None) -> Secret:
    """Read a password from a file, or from the terminal."""
    from kafwire.secret import Secret

    if file is None:
        return Secret(click.prompt(f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True))
    with click.open_file(str(file), "rb") as lines:
        line = lines.readline()
    try:
        return Secret(line.decode().rstrip("\r\n"))
    except UnicodeDecodeError:
        raise click.ClickException(f"{file}: the password is not UTF-8 text") from None
