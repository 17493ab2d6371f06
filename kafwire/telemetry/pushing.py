"""The part of a client that begins to push its metrics once a broker takes them (KIP-714). Runs on the engine.

Every producer and consumer has it, so it imports nothing of the rest before that.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafwire.cluster.cluster import Cluster
from kafwire.errors import ConfigError, KafkaTimeoutError

if TYPE_CHECKING:
    from kafwire.telemetry.metrics_push import MetricsPush, PushSource

_OFF = "this client pushes no metrics, as enable_metrics_push is False or its connections are those of another client"


class Pushing:
    """The pushes of one client. `source` makes the source of its metrics."""

    def __init__(self, cluster: Cluster, source: Callable[[], PushSource], *, is_enabled: bool) -> None:
        self._cluster = cluster
        self._source = source
        self._is_enabled = is_enabled
        self._push: MetricsPush | None = None
        self._waiting: list[asyncio.Future[None]] = []
        if is_enabled:
            cluster.when_subscribable = self._begin

    def _begin(self) -> None:
        from kafwire.telemetry.metrics_push import MetricsPush  # only for clusters that take metrics

        self._push = MetricsPush(self._cluster, self._source(), self._on_id)

    def _on_id(self) -> None:
        waiting, self._waiting = self._waiting, []
        for each in waiting:
            if not each.done():
                each.set_result(None)

    async def instance_id(self, timeout_s: float | None) -> uuid.UUID:
        """Return the client instance id, once the cluster has given it; None: within `default_api_timeout_ms`.

        Raises `ConfigError` if pushes are turned off, and `KafkaTimeoutError`, as for a cluster that takes no metrics.
        """
        if not self._is_enabled:
            raise ConfigError(_OFF)
        push = self._push
        if timeout_s is None:
            timeout_s = self._cluster.config.default_api_timeout_ms / 1000
        if push is None or push.instance_id is None:
            known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
            self._waiting.append(known)
            try:
                async with asyncio.timeout(timeout_s):
                    await known
            except TimeoutError:
                raise KafkaTimeoutError(
                    f"no client instance id within {timeout_s:g} s: the cluster has no plug-in for metrics of clients, "
                    "or does not respond"
                ) from None
        assert self._push is not None
        assert self._push.instance_id is not None
        return self._push.instance_id

    async def close(self, timeout_s: float) -> None:
        """Push the last metrics, within `timeout_s`, and end."""
        if self._push is not None:
            await self._push.close(timeout_s)

    def stop(self) -> None:
        """End without a last push."""
        if self._push is not None:
            self._push.stop()
