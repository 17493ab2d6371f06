"""`kafwire produce`: sends lines of standard input or of files to a topic, in kcat's formats."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from kafwire.cli.completion import names_of
from kafwire.cli.connection import client_options, connection_options_for, look_for_leaders
from kafwire.cli.delivery_tracker import DeliveryTracker
from kafwire.cli.lines import STDIN, TooLong, pieces, sizes, standard_input
from kafwire.cli.output import say
from kafwire.cli.progress import Progress, progress_bar, progress_option
from kafwire.cli.record_text import Form, Header, parse_header
from kafwire.cli.signals import orderly_end
from kafwire.cli.template import unescape
from kafwire.config import CODECS
from kafwire.errors import ConfigError, KafkaError, RecordTooLargeError, TransactionStateError

if TYPE_CHECKING:
    from kafwire import Producer

__all__ = ["command"]

# After Ctrl-C, unsent records are retried for this time; a second Ctrl-C ends it.
_INTERRUPTED_S = 5.0
# From this input size on, loading pyarrow takes less time than it saves.
TABLE_BYTES = 64 << 10
# The most that a record takes in addition to its key, value and headers, including the batch's header.
_OVERHEAD = 1024

# "\b" keeps click from re-wrapping the paragraph
_HELP = """Send each line of standard input, or of files with -l, as a record; or each FILE as one.

\b
  kafwire produce -b localhost:9092 -t orders < orders.jsonl
  kafwire produce -t orders -K ': ' -H source=shop -z lz4 -l monday.txt tuesday.txt
  kafwire produce -t pictures -k front *.jpg
  kafwire consume -t a -e -f '%h\\t%k\\t%s\\n' | kafwire produce -t b --headers '\\t' -K '\\t'

