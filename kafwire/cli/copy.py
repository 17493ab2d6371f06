"""`kafwire copy`: a topic to Parquet files, an Iceberg table or another topic, each record once."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from kafwire.cli.completion import names_of
from kafwire.cli.connection import client_options, connection_options_for, only
from kafwire.cli.output import say
from kafwire.cli.signals import orderly_end

if TYPE_CHECKING:
    from kafwire import Client
    from kafwire.schemas.format import Format

__all__ = ["command"]

# "\b" keeps click from re-wrapping the paragraph
_HELP = """Copy a topic to Parquet files, to an Iceberg table or to another topic, up to its current end.

\b
  kafwire copy orders --to lake -b localhost:9092
  kafwire copy orders --to lake --rows 5000000 --key text --value json
  kafwire copy orders --to iceberg:main/sales.orders
  kafwire copy orders --to topic:orders-2

The next run continues behind the last one: each record is copied once, whenever a run is killed. Records of open and
aborted transactions are not copied, unless '-X isolation.level=read_uncommitted' is given. With --key and --value the
columns of keys and values have text instead of bytes.

To a folder: the records of partition 0 go to lake/orders/0. The name of a file is its range of offsets, and it gets
this name when it is whole. One process at a time copies a topic to a folder. This needs the package pyarrow.

To iceberg:CATALOG/NAMESPACE.TABLE: each commit adds a snapshot with the records, and with the offsets behind them in
its summary. The catalog is one of pyiceberg's configuration; a missing table is created. A second process that copies
under the same --name is refused at its commit. This needs the package pyiceberg.

To topic:NAME: each transaction has the records, and in the compacted topic kafwire-copies the offsets behind them.
Keys, values, headers and timestamps are kept, and the partitions too if both topics have the same number. The topic
must exist, in the same cluster. A second process that copies under the same --name ends the first.

Exit code 1: another process copies under the same name, records are missing in the topic, or a catalog fails.
"""
# JSON documents are text in a column: a schema of their own needs a program.
_FORMATS = ("binary", "text", "json")
_ICEBERG = "iceberg:"
_TOPIC = "topic:"


def _offsets(_context: click.Context, _parameter: click.Parameter, text: str | None) -> dict[int, int]:
    """Read PARTITION=OFFSET,..."""
    found: dict[int, int] = {}
    for part in text.split(",") if text else ():
        partition, separator, offset = part.partition("=")
        if not (separator and partition.isdecimal() and offset.isdecimal()):
            raise click.BadParameter(f"{part!r} is not PARTITION=OFFSET, such as 0=1500")
        found[int(partition)] = int(offset)
    return found


@click.command("copy", help=_HELP)
@click.argument("topic")
@click.option(
    "--to", "target", metavar="TARGET", required=True, shell_complete=names_of("dir"), help="Folder, table or topic."
)
@connection_options_for("ScanConfig")
@click.option(
    "--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Records of a step, at least."
)
@click.option("--key", type=click.Choice(_FORMATS), default="binary", show_default=True, help="Format of keys.")
@click.option("--value", type=click.Choice(_FORMATS), default="binary", show_default=True, help="Format of values.")
@click.option("--skip-lost", is_flag=True, help="Continue if records were deleted before they were copied.")
@click.option("--name", help="Name of the copy to a table or topic.  [default: the topic, or both topics]")
@click.option(
    "--offsets",
    metavar="PARTITION=OFFSET,...",
    callback=_offsets,
    help="Where a copy to an Iceberg table begins that has no snapshots with offsets.",
)
def command(
    topic: str,
    target: str,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    rows: int,
    key: str,
    value: str,
    skip_lost: bool,
    name: str | None,
    offsets: dict[int, int],
) -> None:
    """Copy, and name each file or snapshot when it is whole."""
    from kafwire import Client
    from kafwire.config import ClientConfig, ScanConfig

    to_topic = target.removeprefix(_TOPIC) if target.startswith(_TOPIC) else None
    if offsets and not target.startswith(_ICEBERG):
        raise click.UsageError("--offsets is for Iceberg tables")
    if name and to_topic is None and not target.startswith(_ICEBERG):
        raise click.UsageError("--name is for tables and topics: in a folder, names of files have the offsets")
    if to_topic is not None and (key, value) != ("binary", "binary"):
        raise click.UsageError("--key and --value are for folders and tables: a copy in a topic has the same bytes")
    if to_topic == topic:
        raise click.UsageError(f"the topic {topic!r} cannot be copied to itself")
    options = client_options(ScanConfig, brokers, settings, config_file)
    connection = only(options, ClientConfig)
    reading: dict[str, Any] = {"isolation_level": "read_committed"}
    reading |= {name: value for name, value in only(options, ScanConfig).items() if name not in connection}
    reading |= {part: _format(name) for part, name in (("key", key), ("value", value)) if name != "binary"}
    with orderly_end(), Client(**connection) as client:
        source = _Source(client, topic, rows, skip_lost, reading)
        if target.startswith(_ICEBERG):
            steps = _to_iceberg(source, target, name or topic, offsets)
        elif to_topic is not None:
            steps = _to_topic(source, to_topic, name or f"{topic}-{to_topic}", connection)
        else:
            steps = _to_folder(source, target)
        for step in steps:
            say(step)


class _Source(NamedTuple):
    """The records to copy, and the options of each copy."""

    client: Client
    topic: str
    rows: int
    skip_lost: bool
    reading: dict[str, Any]


def _to_folder(source: _Source, folder: str) -> Iterator[str]:
    with _installed("pyarrow", "arrow"):
        from kafwire.lake.parquet_copy import ParquetCopy

    # Words of the command line are UTF-8 in any locale, names of files are in the locale's encoding.
    target = Path(os.fsdecode(folder.encode("utf-8", "surrogateescape")))
    client, topic, rows, skip_lost, reading = source
    for written in ParquetCopy(client, topic, target, rows, skip_lost, reading).run():
        yield f"{Path(folder, written.path.relative_to(target))}: {written.rows} records"


def _to_topic(source: _Source, target: str, name: str, connection: dict[str, Any]) -> Iterator[str]:
    with _installed("pyarrow", "arrow"):
        from kafwire.lake.topic_copy import TopicCopy

    client, topic, rows, skip_lost, reading = source
    for copied in TopicCopy(client, topic, target, name, rows, skip_lost, reading, connection).run():
        yield f"{_TOPIC}{target}: {copied} records"


def _to_iceberg(source: _Source, target: str, name: str, offsets: dict[int, int]) -> Iterator[str]:
    with _installed("pyiceberg", "iceberg"):
        import pyarrow as pa

        from kafwire.lake.iceberg_copy import IcebergCopy
        from kafwire.lake.iceberg_tables import opened

    catalog, separator, table = target.removeprefix(_ICEBERG).partition("/")
    if not (catalog and separator and "." in table):
        raise click.UsageError(f"{target!r} is not iceberg:CATALOG/NAMESPACE.TABLE")
    client, topic, rows, skip_lost, reading = source
    with client.scan(topic, end="earliest", **reading) as scan:
        found = opened(catalog, table, pa.schema(scan))
    for committed in IcebergCopy(client, topic, found, name, rows, skip_lost, offsets, reading).run():
        yield f"{target}: {committed.rows} records, snapshot {committed.snapshot_id}"


@contextmanager
def _installed(package: str, extra: str) -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise click.ClickException(
            f"copy needs the package {package}: pip install 'kafwire[{extra}]' ({error})"
        ) from None


def _format(name: str) -> Format:
    from kafwire import Json, Text

    return Text() if name == "text" else Json()
