"""`kafwire broker`: a Kafka cluster in this process, for development, tests and small embedded use."""

import logging
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from kafwire.cli.signals import orderly_end

__all__ = ["command"]

_HELP = """Run a Kafka cluster in this process, until Ctrl-C. No Java, nothing to install.

It is for development, tests and small embedded use: it speaks the real protocol to any client, and does not replicate.
The first line printed has the bootstrap servers. Records are in memory, or with --data in a folder, in Kafka's own file
format.

\b
  kafwire broker
  kafwire broker --port 9092 --topic flights:3 --property auto.create.topics.enable=false
  kafwire broker --nodes 3 --data ./kafka-data

Exit code 1: a port is taken, or the folder is not one of this broker's.
"""


@click.command("broker", help=_HELP)
@click.option("--port", type=click.IntRange(0, 65535), default=9092, show_default=True, help="0: any free one.")
@click.option("--host", default="127.0.0.1", show_default=True, help="The address to listen on, and to advertise.")
@click.option("--nodes", type=click.IntRange(1, 100), default=1, show_default=True, help="The ports are consecutive.")
@click.option("--data", type=click.Path(path_type=Path, file_okay=False), help="A folder for records and offsets.")
@click.option("--topic", "topics", multiple=True, metavar="NAME[:PARTITIONS]", help="Made if it is missing.")
@click.option("--property", "properties", multiple=True, metavar="KEY=VALUE", help="A broker's option, as Kafka's.")
@click.option(
    "--security",
    multiple=True,
    type=click.Choice(["ssl", "ssl_mtls", "sasl_plaintext", "sasl_ssl"], case_sensitive=False),
    help="A secured listener, in place of the plain one; options of clients are written to files.",
)
@click.option("--plain", is_flag=True, help="With --security: open the plain listener too, which asks for no login.")
@click.option("-v", "--verbose", is_flag=True, help="Log what happens to connections.")
def command(
    port: int,
    host: str,
    nodes: int,
    data: Path | None,
    topics: Sequence[str],
    properties: Sequence[str],
    security: Sequence[str],
    plain: bool,
    verbose: bool,
) -> int:
    """Serve until a signal."""
    import threading

    from kafwire.testing.broker.embedded import EmbeddedKafka

    logging.basicConfig(format="%(message)s", level=logging.INFO if verbose else logging.WARNING)
    if plain and not security:
        raise click.UsageError("--plain goes with --security: without it the listener is plain anyway")
    wanted = [_topic(text) for text in topics]
    options: dict[str, Any] = {}
    if security:
        users = _users()
        options = {"security": [_listener(name, users) for name in security], "plain": plain}
    kafka = EmbeddedKafka(nodes, host=host, port=port, configs=_configs(properties), data=data, **options)
    try:
        kafka.start()
    except OSError as error:
        kafka.close()
        raise click.ClickException(f"the broker cannot start: {error.strerror or error}") from None
    with kafka, orderly_end():
        known = kafka.ask(lambda state: set(state.topics.by_name))
        for name, partitions in wanted:
            if name not in known:
                kafka.create_topic(name, partitions)
        click.echo(kafka.bootstrap)
        if security:
            if plain:
                click.echo(f"listener PLAINTEXT {kafka.direct}")
            from kafwire.testing.client_files import written_options

            click.echo(written_options(kafka.security))
        threading.Event().wait()
    return 0


def _users() -> dict[str, str]:
    """Users of SASL, the same on all listeners, with passwords that only the written options have."""
    import secrets

    from kafwire.testing.security import USERS

    return {user: secrets.token_urlsafe(18) for user in USERS}


def _listener(name: str, users: Mapping[str, str]) -> Any:
    from kafwire.testing.security import Security

    if name.upper().startswith("SSL"):
        return Security("SSL", client_auth="required" if name.upper() == "SSL_MTLS" else "none")
    mechanisms = ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"]
    return Security(name.upper(), mechanisms, users=users)  # type: ignore[arg-type]


def _configs(properties: Sequence[str]) -> dict[str, str]:
    from kafwire.testing.broker.topics.configs import BROKER_CONFIGS

    configs = {}
    for text in properties:
        name, equals, value = text.partition("=")
        if not equals:
            raise click.UsageError(f"--property takes KEY=VALUE, not {text!r}")
        known = BROKER_CONFIGS.get(name)
        if known is None:
            raise click.UsageError(f"--property: this broker has no option {name!r}")
        if problem := known.problem(value):
            raise click.UsageError(f"--property: {problem}")
        configs[name] = value
    return configs


def _topic(text: str) -> tuple[str, int]:
    from kafwire.testing.broker.api.metadata import is_name

    name, _, count = text.rpartition(":") if ":" in text else (text, "", "1")
    if not is_name(name):
        raise click.UsageError(f"--topic: {name!r} is no name of a topic")
    if not count.isdigit() or int(count) < 1:
        raise click.UsageError(f"--topic: {count!r} is no number of partitions")
    return name, int(count)
