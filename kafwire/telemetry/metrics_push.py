"""Pushes a client's metrics to the cluster while brokers subscribe to them (KIP-714). Runs on the engine.

`Pushing` (`runtime/metrics_reporter.py`) begins it after the first connection to a broker that offers the API: brokers
without a plug-in for client metrics do not, and cost nothing. `subscription.py` decides, `standard.py` computes.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafwire._version import __version__
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import TELEMETRY_KEY, Cluster
from kafwire.compression import CODECS, compress
from kafwire.errors import ConfigError, KafkaConnectionError, KafkaError
from kafwire.protocol.api.get_telemetry_subscriptions import GetTelemetrySubscriptionsRequest
from kafwire.protocol.api.push_telemetry import PushTelemetryRequest
from kafwire.runtime.log import cluster_log as log
from kafwire.runtime.metrics_reporter import FIRST_S
from kafwire.telemetry.otlp import Point, encode
from kafwire.telemetry.standard import OWN, Deltas, Reading, StandardMetrics, Timing, own_points
from kafwire.telemetry.subscription import NO_ID, Subscription, SubscriptionMachine

# The longest that a close waits for the last push.
LAST_PUSH_S = 1.0
# A snapshot with more partitions and connections than these is read and encoded in a thread of its own.
MANY_ROWS = 50
SCOPE = "kafwire", __version__


class PushSource(Protocol):
    """A client whose metrics are pushed. All methods run on the engine."""

    def reading(self) -> Reading:
        """Return the numbers of the standard metrics, and begin new maxima."""

    def resource(self) -> Mapping[str, str]:
        """Return the attributes of the client, such as `group_id`."""

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of all metrics."""


