"""How the soak's readers read: a turn of a stream ends, also where records never do."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import AsyncIterator, Iterator
from types import SimpleNamespace
from typing import Any

import pytest

import kafwire
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

    def close(self) -> None: ...


class AsyncEndless(Endless):
    async def start(self) -> None: ...
    async def close(self) -> None: ...  # type: ignore[override]

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
    """The others have their turns; they change by a number of batches or, if these come slowly, by time."""
    clock = itertools.count()
    monkeypatch.setattr(readers, "TURN_BATCHES", batches)
    monkeypatch.setattr(readers, "time", SimpleNamespace(monotonic=lambda: next(clock) * readers.TURN_S / 100))
    monkeypatch.setattr(readers, "placed_rows", lambda batch: batch)
    monkeypatch.setattr(kafwire, "Consumer", Endless)
    monkeypatch.setattr(kafwire, "AsyncConsumer", AsyncEndless)
    found: list[Any] = []
    it = flavour()
    try:
        it.open()
        endless = it.consumer
        it.read(STREAMS, PLACES, found)
        it.close()
    finally:
        it.end()
    assert found == endless.read
    assert {where: found.count(where) for where in found} == dict.fromkeys(PLACES, 10 if batches == 10 else 101)
    assert endless.open == 0
