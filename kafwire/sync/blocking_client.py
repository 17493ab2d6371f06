"""The part that blocking clients share: calls that wait for the engine, and the end of a `with` block."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine

_P = ParamSpec("_P")
_T = TypeVar("_T")


class BlockingClient:
    """A client with an engine. Calls of a closed one raise `KafkaError`."""

    _engine: Engine
    _closed: bool
    _closed_text = "this consumer is closed: make a new one"

    def _check(self) -> None:
        self._engine.check_process()
        if self._closed:
            raise KafkaError(self._closed_text)

    def _run(self, work: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._check()
        return self._engine.run(work, *args, **kwargs)

    def close(self) -> None:
        """Close the client."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
