"""Client quotas: bytes produced and fetched per second, by user and client id (KIP-13, KIP-55, KIP-546).

Rates are measured as in Kafka: 11 samples of a second. A client above a quota gets a throttle time, and the broker does
not read from its connection meanwhile, until the rate is at the quota again. `request_percentage`,
`controller_mutation_rate` and `connection_creation_rate` are stored and described, and limit nothing.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState

USER, CLIENT_ID, IP = "user", "client-id", "ip"
PRODUCED, FETCHED = "producer_byte_rate", "consumer_byte_rate"
SAMPLES = 11  # quota.window.num
SAMPLE_MS = 1000.0  # quota.window.size.seconds

# Types and names; a name of None is the default of its type.
Entity = frozenset[tuple[str, str | None]]


def entity(names: Mapping[str, str | None]) -> Entity:
    """Return the entity of these types and names."""
    return frozenset(names.items())


@dataclass(slots=True)
class _Sample:
    began_ms: float
    last_ms: float
    total: float = 0.0


@dataclass(slots=True)
class Rate:
    """A rate over the last samples, as Kafka's `Rate` of a `SampledStat`."""

    samples: deque[_Sample] = field(default_factory=lambda: deque(maxlen=SAMPLES + 1))

    def add(self, amount: float, now_ms: float) -> None:
        """Add an amount; a negative one takes back."""
        if not self.samples or now_ms - self.samples[-1].began_ms >= SAMPLE_MS:
            self.samples.append(_Sample(now_ms, now_ms))
        self.samples[-1].total += amount
        self.samples[-1].last_ms = now_ms

    def measure(self, now_ms: float) -> tuple[float, float]:
        """Return the amount per second, and the milliseconds over which it is measured."""
        while self.samples and now_ms - self.samples[0].last_ms >= SAMPLES * SAMPLE_MS:
            self.samples.popleft()
        elapsed = now_ms - self.samples[0].began_ms if self.samples else 0.0
        elapsed += max(0.0, SAMPLES - 1 - elapsed // SAMPLE_MS) * SAMPLE_MS
        return sum(each.total for each in self.samples) / elapsed * 1000.0, elapsed

    def excess_ms(self, quota: float, now_ms: float) -> int:
        """Return the milliseconds until the rate is at the quota; 0: it is not above it."""
        rate, elapsed = self.measure(now_ms)
        return round((rate - quota) / quota * elapsed) if rate > quota else 0


class Quotas:
    """The quotas of a cluster, and each client's use of each broker: `state.part(Quotas)`."""

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.values: dict[Entity, dict[str, float]] = {}
        self._rates: dict[tuple[int, str, Entity], Rate] = {}

    def set(self, names: Mapping[str, str | None], values: Mapping[str, float | None]) -> None:
        """Set quotas of an entity, by their keys; None removes one."""
        holder = entity(names)
        kept = self.values.setdefault(holder, {})
        for key, value in values.items():
            if value is None:
                kept.pop(key, None)
            else:
                kept[key] = float(value)
        self._state.journal.write("quota", sorted([*each] for each in names.items()), kept or None)
        if not kept:
            del self.values[holder]

    def limit(self, request: Request, key: str) -> tuple[float, Entity] | None:
        """Return the quota of a request's client, and the entity that shares it; None: none."""
        if not self.values:
            return None
        user = request.connection.principal.partition(":")[2]
        for names, shared in _candidates(user, request.client_id or ""):
            value = self.values.get(entity(names), {}).get(key)
            if value is not None:
                return value, entity(shared)
        return None

    def use(self, request: Request, key: str, amount: float) -> int:
        """Count a request's use. Return the milliseconds for which its client is throttled."""
        found = self.limit(request, key)
        if found is None:
            return 0
        quota, holder = found
        rate = self._rates.setdefault((request.node, key, holder), Rate())
        rate.add(amount, self._state.now_ms)
        return rate.excess_ms(quota, self._state.now_ms)

    def fetch(self, request: Request, size: int) -> int:
        """Count a Fetch response, unless it must be empty. Return the milliseconds of its client's throttle."""
        throttle_ms = self.use(request, FETCHED, size)
        if throttle_ms:
            self.use(request, FETCHED, -size)
        return throttle_ms

    def most_bytes(self, request: Request) -> float:
        """Return the largest Fetch response that is not throttled for ever."""
        found = self.limit(request, FETCHED)
        return float("inf") if found is None else found[0] * (SAMPLES - 1) * SAMPLE_MS / 1000.0


def _candidates(user: str, client: str) -> Iterator[tuple[dict[str, str | None], dict[str, str | None]]]:
    """Yield the entities whose quotas count, in this order, and the entities that share each."""
    both: dict[str, str | None] = {USER: user, CLIENT_ID: client}
    yield both, both
    yield {USER: user, CLIENT_ID: None}, both
    yield {USER: user}, {USER: user}
    yield {USER: None, CLIENT_ID: client}, both
    yield {USER: None, CLIENT_ID: None}, both
    yield {USER: None}, {USER: user}
    yield {CLIENT_ID: client}, {CLIENT_ID: client}
    yield {CLIENT_ID: None}, {CLIENT_ID: client}
