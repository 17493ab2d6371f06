"""`Consumer.partition_stream`: the batches of one partition, read by whoever has its stream."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafwire.consumer._fetch_reader import FetchReader
from kafwire.consumer.core import ConsumerCore
from kafwire.runtime.interfaces import Engine
from kafwire.types import TopicPartition

if TYPE_CHECKING:
    from kafwire.records import Batch


class PartitionStream:
    """The batches of one partition, which is claimed until this is closed, or ends, or is dropped."""

    _reader: FetchReader | None = None
    _closed = True  # until the partition is claimed

    def __init__(
        self, core: ConsumerCore, engine: Engine, partition: TopicPartition, timeout_ms: int, keeps: object
    ) -> None:
        """It keeps `keeps` alive: a consumer must not be dropped while its stream is read."""
        self._keeps = keeps
        self._engine = engine
        self._core = core
        self._partition = partition
        self._timeout_ms = timeout_ms
        self._claim = core.assignment.new_claim(partition)
        try:
            self._engine.run(core.assignment.claim, self._claim)
        except BaseException:
            self._claim.close()
            raise
        self._closed = False

    def __iter__(self) -> Iterator[Batch]:
        return self

    def __next__(self) -> Batch:
        if self._closed:
            raise StopIteration
        try:
            if self._reader is None:
                self._reader = self._core.reader(self._partition)
                self._engine.run(self._core.assignment.ask, self._partition)
            self._reader.settle()
            batch = self._reader.read(self._timeout_ms)
        except BaseException:
            self.close()
            raise
        if batch is None:
            self.close()
            raise StopIteration
        return batch

    def close(self) -> None:
        """Let others read the partition."""
        self._closed = True
        self._claim.close()
