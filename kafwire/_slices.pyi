from collections.abc import Callable
from typing import Self, final

from kafwire._arrow import Layout
from kafwire._buffer import Buffer
from kafwire._io import Loop
from kafwire._records import Batch

@final
class SliceQueue:
    error: BaseException | None
    def __init__(self, native: Loop, cookie: int) -> None: ...
    def push(
        self,
        frame: Buffer,
        position: int,
        size: int,
        cursor: int,
        start: int,
        end: int,
        aborted: list[tuple[int, int]],
    ) -> None: ...
    def queued_bytes(self, *, starved: bool = False) -> int: ...
    def end(self) -> None: ...
    def fail(self, error: BaseException) -> None: ...
    def close(self) -> None: ...

@final
class SliceReader:
    def __init__(
        self,
        queue: SliceQueue,
        layouts: list[Layout],
        names: list[tuple[str, int]],
        *,
        chunk_bytes: int,
        max_decompressed: int,
        verify_crc: bool,
        on_close: Callable[[], object] | None,
    ) -> None: ...
    @property
    def error(self) -> BaseException | None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...
    def close(self) -> None: ...
    def schema_capsule(self) -> object: ...
    def stream_capsule(self) -> object: ...
