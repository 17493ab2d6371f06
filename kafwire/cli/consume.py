"""`kafwire consume`: prints records of topics on standard output, in kcat's formats."""

import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

import click

from kafwire.cli.connection import client_options, connection_options, only
from kafwire.cli.progress import Progress, progress_bar, progress_option
from kafwire.cli.signals import orderly_end
from kafwire.cli.template import BYTES_FORMS, Part, json_parts, parse_format, plain_parts
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Batch, Client
    from kafwire.cli.consume_source import Reading, Wanted
    from kafwire.cli.internal_records import TopicRenderer
    from kafwire.cli.sink import Sink
    from kafwire.records._text import Renderer

__all__ = ["command"]

# "\b" keeps click from re-wrapping the paragraph
_HELP = """Print the records of topics, from their beginning, and continue with new ones.

\b
  kafwire consume -b localhost:9092 orders
  kafwire consume orders -e -o -10 -K ': '
  kafwire consume orders -e --key alice
  kafwire consume orders -p 0 -o s@2026-01-31T12:00:00Z -o e@2026-02-01T00:00:00Z -J
  kafwire consume orders -o end -f '%t [%p] at offset %o: key %k: %s\\n'
  kafwire consume orders payments -G billing
  kafwire consume -G billing --pattern 'orders-.*'

\b
Format:
  %s  value        %S  its size, -1 for null       %R  the same as four bytes, big-endian
  %k  key          %K  its size, -1 for null       %h  headers: name=value,name=value
  %t  topic        %p  partition     %o  offset    %T  timestamp in milliseconds, -1 for none
  %%  a percent sign     \\n \\r \\t \\xHH \\NNN  as in C, \\NNN in decimal unless it begins with 0

Offset: beginning, end, stored (with --group), a number, -N for the last N of each partition, s@TIME and e@TIME for
records from and before a time (milliseconds since the epoch, or 2026-01-31T12:00:00Z). With e@ the command ends.
Records of Kafka's internal topics, such as __consumer_offsets, are printed decoded, as JSON.
With --group, OFFSET applies to partitions without a committed offset of the group.
"""


