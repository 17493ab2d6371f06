"""The requests of `kafwire letters`: reads dead letters with their receipts, and sends letters back in transactions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from kafwire.errors import KafkaError
from kafwire.stream.dead_letters import Letter, LetterFilter, SentLetters, letter_of, receipts
from kafwire.stream.message import Message
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire import Producer

__all__ = ["Letters"]

# Letters per transaction; it ends long before its timeout.
CHUNK = 500


class Letters:
    """The letters of a topic up to its end offsets at creation.

    All reads are read_committed: letters and receipts of open or aborted transactions are invisible. A read waits for
    transactions that are open at its end. Partitions whose leaders do not respond are skipped. A letter's receipts are
    in its own partition, so for each of the other letters it is known whether it was sent.
    """

    def __init__(self, options: Mapping[str, Any], topic: str) -> None:
        """Take the `options` of a scan."""
        from kafwire import Client
        from kafwire.cli.connection import only
        from kafwire.cli.consume_source import available_offsets
        from kafwire.config import ClientConfig

        self.topic = topic
        self.late: dict[TopicPartition, KafkaError] = {}  # skipped partitions, with the errors
        self.others = 0  # number of records that are neither letters nor receipts
        self._options = dict(options)
        with Client(**only(options, ClientConfig)) as client:
            partitions = [TopicPartition(topic, number) for number in sorted(client.partitions_for(topic))]
            self._ends = available_offsets(client, partitions, "latest", self.late)
            self._first = available_offsets(client, self._ends, "earliest", self.late)
        self._sent = SentLetters()
        for record in self._records():
            if not self._sent.note(record) and letter_of(record) is None:
                self.others += 1

    def _records(self) -> Iterator[Any]:
        from kafwire import scan

        wanted = {where: self._ends[where] for where, first in self._first.items() if self._ends[where] > first}
        if not wanted:
            return
        options = {**self._options, "isolation_level": "read_committed"}
        start = {where: self._first[where] for where in wanted}
        with scan(options.pop("bootstrap_servers"), self.topic, start=start, end=wanted, **options) as found:
            for batch in found.batches():
                yield from batch

    def find(self, chosen: LetterFilter) -> Iterator[tuple[Letter, bool]]:
        """Yield the selected letters, each with True if it was sent back."""
        for record in self._records():
            letter = letter_of(record)
            if letter is not None and chosen.takes(letter):
                yield letter, self._sent.has(letter)


def send(producer: Producer, letters: Iterable[Letter], topic: str | None) -> dict[str, int]:
    """Send letters back, in transactions that also contain their receipts. Return the number of letters per topic.

    The producer's `transactional_id` is taken over before the letters are read.
    """
    counts: dict[str, int] = {}
    partitions: dict[str, set[int]] = {}
    for chunk in _chunks(letters):
        producer.begin_transaction()
        try:
            for letter in chunk:
                target = topic or letter.topic
                if target not in partitions:
                    partitions[target] = set(producer.partitions_for(target))
                write(producer, letter.sent_back(topic, partitions[target]))
            for receipt in receipts(chunk):
                write(producer, receipt)
            producer.commit_transaction()
        except BaseException:
            producer.abort_transaction()
            raise
        for letter in chunk:
            counts[topic or letter.topic] = counts.get(topic or letter.topic, 0) + 1
    return counts


def write(producer: Producer, message: Message) -> None:
    """Send a message in the open transaction."""
    assert message.topic is not None
    producer.send(
        message.topic, message.value, key=message.key, headers=list(message.headers), partition=message.partition
    )


def _chunks(letters: Iterable[Letter]) -> Iterator[Sequence[Letter]]:
    chunk: list[Letter] = []
    for letter in letters:
        chunk.append(letter)
        if len(chunk) == CHUNK:
            yield chunk
            chunk = []
    if chunk:
        yield chunk
