"""Both faces of a client behind one: scenarios that are written once and run blocking and awaited."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
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


class Awaited:
    """Makes the async clients; each call is awaited in a loop of this object's own."""

    name = "async"

    def __init__(self) -> None:
        self.runner = asyncio.Runner()

    @contextmanager
    def client(self, bootstrap: str, **options: Any) -> Iterator[Any]:
        client = kafwire.AsyncClient(bootstrap, **options)

        async def enter() -> Any:
            return await client.__aenter__()

        async def leave() -> None:
            await client.__aexit__(None, None, None)

        assert self.runner.run(enter()) is client
        try:
            yield _Called(self.runner, client)
        finally:
            self.runner.run(leave())


class _Called:
    """An async object whose methods are called as if they were not."""

    def __init__(self, runner: asyncio.Runner, target: Any) -> None:
        self._runner = runner
        self._target = target

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._target, name)

        async def awaited(*args: Any, **options: Any) -> Any:
            return await method(*args, **options)

        return lambda *args, **options: self._runner.run(awaited(*args, **options))


Face = Blocking | Awaited


@contextmanager
def face_named(name: str) -> Iterator[Face]:
    """The face of that name, put away afterwards."""
    if name == "blocking":
        yield Blocking()
        return
    face = Awaited()
    try:
        yield face
    finally:
        face.runner.close()
