"""Clients with an engine: the part that blocking and asyncio classes share, and those of blocking classes."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kafwire.errors import KafkaError
from kafwire.handles import Closing
from kafwire.runtime.interfaces import Engine

if TYPE_CHECKING:
    from kafwire.runtime.metrics_reporter import Pushing

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


class PushingClient(BlockingClient):
    """A client that pushes metrics to the cluster."""

    _pushing: Pushing

    def client_instance_id(self, timeout: float | None = None) -> uuid.UUID:
        """Return the id by which the cluster knows the metrics that this client pushes (KIP-714).

        The cluster gives it within the first second, if it has a plug-in for metrics of clients.

        Args:
            timeout: seconds to wait for it; by default `default_api_timeout_ms`.

        Returns:
            The id.

        Raises:
            ConfigError: `enable_metrics_push` is False.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: the cluster gave none in time, as it does without a plug-in.
        """
        return self._run(self._pushing.instance_id_call(timeout))
