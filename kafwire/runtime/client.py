"""Clients with an engine: the part that blocking and asyncio classes share, and that of blocking classes."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, ParamSpec, TypeVar

from kafwire.errors import KafkaError
from kafwire.handles import Closing
from kafwire.runtime.interfaces import Engine

_P = ParamSpec("_P")
_T = TypeVar("_T")


class EngineClient:
    """A client with an engine. Calls of a closed one raise `KafkaError`."""

    _engine: Engine
    _closed: bool
    _closed_text = "this consumer is closed: make a new one"

    def _check(self) -> None:
        self._engine.check_process()
        if self._closed:
            raise KafkaError(self._closed_text)


class BlockingClient(EngineClient, Closing):
    """A client whose calls block the user's thread."""

    def _run(self, work: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        self._check()
        return self._engine.run(work, *args, **kwargs)