@click.command("consume", help=_HELP)
@click.argument("topics", nargs=-1, metavar="[TOPIC]...")
@click.option("-t", "--topic", "more_topics", multiple=True, metavar="TOPIC", help="A topic; may be repeated.")
@connection_options
@click.option(
    "-p",
    "--partition",
    "partitions",
    multiple=True,
    type=click.IntRange(min=0),
    help="Only this partition; may be repeated.  [default: all]",
)
@click.option("-o", "--offset", "offsets", multiple=True, metavar="OFFSET", help="Where to start, and where to end.")
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after this number of records.")
@click.option("-e", "--exit", "exits", is_flag=True, help="End at the partitions' current end offsets.")
@click.option("--key", "keys", multiple=True, metavar="TEXT", help="Only records with this key; may be repeated.")
@click.option("-f", "--format", "template", metavar="FORMAT", help="How to print a record; instead of -K, -D and -O.")
@click.option("-K", "key_delimiter", metavar="DELIMITER", help="Print the key and this delimiter before the value.")
@click.option(
    "-D", "delimiter", default="\\n", show_default=True, metavar="DELIMITER", help="Printed after each record."
)
@click.option(
    "-O", "with_offset", is_flag=True, help="Also print the offset, followed by the delimiter of -K or a tab."
)
@click.option("-J", "--json", "as_json", is_flag=True, help="Print a JSON object per record.")
@click.option(
    "--bytes",
    "form",
    type=click.Choice(BYTES_FORMS),
    default="auto",
    show_default=True,
    help='Form of keys, values and headers; auto: unchanged, in JSON as text or {"base64": ...}, on a terminal as '
    "text, with \\xHH for bytes that are not UTF-8.",
)
@click.option("-Z", "named_null", is_flag=True, help="Print null as NULL.  [default: nothing]")
@click.option("--null", "null", metavar="TEXT", help="Print null as this text.")
@click.option("-u", "--unbuffered", is_flag=True, help="Write each record separately.")
@click.option("-G", "--group", metavar="GROUP", help="Read as a member of this group, and commit printed records.")
@click.option("--pattern", metavar="REGEX", help="With --group: all topics whose full names match, instead of TOPIC.")
@progress_option
def command(
    topics: tuple[str, ...],
    more_topics: tuple[str, ...],
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    partitions: tuple[int, ...],
    offsets: tuple[str, ...],
    count: int | None,
    exits: bool,
    keys: tuple[str, ...],
    template: str | None,
    key_delimiter: str | None,
    delimiter: str,
    with_offset: bool,
    as_json: bool,
    form: str,
    named_null: bool,
    null: str | None,
    unbuffered: bool,
    group: str | None,
    pattern: str | None,
    progress: bool | None,
) -> None:
    """Read and print records."""
    names = tuple(dict.fromkeys((*topics, *more_topics)))
    if pattern is not None and names:
        raise click.UsageError("give either topics or --pattern")
    if pattern is None and (not all(names) or not names):
        raise click.UsageError("no topic is given")
    if (regex := next((name[1:] for name in names if name.startswith("^")), None)) is not None:
        raise click.UsageError(
            f"'^{regex}' is a pattern: write --group GROUP --pattern '{regex}'; whole names match it"
        )
    if as_json and (template is not None or key_delimiter is not None or with_offset):
        raise click.UsageError("-J has its own format: it excludes -f, -K and -O")
    if template is not None and (key_delimiter is not None or with_offset):
        raise click.UsageError("give either -f, or -K and -O")
    if named_null and null is not None:
        raise click.UsageError("give either -Z or --null")
    shown = "text" if form == "auto" and not as_json and sys.stdout.isatty() else form
    parts = _parts(template, delimiter, key_delimiter, shown, with_offset=with_offset, as_json=as_json)
    null = "NULL" if named_null else null or ""

    from kafwire.cli.consume_source import STORED, Wanted, parse_window, warn_of_seconds

    window = parse_window(offsets)
    warn_of_seconds("consume", offsets)
    ends = exits or window.end_ms is not None
    if progress and not ends:
        raise click.UsageError("--progress needs a read that ends: add -e")

    from kafwire import Client
    from kafwire.cli.sink import Sink
    from kafwire.config import ClientConfig, ConsumerConfig

    options = client_options(ConsumerConfig, brokers, settings, config_file)
    given = options.pop("group_id", None)
    group = given if group is None else group
    if group == "":
        raise click.UsageError("--group: the group has no name")
    if group is None and (window.start == STORED or pattern is not None):
        raise click.UsageError(f"{'-o stored' if pattern is None else '--pattern'} needs --group")
    if group is not None and partitions:
        raise click.UsageError("with --group, the group assigns the partitions: -p cannot be used")
    may_be_internal = form == "auto" and (pattern is not None or any(name.startswith("__") for name in names))
    renderer = _renderer(parts, null.encode(errors="surrogateescape"), may_be_internal=may_be_internal)
    columns = tuple(sorted({*renderer.columns, *(["key"] if keys else []), *(["offset"] if group is not None else [])}))
    wanted = Wanted(names, frozenset(partitions), window, columns, group, pattern)
    with (
        orderly_end(),
        Client(**only(options, ClientConfig)) as client,
        closing(_open(client, wanted, options, ends=ends)) as reading,
        progress_bar(progress if ends else False, pattern or ", ".join(names), reading.total or 0) as tell,
    ):
        chosen = [key.encode(errors="surrogateescape") for key in keys]
        printing = Printing(renderer, Sink(), count, chosen, Written.of(reading), unbuffered=unbuffered)
        printing.run(reading, tell)


