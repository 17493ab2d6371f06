"""The part that asyncio clients share: calls that await the engine, and the ends of an `async with` block."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from kafwire.aio.bridge import on_engine
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine

_P = ParamSpec("_P")
_T = TypeVar("_T")


class AwaitingClient:
    """A client with an engine. Calls of a closed one raise `KafkaError`."""

    _engine: Engine
    _closed: bool
    _closed_text = "this consumer is closed: make a new one"

    def _check(self) -> None:
        self._engine.check_process()
        if self._closed:
            raise KafkaError(self._closed_text)

    async def _run(self, work: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._check()
        return await on_engine(self._engine, work(*args, **kwargs))

    async def close(self) -> None:
        """Close the client."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()


class StartedClient(AwaitingClient):
    """A consumer, which `async with` or its first call starts."""

    _begun = False
    _abandon: Callable[[], object]

    async def start(self) -> None:
        """Start the consumer."""

    async def _run(self, work: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        await self.start()
        return await on_engine(self._engine, work(*args, **kwargs))

    async def __aenter__(self) -> Self:
        try:
            await self.start()
        except BaseException:
            await self.close()
            raise
        return self

    def __del__(self) -> None:
        if self._begun and not self._closed and not self._engine.is_over:
            warnings.warn(f"never closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._engine.start(self._abandon)
