from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

from kafwire.value_columns.column import Column

class Layout:
    def __init__(self, columns: Iterable[Column]) -> None: ...
    def __arrow_c_schema__(self) -> object: ...

class Program: ...

class Table:
    programs: dict[int, Program | str]
    def __init__(self, programs: Mapping[int, Program | str]) -> None: ...

class Part:
    first: int
    stop: int
    stopped: bool
    def __len__(self) -> int: ...
    @property
    def bad(self) -> list[tuple[int, int, int, int, int, int]]: ...
    @property
    def programs(self) -> dict[int, Program | str]: ...
    def arrow(self, *, valid: bool = False) -> tuple[object, object]: ...

class Values:
    def __len__(self) -> int: ...

def values_of(source: Any) -> Iterator[Values]: ...
def decode_part(
    layout: Layout,
    table: Table,
    values: Values,
    first: int,
    schema_of: Callable[[int], Table],
    *,
    on_bad: int,
    null_is_bad: bool,
    framed: bool,
    max_empty_items: int,
    max_bytes: int,
) -> Part: ...
