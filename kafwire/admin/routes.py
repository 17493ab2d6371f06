"""The brokers that serve a request: any, the controller, given brokers, a coordinator, or leaders.

A route groups keys by the broker to ask, and forgets what an error disproves. `asking.ask` uses it until all keys have
an outcome.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable
from typing import Any, Generic, Protocol, TypeVar

from kafwire.admin.retried_codes import ANYWHERE, AT_COORDINATOR, AT_LEADER
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import COORDINATOR, COORDINATOR_ERRORS, find_coordinators
from kafwire.cluster.topic_lookup import UnknownResponses
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)

K = TypeVar("K", bound=Hashable)
K_contra = TypeVar("K_contra", bound=Hashable, contravariant=True)

__all__ = ["ANY", "AnyBroker", "Coordinators", "GivenBrokers", "Leaders", "Route"]

ANY = -1  # any broker, or the controller where only it executes the request
Found = tuple[dict[int, list[K]], dict[K, KafkaError]]


class Route(Protocol[K]):
    """Finds the broker of each key. `retried`: the error codes after which a key is tried again."""

    retried: frozenset[int]

    async def brokers(self, keys: Collection[K]) -> Found[K]:
        """Group keys by the id of the broker to ask; keys without a broker have an error."""

    async def call(self, broker: int, message: Any, version: int | None = None, /) -> Any:
        """Send one request to a broker of `brokers`, and return the response."""

    def failed(self, key: K, broker: int, error: KafkaError, /) -> None:
        """Forget what the error of a key disproves, before the key is looked up again."""


class AnyBroker(Generic[K]):
    """Any broker; the controller of a ZooKeeper cluster for the requests that only it executes."""

    def __init__(self, cluster: Cluster, *, also: Iterable[int] = ()) -> None:
        self._cluster = cluster
        self.retried: frozenset[int] = ANYWHERE.union(also)

    async def brokers(self, keys: Collection[K]) -> Found[K]:
        """All keys go into one request."""
        return {ANY: list(keys)}, {}

    async def call(self, _: int, message: Any, version: int | None = None) -> Any:
        """Send the request to a broker that responds, or to the controller."""
        return await self._cluster.call_once(message, version=version)

    def failed(self, _key: K, _broker: int, _error: KafkaError) -> None:
        """There is nothing to forget: `Cluster` finds a controller again."""


class _Direct(Generic[K]):
    """A route to brokers known by their ids. `also`: error codes of one API after which a key is tried again too."""

    retried: frozenset[int] = ANYWHERE
    _role = "control"

    def __init__(self, cluster: Cluster, *, also: Iterable[int] = ()) -> None:
        self._cluster = cluster
        self.retried = self.retried.union(also)

    async def version_of(self, broker: int, request: type[Any], at_most: int | None = None) -> int:
        """Return the version in which a broker gets requests of a class."""
        connection = self._cluster.connection(broker, self._role)
        await connection.open()
        return connection.version_of(request, at_most=at_most)

    async def call(self, broker: int, message: Any, version: int | None = None) -> Any:
        """Send the request to that broker."""
        return await self._cluster.connection(broker, self._role).call(message, version=version)

    async def offered(self, broker: int, request: type[Any], at_most: int | None = None) -> int | None:
        """Return that version; None: the broker has no version that kafwire has."""
        try:
            return await self.version_of(broker, request, at_most)
        except ProtocolError:
            return None


class GivenBrokers(_Direct[K]):
    """The broker that a key names, for example a broker's own configuration."""

    def __init__(self, cluster: Cluster, broker_of: Callable[[K], int], *, also: Iterable[int] = ()) -> None:
        super().__init__(cluster, also=also)
        self._broker_of = broker_of
        self._refreshes = False
        self._seen: set[int] = set()

    async def brokers(self, keys: Collection[K]) -> Found[K]:
        """Group keys by their broker. A broker that the metadata lacks is looked up once per attempt.

        A broker that was in the cluster may come back until the time limit.
        """
        wanted = {key: self._broker_of(key) for key in keys}
        known = self._cluster.metadata.brokers
        self._seen.update(known)
        if self._refreshes or any(broker not in known and broker != ANY for broker in wanted.values()):
            await self._cluster.refresh(at_once=True)
        found: dict[int, list[K]] = {}
        lost: dict[K, KafkaError] = {}
        for key, broker in wanted.items():
            if broker in self._seen and broker not in self._cluster.metadata.brokers:
                lost[key] = KafkaConnectionError(f"broker {broker} left the cluster")
            elif broker != ANY and broker not in self._cluster.metadata.brokers:
                listed = ", ".join(map(str, sorted(self._cluster.metadata.brokers))) or "none"
                lost[key] = ConfigError(f"broker {broker} is not in the cluster (its brokers: {listed})")
            else:
                found.setdefault(broker, []).append(key)
        return found, lost

    async def call(self, broker: int, message: Any, version: int | None = None) -> Any:
        """Send the request to that broker; `ANY`: to one that responds."""
        if broker == ANY:
            return await self._cluster.call_once(message, version=version)
        return await super().call(broker, message, version)

    def failed(self, _key: K, _broker: int, error: KafkaError) -> None:
        """Look the broker's address up again if it cannot be reached."""
        self._refreshes |= isinstance(error, KafkaConnectionError | KafkaTimeoutError)


