"""The decoder of acquired ranges: fetched bytes to batches, in the thread that reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from kafwire.config import ShareConsumerConfig
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.memory._buffer import Buffer
from kafwire.records._arrow import Layout
from kafwire.runtime.interfaces import Notifier
from kafwire.serializer_calls import Deserializers

if TYPE_CHECKING:
    from kafwire.records import Batch


class AcquiredDecoder:
    """The decoder of one share consumer. One thread uses it at a time."""

    def __init__(
        self, config: ShareConsumerConfig, layout: Callable[..., Layout], deserializers: Deserializers | None
    ) -> None:
        """`layout` makes the Arrow layout of a topic and partition, or of none."""
        self._layout = layout
        self._buffer = FetchBuffer(Notifier())
        self._numbers: dict[tuple[str, int], int] = {}
        self._reader = FetchReader(
            self._buffer,
            layout(),
            chunk_bytes=1 << 30,  # a range is one batch
            max_decompressed=config.max_decompressed,
            verify_crc=config.check_crcs,
            owns=False,
            what="share consumer",
            deserializer=deserializers,
        )
        self._reader.need_offsets()

    def decode(self, topic: str, partition: int, data: Buffer, first: int, last: int) -> Batch | None:
        """Return the records of the offsets from `first` to `last`; None without any.

        Raises `CorruptBatchError` for bytes that are no records.
        """
        number = self._numbers.get((topic, partition))
        if number is None:
            number = self._numbers[topic, partition] = self._buffer.add(
                topic, partition, self._layout(topic, partition, transient=True)
            )
        generation = self._buffer.reset(number, first)
        self._buffer.push(data, 0, len(data), number, first, last + 1, [], generation)
        self._buffer.seal()
        return self._reader.read(0)
