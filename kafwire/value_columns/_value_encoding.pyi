from collections.abc import Iterator
from typing import Any

from kafwire.records._arrow_rows import ArrowChunks

class Writer: ...

class Columns:
    description: tuple[Any, ...]
    def __len__(self) -> int: ...

class Reading(ArrowChunks, Iterator[Columns]):
    def __next__(self) -> Columns: ...

class Encoded:
    wrong: tuple[int, int, int, int] | None
    def __len__(self) -> int: ...
    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]: ...

def encode_columns(writer: Writer, columns: Columns, prefix: bytes) -> Encoded: ...
