"""A fetch buffer with its reader, and the engine that both notify."""

from __future__ import annotations

from typing import Any

from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.memory._buffer import Buffer
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.runtime._io import POSTED, Loop

COOKIE = 9


def room(size: int) -> int:
    """The capacity of the pool's buffer for so many bytes: a power of two, from 256 on."""
    return 1 << max(8, (size - 1).bit_length())


class Line:
    """A queue, its reader, and the engine that both notify."""

    def __init__(self, cursors: int = 2, **options: Any) -> None:
        settings: dict[str, Any] = {"chunk_bytes": 1 << 20, "max_decompressed": 1 << 20, "verify_crc": True}
        self.native = Loop()
        self.queue = FetchBuffer(self.native.notifier(COOKIE))
        self.closed: list[bool] = []
        for number in range(cursors):
            self.queue.add("t", number, Layout("t", number))
        self.reader = FetchReader(
            self.queue,
            Layout("t", 0),
            on_close=lambda: self.closed.append(True),
            **{**settings, **options},
        )

    def push(
        self,
        *batches: bytes,
        cursor: int = 0,
        start: int = 0,
        end: int = 1 << 40,
        aborted: Any = (),
        before: bytes = b"",
    ) -> int:
        blob = b"".join(batches)
        frame = before + blob + b"after"
        self.queue.push(Buffer(frame), len(before), len(blob), cursor, start, end, list(aborted))
        self.queue.seal()
        return len(frame)

    @property
    def posted(self) -> bool:
        """True if the engine was notified since the last look."""
        return any(kind == POSTED and token == COOKIE for kind, _, token, _ in self.native.drain())


def batch(base: int, *values: bytes, **options: Any) -> bytes:
    return encode_batch(list(values), base_offset=base, **options)
