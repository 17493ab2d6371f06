"""Client metrics at the brokers (KIP-714): subscriptions, the clients that have them, and their pushes.

A broker offers the APIs once there is a subscription, as a Kafka with a plug-in for client metrics does. A test that
reads pushed metrics:

    kafka.ask(lambda state: state.part(ClientTelemetry).subscribe("all", ["*"], interval_ms=100))
    ...
    kafka.ask(lambda state: [push.values() for push in state.part(ClientTelemetry).pushes])
"""

from __future__ import annotations

import re
import uuid
import zlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire.broker.request import Request
from kafwire.errors import ErrorCode
from kafwire.telemetry.otlp import Metrics
from kafwire.telemetry.subscription import ALL, DEFAULT_INTERVAL_MS

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

MAX_BYTES = 1 << 20
KEPT = 1000  # pushes
# Ids that no client has: all bits 0, and Kafka's ONE_UUID.
RESERVED = frozenset({uuid.UUID(int=0), uuid.UUID(int=1)})
# After these errors a client may ask for its subscription before the interval is over.
_ASKS_AT_ONCE = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})


@dataclass(frozen=True)
class Subscription:
    """One subscription: prefixes of names, `*` for all; the interval; and the clients, all without `match`.

    `match` has regular expressions by `client_id`, `client_instance_id`, `client_software_name`,
    `client_software_version` and `client_source_address`; all of them must match.
    """

    metrics: tuple[str, ...]
    interval_ms: int
    match: Mapping[str, re.Pattern[str]]


@dataclass(frozen=True)
class Push:
    """One accepted push."""

    node: int
    client_id: str | None
    client_instance_id: uuid.UUID
    is_terminating: bool
    compression_type: int
    metrics: Metrics

    def values(self) -> dict[str, float]:
        """Return the numbers by name; of several points of a name the last."""
        return {point.name: point.value for point in self.metrics.points}


@dataclass
class Instance:
    """One client instance, with the subscription that it got."""

    subscription_id: int
    metrics: tuple[str, ...]
    interval_ms: int
    version: int
    asked_ms: float = float("-inf")
    pushed_ms: float = float("-inf")
    is_terminating: bool = False
    last_error: int = ErrorCode.NONE

    def may_ask(self, now_ms: float) -> bool:
        """Return True if the client may ask for its subscription now, and note that it does."""
        is_early = now_ms - max(self.asked_ms, self.pushed_ms) < self.interval_ms
        if is_early and self.last_error not in _ASKS_AT_ONCE:
            return False
        self.asked_ms = now_ms
        return True

    def may_push(self, now_ms: float) -> bool:
        """Return True if the client may push now, and note that it does.

        The first push after a request for the subscription may be early.
        """
        if self.asked_ms <= self.pushed_ms and now_ms - self.pushed_ms < self.interval_ms:
            return False
        self.pushed_ms = now_ms
        return True


@dataclass
class _Subscriptions:
    by_name: dict[str, Subscription] = field(default_factory=dict)
    version: int = 0


class ClientTelemetry:
    """The client metrics of all brokers: `state.part(ClientTelemetry)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self._subscriptions = _Subscriptions()
        self._instances: dict[uuid.UUID, Instance] = {}
        self.is_enabled = False
        self.is_delta = True  # Kafka asks for deltas
        self.max_bytes = MAX_BYTES
        self.compression_types = [4, 3, 1, 2]  # Kafka's order: zstd, lz4, gzip, snappy
        self.pushes: list[Push] = []

    def subscribe(
        self,
        name: str,
        metrics: Iterable[str] = (),
        *,
        interval_ms: int = DEFAULT_INTERVAL_MS,
        match: Mapping[str, str] | None = None,
    ) -> None:
        """Add a subscription, or replace that of the same name; the brokers offer the APIs from now on."""
        patterns = {key: re.compile(pattern) for key, pattern in (match or {}).items()}
        self._subscriptions.by_name[name] = Subscription(tuple(metrics), interval_ms, patterns)
        self._subscriptions.version += 1
        self.is_enabled = True

    def unsubscribe(self, name: str) -> None:
        """Remove a subscription."""
        if self._subscriptions.by_name.pop(name, None) is not None:
            self._subscriptions.version += 1

    def instance(self, instance_id: uuid.UUID, request: Request) -> Instance:
        """Return a client instance, with its present subscription."""
        known = self._instances.get(instance_id)
        if known is None or known.version < self._subscriptions.version:
            known = self._instances[instance_id] = self._subscribed(instance_id, request)
        return known

    def _subscribed(self, instance_id: uuid.UUID, request: Request) -> Instance:
        about = _facts(instance_id, request)
        matching = [each for each in self._subscriptions.by_name.values() if _matches(each, about)]
        metrics = tuple(dict.fromkeys(metric for each in matching for metric in each.metrics))
        if ALL in metrics:
            metrics = (ALL,)
        interval_ms = min([each.interval_ms for each in matching], default=DEFAULT_INTERVAL_MS)
        crc = zlib.crc32(f"{sorted(metrics)} {interval_ms} {instance_id}".encode())
        return Instance(crc - (1 << 31), metrics, interval_ms, self._subscriptions.version)

    def new_id(self) -> uuid.UUID:
        """Return the id of a new client instance."""
        return self._state.make_id()

    def take(self, push: Push) -> None:
        """Keep a push, as a plug-in gets it."""
        self.pushes.append(push)
        del self.pushes[:-KEPT]


def _facts(instance_id: uuid.UUID, request: Request) -> dict[str, Any]:
    connection = request.connection
    return {
        "client_instance_id": str(instance_id),
        "client_id": request.client_id or "",
        "client_software_name": connection.client_software[0],
        "client_software_version": connection.client_software[1],
        "client_source_address": connection.peer,
    }


def _matches(subscription: Subscription, facts: Mapping[str, str]) -> bool:
    return all(pattern.fullmatch(facts.get(key, "")) for key, pattern in subscription.match.items())
