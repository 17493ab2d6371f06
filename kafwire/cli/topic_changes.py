"""`kafwire topics create` and `kafwire topics delete`."""

from pathlib import Path
from typing import Any

import click

from kafwire.cli.connection import client_options, connection_options_for, only

__all__ = ["client_of", "confirmed", "create", "delete", "named", "setting"]

_CREATE_HELP = """Create topics, and wait until their partitions have leaders.

\b
  kafwire topics create orders --partitions 6 --replication-factor 3
  kafwire topics create orders --config cleanup.policy=compact --config retention.ms=86400000
"""

_DELETE_HELP = """Delete topics and all their records, after a confirmation.

\b
  kafwire topics delete orders
  kafwire topics delete orders payments --yes
"""


@click.command("create", help=_CREATE_HELP)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@connection_options_for("ClientConfig", short=True)
@click.option(
    "--partitions", type=click.IntRange(min=1), help="Number of partitions.  [default: the broker's num.partitions]"
)
@click.option(
    "--replication-factor",
    type=click.IntRange(min=1),
    help="Replicas of each partition.  [default: the broker's default.replication.factor]",
)
@click.option("--config", "configs", multiple=True, metavar="NAME=VALUE", help="A topic option; may be repeated.")
def create(
    topics: tuple[str, ...],
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    partitions: int | None,
    replication_factor: int | None,
    configs: tuple[str, ...],
) -> None:
    """Create topics."""
    config = dict(setting(text) for text in configs)
    with client_of(brokers, settings, config_file) as client:
        for topic in named(topics):
            client.create_topic(
                topic, partitions=partitions or -1, replication_factor=replication_factor or -1, config=config
            )
            click.echo(f"created {topic}: {len(client.topic(topic).partitions)} partition(s)")


@click.command("delete", help=_DELETE_HELP)
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@connection_options_for("ClientConfig")
@click.option("-y", "--yes", is_flag=True, help="Do not ask for confirmation.")
def delete(
    topics: tuple[str, ...], brokers: str | None, settings: tuple[str, ...], config_file: Path | None, yes: bool
) -> int:
    """Delete topics."""
    names = named(topics)
    with client_of(brokers, settings, config_file) as client:
        if not yes and not confirmed(f"Delete {', '.join(names)} and all records in it?"):
            click.echo("kafwire topics delete: no topic was deleted", err=True)
            return 1
        for topic in names:
            client.delete_topic(topic)
            click.echo(f"deleted {topic}")
    return 0


def client_of(brokers: str | None, settings: tuple[str, ...], config_file: Path | None) -> Any:
    """Return a client with these options, which may include consumer options, as in a file for all commands."""
    from kafwire import Client
    from kafwire.config import ClientConfig, ConsumerConfig

    return Client(**only(client_options(ConsumerConfig, brokers, settings, config_file), ClientConfig))


def named(topics: tuple[str, ...]) -> tuple[str, ...]:
    """Return the topics of the command line, each once."""
    if not all(topics):
        raise click.UsageError("a topic name is empty")
    return tuple(dict.fromkeys(topics))


def setting(text: str, option: str = "--config") -> tuple[str, str]:
    """Return the name and the value of NAME=VALUE."""
    name, equals, value = text.partition("=")
    if not equals or not name.strip():
        raise click.UsageError(f"{option} {text}: it must be NAME=VALUE")
    return name.strip(), value


def confirmed(question: str) -> bool:
    """Ask for a confirmation on standard error. Raises `click.UsageError` if standard input is not a terminal."""
    try:
        return click.confirm(question, err=True)
    except click.Abort:  # without a terminal
        raise click.UsageError("not confirmed: standard input is not a terminal; add --yes") from None
