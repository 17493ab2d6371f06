"""`Column`: one of the Arrow columns that values are decoded into."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

__all__ = ["Column"]

# As in `native/columns.h`.
NULL, BOOLEAN, FIXED, BYTES, LIST, STRUCT = range(6)
NULLABLE = 2  # a flag of Arrow's C data interface


@dataclass(slots=True)
class Column:
    """One column: its kind and width (`native/columns.h`), Arrow's format, and the numbers of its children."""

    kind: int
    width: int
    format: str
    name: str
    flags: int = NULLABLE
    children: list[int] = field(default_factory=list)
    symbols: Sequence[str] | None = None
