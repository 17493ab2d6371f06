"""`Reducer`: folds values of one partition by key, until a key has enough values or its time is over."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any

from kafwire.stream.elements import Cover, Origin
from kafwire.stream.steps import Reduce


@dataclass(frozen=True, slots=True)
class Reduced:
    """The result of `Pipeline.reduce` for the values of one key.

    Args:
        key: the record's key, or the result of `by`.
        value: the folded value.
        count: how many values were folded.

    Example:
        >>> pipeline = kafwire.stream.Pipeline().reduce(lambda total, order: total + 1, int, max_values=2)
        >>> sink = kafwire.stream.MemorySink()
        >>> source = kafwire.stream.MemorySource({"orders": [(b"ann", b"a lamp"), (b"ann", b"2 books")]})
        >>> summary = pipeline.run(source, sink)
        >>> sink.values
        [Reduced(key=b'ann', value=2, count=2)]
    """

    key: Any
    value: Any
    count: int


Reduced.__module__ = "kafwire.stream"


class Fold:
    """The values of one key so far, with their origins."""

    __slots__ = ("covers", "due_at", "key", "origins", "value")

    def __init__(self, key: Hashable, due_at: float | None) -> None:
        self.key = key
        self.due_at = due_at
        self.value: Any = None
        self.origins: list[Origin] = []
        self.covers: list[Cover] = []  # one for each value

    @property
    def result(self) -> Reduced:
        """The result for the next steps."""
        return Reduced(self.key, self.value, len(self.origins))

    def has(self, offset: int) -> bool:
        """True if the offset waits for this fold."""
        return any(cover.has(offset) for cover in tuple(self.covers))


class FoldCover(Cover):
    """The offsets of all values of a fold, completed when all elements of its result are finished."""

    __slots__ = ("_covers",)

    def __init__(self, covers: Sequence[Cover], pending: int) -> None:
        # No range of its own: offsets of other folds may lie in between.
        self._covers = covers
        self.pending = pending

    def has(self, offset: int) -> bool:
        """True if the cover has the offset."""
        return any(cover.has(offset) for cover in self._covers)

    def finish(self) -> None:
        """Finish one of the elements."""
        self.pending -= 1
        if self.pending <= 0:
            for cover in self._covers:
                cover.finish()


class Reducer:
    """Folds values by key. A fold ends at `max_values`, or `max_seconds` after its first value."""

    __slots__ = ("_folds", "_step")

    def __init__(self, step: Reduce) -> None:
        self._step = step
        self._folds: dict[Hashable, Fold] = {}  # in the order of their first values

    def __len__(self) -> int:
        return len(self._folds)

    @property
    def due_at(self) -> float | None:
        """When the oldest fold ends, on the clock of `now`; None: there is none, or none ends by time."""
        return next((fold.due_at for fold in self._folds.values()), None)

    def add(self, value: Any, origin: Origin, cover: Cover, now: float) -> Fold | None:
        """Add a value; return the fold that ends with it, or None. A user function's error changes nothing."""
        step = self._step
        key: Hashable = step.by(value) if step.by is not None else getattr(origin, "key", None)
        fold = self._folds.get(key)
        result = step.function(step.initial() if fold is None else fold.value, value)
        if fold is None:
            due_at = None if step.max_seconds is None else now + step.max_seconds
            fold = self._folds[key] = Fold(key, due_at)
        fold.value = result
        fold.origins.append(origin)
        fold.covers.append(cover)
        if step.max_values is None or len(fold.origins) < step.max_values:
            return None
        return self._folds.pop(key)

    def take_due(self, now: float) -> Fold | None:
        """Remove and return the oldest fold if its time is over."""
        fold = next(iter(self._folds.values()), None)
        if fold is None or fold.due_at is None or fold.due_at > now:
            return None
        return self._folds.pop(fold.key)

    def take(self) -> Fold | None:
        """Remove and return the oldest fold, even before its time; None: there is none."""
        fold = next(iter(self._folds.values()), None)
        return None if fold is None else self._folds.pop(fold.key)

    def has(self, offset: int) -> bool:
        """True if the offset waits for the end of a fold. From any thread."""
        return any(fold.has(offset) for fold in tuple(self._folds.values()))