def _open(client: "Client", wanted: "Wanted", options: dict[str, Any], *, ends: bool) -> "Reading":
    if wanted.group is None:
        from kafwire.cli.consume_source import open_reading

        return open_reading(client, wanted, options, ends=ends)
    from kafwire.cli.consume_group import open_group

    return open_group(client, wanted, options, ends=ends)


def _renderer(parts: Sequence[Part], null: bytes, *, may_be_internal: bool) -> "Renderer | TopicRenderer":
    if may_be_internal:
        from kafwire.cli.internal_records import TopicRenderer

        return TopicRenderer(parts, null)
    from kafwire.records._text import Renderer

    return Renderer(parts, null=null)


def _parts(
    template: str | None, delimiter: str, key_delimiter: str | None, form: str, *, with_offset: bool, as_json: bool
) -> list[Part]:
    if as_json:
        return json_parts(delimiter, form)
    if template is not None:
        return parse_format(template, form)
    return plain_parts(delimiter, key_delimiter, form, with_offset=with_offset)


class Printing:
    """Prints at most `count` records of a reading; with `keys`, only records with one of these keys."""

    def __init__(
        self,
        renderer: "Renderer | TopicRenderer",
        sink: "Sink",
        count: int | None,
        keys: Sequence[bytes],
        written: "Written | None",
        *,
        unbuffered: bool,
    ) -> None:
        self._renderer = renderer
        self._sink = sink
        self._left = count
        self._keys = keys
        self._written = written
        self._unbuffered = unbuffered

    def run(self, reading: "Reading", tell: Progress) -> None:
        """Print until the reading ends or `count` records are written."""
        try:
            for piece in reading:
                if self._written is not None:
                    self._written.processed()
                if piece is None:
                    self._sink.check()
                    continue
                self._write(*piece)
                tell(reading.done)
                if self._left == 0:
                    break
            tell(reading.done)
        finally:
            if self._written is not None:
                self._written.commit()

    def _write(self, batch: "Batch", rows: int) -> None:
        """Print the selected records in the first rows of a batch; skipped records count as written, too."""
        for first, end in self._runs(batch, rows):
            ends = range(first + 1, end + 1) if self._unbuffered else (end,)
            for begin, stop in zip((first, *ends), ends, strict=False):
                note = None if self._written is None else partial(self._written.note, batch, stop)
                self._sink.write(self._renderer.render(batch, begin, stop), note)
        if self._keys:
            if self._written is not None and self._left != 0:
                self._written.note(batch, rows)
            self._sink.check()

    def _runs(self, batch: "Batch", rows: int) -> Iterator[tuple[int, int]]:
        from kafwire.records._text import key_runs

        for first, last in key_runs(batch, self._keys, 0, rows) if self._keys else [(0, rows)]:
            end = last if self._left is None else min(last, first + self._left)
            if self._left is not None:
                self._left -= end - first
            if first < end:
                yield first, end
            if self._left == 0:
                return


class Written:
    """The written part of the current batch.

    The consumer itself commits all earlier batches, as processed.
    """

    def __init__(self, commit: Callable[[TopicPartition, int], None]) -> None:
        self._commit = commit
        self._last: tuple[TopicPartition, int] | None = None

    @classmethod
    def of(cls, reading: "Reading") -> Self | None:
        """Return an instance for a group's reading; None without a group."""
        from kafwire.cli.consume_group import GroupReading

        return cls(reading.commit) if isinstance(reading, GroupReading) else None

    def note(self, batch: "Batch", rows: int) -> None:
        """Note that the first `rows` records of a batch are written."""
        position = batch.next_offset if rows == len(batch) else batch[rows - 1].offset + 1 if rows else None
        if position is not None and batch.topic is not None and batch.partition is not None:
            self._last = TopicPartition(batch.topic, batch.partition), position

    def processed(self) -> None:
        """Forget the batch: the consumer counts it as processed."""
        self._last = None

    def commit(self) -> None:
        """Commit the written part of the current batch."""
        if self._last is not None:
            self._commit(*self._last)
            self._last = None
