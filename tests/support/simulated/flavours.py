"""Both flavours in the simulated world, by one body: a test makes the calls, and its flavour blocks or awaits.

    def test_a_topic_is_found(flavour: Flavour) -> None:
        flavour.world.create_topic("t")
        client = flavour.client()
        assert flavour.get(client.topic("t")).name == "t"

The world's loop is the engine's and the user's. The blocking flavours run it while they wait for the engine, and only
then: a test that reads with one has records fetched first (`Flavour.world.pass_time`).
"""

from __future__ import annotations

import gc
import importlib
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable
from typing import Any, NoReturn

import pytest

from tests.support.deadlines import ended
from tests.support.simulated.world import World

KINDS = ("sync", "aio")
NAMES = {
    "sync": {"admin": "Admin", "client": "Client", "consumer": "Consumer", "producer": "Producer", "scan": "Scan"},
    "aio": {
        "admin": "AsyncAdmin",
        "client": "AsyncClient",
        "consumer": "AsyncConsumer",
        "producer": "AsyncProducer",
        "scan": "AsyncScan",
    },
}


class Flavour:
    """One of the two, and what it is used in. Objects that it makes are closed in the end."""

    def __init__(self, kind: str, world: World, patch: pytest.MonkeyPatch) -> None:
        self.kind = kind
        self.world = world
        self.engine = world.engine
        self._modules = {}
        for name in NAMES[kind]:
            module = importlib.import_module(f"kafwire.{kind}.{'admin.admin' if name == 'admin' else name}")
            self._modules[name] = module
        self.made: list[Any] = []

    @property
    def blocks(self) -> bool:
        """True if it is the blocking one."""
        return self.kind == "sync"

    def class_of(self, name: str) -> Any:
        """The class of `client`, `consumer`, `producer` or `scan`."""
        return getattr(self._modules[name], NAMES[self.kind][name])

    def _make(self, name: str, *args: Any, **options: Any) -> Any:
        found = self.class_of(name)(self.world.bootstrap, *args, engine=self.engine, **options)
        self.made.append(found)
        return found

    def admin(self, **options: Any) -> Any:
        return self._make("admin", **options)

    def client(self, **options: Any) -> Any:
        return self._make("client", **options)

    def producer(self, **options: Any) -> Any:
        return self._make("producer", **options)

    def consumer(self, **options: Any) -> Any:
        """One that has started."""
        made = self._make("consumer", **options)
        if not self.blocks:
            self.world.run(made.start())
        return made

    def get(self, said: Any) -> Any:
        """The result of a call; of batches or records, all that come."""
        if isinstance(said, AsyncIterator):
            return self.world.run(_all(said))
        if isinstance(said, Awaitable):
            return self.world.run(_awaited(said))
        return said

    def all(self, said: Any) -> list[Any]:
        """All that an iterator of either flavour gives."""
        return self.world.run(_all(said)) if hasattr(said, "__aiter__") else list(said)

    def some(self, said: Any, count: int) -> list[Any]:
        """The next `count` items of an iterator that goes on."""
        if hasattr(said, "__aiter__"):
            return self.world.run(_some(said, count))
        return [next(said) for _ in range(count)]

    def elsewhere(self, work: Callable[[], Any]) -> Any:
        """Run a call in another thread, or, with asyncio, in a task of its own."""
        if not self.blocks:

            async def call() -> Any:
                found = work()
                return await found if isinstance(found, Awaitable) else found

            return self.world.run(call())
        found: list[Any] = []
        thread = threading.Thread(target=lambda: found.append(work()))
        thread.start()
        ended(thread)
        return found[0]

    def outcome(self, delivery: Any) -> Any:
        """The outcome of a delivery, once it is decided."""
        if self.blocks:
            self.world.pass_time(1)
            return delivery.result(0)
        return self.get(delivery)

    def enter(self, what: Any) -> Any:
        """Begin a `with` block."""
        return what.__enter__() if self.blocks else self.get(what.__aenter__())

    def leave(self, what: Any, error: BaseException | None = None) -> Any:
        """End it, by an error or without."""
        said = (None if error is None else type(error), error, None)
        return what.__exit__(*said) if self.blocks else self.get(what.__aexit__(*said))

    def drop(self) -> None:
        """Drop created objects without a reference, as the interpreter does."""
        self.made.clear()
        gc.collect()

    def end(self) -> None:
        """Close the open clients."""
        self.engine.forked = self.engine.ended = False
        for made in self.made:
            self.get(made.close())
        self.world.pass_time(1)


async def _awaited(said: Awaitable[Any]) -> Any:
    return await said


async def _all(said: Any) -> list[Any]:
    return [each async for each in said]


async def _some(said: Any, count: int) -> list[Any]:
    return [await anext(said) for _ in range(count)]


def rows(batches: Iterable[Any]) -> dict[int, list[int]]:
    """The offsets in some batches, by partition."""
    found: dict[int, list[int]] = {}
    for batch in batches:
        found.setdefault(batch.partition, []).extend(record.offset for record in batch)
    return found


def never(*_: Any, **__: Any) -> NoReturn:
    """A function that must not be called."""
    raise AssertionError("this must not be called")
