"""`kafwire copy`: a topic to Parquet files, each record once."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from kafwire.cli.completion import names_of
from kafwire.cli.connection import client_options, connection_options_for, only
from kafwire.cli.output import say
from kafwire.cli.signals import orderly_end

if TYPE_CHECKING:
    from kafwire.schemas.format import Format

__all__ = ["command"]

# "\b" keeps click from re-wrapping the paragraph
_HELP = """Copy a topic to Parquet files, up to its current end.

\b
  kafwire copy orders lake -b localhost:9092
  kafwire copy orders lake --rows 5000000
  kafwire copy orders lake --key text --value json

The records of partition 0 go to lake/orders/0. The name of a file is its range of offsets, and it gets this name when
it is whole. The next run continues behind the last file: each record is copied once, whenever a run is killed. One
process at a time copies a topic to a folder. Records of open and aborted transactions are not copied, unless
'-X isolation.level=read_uncommitted' is given. This needs the package pyarrow.

With --key and --value the columns of keys and values have text instead of bytes.

Exit code 1: another process copies to the folder, or records are missing in the topic.
"""
# JSON documents are text in a column: a schema of their own needs a program.
_FORMATS = ("binary", "text", "json")


@click.command("copy", help=_HELP)
@click.argument("topic")
@click.argument("folder", shell_complete=names_of("dir"))
@connection_options_for("ScanConfig")
@click.option(
    "--rows", type=click.IntRange(min=1), default=1_000_000, show_default=True, help="Records of a file, at least."
)
@click.option("--key", type=click.Choice(_FORMATS), default="binary", show_default=True, help="Format of keys.")
@click.option("--value", type=click.Choice(_FORMATS), default="binary", show_default=True, help="Format of values.")
@click.option("--skip-lost", is_flag=True, help="Continue if records were deleted before they were copied.")
def command(
    topic: str,
    folder: str,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    rows: int,
    key: str,
    value: str,
    skip_lost: bool,
) -> None:
    """Copy, and name each file when it is whole."""
    from kafwire import Client
    from kafwire.config import ClientConfig, ScanConfig

    try:
        from kafwire.lake.parquet_copy import ParquetCopy
    except ImportError as error:
        raise click.ClickException(f"copy needs the package pyarrow: pip install 'kafwire[arrow]' ({error})") from None

    options = client_options(ScanConfig, brokers, settings, config_file)
    connection = only(options, ClientConfig)
    reading: dict[str, Any] = {"isolation_level": "read_committed"}
    reading |= {name: value for name, value in only(options, ScanConfig).items() if name not in connection}
    reading |= {part: _format(name) for part, name in (("key", key), ("value", value)) if name != "binary"}
    with orderly_end(), Client(**connection) as client:
        # Words of the command line are UTF-8 in any locale, names of files are in the locale's encoding.
        target = Path(os.fsdecode(folder.encode("utf-8", "surrogateescape")))
        for written in ParquetCopy(client, topic, target, rows, skip_lost, reading).run():
            say(f"{Path(folder, written.path.relative_to(target))}: {written.rows} records")


def _format(name: str) -> Format:
    from kafwire import Json, Text

    return Text() if name == "text" else Json()
