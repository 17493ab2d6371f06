"""`PushingCluster`: the connections of a `Client`, an `Admin` or a scan, and the pushes of their metrics."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable
from typing import TYPE_CHECKING

from kafwire.cluster.cluster import Cluster
from kafwire.runtime.metrics_reporter import Pushing

if TYPE_CHECKING:
    from kafwire.telemetry.metrics_push import MetricsPush

# The start of the names of required metrics. Java's admin client has the same.
ADMIN = "admin.client"
CONSUMER = "consumer"


class PushingCluster:
    """A cluster, and the pushes of its metrics under names that start with `kind`. `end` and `close` run on the engine.

    Neither the cluster nor the pushes refer to this object: a client that is dropped without a close pushes no more.
    """

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self.cluster = cluster
        self.pushing = Pushing(cluster, _maker(cluster, kind), is_enabled=cluster.config.enable_metrics_push)
        self._ending: asyncio.Task[None] | None = None

    def end(self) -> None:
        """Push the last metrics, then close all connections; without pushes, close them at once."""
        if self._ending is not None or self.cluster.is_closed:
            return
        if self.pushing.has_begun:
            self._ending = asyncio.ensure_future(self._push_and_shut())
        else:
            self.cluster.shut()

    async def close(self) -> None:
        """End, and wait until all connections are closed."""
        self.end()
        if self._ending is not None:
            await asyncio.wait([self._ending])

    async def _push_and_shut(self) -> None:
        try:
            await self.pushing.close(math.inf)  # the pushes have a limit of their own
        finally:
            self.cluster.shut()

    def __del__(self) -> None:
        cluster = self.cluster
        if cluster.config.enable_metrics_push and not cluster.is_closed and not cluster.engine.is_over:
            cluster.engine.start(self.pushing.stop)


def _maker(cluster: Cluster, kind: str) -> Callable[[Callable[[], object]], MetricsPush]:
    def make(on_id: Callable[[], object]) -> MetricsPush:
        from kafwire.consumer.pushed_metrics import PushedClient  # only clients of a cluster that takes metrics
        from kafwire.telemetry.metrics_push import MetricsPush

        return MetricsPush(cluster, PushedClient(cluster, kind), on_id)

    return make
