"""A fetch fast path that the test feeds, and the responses for it."""

from __future__ import annotations

import itertools
import struct
import uuid
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer, FetchFastPath
from kafwire.errors import KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.protocol import FetchResponse
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.runtime._io import Loop
from tests.support.fetch_responses import frame_of

TOKEN = 5
IDS = [uuid.UUID(int=number) for number in (1, 1 << 64, 1 << 127)]
Taken = dict[int, tuple[int, int, int, int, int]]


class Wanted(NamedTuple):
    """The engine's expectation for a partition."""

    number: int
    offset: int


Wants = dict[tuple[bytes, int], Wanted]


class Fed:
    """A queue, a fast path, and a reader of both."""

    def __init__(self, wants: Wants | None = None, native: Loop | None = None) -> None:
        self.native = native or Loop()
        self.queue = FetchBuffer(self.native.notifier(1))
        self.fast_path = FetchFastPath(self.queue)
        self.reader = FetchReader(
            self.queue, Layout("t", 0), chunk_bytes=1, max_decompressed=1 << 20, verify_crc=True, what="consumer"
        )
        self.wants = wants or {}
        for (topic, partition), want in self.wants.items():
            assert self.queue.add(topic.hex(), partition, Layout("t", partition)) == want.number
            self.fast_path.expect(topic, partition, want.number, 0, want.offset, "a broker")

    def deliver(self, data: bytes, version: int, session: int = 0) -> Taken:
        self.fast_path.arm(TOKEN, version, session)
        self.fast_path.deliver(TOKEN, Buffer(data))
        return self.fast_path.taken(TOKEN)

    def rows(self) -> list[Any]:
        """All that is queued, decoded; an error ends it."""
        found: list[Any] = []
        try:
            while (batch := self.reader.read(0)) is not None:
                found += [(batch.topic, batch.partition, record.offset, record.value) for record in batch]
        except KafkaError as error:
            found.append(str(error))
        return found

    def close(self) -> None:
        self.queue.close()
        self.native.stop()


@cache
def batch(base: int, count: int, epoch: int) -> bytes:
    blob = encode_batch([b"%d" % (base + i) for i in range(count)], base_offset=base)
    return blob[:12] + struct.pack(">i", epoch) + blob[16:]


@dataclass
class Part:
    """A partition of a response, and the outcome that is expected of it."""

    topic: uuid.UUID = IDS[0]
    partition: int = 0
    offset: int = 0
    records: bytes | None = None
    high_watermark: int = 1 << 40
    error: int = 0
    aborted: int | None = 0
    preferred: int = -1

    @property
    def plain(self) -> bool:
        return not self.error and not self.aborted and self.preferred < 0

    def message(self) -> Any:
        return FetchResponse.PartitionData(
            partition_index=self.partition,
            error_code=self.error,
            high_watermark=self.high_watermark,
            aborted_transactions=None
            if self.aborted is None
            else [FetchResponse.AbortedTransaction(producer_id=i, first_offset=i) for i in range(self.aborted)],
            preferred_read_replica=self.preferred,
            records=self.records,
        )


def made(*parts: Part, version: int = 17, error: int = 0, session: int = 0) -> bytes:
    topics = [
        FetchResponse.FetchableTopicResponse(topic_id=topic, partitions=[part.message() for part in group])
        for topic, group in itertools.groupby(parts, lambda part: part.topic)
    ]
    return frame_of(FetchResponse(error_code=error, session_id=session, responses=topics), version)
