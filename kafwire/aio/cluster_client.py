"""`AsyncClusterClient`: the part that `AsyncClient` and `AsyncAdmin` share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from kafwire.aio.bridge import AwaitingPushingClient, on_engine
from kafwire.calls.client import client_core, keywords_of
from kafwire.calls.tokens import TokenRequests
from kafwire.handles import refuse_copy
from kafwire.runtime.interfaces import Engine

if TYPE_CHECKING:
    from kafwire.config.typed_options import ClientOptions


class AsyncClusterClient(AwaitingPushingClient):
    """A connection to a cluster, and the calls of `_kind` over it."""

    __reduce_ex__ = refuse_copy
    _kind: ClassVar[type[TokenRequests]]
    _calls: TokenRequests
    _closed_text = "this client is closed"

    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        *,
        engine: Engine | None = None,
        **options: Unpack[ClientOptions],
    ) -> None:
        self._core = client_core(bootstrap_servers, options, engine)
        self._cluster, self._pushing = self._core.cluster, self._core.pushing
        self._engine = self._cluster.engine
        self._calls = self._kind(self._cluster)
        self._closed = False

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a client from Kafka's own option names, as `Client.from_config` does."""
        return cls(engine=engine, **keywords_of(options))

    async def close(self) -> None:
        """Push the last metrics, and close all connections. Waiting calls fail.

        A second close, or one in a forked child, does nothing.
        """
        if self._closed or self._engine.is_over:
            return
        self._closed = True
        self._engine.start(self._core.end)  # so that it closes even if the waiting caller is cancelled
        await on_engine(self._engine, self._core.close())
