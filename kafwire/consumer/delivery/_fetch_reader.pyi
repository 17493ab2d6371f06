from collections.abc import Callable
from typing import Self, final

from kafwire.consumer.delivery._column_reader import ColumnReader
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.records._arrow import Layout
from kafwire.records._records import Batch
from kafwire.runtime._interfaces import Waiter

@final
class FetchReader(ColumnReader):
    def __init__(
        self,
        queue: FetchBuffer,
        schema: Layout,
        *,
        chunk_bytes: int,
        max_decompressed: int,
        verify_crc: bool,
        on_close: Callable[[], object] | None = None,
        on_refuse: Callable[[int, int, int], object] | None = None,
        on_wake: Callable[[], object] | None = None,
        only: int = -1,
        owns: bool = True,
        skip_corrupt: bool = False,
        silence_ms: int = -1,
        what: str = "scan",
        timestamps: tuple[int, int] | None = None,
        deserializer: object = None,
        waiter: Waiter | None = None,
        most: int = 0,
    ) -> None: ...
    @property
    def ended(self) -> bool: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Batch: ...
    def read(self, timeout_ms: int, most: int = -1) -> Batch | None: ...
    @property
    def is_withholding(self) -> bool: ...
    @property
    def ahead(self) -> int: ...
    def need_offsets(self) -> None: ...
    def settle(self) -> None: ...
    def close(self) -> None: ...
    def schema_capsule(self) -> object: ...
    def stream_capsule(self) -> object: ...
