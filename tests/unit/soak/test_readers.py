"""How the soak's readers read: a turn of a stream ends, also where records never do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.types import TopicPartition
from tests.soak import readers
from tests.soak.matrix import STREAMS

PLACES = [TopicPartition("t", number) for number in range(3)]


class Endless:
    """A consumer whose streams always have another batch; it counts those that are open."""

    def __init__(self) -> None:
        self.open = 0
        self.read: list[TopicPartition] = []

    def partition_stream(self, where: TopicPartition, _timeout: float) -> Iterator[TopicPartition]:
        self.open += 1
        try:
            for _ in itertools.count():
                self.read.append(where)
                yield where
        finally:
            self.open -= 1


class AsyncEndless(Endless):
    async def partition_stream(  # type: ignore[override]
        self, where: TopicPartition, _timeout: float
    ) -> AsyncIterator[TopicPartition]:
        for one in super().partition_stream(where, _timeout):
            await asyncio.sleep(0)
            yield one


@pytest.mark.parametrize("batches", [10, 10**9])
@pytest.mark.parametrize("flavour", [readers._Blocking, readers._Async])
def test_a_stream_that_never_falls_silent_has_its_turn(
    flavour: Any, batches: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the others have theirs; by a number of batches or, if these come slowly, by time."""
    clock = itertools.count()
    monkeypatch.setattr(readers, "_TURN_BATCHES", batches)
    monkeypatch.setattr(readers, "time", SimpleNamespace(monotonic=lambda: next(clock) * readers._TURN_S / 100))
    monkeypatch.setattr(readers, "_rows", lambda batch: batch)
    found: list[Any] = []
    it = flavour()
    try:
        it._consumer = endless = Endless() if flavour is readers._Blocking else AsyncEndless()
        it.read(STREAMS, PLACES, found)
        it._consumer = None
    finally:
        it.end()
    assert found == endless.read
    assert {where: found.count(where) for where in found} == dict.fromkeys(PLACES, 10 if batches == 10 else 101)
    assert endless.open == 0
