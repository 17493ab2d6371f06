"""`kafwire topics`: the topics of a cluster, their partitions and offsets."""

from base64 import b64encode
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click

from kafwire.cli.connection import client_options, connection_options, isolation
from kafwire.cli.output import JsonWriter, pretty_option, say
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, broker_error

if TYPE_CHECKING:
    from kafwire import Client

__all__ = ["command"]

F = TypeVar("F", bound=Callable[..., Any])

_HELP = """List the topics of a cluster, or show the partitions of some.

\b
  kafwire topics list -b localhost:9092
  kafwire topics describe orders payments --offsets
  kafwire topics list -L
  kafwire topics list -J | jq -r '.topics[].topic'
  kafwire topics create orders --partitions 6 --config retention.ms=86400000
  kafwire topics configs orders
  kafwire topics alter orders --config retention.ms=3600000
  kafwire topics delete orders

Without a command, the named topics are described, or else all topics listed. -t is for a topic that has the name of a
command.

Exit code 1: a topic does not exist, the broker returns an error for it, or a leader does not return offsets.
"""


# The modules of other subcommands.
_OTHERS = {
    "create": "kafwire.cli.topic_changes",
    "delete": "kafwire.cli.topic_changes",
    "configs": "kafwire.cli.topic_configs",
    "alter": "kafwire.cli.topic_configs",
}


class _Topics(click.Command):
    """The list of topics, unless the first word is a subcommand."""

    def command_with(self, option: str) -> str | None:
        """Return the subcommand that has an option."""
        commands = ((word, self._other(word)) for word in _OTHERS)
        return next((word for word, each in commands for param in each.params if option in param.opts), None)

    def make_context(
        self, info_name: str | None, args: list[str], parent: click.Context | None = None, **extra: Any
    ) -> click.Context:
        """Pass the arguments to the subcommand that the first word names."""
        if args and args[0] in (*_OTHERS, "describe", "list"):
            return self._other(args[0]).make_context(f"{info_name} {args[0]}", args[1:], parent, **extra)
        return super().make_context(info_name, args, parent, **extra)

    def _other(self, word: str) -> click.Command:
        if word in _OTHERS:
            found: click.Command = getattr(import_module(_OTHERS[word]), word)
            return found
        return {"describe": describe, "list": list_topics}[word]


def _form_options(function: F) -> F:
    """Add the options for the connection and the output."""
    for option in (
        pretty_option,
        click.option(
            "-J", "--json", "as_json", is_flag=True, help="One JSON object, as of 'kcat -L -J', with more members."
        ),
        click.option("-L", "--long", "as_list", is_flag=True, help="Brokers, topics, partitions as 'kcat -L' prints."),
        click.option(
            "--offsets", "with_offsets", is_flag=True, help="Show first and next offsets, and their difference."
        ),
        connection_options,
    ):
        function = option(function)
    return function


def _list_options(function: F) -> F:
    """Add the options of the topic list."""
    names = click.option("-n", "--names", "names_only", is_flag=True, help="Print only names.")
    return click.option("--no-internal", is_flag=True, help="Omit Kafka's internal topics.")(names(function))


@click.command("list", help="List all topics.")
@_form_options
@_list_options
def list_topics(**given: Any) -> int:
    """List topics."""
    return _show(topics=(), **given)


@click.command("describe", help="Show the partitions of topics.")
@click.argument("topics", nargs=-1, required=True, metavar="TOPIC...")
@_form_options
def describe(topics: tuple[str, ...], **given: Any) -> int:
    """Show the partitions of topics."""
    return _show(topics=topics, names_only=False, no_internal=False, **given)


def _subcommands(ctx: click.Context, _parameter: click.Parameter, incomplete: str) -> list[str]:
    """Return the words with which a shell completes the first argument."""
    words = () if ctx.params["topics"] else (*_OTHERS, "describe", "list")
    return sorted(word for word in words if word.startswith(incomplete))


@click.command("topics", help=_HELP, cls=_Topics)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...", shell_complete=_subcommands)
@click.option("-t", "--topic", "more_topics", multiple=True, metavar="TOPIC", help="A topic; may be repeated.")
@_form_options
@_list_options
def command(topics: tuple[str, ...], more_topics: tuple[str, ...], **given: Any) -> int:
    """List topics, or describe some."""
    return _show(topics=(*topics, *more_topics), **given)


