from collections.abc import Sequence
from typing import Any, ClassVar, final

KINDS: dict[str, int]

@final
class Layout:
    names: tuple[str, ...]
    index: dict[str, int]
    defaults: tuple[Any, ...]
    def __init__(self, cls: type, fields: Sequence[Any]) -> None: ...

class Structure:
    __hash__: ClassVar[None]  # type: ignore[assignment]
    def __eq__(self, other: object, /) -> bool: ...
    def __ne__(self, other: object, /) -> bool: ...

class Table:
    cls: type
    api: str
    version: int
    flexible: bool
    min_size: int
    def __init__(self, cls: type, api: str, version: int, flexible: bool) -> None: ...

def restore(cls: type, values: tuple[Any, ...], unknown_tagged_fields: tuple[tuple[int, bytes], ...]) -> Any: ...
