from collections.abc import Iterable, Iterator, Mapping
from typing import Self

class Layout:
    def __init__(
        self,
        topic: str | bytes | None = None,
        partition: int = -1,
        *,
        columns: Iterable[str] | None = None,
        names: Mapping[str, str] | None = None,
        timestamp_unit: str = "ms",
        timestamp_type: str = "int8",
        transient: bool = False,
    ) -> None: ...
    def __arrow_c_schema__(self) -> object: ...

class Rows:
    def __len__(self) -> int: ...

class RowsReader(Iterator[Rows]):
    def __init__(self, source: object) -> None: ...
    def __iter__(self) -> Self: ...
    def __next__(self) -> Rows: ...