def _show(
    *,
    topics: tuple[str, ...],
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    with_offsets: bool,
    no_internal: bool,
    names_only: bool,
    as_list: bool,
    as_json: bool,
    pretty: bool | None,
) -> int:
    """Fetch metadata, and offsets if requested, and show them."""
    if names_only and (as_list or as_json):
        raise click.UsageError("--names has its own format: it excludes -L and -J")
    if names_only and with_offsets:
        raise click.UsageError("--names excludes --offsets")
    if pretty is not None and not as_json:
        raise click.UsageError("--pretty and --compact need -J")
    asked = tuple(dict.fromkeys(topics))
    if not all(asked):
        raise click.UsageError("a topic name is empty")

    from kafwire import Client
    from kafwire.cli.connection import only
    from kafwire.config import ClientConfig, ConsumerConfig

    options = client_options(ConsumerConfig, brokers, settings, config_file)
    with Client(**only(options, ClientConfig)) as client:
        metadata = client.metadata(asked or None)
        found = [topic for topic in metadata.topics if asked or not (no_internal and topic.is_internal)]
        found.sort(key=lambda topic: topic.name)
        offsets, unavailable = _offsets(client, found, options) if with_offsets else (None, {})
    there = [topic for topic in found if not topic.error_code]
    if as_json:
        JsonWriter(pretty).write(_as_json(metadata, found, asked, offsets))
    elif as_list:
        _print_list(metadata, found, asked, offsets)
    elif names_only:
        for topic in there:
            say(topic.name)
    elif there:
        if asked:
            _print_table(_PARTITION_HEADER, _partition_rows(there, offsets), offsets is not None)
        else:
            _print_table(_TOPIC_HEADER, _topic_rows(there, offsets), offsets is not None)
    for topic in found:
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            say(f"kafwire topics: there is no topic {topic.name!r}", err=True)
        elif topic.error_code:
            say(f"kafwire topics: {_refusal(topic)}", err=True)
    for (name, number), error in unavailable.items():
        say(f"kafwire topics: {name}-{number} is shown without offsets: {error}", err=True)
    return int(len(there) < len(found) or bool(unavailable))


# First and next offset by (topic, partition); absent if no leader responds.
_Offsets = dict[tuple[str, int], tuple[int, int]]


def _offsets(
    client: "Client", topics: Iterable[Any], options: dict[str, Any]
) -> tuple[_Offsets, dict[tuple[str, int], KafkaError]]:
    """Return the offsets, and the errors of partitions whose leader does not return them."""
    from kafwire.types import TopicPartition

    partitions = [
        TopicPartition(topic.name, partition.partition_index)
        for topic in topics
        for partition in topic.partitions
        if partition.leader_id >= 0
    ]
    level = isolation(options)
    unavailable: dict[tuple[str, int], KafkaError] = {}
    low = client.offsets(partitions, "earliest", on_error=unavailable.__setitem__, **level)
    high = client.offsets(low, "latest", on_error=unavailable.__setitem__, **level)
    return {tp: (low[tp], high[tp]) for tp in high}, unavailable


_TOPIC_HEADER = ("TOPIC", "PARTITIONS", "REPLICAS", "ID", "OFFSETS")
_PARTITION_HEADER = ("TOPIC", "PARTITION", "LEADER", "EPOCH", "REPLICAS", "ISR", "FIRST", "NEXT", "OFFSETS")


def _topic_rows(topics: Iterable[Any], offsets: _Offsets | None) -> Iterable[tuple[str, ...]]:
    for topic in topics:
        known = [offsets[key] for key in _keys(topic) if key in offsets] if offsets is not None else []
        yield (
            topic.name,
            str(len(topic.partitions)),
            str(max((len(partition.replica_nodes) for partition in topic.partitions), default=0)),
            _id(topic) or "-",
            str(sum(high - low for low, high in known)),
        )


def _partition_rows(topics: Iterable[Any], offsets: _Offsets | None) -> Iterable[tuple[str, ...]]:
    for topic in topics:
        for partition in topic.partitions:
            low, high = (offsets or {}).get((topic.name, partition.partition_index), (None, None))
            yield (
                topic.name,
                str(partition.partition_index),
                str(partition.leader_id) if partition.leader_id >= 0 else "none",
                str(partition.leader_epoch) if partition.leader_epoch >= 0 else "-",
                ",".join(map(str, partition.replica_nodes)),
                ",".join(map(str, partition.isr_nodes)) or "-",
                *(("-", "-", "-") if low is None or high is None else (str(low), str(high), str(high - low))),
            )


