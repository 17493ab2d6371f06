"""`ClusterClient`: the part that `Client` and `Admin` share."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Self, Unpack

from kafwire.calls.client import client_core, keywords_of
from kafwire.calls.tokens import TokenRequests
from kafwire.handles import refuse_copy
from kafwire.runtime.client import PushingClient
from kafwire.runtime.interfaces import Engine

if TYPE_CHECKING:
    from kafwire.config.typed_options import ClientOptions


class ClusterClient(PushingClient):
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
        """Make a client from Kafka's own option names.

        Args:
            options: option names of the Java client and librdkafka, with their values.
            engine: the engine to run on; None: the engine of this process.

        Returns:
            The client.

        Raises:
            ConfigError: an option is unknown, not supported, or has a bad value.

        Example:
            >>> kafwire.Client.from_config({"bootstrap.servers": bootstrap, "request.timeout.ms": 5000}).close()
        """
        return cls(engine=engine, **keywords_of(options))

    def close(self) -> None:
        """Push the last metrics, and close all connections. A second close, or one in a forked child, does nothing."""
        if self._closed or self._engine.is_over:
            return
        self._closed = True
        self._engine.run(self._core.close)