class MetricsPush:
    """The pushes of one client."""

    def __init__(self, cluster: Cluster, source: PushSource, on_id: Callable[[], object] = lambda: None) -> None:
        """Begin; `on_id` is called once the client instance id is known."""
        self._cluster = cluster
        self._source = source
        self._on_id = on_id
        clock = cluster.engine.clock
        self._start_ns = clock.time_ns()
        self._standard = StandardMetrics(self._start_ns)
        self._deltas = Deltas()
        self._was_delta: bool | None = None
        self._machine = SubscriptionMachine(range(1, len(CODECS)))
        self._node: int | None = None  # pushes go to one broker while it responds
        self._requesting = asyncio.Lock()
        self._task = asyncio.ensure_future(self._run())

    @property
    def instance_id(self) -> uuid.UUID | None:
        """The client instance id; None: not known yet."""
        found = self._machine.client_instance_id
        return None if found == NO_ID else found

    async def _run(self) -> None:
        wait_ms: float | None = 0.0
        while wait_ms is not None:
            await asyncio.sleep(wait_ms / 1000)
            if not self._cluster.metadata.brokers:
                wait_ms = FIRST_S * 1000
                continue
            async with self._requesting:
                try:
                    wait_ms = await self._request()
                except KafkaError as error:
                    log.debug("kafwire: metrics were not pushed: %s", error, error=error)
                    self._node = None
                    wait_ms = self._machine.failed()
                except Exception:
                    log.exception("kafwire: pushing metrics failed, and ends")
                    self._machine.subscription = None  # no last push either
                    return
        log.info("kafwire: the cluster refused metrics of this client for good: no more are pushed")

    async def _request(self) -> float | None:
        """Ask for the subscription, or push; return the wait until the next request, in ms; None: the end."""
        connection = self._connection()
        machine = self._machine
        if machine.subscription is not None:
            return await self._push(connection, terminating=False)
        is_new = machine.client_instance_id == NO_ID
        request = GetTelemetrySubscriptionsRequest(client_instance_id=machine.client_instance_id)
        wait_ms = machine.subscribed(await connection.call(request), self._cluster.engine.random.random)
        if is_new and machine.client_instance_id != NO_ID:
            self._on_id()
            log.info(
                "kafwire: the client instance id for metrics is %s",
                machine.client_instance_id,
                client_instance_id=machine.client_instance_id,
            )
        subscription = machine.subscription
        if subscription is not None and subscription.is_delta != self._was_delta:
            self._was_delta = subscription.is_delta
            self._deltas = Deltas()
        return wait_ms

    def _connection(self) -> BrokerConnection:
        """Return the control connection of the broker that got the last request, else of a connected one."""
        cluster = self._cluster
        brokers = cluster.metadata.brokers
        if self._node not in brokers:
            ready = {each.node for each in cluster.connections if each.is_ready and TELEMETRY_KEY in each.versions}
            nodes = sorted(ready & brokers.keys()) or sorted(brokers)
            if not nodes:
                raise KafkaConnectionError("no broker is known yet")
            self._node = nodes[int(cluster.engine.random.random() * len(nodes))]
        assert self._node is not None
        return cluster.connection(self._node, "control")

    async def _push(self, connection: BrokerConnection, *, terminating: bool) -> float | None:
        machine, subscription, source = self._machine, self._machine.subscription, self._source
        assert subscription is not None
        snapshot = source.metrics() if subscription.may_want(OWN) else {}
        what = subscription, source.reading(), snapshot, source.resource()
        if sum(len(rows) for rows in snapshot.values() if isinstance(rows, Mapping | list)) > MANY_ROWS:
            sums, payload = await self._cluster.engine.in_thread("kafwire-metrics", self._payload, *what)
        else:
            sums, payload = self._payload(*what)
        request = PushTelemetryRequest(
            client_instance_id=machine.client_instance_id,
            subscription_id=subscription.subscription_id,
            terminating=terminating,
            compression_type=payload[1],
            metrics=payload[0],
        )
        response = await connection.call(request)
        if not response.error_code:
            self._deltas.got(sums)
        return machine.pushed(response.error_code)

    def _payload(
        self, subscription: Subscription, reading: Reading, snapshot: Mapping[str, Any], resource: Mapping[str, str]
    ) -> tuple[list[Point], tuple[bytes, int]]:
        """Return the points to push, and their payload with its compression type.

        The points that the KIP requires come first, as a limit of bytes cuts the others.
        """
        now_ns = self._cluster.engine.clock.time_ns()
        found = list(self._standard.points(reading, now_ns))
        if snapshot:
            found += own_points(snapshot, self._start_ns, now_ns)
        sums = [point for point in found if subscription.wants(point.name)]
        points = list(self._deltas.of(sums)) if subscription.is_delta else [*sums]
        payload = self._encoded(points, resource, subscription.max_bytes)
        return sums[: len(points)], payload

    def _encoded(self, points: list[Point], resource: Mapping[str, str], max_bytes: int) -> tuple[bytes, int]:
        """Return the payload and its compression type; drops the last of `points` until it has at most `max_bytes`."""
        while True:
            data, compression_type = encode(points, resource, SCOPE), self._machine.compression_type
            if compression_type and data:
                try:
                    data = compress(CODECS[compression_type], data)
                except ConfigError:  # its library is missing
                    self._machine.without(compression_type)
                    continue
            if len(data) <= max_bytes or max_bytes <= 0 or not points:
                return data, compression_type
            del points[len(points) * 3 // 4 :]

    async def close(self, timeout_s: float) -> None:
        """Push the last metrics if brokers subscribe, within `timeout_s`, and end."""
        try:
            async with asyncio.timeout(max(0.0, min(timeout_s, LAST_PUSH_S))):
                async with self._requesting:  # a push in flight ends first
                    self._task.cancel()
                    if self._machine.subscription is not None:
                        await self._push(self._connection(), terminating=True)
        except (TimeoutError, KafkaError) as error:
            log.debug("kafwire: the last metrics were not pushed: %s", error, error=error)
        except Exception:
            log.exception("kafwire: the last push of metrics failed")  # a defect must not keep the client open
        finally:
            self.stop()

    def stop(self) -> None:
        """End without a last push."""
        self._task.cancel()


def node_timings(connections: list[BrokerConnection]) -> dict[int, Timing]:
    """Return the latencies of connections, by broker."""
    found: dict[int, Timing] = {}
    for connection in connections:
        if connection.node >= 0:
            found[connection.node] = found.get(connection.node, Timing()) + _latency(connection)
    return found


def timing_of(connections: list[BrokerConnection], *roles: str) -> Timing:
    """Return the latencies of the connections for some roles, or for one partition of a role (`fetch:t-0`)."""
    return sum((_latency(each) for each in connections if _serves(each, *roles)), Timing())


def throttle_of(connections: list[BrokerConnection], role: str) -> Timing:
    """Return the throttle times of the connections for a role."""
    found = (
        Timing(float(each.throttle_ms), each.responses, each.throttle_ms_peak)
        for each in connections
        if _serves(each, role)
    )
    return sum(found, Timing())


def _latency(connection: BrokerConnection) -> Timing:
    return Timing(connection.latency_ms_sum, connection.responses, connection.latency_ms_peak)


def _serves(connection: BrokerConnection, *roles: str) -> bool:
    return connection.role.partition(":")[0] in roles


def begin_peaks(connections: list[BrokerConnection]) -> None:
    """Begin new maxima."""
    for connection in connections:
        connection.latency_ms_peak = connection.throttle_ms_peak = 0.0
