"""`Node`: an Arrow type as encoders see it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = ["Node"]


@dataclass(frozen=True, slots=True)
class Node:
    """An Arrow type, as `_value_encoding` describes it: `number` is its view, `format` that of the C data interface."""

    number: int
    format: str
    name: str
    children: tuple[Node, ...] = ()
    dictionary: Node | None = None

    @classmethod
    def of(cls, description: tuple[Any, ...]) -> Node:
        """Return the node of a description."""
        number, format_, name, children, dictionary = description
        return cls(
            number,
            format_,
            name,
            tuple(cls.of(each) for each in children),
            None if dictionary is None else cls.of(dictionary),
        )

    def count(self) -> int:
        """Return the number of views of the type."""
        inner = sum(each.count() for each in self.children)
        return 1 + inner + (0 if self.dictionary is None else self.dictionary.count())
