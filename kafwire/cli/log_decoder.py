"""The output of `kafwire decode` for a partition's files: segments, their indexes, producer snapshots."""

from collections.abc import Callable, Iterator
from pathlib import Path, PurePath
from typing import Any

from kafwire.cli.findings import Findings
from kafwire.cli.source import opened
from kafwire.errors import ProtocolError
from kafwire.protocol.batch_json import batch_json, records_json
from kafwire.protocol.coordinator_json import CoordinatorTopic, coordinator_topic, key_json, value_json
from kafwire.protocol.kafka_json import to_json
from kafwire.protocol.lazy_json import BytesForm, Elements
from kafwire.protocol.log import LogBatch, LogReader
from kafwire.protocol.log_index import OFFSET_INDEX, TIME_INDEX, IndexFormat, base_offset, index_entries
from kafwire.protocol.producer_snapshot import ProducerSnapshot, producer_snapshot
from kafwire.protocol.transaction_index import ENTRY_BYTES, aborted_transactions

__all__ = ["LogDecoder", "at_byte", "is_log_file"]

_CHUNK = 1 << 16
# The last suffix of files that a broker will delete or swap in.
_PASSING = {".deleted", ".cleaned", ".swap"}
_SUFFIXES = {".log", ".checkpoint", ".txnindex", ".index", ".timeindex", ".snapshot"}
_PRODUCER_AT = 10  # the snapshot's entries follow version, checksum and count
_PRODUCER_BYTES = 42


def is_log_file(name: str) -> bool:
    """Return True for the names of a partition's files."""
    return _suffix(name) in _SUFFIXES


def _suffix(name: str) -> str:
    path = PurePath(name)
    return PurePath(path.stem).suffix if path.suffix in _PASSING else path.suffix


class LogDecoder:
    """Prints the values of one file, or the JSON of batches inside messages."""

    def __init__(self, findings: Findings, *, records: bool, bytes_form: BytesForm) -> None:
        self._findings = findings
        self._records = records
        self._bytes_form = bytes_form
        self._topic: CoordinatorTopic | None = None

    def file(self, name: str, topic: str | None = None) -> None:
        """Decode a file by its suffix, by default as a segment. `topic` overrides the one in the folder's name."""
        folder, _, number = Path(name).absolute().parent.name.rpartition("-")
        self._topic = coordinator_topic(topic or (folder if number.isdecimal() else ""))
        others: dict[str, Callable[[str], None]] = {
            ".txnindex": self._transaction_index,
            ".index": lambda name: self._index(name, OFFSET_INDEX),
            ".timeindex": lambda name: self._index(name, TIME_INDEX),
            ".snapshot": self._producers,
        }
        try:
            others.get(_suffix(name), self._segment)(name)
        except ProtocolError as error:
            self._findings.problem(f"{name}: {at_byte(error)}")

    def batch(self, entry: LogBatch) -> dict[str, Any]:
        """Return a batch as JSON."""
        head = batch_json(entry)
        if self._records or entry.batch.is_control:
            head["records"] = Elements(self._records_of(entry))
        return head

    def _segment(self, name: str) -> None:
        log = LogReader()
        with opened(name) as file:
            while data := file.read1(_CHUNK):
                log.feed(data)
                for entry in log.batches():
                    self._log_batch(entry)
                self._findings.flush()
        self._check_whole(name, log.leftover, log.position, "batch")

    def _log_batch(self, entry: LogBatch) -> None:
        if not self._records:
            self._findings.write({"type": "batch", **self.batch(entry)})
            return
        for record in self._records_of(entry):
            self._findings.write({"type": "record", **record})

    def _records_of(self, entry: LogBatch) -> Iterator[dict[str, Any]]:
        """Yield the records. The batch is already decoded: a record raises only if it takes too much memory."""
        try:
            found = records_json(entry, self._bytes_form)
            topic = None if self._bytes_form != "auto" or entry.batch.is_control else self._topic
            if topic is None:
                yield from found
                return
            for record, shown in zip(entry.batch, found, strict=True):
                key, value = key_json(topic, record.key), value_json(topic, record.key, record.value)
                yield shown | {"key": key, "value": value}
        except ProtocolError as error:
            self._findings.problem(f"the batch at byte {entry.position}: {error.message}")
            yield {"error": error.message}

    def _transaction_index(self, name: str) -> None:
        rest, position = b"", 0
        with opened(name) as file:
            while data := file.read1(_CHUNK):
                rest += data
                for entry in aborted_transactions(rest, position):
                    self._findings.write({"type": "abortedTransaction", "position": position, **to_json(entry, 0)})
                    position += ENTRY_BYTES
                rest = rest[len(rest) // ENTRY_BYTES * ENTRY_BYTES :]
                self._findings.flush()
        self._check_whole(name, len(rest), position, "entry")

    def _check_whole(self, name: str, left: int, position: int, what: str) -> None:
        if left:
            self._findings.problem(
                f"{name}: the last {left} bytes, from byte {position} on, are an incomplete {what}: "
                "the file is truncated, or being written"
            )

    def _index(self, name: str, form: IndexFormat) -> None:
        base = base_offset(PurePath(name).name)
        with opened(name) as file:
            data = file.read()
        for at, offset, value in index_entries(data, form, base or 0):
            where = {"relativeOffset" if base is None else "offset": offset}
            if form is OFFSET_INDEX:
                self._findings.write({"type": "indexEntry", "position": at, **where, "logPosition": value})
            else:
                self._findings.write({"type": "timeIndexEntry", "position": at, "timestamp": value, **where})

    def _producers(self, name: str) -> None:
        with opened(name) as file:
            snapshot = producer_snapshot(file.read())
        for number, entry in enumerate(to_json(snapshot, ProducerSnapshot.max_version)["producerEntries"]):
            self._findings.write({"type": "producer", "position": _PRODUCER_AT + number * _PRODUCER_BYTES, **entry})


def at_byte(error: ProtocolError) -> str:
    """Return the text of an error, with its position in the file."""
    return error.message if error.offset is None else f"{error.message}, at byte {error.offset}"
