"""`Folding`: one partition's values in `reduce`, and the results on their way to workers or sink."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Protocol

from kafwire.stream.elements import Cover, Element, Gathered, Origin
from kafwire.stream.errors import NotNow
from kafwire.stream.reducing import Fold, FoldCover, Reducer
from kafwire.stream.steps import Reduce, name_of

if TYPE_CHECKING:
    from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
    from kafwire.stream.interfaces import AnySink
    from kafwire.stream.limits import Limits
    from kafwire.stream.worker_pool import WorkerPool

Through = Callable[[list[Any], list[Any]], Awaitable[tuple[list[Any], list[Any]]]]
FailsForNow = Callable[[Origin, Exception, int, str], Awaitable[bool]]
Write = Callable[[Element, None], Awaitable[None]]


class FoldedStream(Protocol):
    """The stream of a fold, whose results go to its workers, or without workers to its sink."""

    limits: Limits
    pool: WorkerPool | None
    sink: AnySink | None


class FoldedPartition(Protocol):
    """The partition of a fold. `is_torn`: an element was abandoned, and later ones may be stored."""

    offsets: CompletedOffsets | None
    in_flight: int
    is_torn: bool


class Folding:
    """Holds the offsets of a fold's records until all results of the fold are stored."""

    def __init__(
        self,
        stream: FoldedStream,
        owner: FoldedPartition,
        step: Reduce,
        through: Through,
        fails_for_now: FailsForNow,
        write: Write,
    ) -> None:
        """The last three arguments are methods of `owner`: the later steps, a failure's wait, a write until stored."""
        self.name = name_of(step)
        self._stream = stream
        self._owner = owner
        self._reducer = Reducer(step)
        self._through = through
        self._fails_for_now = fails_for_now
        self._write = write

    @property
    def due_at(self) -> float | None:
        """When the oldest fold ends, on the loop's clock."""
        return self._reducer.due_at

    @property
    def has_values(self) -> bool:
        """True if values wait for the end of their folds."""
        return bool(self._reducer)

    def has(self, offset: int) -> bool:
        """True if the offset waits for the end of a fold. From any thread."""
        return self._reducer.has(offset)

    async def add(self, values: Sequence[Any], origins: Sequence[Origin], covers: Sequence[Cover]) -> None:
        """Fold values in order, and write each fold that ends. All folds end at `max_uncommitted`."""
        now = asyncio.get_running_loop().time()
        for value, origin, cover in zip(values, origins, covers, strict=True):
            fold = await self._add(value, origin, cover, now)
            if fold is not None:
                await self._end(fold)
        offsets = self._owner.offsets
        if offsets is not None and offsets.uncommitted >= self._stream.limits.max_uncommitted:
            await self.flush()

    async def _add(self, value: Any, origin: Origin, cover: Cover, now: float) -> Fold | None:
        attempt = 1
        while True:
            try:
                return self._reducer.add(value, origin, cover, now)
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                if not await self._fails_for_now(origin, error, attempt, self.name):
                    cover.finish()
                    return None
                attempt += not isinstance(error, NotNow)

    async def write_due(self, now: float) -> None:
        """Write the folds whose time is over."""
        while (fold := self._reducer.take_due(now)) is not None:
            await self._end(fold)

    async def flush(self) -> None:
        """Write all folds, however few values they have."""
        while (fold := self._reducer.take()) is not None:
            await self._end(fold)

    async def _end(self, fold: Fold) -> None:
        owner, pool = self._owner, self._stream.pool
        try:
            values, origins = await self._through([fold.result], [Gathered(fold.origins, 0)])
        except BaseException:
            owner.is_torn = True  # folds of later records may be stored
            raise
        cover = FoldCover(fold.covers, len(values))
        if not values or (pool is None and self._stream.sink is None):
            cover.pending = 1
            cover.finish()
            return
        for value, origin in zip(values, origins, strict=True):
            if owner.is_torn:  # the abandoned records are read again, and must not be overtaken
                return
            element = Element(value, origin, cover, owner)
            owner.in_flight += 1
            if pool is not None:
                pool.add(element)
                continue
            element.output = [value]
            await self._write(element, None)
