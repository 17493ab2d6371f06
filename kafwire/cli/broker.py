"""`kafwire broker`: a Kafka cluster in this process, for development, tests and small embedded use."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.signals import orderly_end

if TYPE_CHECKING:
    from kafwire.broker.embedded import EmbeddedKafka

__all__ = ["command"]

_HELP = """Run a Kafka cluster in this process, until Ctrl-C. No Java, nothing to install.

It is for development, tests and small embedded use: it speaks the real protocol to any client, and does not replicate.
The first line printed has the bootstrap servers. Records are in memory, or with --data in a folder, in Kafka's own file
format.

\b
  kafwire broker
  kafwire broker --port 9092 --topic flights:3 --property auto.create.topics.enable=false
  kafwire broker --nodes 3 --data ./kafka-data
  kafwire broker --security sasl_ssl:9093 --security ssl:9094
  kafwire broker --host 0.0.0.0 --advertised kafka:9092

The first listener opens --port, each further broker and listener the next port. --plain makes the plain listener the
first. TLS needs the package cryptography: pip install 'kafwire[broker]'.

Exit code 1: a port is taken, a package is missing, or the folder is not one of this broker's.
"""


_MOST_PARTITIONS = 100_000  # of a topic: a typing error must not use up the memory
_PROTOCOLS = ("ssl", "ssl_mtls", "sasl_plaintext", "sasl_ssl")


@click.command("broker", help=_HELP)
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on. 0.0.0.0: all.")
@click.option(
    "--advertised",
    metavar="HOST[:PORT]",
    help="The address that clients connect to.  [default: the value of --host, or localhost for 0.0.0.0]",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 100),
    default=1,
    show_default=True,
    help="Number of brokers, on consecutive ports.",
)
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="A folder for records and offsets.")
@click.option(
    "--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Create this topic if it is missing."
)
@click.option(
    "--property", "properties", multiple=True, metavar="KEY=VALUE", help="A broker option, named as in Kafka."
)
@click.option(
    "--security",
    multiple=True,
    metavar="PROTOCOL[:PORT]",
    help=f"One of {', '.join(_PROTOCOLS)}: a listener instead of the plain one; client options are written to files.",
)
@click.option("--plain", is_flag=True, help="With --security: open a plain listener too, without TLS and login.")
@click.option(
    "--server",
    metavar="NAME",
    help="Imitate known differences of another server: redpanda, event-hubs, warpstream or automq. Unverified.",
)
@click.option("-v", "--verbose", is_flag=True, help="Log what happens to connections.")
def command(
    port: int,
    host: str,
    advertised: str | None,
    nodes: int,
    data: Path | None,
    topics: Sequence[str],
    properties: Sequence[str],
    security: Sequence[str],
    plain: bool,
    server: str | None,
    verbose: bool,
) -> int:
    """Serve until a signal."""
    handler = logging.StreamHandler()
    handler.setFormatter(logging.Formatter("%(message)s") if verbose else _OneLine("%(message)s"))
    logging.basicConfig(handlers=[handler], level=logging.INFO if verbose else logging.WARNING)
    if plain and not security:
        raise click.UsageError("--plain needs --security: without it the listener is plain anyway")
    wanted = _topics(topics)
    options: dict[str, Any] = {"configs": _configs(properties), "data": data, "server": server}
    options |= {"host": host, "advertised": advertised}
    if security:
        listeners = [_protocol(text) for text in security]
        names = [name for name, _ in listeners]
        if again := [name for name in dict.fromkeys(names) if names.count(name) > 1]:
            raise click.UsageError(f"--security: {again[0]} is given twice")
        source = click.get_current_context().get_parameter_source("port")
        if (
            source is click.core.ParameterSource.COMMANDLINE
            and not plain
            and all(own is not None for _, own in listeners)
        ):
            raise click.UsageError(
                f"--port {port}: each --security names its own port: leave --port out, or add --plain"
            )
        users = _users()
        options |= {"security": [_listener(name, users) for name in names], "plain": plain}
        options["port"] = _ports(port, nodes, listeners, plain=plain)
    else:
        options["port"] = port
    with _started(nodes, options) as kafka, orderly_end():
        known = kafka.ask(lambda state: set(state.topics.by_name))
        for name, partitions in wanted.items():
            if name not in known:
                kafka.create_topic(name, partitions)
        _print_addresses(kafka, secured=bool(security), plain=plain)
        kafka.wait()
    return 0


class _OneLine(logging.Formatter):
    """Formats an error without its traceback, which -v shows."""

    def formatException(self, ei: Any) -> str:  # noqa: N802, ARG002 - logging's signature
        """Return nothing."""
        return ""

    def format(self, record: logging.LogRecord) -> str:
        """Return one line."""
        return super().format(record).rstrip()


@contextmanager
def _started(nodes: int, options: Mapping[str, Any]) -> Iterator[EmbeddedKafka]:
    """Yield the running brokers; report each of their errors in one line."""
    from kafwire.broker.embedded import EmbeddedKafka
    from kafwire.broker.setup_error import SetupError
    from kafwire.broker.storage.journal import DamagedError

    try:
        kafka = EmbeddedKafka(nodes, **options)
    except ValueError as error:
        raise click.UsageError(str(error)) from None
    try:
        kafka.start()
    except (OSError, SetupError, DamagedError) as error:
        kafka.close()
        text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        if isinstance(error, OSError) and error.filename:
            text = f"{error.filename}: {text}"
        raise click.ClickException(f"the broker cannot start: {text}") from None
    try:
        yield kafka
    except RuntimeError:  # an error ended the brokers; it is reported below
        if not kafka.problems:
            raise
    finally:
        kafka.close()
    if kafka.problems:
        raise click.ClickException(f"an error inside the broker (use -v for details): {kafka.problems[0]!r}")


def _print_addresses(kafka: EmbeddedKafka, *, secured: bool, plain: bool) -> None:
    click.echo(kafka.bootstrap)
    if not secured:
        return
    from kafwire.broker.security.client_files import written_options

    if plain:
        click.echo(f"listener PLAINTEXT {kafka.direct}")
    click.echo(written_options(kafka.security))


def _users() -> dict[str, str]:
    """Return SASL users, the same on all listeners; only the written client options have their passwords."""
    import secrets

    from kafwire.broker.security.security import USERS

    return {user: secrets.token_urlsafe(18) for user in USERS}


def _protocol(text: str) -> tuple[str, int | None]:
    """Parse PROTOCOL[:PORT]; return the protocol in lower case, and the port."""
    name, colon, port = text.partition(":")
    if name.lower() not in _PROTOCOLS:
        raise click.UsageError(f"--security: {name!r} is not one of {', '.join(_PROTOCOLS)}")
    if colon and not (port.isascii() and port.isdigit() and int(port) < 1 << 16):
        raise click.UsageError(f"--security: {port!r} is not a port, a number from 0 to 65535")
    return name.lower(), int(port) if colon else None


def _ports(port: int, nodes: int, listeners: Sequence[tuple[str, int | None]], *, plain: bool) -> int | dict[str, int]:
    """Return the ports of listeners by name: the given ones, or else consecutive ones from `port` on."""
    if all(own is None for _, own in listeners):
        return port
    found: dict[str, int] = {}
    for name, own in ([("plaintext", None)] if plain else []) + [*listeners]:
        found[name.upper()] = port if own is None else own
        if own is None and port:
            port += nodes
    return found


def _listener(name: str, users: Mapping[str, str]) -> Any:
    from kafwire.broker.security.security import Security

    if name.upper().startswith("SSL"):
        return Security("SSL", client_auth="required" if name.upper() == "SSL_MTLS" else "none")
    return Security(name.upper(), users=users)  # type: ignore[arg-type]


def _configs(properties: Sequence[str]) -> dict[str, str]:
    from kafwire.broker.topics.configs import BROKER_CONFIGS, DESCRIBED_CONFIGS

    configs = {}
    for text in properties:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--property must be KEY=VALUE, not {text!r}")
        known = DESCRIBED_CONFIGS.get(name)
        if known is None:
            raise click.UsageError(f"--property: this broker has no option {name!r}")
        if name not in BROKER_CONFIGS:
            click.echo(f"--property {name} has no effect: this broker shows it to clients and ignores it", err=True)
        if problem := known.problem(value):
            raise click.UsageError(f"--property: {problem}")
        configs[name] = value
    return configs


def _topics(texts: Sequence[str]) -> dict[str, int]:
    """Return the partition count of each topic by name."""
    found: dict[str, int] = {}
    for text in texts:
        name, partitions = _topic(text)
        if found.setdefault(name, partitions) != partitions:
            raise click.UsageError(f"--topic: {name} is given twice, with {found[name]} and {partitions} partitions")
    return found


def _topic(text: str) -> tuple[str, int]:
    from kafwire.broker.api.metadata import is_name

    name, _, count = text.rpartition(":") if ":" in text else (text, "", "1")
    if not is_name(name):
        raise click.UsageError(f"--topic: {name!r} is not a valid topic name")
    if not (count.isascii() and count.isdigit()) or not 0 < int(count) <= _MOST_PARTITIONS:
        raise click.UsageError(f"--topic: {count!r} is not a number of partitions from 1 to {_MOST_PARTITIONS:,}")
    return name, int(count)
