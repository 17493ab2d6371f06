"""Reading dead letters: the origin of each, why it failed, and which were already sent back.

The command that sends letters back writes a receipt into their own partition, in the same transaction. The receipt's
header `kafwire.letters.sent` has their offsets, as "0-99,105". So each letter is sent back once, with any filters in
any order, and the dead letter topic alone is enough to know it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace

from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
from kafwire.records._records import Record
from kafwire.stream.failed_record import (
    ATTEMPTS,
    DUE_MS,
    ERROR_CLASS,
    ERROR_MESSAGE,
    ERROR_STEP,
    ORIGIN_OFFSET,
    ORIGIN_PARTITION,
    ORIGIN_TOPIC,
)
from kafwire.stream.message import Message
from kafwire.types import TopicPartition

SENT = "kafwire.letters.sent"
# Removed from a letter that is sent back: it is no longer failed.
_DROPPED = {ERROR_CLASS, ERROR_MESSAGE, ERROR_STEP, ATTEMPTS, DUE_MS}


@dataclass(frozen=True, slots=True)
class Letter:
    """A dead letter, and the origin of its record."""

    record: Record
    topic: str
    partition: int | None
    offset: int | None
    error: str
    message: str
    step: str
    attempts: int | None

    @property
    def where(self) -> TopicPartition:
        """Topic and partition of the letter itself."""
        return TopicPartition(self.record.topic or "", self.record.partition or 0)

    def sent_back(self, topic: str | None = None, partitions: Iterable[int] = ()) -> Message:
        """Return the record as first read, with origin headers, for its topic or another one.

        It goes to its original partition, if that is one of `partitions` of the topic.
        """
        headers = [(name, value) for name, value in self.record.headers if name not in _DROPPED]
        partition = self.partition if self.partition in set(partitions) else None
        return Message(self.record.value, self.record.key, headers, topic or self.topic, partition, as_bytes=True)


def letter_of(record: Record) -> Letter | None:
    """Return the letter in a record; None: it has no header of a stream."""
    found = {name: (value or b"").decode("utf-8", "replace") for name, value in record.headers}
    topic = found.get(ORIGIN_TOPIC)
    if not topic:
        return None
    return Letter(
        record,
        topic,
        _number(found.get(ORIGIN_PARTITION)),
        _number(found.get(ORIGIN_OFFSET)),
        found.get(ERROR_CLASS, ""),
        found.get(ERROR_MESSAGE, ""),
        found.get(ERROR_STEP, ""),
        _number(found.get(ATTEMPTS)),
    )


def _number(text: str | None) -> int | None:
    return int(text) if text and text.isdecimal() and text.isascii() else None


@dataclass(frozen=True, slots=True)
class LetterFilter:
    """Selects letters. An empty set or None selects all.

    Args:
        errors: the error's class, with or without its module.
        steps: texts, one of which is part of the step's name.
        topic: the topic that the record was first read from.
        partitions: the partitions there.
        keys: the record's keys.
        since_ms: the letter was written then or later.
        until_ms: the letter was written before.
    """

    errors: frozenset[str] = frozenset()
    steps: frozenset[str] = frozenset()
    topic: str | None = None
    partitions: frozenset[int] = frozenset()
    keys: frozenset[bytes] = frozenset()
    since_ms: int | None = None
    until_ms: int | None = None

    def takes(self, letter: Letter) -> bool:
        """True if the filter selects the letter."""
        written_ms = letter.record.timestamp_ms or 0
        return (
            (not self.errors or bool({letter.error, letter.error.rpartition(".")[2]} & self.errors))
            and (not self.steps or any(step in letter.step for step in self.steps))
            and (self.topic is None or letter.topic == self.topic)
            and (not self.partitions or letter.partition in self.partitions)
            and (not self.keys or letter.record.key in self.keys)
            and (self.since_ms is None or written_ms >= self.since_ms)
            and (self.until_ms is None or written_ms < self.until_ms)
        )


class SentLetters:
    """The letters that were sent back, from the receipts of all partitions."""

    def __init__(self) -> None:
        self._ranges: dict[TopicPartition, CompletedOffsets] = {}

    def note(self, record: Record) -> bool:
        """Note a receipt; False for another record."""
        text = dict(record.headers).get(SENT)
        if text is None:
            return False
        where = TopicPartition(record.topic or "", record.partition or 0)
        sent = self._ranges.setdefault(where, CompletedOffsets(0))
        for first, last in _ranges_of(text.decode("ascii", "replace")):
            sent.complete(first, last + 1)
        return True

    def has(self, letter: Letter) -> bool:
        """True if the letter was sent back."""
        sent, offset = self._ranges.get(letter.where), letter.record.offset
        return sent is not None and sent.has(offset)


def _ranges_of(text: str) -> Iterator[tuple[int, int]]:
    for part in text.split(","):
        first, _, last = part.partition("-")
        numbers = _number(first), _number(last or first)
        if numbers[0] is not None and numbers[1] is not None and numbers[0] <= numbers[1]:
            yield numbers[0], numbers[1]


def receipts(letters: Iterable[Letter]) -> list[Message]:
    """Make receipts for letters sent in one transaction: one per partition of the dead letters."""
    offsets: dict[TopicPartition, list[int]] = {}
    for letter in letters:
        offsets.setdefault(letter.where, []).append(letter.record.offset)
    made = []
    for where, found in offsets.items():
        made.append(replace(_receipt(sorted(found)), topic=where.topic, partition=where.partition))
    return made


def _receipt(offsets: list[int]) -> Message:
    ranges: list[list[int]] = []
    for offset in offsets:
        if ranges and ranges[-1][1] + 1 == offset:
            ranges[-1][1] = offset
        else:
            ranges.append([offset, offset])
    text = ",".join(str(first) if first == last else f"{first}-{last}" for first, last in ranges).encode()
    # With a key of its own, it may be in a compacted topic too.
    return Message(None, b"kafwire.letters.sent " + text[:100], [(SENT, text)], as_bytes=True)