def _id(topic: Any) -> str | None:
    """Return the topic id in Kafka's notation, if the cluster has ids."""
    return b64encode(topic.topic_id.bytes, b"-_").decode().rstrip("=") if topic.topic_id.int else None


def _keys(topic: Any) -> list[tuple[str, int]]:
    return [(topic.name, partition.partition_index) for partition in topic.partitions]


def _print_table(header: Sequence[str], rows: Iterable[tuple[str, ...]], with_offsets: bool) -> None:
    """Print columns as wide as their longest cell, numbers right-aligned; offset columns only with offsets."""
    shown = [column for column, name in enumerate(header) if with_offsets or name not in ("FIRST", "NEXT", "OFFSETS")]
    table = [header, *rows]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    left = {"TOPIC", "ID", "REPLICAS", "ISR"} if "ISR" in header else {"TOPIC", "ID"}
    for row in table:
        cells = [
            row[column].ljust(widths[column]) if header[column] in left else row[column].rjust(widths[column])
            for column in shown
        ]
        say("  ".join(cells).rstrip())


def _print_list(metadata: Any, topics: Sequence[Any], asked: Sequence[str], offsets: _Offsets | None) -> None:
    say(f"Metadata for {', '.join(asked) or 'all topics'} (cluster {metadata.cluster_id}):")
    say(f" {len(metadata.brokers)} brokers:")
    for broker in sorted(metadata.brokers, key=lambda broker: broker.node_id):
        rack = f", rack {broker.rack}" if broker.rack else ""
        controller = " (controller)" if broker.node_id == metadata.controller_id else ""
        say(f"  broker {broker.node_id} at {_address(broker)}{rack}{controller}")
    say(f" {len(topics)} topics:")
    for topic in topics:
        say(f'  topic "{topic.name}" with {len(topic.partitions)} partitions:{_error(topic.error_code, " ")}')
        for partition in topic.partitions:
            known = (offsets or {}).get((topic.name, partition.partition_index))
            say(
                f"    partition {partition.partition_index}, leader {partition.leader_id}, "
                f"replicas: {','.join(map(str, partition.replica_nodes))}, "
                f"isrs: {','.join(map(str, partition.isr_nodes))}"
                + ("" if known is None else f", offsets: {known[0]} to {known[1]}")
                + _error(partition.error_code, ", ")
            )


def _address(broker: Any) -> str:
    return f"[{broker.host}]:{broker.port}" if ":" in broker.host else f"{broker.host}:{broker.port}"


def _refusal(topic: Any) -> KafkaError:
    return broker_error(topic.error_code, f"topic {topic.name!r}", api="Metadata", topic=topic.name)


def _error(code: int, before: str) -> str:
    return f"{before}{broker_error(code, api='Metadata').name}" if code else ""


def _as_json(metadata: Any, topics: Sequence[Any], asked: Sequence[str], offsets: _Offsets | None) -> dict[str, Any]:
    """Return kcat's object, extended by cluster, racks, topic ids, epochs, offline replicas and offsets."""
    return {
        "query": {"topic": ",".join(asked) or "*"},
        "cluster": metadata.cluster_id,
        "controllerid": metadata.controller_id,
        "brokers": [
            {"id": broker.node_id, "name": _address(broker), "rack": broker.rack} for broker in metadata.brokers
        ],
        "topics": [
            {
                "topic": topic.name,
                **_error_member(topic.error_code),
                "id": _id(topic),
                "internal": topic.is_internal,
                "partitions": [
                    {
                        "partition": partition.partition_index,
                        **_error_member(partition.error_code),
                        "leader": partition.leader_id,
                        "epoch": partition.leader_epoch,
                        "replicas": [{"id": node} for node in partition.replica_nodes],
                        "isrs": [{"id": node} for node in partition.isr_nodes],
                        "offline": [{"id": node} for node in partition.offline_replicas],
                        **_offsets_member(offsets, (topic.name, partition.partition_index)),
                    }
                    for partition in topic.partitions
                ],
            }
            for topic in topics
        ],
    }


def _error_member(code: int) -> dict[str, str]:
    return {"error": _error(code, "")} if code else {}


def _offsets_member(offsets: _Offsets | None, key: tuple[str, int]) -> dict[str, int | None]:
    if offsets is None:
        return {}
    first, following = offsets.get(key, (None, None))
    return {"firstOffset": first, "nextOffset": following}