Exit code 0: all records were delivered. Standard error names each undelivered record by its line, with the reason.
"""


@click.command("produce", help=_HELP)
@click.argument("files", nargs=-1, metavar="[FILE]...", shell_complete=names_of("file"))
@click.option("-t", "--topic", metavar="TOPIC", help="The topic to send to.")
@connection_options_for("ProducerConfig")
@click.option(
    "-p",
    "--partition",
    type=click.IntRange(min=-1),
    help="Send to this partition.  [default: by the key, else one per batch]",
)
@click.option("-K", "--key-delimiter", metavar="DELIMITER", help="A line is a key, this delimiter, and a value.")
@click.option("-D", "--delimiter", default="\\n", show_default=True, metavar="DELIMITER", help="The end of a record.")
@click.option("-k", "--key", metavar="KEY", help="The key of records without a key.")
@click.option("-H", "--header", "headers", multiple=True, metavar="NAME=VALUE", help="A header of every record.")
@click.option(
    "--headers",
    "headers_delimiter",
    metavar="DELIMITER",
    help="A line begins with headers in the form of %h of consume, followed by this delimiter.",
)
@click.option(
    "--header-separator", default=",", show_default=True, metavar="TEXT", help="The text between these headers."
)
@click.option("-Z", "empty_is_null", is_flag=True, help="Empty keys and values are null.")
@click.option("--null", metavar="TEXT", help="Keys and values equal to this text are null.")
@click.option("--empty", is_flag=True, help="Send empty lines, too.  [default: skip them]")
@click.option(
    "-l", "--lines", "by_line", is_flag=True, help="Send each line of a FILE as a record, not the whole FILE."
)
@click.option("-c", "--count", type=click.IntRange(min=1), help="End after this number of records.")
@click.option("-z", "--compression", type=click.Choice(CODECS), help="Compression of batches.  [default: none]")
@click.option(
    "--acks", type=click.Choice(["0", "1", "all"]), help="Replicas that must have stored a record.  [default: all]"
)
@click.option(
    "--on-error",
    type=click.Choice(["stop", "continue"]),
    default="stop",
    show_default=True,
    help="What to do after a record that cannot be delivered.",
)
@click.option("-E", "goes_on", is_flag=True, help="The same as --on-error continue.")
@progress_option
def command(
    files: tuple[str, ...],
    topic: str | None,
    brokers: str | None,
    settings: tuple[str, ...],
    config_file: Path | None,
    partition: int | None,
    key_delimiter: str | None,
    delimiter: str,
    key: str | None,
    headers: tuple[str, ...],
    headers_delimiter: str | None,
    header_separator: str,
    empty_is_null: bool,
    null: str | None,
    empty: bool,
    by_line: bool,
    count: int | None,
    compression: str | None,
    acks: str | None,
    on_error: str,
    goes_on: bool,
    progress: bool | None,
) -> int:
    """Read the input, send it, and report the outcome."""
    if not topic:
        raise click.UsageError("no topic is given: set -t TOPIC")
    if empty_is_null and null is not None:
        raise click.UsageError("give either -Z or --null")
    if by_line and not files:
        raise click.UsageError("-l is for files; standard input is read by lines anyway")
    if files and not by_line:
        for name, given in (("-K", key_delimiter), ("--headers", headers_delimiter), ("--count", count)):
            if given is not None:
                raise click.UsageError(f"{name} needs -l: without it each FILE is one record")
    form = Form(
        key_delimiter=_delimiter("-K", key_delimiter),
        headers_delimiter=_delimiter("--headers", headers_delimiter),
        header_separator=_delimiter("--header-separator", header_separator) or b",",
        key=None if key is None else key.encode(errors="surrogateescape"),
        headers=[parse_header(text) for text in headers],
        null=b"" if empty_is_null else None if null is None else null.encode(errors="surrogateescape"),
    )
    if not empty and form.null == b"" and form.key_delimiter is None and form.headers_delimiter is None:
        form = replace(form, null=None)  # no line is empty, so none needs parsing
    ends = _delimiter("-D", delimiter) or b"\n"

    from kafwire import Producer
    from kafwire.config import ProducerConfig

    options = client_options(ProducerConfig, brokers, settings, config_file)
    if compression is not None:
        options["compression_type"] = compression
    if acks is not None:
        options["acks"] = acks
    try:
        config = ProducerConfig.build(options)
    except ConfigError as error:
        raise click.UsageError(str(error)) from None
    total = sizes(files) if files else None
    if progress and total is None:
        raise click.UsageError("--progress needs files of known sizes")
    look_for_leaders(options, topic)
    producer = Producer(**options)
    transactional = config.transactional_id is not None
    sending = Sending(
        producer,
        topic,
        None if partition == -1 else partition,
        form,
        limit=config.max_request_size,
        empty=empty,
        count=count,
        stops=on_error == "stop" and not goes_on,
    )
    bar = progress_bar(False if total is None else progress, topic, total or 0, of_input=True)
    ended: BaseException | None = None
    with orderly_end():
        try:
            try:
                with bar as tell:
                    if transactional:
                        producer.begin_transaction()
                    if files and not by_line:
                        sending.send_files(files, tell)
                    else:
                        sending.send_lines(files or (STDIN,), ends, tell)
                    producer.flush()
                    if transactional:
                        sending.end_transaction()
            except (KeyboardInterrupt, SystemExit) as error:
                ended = error
            with suppress(KafkaError):  # every record reports it, too
                if transactional and ended is not None:
                    sending.close_transaction()
                producer.close(None if ended is None else _INTERRUPTED_S)
        finally:
            left = _report(sending, interrupted=ended is not None)
    if ended is not None:
        raise ended
    return int(left)


def _report(sending: "Sending", *, interrupted: bool) -> bool:
    """Report undelivered records; return True if there are any."""
    delivery_tracker = sending.delivery_tracker
    delivery_tracker.settle()
    left = delivery_tracker.failed + delivery_tracker.open
    for line in [*delivery_tracker.tell(sending.where), *sending.troubles]:
        say(f"kafwire produce: {' '.join(line.split())}", err=True)
    if left or sending.troubles or interrupted:
        say(f"kafwire produce: {delivery_tracker.delivered} record(s) delivered, {left} not", err=True)
    return bool(left or sending.troubles)


def _delimiter(option: str, text: str | None) -> bytes | None:
    if text is None:
        return None
    if not text:
        raise click.UsageError(f"{option} is empty")
    return unescape(text)


class _Stopped(Exception):
    """The count is reached, or an error stops the command."""


class Sending:
    """Sends the records of lines and files to a producer, numbered from 1 over all files."""

    def __init__(
        self,
        producer: "Producer",
        topic: str,
        partition: int | None,
        form: Form,
        *,
        limit: int,
        empty: bool,
        count: int | None,
        stops: bool,
    ) -> None:
        self._producer = producer
        self._topic = topic
        self._partition = partition
        self._form = form
        self._limit = limit
        self._sends_empty = empty
        self._left = count
        self._stops = stops
        self._by_table = form.is_plain and find_spec("pyarrow") is not None
        self._begins: list[tuple[int, str]] = []  # the first record number of each file
        self._by_line = True
        self._number = 0  # the number of the record being sent
        self.delivery_tracker = DeliveryTracker()
        self.troubles: list[str] = []
        self._commits = self._has_asked = self._has_ended = False  # the transaction

    def where(self, number: int) -> str:
        """Return the source of a record, for messages."""
        begin, name = max((each for each in self._begins if each[0] <= number), default=(1, STDIN))
        if not self._by_line:
            return name
        line = f"line {number - begin + 1}"
        return line if name == STDIN else f"{name}, {line}"

    def send_files(self, names: Sequence[str], tell: Progress) -> None:
        """Send each file as a record, until an error or the count stops it."""
        self._by_line = False
        done = 0
        with self._until_stopped():
            for self._number, name in enumerate(names, 1):
                self._begins.append((self._number, name))
                with self._reading(name), _opened(name) as file:
                    data = file.read(self._limit + 1)  # larger files are refused anyway
                    if data or self._sends_empty:
                        value = None if data == self._form.null else data
                        self._send(self._number, value, self._form.key, self._form.headers)
                    done += len(data)
                tell(done)
                self._look()

    def send_lines(self, names: Sequence[str], delimiter: bytes, tell: Progress) -> None:
        """Send each line of each file as a record, until an error or the count stops it."""
        base = done = 0
        with self._until_stopped():
            for name in names:
                self._begins.append((base + 1, name))
                last, size = base, 0
                with self._reading(name), _opened(name) as file:
                    for piece in pieces(file, delimiter, self._limit):
                        if isinstance(piece, TooLong):
                            last = base + piece.number
                            self._refuse(last, _too_long(self._limit))
                        elif piece is not None:
                            last = base + piece.number + piece.data.count(delimiter)
                            self._send_piece(base + piece.number, piece.data, delimiter)
                            size = piece.end
                            tell(done + size)
                        self._look()
                base = last
                done += size

    def _send_piece(self, number: int, data: bytes, delimiter: bytes) -> None:
        if self._by_table and len(data) >= TABLE_BYTES and self._send_table(number, data, delimiter):
            return
        parse = None if self._form.is_plain else self._form.parse
        key, headers = self._form.key, self._form.headers
        for self._number, line in enumerate(data.split(delimiter), number):
            if line or self._sends_empty:
                value: bytes | None = line
                if parse is not None:
                    value, key, headers = parse(line)
                self._send(self._number, value, key, headers)

    def _send(self, number: int, value: bytes | None, key: bytes | None, headers: Sequence[Header]) -> None:
        self._take(1)
        try:
            delivery = self._producer.send(self._topic, value, key=key, headers=headers, partition=self._partition)
        except RecordTooLargeError as error:
            self._refuse(number, error)
            return
        except KafkaError:
            self.delivery_tracker.lose(1)
            raise
        self.delivery_tracker.note(delivery.batch, number)

    def _send_table(self, number: int, data: bytes, delimiter: bytes) -> bool:
        """Send lines without parsing them in Python, as one table.

        False if one may be too long, so they must be parsed.
        """
        from kafwire.calls.producer import RowsToSend
        from kafwire.cli.table import longest, table_of

        table, numbers = table_of(data, delimiter, self._form, with_empty=self._sends_empty, most=self._left)
        if longest(table) + self._form.size + _OVERHEAD > self._limit:
            return False
        self._number = number
        self._take(len(table))
        to_send = RowsToSend(self._producer._accumulator, self._topic, (table,), self._partition)
        try:
            self._producer._send_rows(self._topic, to_send)
        finally:
            row = 0
            for batch, _, rows in to_send.parts:
                if numbers is None:
                    self.delivery_tracker.note(batch, number + row, rows)
                else:
                    for line in numbers(row, rows):
                        self.delivery_tracker.note(batch, number + line)
                row += rows
            self.delivery_tracker.lose(len(table) - row)
        return True

    def end_transaction(self) -> None:
        """Commit the transaction of all records, or abort it if one failed."""
        self.delivery_tracker.settle()
        self._commits = not self.delivery_tracker.failed and not self.troubles
        self.close_transaction(None)

    def close_transaction(self, timeout: float | None = _INTERRUPTED_S) -> None:
        """Abort the transaction, or wait for its commit if an interrupt ended `end_transaction`."""
        if self._has_ended:
            return
        try:
            if self._commits:
                self._commit(timeout)
            else:
                self._producer.abort_transaction(_INTERRUPTED_S)
                self._take_back("the transaction is aborted, and its records are not delivered")
        except KafkaError as error:
            self._take_back(f"{'committing' if self._commits else 'aborting'} the transaction failed: {error}")
        self._has_ended = True

    def _commit(self, timeout: float | None) -> None:
        had_asked, self._has_asked = self._has_asked, True
        try:
            self._producer.commit_transaction(timeout)
        except TransactionStateError:  # a commit that failed has another error
            if not had_asked:
                raise  # else the call that an interrupt ended has committed

    def _take_back(self, trouble: str) -> None:
        self.troubles.append(trouble)
        self.delivery_tracker.take_back()

    # --- outcomes

    @contextmanager
    def _until_stopped(self) -> Iterator[None]:
        """Keep an error that ends the input (not an interrupt) for the final report."""
        try:
            yield
        except _Stopped:
            pass
        except KafkaError as error:
            self.troubles.append(f"{self.where(self._number)}: {error}")

    @contextmanager
    def _reading(self, name: str) -> Iterator[None]:
        """Keep the error of an unreadable file for the final report."""
        try:
            yield
        except OSError as error:
            self.troubles.append(f"{name}: {error.strerror or error}")
            if self._stops:
                raise _Stopped from None

    def _take(self, count: int) -> None:
        """Count records that are about to be sent; stop if the limit is reached."""
        if self._left is not None:
            if self._left == 0:
                raise _Stopped
            self._left -= count

    def _refuse(self, number: int, error: KafkaError) -> None:
        self.delivery_tracker.refuse(number, error)
        if self._stops:
            raise _Stopped

    def _look(self) -> None:
        self.delivery_tracker.settle()
        if (self.delivery_tracker.failed and self._stops) or self._left == 0:
            raise _Stopped


@contextmanager
def _opened(name: str) -> Iterator[BinaryIO]:
    if name == STDIN:
        yield standard_input()
    else:
        with Path(name).open("rb") as file:
            yield file


def _too_long(limit: int) -> KafkaError:
    return RecordTooLargeError(
        f"longer than max_request_size ({limit}): raise it (-X max.request.size=...), and max.message.bytes of the "
        "topic; or is the delimiter wrong?"
    )
