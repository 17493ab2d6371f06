"""The options of every command that talks to a cluster: where it is, and the client's own options."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

__all__ = ["client_options", "connection_options", "connection_options_for", "only"]

F = TypeVar("F", bound=Callable[..., Any])

_BROKERS_VARIABLE = "KAFWIRE_BROKERS"
_DEFAULT_PORT = 9092
_LIST = "list"
_NO_TEXT = {"metrics_hook", "metrics_interval_ms"}  # what a program gives, not a person


def connection_options_for(config_name: str) -> Callable[[F], F]:
    """Add -b, -X and -F; the command gets `brokers`, `settings` and `config_file`, for `client_options`.

    `config_name` is the class in `kafwire.config` whose options '-X list' lists.
    """

    def add(function: F) -> F:
        for option in _options(config_name):
            function = option(function)
        return function

    return add


connection_options = connection_options_for("ConsumerConfig")


def _options(config_name: str) -> tuple[Callable[[F], F], ...]:
    return (
        click.option(
            "-F",
            "--config",
            "config_file",
            metavar="FILE",
            envvar="KAFWIRE_CONFIG",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file of lines name=value, as -X takes them. -X and -b override it.  [env: KAFWIRE_CONFIG]",
        ),
        click.option(
            "-X",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            callback=partial(_list_options, config_name),
            is_eager=True,
            help="An option of the client, as Kafka names it: fetch.max.bytes=1000000, or fetch_max_bytes. "
            "'-X list' lists them.",
        ),
        click.option(
            "-b",
            "--brokers",
            metavar="HOST[:PORT],...",
            help=f"Brokers to ask first; the port is {_DEFAULT_PORT} if not said.  [env: {_BROKERS_VARIABLE}]",
        ),
    )


def client_options(
    config_class: Any, brokers: str | None, settings: Iterable[str], config_file: Path | None
) -> dict[str, Any]:
    """Return the options for a client whose configuration is a `config_class`, checked.

    What is given by -b comes before -X, that before the file, and that before KAFWIRE_BROKERS. Raises click's
    UsageError for a wrong one.
    """
    from kafwire.errors import ConfigError

    options: dict[str, Any] = {}
    if config_file is not None:
        text = config_file.read_text(encoding="utf-8", errors="surrogateescape")
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                name, value = _setting(line, f"{config_file}, line {number}")
                options[name] = value
    options.update(_setting(text, "-X") for text in settings)
    if brokers is not None:
        options["bootstrap_servers"] = brokers
    elif "bootstrap_servers" not in options and _BROKERS_VARIABLE in os.environ:
        options["bootstrap_servers"] = os.environ[_BROKERS_VARIABLE]
    if "bootstrap_servers" not in options:
        raise click.UsageError("no broker is named: give -b HOST:PORT, or bootstrap.servers in the file of -F")
    options["bootstrap_servers"] = ",".join(map(_with_port, options["bootstrap_servers"].split(",")))
    try:
        config_class.build(options)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    return options


def only(options: Mapping[str, Any], config_class: Any) -> dict[str, Any]:
    """Return those of `options` that a `config_class` has."""
    known = {item.name for item in fields(config_class)}
    return {name: value for name, value in options.items() if name in known}


def _setting(text: str, where: str) -> tuple[str, str]:
    """A name as we spell it, and its value. kcat's prefix of topic options is taken too."""
    name, equals, value = text.partition("=")
    if not equals:
        raise click.UsageError(f"{where}: {text.strip()!r} is not NAME=VALUE")
    return name.strip().removeprefix("topic.").replace(".", "_"), value.strip()


def _with_port(server: str) -> str:
    server = server.strip()
    host = server.rpartition("]")[2] if server.startswith("[") else server  # [::1]:9092 has colons before the port's
    return server if ":" in host or not server else f"{server}:{_DEFAULT_PORT}"


def _list_options(
    config_name: str, ctx: click.Context, _parameter: click.Parameter, given: tuple[str, ...]
) -> tuple[str, ...]:
    if _LIST in given and not ctx.resilient_parsing:
        from kafwire import config

        for line in sorted(
            f"{item.name.replace('_', '.')}={'' if item.default in (MISSING, None) else str(item.default).lower()}"
            for item in fields(getattr(config, config_name))
            if item.name not in _NO_TEXT
        ):
            click.echo(line)
        ctx.exit()
    return given
