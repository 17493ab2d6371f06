"""Both flavours of a client behind one: scenarios that are written once and run blocking and awaited."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Iterator
from collections.abc import Set as AbstractSet
from contextlib import contextmanager
from typing import Any

import kafwire


class Blocking:
    """Makes the blocking clients, whose methods are simply called."""

    name = "blocking"

    @contextmanager
    def client(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        with kafwire.Client(bootstrap, **options) as client:
            yield client

    @contextmanager
    def consumer(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        with kafwire.Consumer(bootstrap, **options) as consumer:
            yield consumer

    def consumer_from(self, options: dict[str, Any]) -> Any:
        return kafwire.Consumer.from_config(options)

    @contextmanager
    def producer(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        with kafwire.Producer(bootstrap, **options) as producer:
            yield producer

    def producer_from(self, options: dict[str, Any]) -> Any:
        return kafwire.Producer.from_config(options)


class Awaited:
    """Makes the async clients; each call is awaited in a loop of this object's own."""

    name = "async"

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    @contextmanager
    def client(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        with self._entered(kafwire.AsyncClient(bootstrap, **options)) as client:
            yield client

    @contextmanager
    def consumer(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        with self._entered(kafwire.AsyncConsumer(bootstrap, **options)) as consumer:
            yield consumer

    def consumer_from(self, options: dict[str, Any]) -> Any:
        return _Called(self.runner, kafwire.AsyncConsumer.from_config(options))

    @contextmanager
    def producer(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        producer = kafwire.AsyncProducer(bootstrap, **options)
        with self._entered(producer):
            yield _CalledProducer(self.runner, producer)

    def producer_from(self, options: dict[str, Any]) -> Any:
        return _CalledProducer(self.runner, kafwire.AsyncProducer.from_config(options))

    @contextmanager
    def _entered(self, target: Any) -> Iterator[Any]:
        async def enter() -> Any:
            return await target.__aenter__()

        async def leave(error: BaseException | None = None) -> None:
            await target.__aexit__(type(error) if error else None, error, None)

        assert self.runner.run(enter()) is target
        try:
            yield _Called(self.runner, target)
        except BaseException as error:
            self.runner.run(leave(error))
            raise
        self.runner.run(leave())


class _Called:
    """An async object whose methods are called, and whose iterators are taken, as if they were not."""

    def __init__(self, runner: asyncio.Runner, target: Any) -> None:
        self._runner = runner
        self._target = target

    def __getattr__(self, name: str) -> Any:
        found = getattr(self._target, name)
        return self._called(found) if callable(found) and not isinstance(found, AbstractSet) else found

    def _called(self, method: Any) -> Any:
        def call(*args: Any, **options: Any) -> Any:
            result = method(*args, **options)
            if inspect.isawaitable(result):
                return self._runner.run(_awaited(result))
            return self._taken(result) if isinstance(result, AsyncIterator) else result

        return call

    def __iter__(self) -> Iterator[Any]:
        return self._taken(aiter(self._target))

    def _taken(self, source: AsyncIterator[Any]) -> Iterator[Any]:
        try:
            while True:
                try:
                    item = self._runner.run(_awaited(anext(source)))
                except StopAsyncIteration:
                    return
                yield item
        finally:
            if inspect.isasyncgen(source):
                self._runner.run(_awaited(source.aclose()))


class _CalledProducer(_Called):
    """An async producer whose deliveries are waited for by `result`, as those of the blocking one."""

    def send(self, *args: Any, **options: Any) -> Any:
        return _Waited(self._runner, self._runner.run(self._target.send(*args, **options)))

    def send_batch(self, *args: Any, **options: Any) -> Any:
        return _Waited(self._runner, self._runner.run(self._target.send_batch(*args, **options)))


class _Waited:
    """A delivery of either kind."""

    def __init__(self, runner: asyncio.Runner, delivery: Any) -> None:
        self._runner = runner
        self._delivery = delivery

    def result(self, timeout: float | None = None) -> Any:
        return self._runner.run(asyncio.wait_for(_awaited(self._delivery), timeout))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._delivery, name)

    def __len__(self) -> int:
        return len(self._delivery)

    def __repr__(self) -> str:
        return repr(self._delivery)


async def _awaited(what: Any) -> Any:
    return await what


Flavour = Blocking | Awaited


@contextmanager
def flavour_named(name: str) -> Iterator[Flavour]:
    """The flavour of that name, put away afterwards."""
    if name == "blocking":
        yield Blocking()
        return
    flavour = Awaited()
    try:
        yield flavour
    finally:
        flavour.runner.close()
