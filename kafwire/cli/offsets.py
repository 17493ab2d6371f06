"""`kafwire offsets`: the offsets of partitions at a time, like `kcat -Q`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.connection import client_options, connection_options, isolation, only
from kafwire.cli.output import print_table, say, write_json
from kafwire.cli.partition_names import named_partitions
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, broker_error
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Client

__all__ = ["command"]

# "\b" keeps click from re-wrapping the paragraph
_HELP = """Show the offset of the first record at or after a time, in each partition.

\b
  kafwire offsets orders -b localhost:9092
  kafwire offsets orders:0,3 payments --at 2026-01-31T12:00:00Z
  kafwire offsets orders --at earliest -J

TIME is earliest, latest (the offset of the next record), milliseconds since the epoch, or 2026-01-31T12:00:00Z.
A partition whose records are all older shows "-", in JSON null.

Exit code 1: a topic or a partition does not exist, or its leader does not return offsets.
"""
_HEADER = ("TOPIC", "PARTITION", "OFFSET")
_NAMES = {"earliest": "earliest", "beginning": "earliest", "latest": "latest", "end": "latest"}


@click.command("offsets", help=_HELP)
@click.argument("partitions", nargs=-1, metavar="[TOPIC[:N,...]]...")
@click.option(
    "-t", "--topic", "more", multiple=True, metavar="TOPIC[:N,...]", help="The same as the argument; may be repeated."
)
@connection_options
@click.option("--at", default="latest", show_default=True, metavar="TIME", help="The time of the records.")
@click.option("-J", "--json", "as_json", is_flag=True, help="JSON, a line for each partition.")
def command(
    partitions: tuple[str, ...],
    more: tuple[str, ...],
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    at: str,
    as_json: bool,
) -> int:
    """Look up offsets and show them."""
    from kafwire.cli.consume_source import milliseconds, warn_of_seconds

    asked = (*partitions, *more)
    if not asked:
        raise click.UsageError("no topic is given")
    named = named_partitions(asked, "")
    when = _NAMES[at] if at in _NAMES else milliseconds("--at", at, at)
    warn_of_seconds("offsets", [at], "--at ")

    from kafwire import Client
    from kafwire.config import ClientConfig, ConsumerConfig

    options = client_options(ConsumerConfig, brokers, settings, config_file)
    problems: dict[str, str] = {}
    with Client(**only(options, ClientConfig)) as client:
        wanted = _existing(client, named, problems)
        failed: dict[TopicPartition, KafkaError] = {}
        found = client.offsets(wanted, when, on_error=failed.__setitem__, **isolation(options))
    problems.update((f"{where.topic}-{where.partition}", str(error)) for where, error in sorted(failed.items()))
    rows = [(where.topic, where.partition, offset if offset >= 0 else None) for where, offset in sorted(found.items())]
    if as_json:
        write_json(dict(zip(map(str.lower, _HEADER), row, strict=True)) for row in rows)
    elif rows:
        print_table(_HEADER, [(topic, str(number), "-" if at is None else str(at)) for topic, number, at in rows])
    for what, why in problems.items():
        say(f"kafwire offsets: {what}: {why}", err=True)
    return int(bool(problems))


def _existing(
    client: "Client", named: list[tuple[str, Sequence[int] | None]], problems: dict[str, str]
) -> list[TopicPartition]:
    """Return the partitions that exist; `problems` gets the others."""
    topics: dict[str, Any] = {topic.name: topic for topic in client.metadata({name for name, _ in named}).topics}
    numbers: dict[str, list[int]] = {}
    for name, topic in sorted(topics.items()):
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            problems[name] = "the topic does not exist"
        elif topic.error_code:
            problems[name] = str(broker_error(topic.error_code, f"topic {name!r}", api="Metadata", topic=name))
        else:
            numbers[name] = [part.partition_index for part in topic.partitions]
    wanted = set()
    for name, asked in ((name, asked) for name, asked in named if name in numbers):
        for number in numbers[name] if asked is None else asked:
            if number in numbers[name]:
                wanted.add(TopicPartition(name, number))
            else:
                problems[f"{name}-{number}"] = "the partition does not exist"
    return sorted(wanted)
