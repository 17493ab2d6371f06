"""A producer's numbers for the metrics that clusters subscribe to (KIP-714)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafwire.cluster.cluster import Cluster
from kafwire.config import ProducerConfig
from kafwire.producer.metrics import ProduceCounters
from kafwire.telemetry.metrics_push import begin_peaks, node_timings, throttle_of
from kafwire.telemetry.standard import Reading, Timing


class PushedProducer:
    """The source of one producer's pushes; see `PushSource`."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        counters: Callable[[], ProduceCounters],
        metrics: Callable[[], dict[str, Any]],
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._counters = counters
        self.metrics = metrics

    def reading(self) -> Reading:
        """Return the numbers of the standard metrics, and begin new maxima."""
        counters = self._counters()  # first: it adds those of direct sends to the connections
        connections = self._cluster.connections
        reading = Reading("producer", self._cluster.connects, node_timings(connections))
        reading.timings = {
            "producer.produce.throttle.time": throttle_of(connections, "produce"),
            "producer.record.queue.time": Timing(*counters.queue_times()),
        }
        begin_peaks(connections)
        return reading

    def resource(self) -> Mapping[str, str]:
        """Return the attributes of the producer."""
        config = self._config
        found = {"transactional_id": config.transactional_id, "client_rack": config.client_rack}
        return {key: value for key, value in found.items() if value}
