"""The options of every command that connects to a cluster: its address, and client options."""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import MISSING, fields
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

import click

from kafwire.config.bootstrap import DEFAULT_PORT

__all__ = [
    "client_options",
    "connection_options",
    "connection_options_for",
    "isolation",
    "look_for_leaders",
    "only",
    "settings_options",
    "timeout_ms",
    "timeout_option",
]

F = TypeVar("F", bound=Callable[..., Any])

_BROKERS_VARIABLE = "KAFWIRE_BROKERS"
_LIST = "list"
_NAME = re.compile(r"[A-Za-z][\w.-]*")
_TIMEOUT = "kafwire.timeout_ms"  # in the context
# Options that only a program can set.
_NO_TEXT = {"metrics_hook", "metrics_interval_ms", "sasl_oauthbearer_token_provider", "ssl_context"}


def connection_options_for(config_name: str, *, short: bool = False) -> Callable[[F], F]:
    """Add -b, -X, -F and --timeout; the command gets `brokers`, `settings` and `config_file`, for `client_options`.

    `config_name` is the class in `kafwire.config` whose options '-X list' lists. With `short`, -F has no long form, so
    that the command can use --config.
    """

    def add(function: F) -> F:
        for option in _options(config_name, short=short):
            function = option(function)
        return timeout_option(function)

    return add


connection_options = connection_options_for("ConsumerConfig")


def settings_options(function: F) -> F:
    """Add -X and -F, for a command that gets the brokers in another way; otherwise as `connection_options`."""
    for option in _options("ClientConfig", short=False)[:2]:
        function = option(function)
    return function


def _options(config_name: str, *, short: bool) -> tuple[Callable[[F], F], ...]:
    return (
        click.option(
            *(("-F",) if short else ("-F", "--config")),
            "config_file",
            metavar="FILE",
            envvar="KAFWIRE_CONFIG",
            type=click.Path(exists=True, dir_okay=False, path_type=Path),
            help="A file of lines name=value, as with -X. -X and -b override it. Put passwords in this file: "
            "every user of this machine can see command lines.  [env: KAFWIRE_CONFIG]",
        ),
        click.option(
            "-X",
            "settings",
            multiple=True,
            metavar="NAME=VALUE",
            callback=partial(_list_options, config_name),
            is_eager=True,
            help="A client option, by Kafka's name: fetch.max.bytes=1000000, or fetch_max_bytes. '-X list' lists them.",
        ),
        click.option(
            "-b",
            "--brokers",
            metavar="HOST[:PORT],...",
            help=f"Bootstrap brokers; the default port is {DEFAULT_PORT}.  [env: {_BROKERS_VARIABLE}]",
        ),
    )


def timeout_option(function: F) -> F:
    """Add --timeout; `timeout_ms` returns its value."""
    return click.option(
        "--timeout",
        type=click.FloatRange(min=0, min_open=True),
        default=10.0,
        show_default=True,
        metavar="SECONDS",
        expose_value=False,
        callback=_note_timeout,
        help="Give up if the cluster does not respond in this time.",
    )(function)


def _note_timeout(ctx: click.Context, _parameter: click.Parameter, seconds: float) -> None:
    ctx.meta[_TIMEOUT] = max(1, round(seconds * 1000))


def timeout_ms() -> int:
    """Return the value of --timeout in milliseconds."""
    return int(click.get_current_context().meta[_TIMEOUT])


def look_for_leaders(options: Mapping[str, Any], topic: str) -> None:
    """Request metadata of a topic, and ApiVersions from each of its leaders. Raises `KafkaError` at the timeout."""
    from kafwire import Client, protocol
    from kafwire.config import ClientConfig

    request: Any = protocol.ApiVersionsRequest(client_software_name="kafwire", client_software_version="0")
    with Client(**only(options, ClientConfig)) as client:
        found: Any = client.metadata([topic])
        leaders = {partition.leader_id for each in found.topics for partition in each.partitions}
        for leader in sorted(leaders - {-1}):
            client.call(request, broker=leader)


def client_options(
    config_class: Any, brokers: str | None, settings: Iterable[str], config_file: Path | None
) -> dict[str, Any]:
    """Return the checked options for a client whose configuration is a `config_class`.

    -b has precedence over -X, then the file, then KAFWIRE_BROKERS. Raises click's UsageError for a wrong option.
    """
    from kafwire.config import from_config
    from kafwire.errors import ConfigError

    given: dict[str, tuple[str, Any]] = {}
    if config_file is not None:
        text = config_file.read_text(encoding="utf-8", errors="surrogateescape")
        for number, line in enumerate(text.splitlines(), 1):
            if line.strip() and not line.lstrip().startswith("#"):
                _take(given, line, f"{config_file}, line {number}")
    for setting in settings:
        _take(given, setting, "-X")
    if brokers is not None:
        given["bootstrap_servers"] = ("bootstrap_servers", brokers)
        given.pop("metadata_broker_list", None)
    elif not {"bootstrap_servers", "metadata_broker_list"} & set(given) and _BROKERS_VARIABLE in os.environ:
        given["bootstrap_servers"] = ("bootstrap_servers", os.environ[_BROKERS_VARIABLE])
    if not {"bootstrap_servers", "metadata_broker_list"} & set(given):
        raise click.UsageError("no broker is given: set -b HOST:PORT, or bootstrap.servers in the file of -F")
    given.setdefault("default_api_timeout_ms", ("default_api_timeout_ms", timeout_ms()))
    try:
        return from_config(config_class, dict(given.values()))
    except ConfigError as error:
        raise click.UsageError(str(error)) from None


def only(options: Mapping[str, Any], config_class: Any) -> dict[str, Any]:
    """Return the `options` that a `config_class` has."""
    known = {item.name for item in fields(config_class)}
    return {name: value for name, value in options.items() if name in known}


def isolation(options: Mapping[str, Any]) -> dict[str, Any]:
    """Return the isolation level of `options` as an argument of `Client.offsets`, if set."""
    return {"isolation_level": options["isolation_level"]} if "isolation_level" in options else {}


def _take(given: dict[str, tuple[str, Any]], text: str, where: str) -> None:
    """Add NAME=VALUE, replacing another spelling of the name. Accepts kcat's prefix for topic options."""
    name, equals, value = text.partition("=")
    name = name.strip().removeprefix("topic.")
    # Errors do not show an invalid name: it may be a misplaced password.
    if not equals or not _NAME.fullmatch(name):
        first, *others = text.split() or [""]
        shown = f"{first!r}{' ...' if others else ''}" if _is_option(first) else "this"
        raise click.UsageError(f"{where}: {shown} is not NAME=VALUE")
    given[name.replace(".", "_")] = (name, value.strip())


def _is_option(word: str) -> bool:
    from kafwire import config
    from kafwire.config import names as config_names

    plain = word.replace(".", "_")
    kinds = (config.ProducerConfig, config.ConsumerConfig)
    return config_names.is_known(plain) or any(plain == item.name for kind in kinds for item in fields(kind))


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