class Coordinators(_Direct[K]):
    """The coordinator of each key: of a group, or of a transactional id."""

    retried: frozenset[int] = AT_COORDINATOR

    def __init__(
        self, cluster: Cluster, key_type: int, name_of: Callable[[K], str] = str, *, also: Iterable[int] = ()
    ) -> None:
        super().__init__(cluster, also=also)
        self._key_type = key_type
        self._name_of = name_of
        self._role = "control" if getattr(cluster.config, "single_socket", False) else COORDINATOR

    async def brokers(self, keys: Collection[K]) -> Found[K]:
        """Group keys by coordinator; one FindCoordinator request looks up all that are unknown."""
        known = self._cluster.coordinators
        names = {key: self._name_of(key) for key in keys}
        missing = [name for name in dict.fromkeys(names.values()) if (self._key_type, name) not in known]
        errors = await find_coordinators(self._cluster, missing, self._key_type) if missing else {}
        found: dict[int, list[K]] = {}
        lost: dict[K, KafkaError] = {}
        for key, name in names.items():
            if name in errors:
                lost[key] = errors[name]
            else:
                found.setdefault(known[self._key_type, name], []).append(key)
        return found, lost

    def failed(self, key: K, broker: int, error: KafkaError) -> None:
        """Forget a coordinator that moved or cannot be reached."""
        moved = isinstance(error, BrokerError) and error.code in COORDINATOR_ERRORS
        if moved or isinstance(error, KafkaConnectionError | KafkaTimeoutError):
            place = self._key_type, self._name_of(key)
            if self._cluster.coordinators.get(place) == broker:
                del self._cluster.coordinators[place]


class Leaders(_Direct[K]):
    """The leader of each partition."""

    retried: frozenset[int] = AT_LEADER

    def __init__(self, cluster: Cluster, partition_of: Callable[[K], tuple[str, int]]) -> None:
        super().__init__(cluster)
        self._partition_of = partition_of
        self._is_stale = False
        self._unknown: dict[tuple[str, int], UnknownResponses] = {}

    async def brokers(self, keys: Collection[K]) -> Found[K]:
        """Group keys by leader, after a metadata request for topics that are unknown or whose leader moved."""
        wanted = {key: self._partition_of(key) for key in keys}
        metadata = self._cluster.metadata
        if self._is_stale or any(metadata.leader(*where) < 0 for where in wanted.values()):
            topics = {topic for topic, _ in wanted.values()}
            await self._cluster.refresh(topics, at_once=True, elsewhere=bool(self._unknown))
            self._is_stale = False
            self._count(set(wanted.values()))
        found: dict[int, list[K]] = {}
        lost: dict[K, KafkaError] = {}
        for key, where in wanted.items():
            error = self._error(*where)
            if error is None:
                found.setdefault(metadata.leader(*where), []).append(key)
            else:
                lost[key] = error
        return found, lost

    def failed(self, _key: K, _broker: int, _error: KafkaError) -> None:
        """Look the leaders up again."""
        self._is_stale = True

    def _count(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Count a metadata response for the partitions that it lacks: they do not exist, or are new."""
        metadata = self._cluster.metadata
        for topic, partition in partitions:
            info = metadata.topics.get(topic)
            if topic in metadata.errors:
                is_unknown = metadata.errors[topic] == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            else:
                is_unknown = info is not None and bool(info.partitions) and partition not in info.partitions
            if is_unknown:
                self._unknown.setdefault((topic, partition), UnknownResponses()).count(self._cluster.engine.now_ms())

    def _error(self, topic: str, partition: int) -> KafkaError | None:
        """Return the error of a partition that does not exist, or has no leader."""
        metadata, unknown = self._cluster.metadata, self._unknown.get((topic, partition))
        info = metadata.topics.get(topic)
        if unknown is not None and unknown.are_believed:
            if info is not None and topic not in metadata.errors:
                return ConfigError(f"topic {topic!r} has partitions 0 to {max(info.partitions)}, not {partition}")
            text = f"topic {topic!r} does not exist on {self._cluster.bootstrap}: check the name"
            return BrokerError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "UNKNOWN_TOPIC_OR_PARTITION", False, text)
        if metadata.leader(topic, partition) >= 0:
            return None
        usual = ErrorCode.LEADER_NOT_AVAILABLE if unknown is None else ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        code, what = metadata.errors.get(topic, usual), f"looking up the leader of {topic}-{partition}"
        return broker_error(code, what, api="Metadata", topic=topic)
