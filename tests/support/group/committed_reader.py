"""A consumer that reads committed records in a thread while other things go on: what it got, in order."""

from __future__ import annotations

import threading
from typing import Any, Self

import kafwire
from tests.support.deadlines import ended, until
from tests.support.outbox.relays import by_key


class CommittedReader:
    """The records that it has read.

    Args:
        bootstrap: the brokers' address.
        topic: what it reads, from the beginning.
    """

    def __init__(self, bootstrap: str, topic: str) -> None:
        with kafwire.Client(bootstrap) as client:
            partitions = [kafwire.TopicPartition(topic, number) for number in client.partitions_for(topic)]
        self._consumer = kafwire.Consumer(
            bootstrap, assign=partitions, start="earliest", isolation_level="read_committed", retry_backoff_ms=5
        )
        self._found: list[tuple[Any, Any]] = []
        self._thread = threading.Thread(target=self._read)

    def _read(self) -> None:
        for record in self._consumer:
            self._found.append((record.key, record.value))

    def wait(self, count: int) -> dict[Any, list[Any]]:
        """The values of each key, in order, when there are so many."""
        until(lambda: len(self._found) >= count or not self._thread.is_alive(), f"{count} records are read")
        return by_key(self._found)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._consumer.stop()
        ended(self._thread)
        self._consumer.close()
