"""The numbers of clients that read or administer, for the metrics that clusters subscribe to (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import GroupOffsets
from kafwire.config import ConsumerConfig, ShareConsumerConfig
from kafwire.consumer.fetch.strategies import IMMEDIATE
from kafwire.consumer.group.membership_metrics import MembershipMetrics
from kafwire.telemetry.metrics_push import begin_peaks, node_timings, timing_of
from kafwire.telemetry.standard import Reading, Timing

# The roles of connections whose requests are fetches. With `single_socket` there is none.
_FETCHING = ("fetch", IMMEDIATE, "share")


class Membership(Protocol):
    """A consumer's membership of its group."""

    @property
    def counts(self) -> MembershipMetrics:
        """The counters of rebalances."""

    def read_ms(self) -> float:
        """Return the time that readers have spent in reads so far."""


class PushedClient:
    """The source of the pushes of a `Client`, an `Admin` or a scan; see `PushSource`."""

    def __init__(self, cluster: Cluster, kind: str) -> None:
        self._cluster = cluster
        self._kind = kind

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of all metrics."""
        return {"connections": [each.stats() for each in self._cluster.connections if each.connects]}

    def reading(self) -> Reading:
        """Return the numbers of the standard metrics, and begin new maxima."""
        connections = self._cluster.connections
        reading = Reading(self._kind, self._cluster.connects, node_timings(connections))
        reading.timings["consumer.fetch.manager.fetch.latency"] = timing_of(connections, *_FETCHING)
        begin_peaks(connections)
        return reading

    def resource(self) -> Mapping[str, str]:
        """Return the attributes of the client."""
        rack = self._cluster.config.client_rack
        return {"client_rack": rack} if rack else {}


class PushedConsumer(PushedClient):
    """The source of one consumer's pushes."""

    def __init__(
        self,
        cluster: Cluster,
        config: ConsumerConfig | ShareConsumerConfig,
        metrics: Callable[[], dict[str, Any]],
        partitions: Callable[[], int],
        member_id: Callable[[], str],
        group: GroupOffsets | None = None,
        membership: Membership | None = None,
    ) -> None:
        super().__init__(cluster, "consumer")
        self._config = config
        self._snapshot = metrics
        self._partitions = partitions
        self._member_id = member_id
        self._group = group
        self._membership = membership
        self._last_ms = cluster.engine.now_ms()
        self._last_read_ms = 0.0 if membership is None else membership.read_ms()

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of all metrics."""
        return self._snapshot()

    def reading(self) -> Reading:
        """Return the numbers of the standard metrics, and begin new maxima."""
        reading = super().reading()
        reading.gauges["consumer.coordinator.assigned.partitions"] = float(self._partitions())
        group = self._group
        if group is not None:
            commits = Timing(group.commit_ms_sum, group.commit_requests, group.commit_ms_peak)
            reading.timings["consumer.coordinator.commit.latency"] = commits
            group.commit_ms_peak = 0.0
        if self._membership is not None:
            self._read_membership(reading, self._membership)
        return reading

    def _read_membership(self, reading: Reading, membership: Membership) -> None:
        counts = membership.counts
        rebalances = Timing(counts.rebalance_ms_sum, counts.rebalances, counts.rebalance_ms_peak)
        counts.rebalance_ms_peak = 0.0
        reading.timings["consumer.coordinator.rebalance.latency"] = rebalances
        reading.totals["consumer.coordinator.rebalance.latency.total"] = counts.rebalance_ms_sum
        now_ms, read_ms = self._cluster.engine.now_ms(), membership.read_ms()
        if now_ms > self._last_ms:
            ratio = (read_ms - self._last_read_ms) / (now_ms - self._last_ms)
            reading.gauges["consumer.poll.idle.ratio.avg"] = min(1.0, max(0.0, ratio))
        self._last_ms, self._last_read_ms = now_ms, read_ms

    def resource(self) -> Mapping[str, str]:
        """Return the attributes of the consumer."""
        config = self._config
        found = {
            "group_id": config.group_id,
            "group_instance_id": getattr(config, "group_instance_id", None),
            "group_member_id": self._member_id(),
        }
        return {**{key: value for key, value in found.items() if value}, **super().resource()}
