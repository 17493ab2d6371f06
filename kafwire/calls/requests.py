"""`RequestCalls`: any request to any broker, for `Client` and `Admin`."""

from __future__ import annotations

from functools import partial
from typing import Any

from kafwire.cluster.cluster import Cluster
from kafwire.errors import ConfigError
from kafwire.runtime.interfaces import Work
from kafwire.timeouts import timeout_of

__all__ = ["RequestCalls"]


class RequestCalls:
    """The part that the calls of all clients without records share."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster

    def call(
        self, message: Any, *, broker: int | None = None, version: int | None = None, timeout: float | None = None
    ) -> Work[Any]:
        """Send any request, to `broker` or to any broker."""
        if not hasattr(type(message), "response"):
            raise ConfigError(f"{message!r} is not a request message; see kafwire.protocol.MESSAGES")
        seconds = timeout_of(timeout)
        timeout_ms = None if seconds is None else seconds * 1000
        return partial(self._cluster.call, message, node=broker, version=version, timeout_ms=timeout_ms)
