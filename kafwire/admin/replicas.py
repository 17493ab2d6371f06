"""Replicas: their log directories, their reassignment to other brokers, and elections of their leaders."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import flag_of, nodes_of, one_of, partition_of, partitions_of, text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.replica_arguments import Directories, Reassigned, TopicPartitionReplica, replica_of
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.admin.routes import Route
from kafwire.cluster.offset_requests import by_topic
from kafwire.cluster.requirements import needs
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaError, broker_error
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work
from kafwire.types import TopicPartition

__all__ = ["LogDirDescription", "PartitionReassignment", "ReplicaCalls", "ReplicaInfo", "ReplicaLogDirs"]

ELECTION_TYPES = {"preferred": 0, "unclean": 1}


@dataclass(frozen=True, slots=True)
class ReplicaInfo:
    """A replica in a log directory.

    Args:
        size: the size of its log in bytes.
        offset_lag: the offsets by which it is behind the high watermark or, while it moves into the directory, behind
            the replica that it will replace.
        is_future: True if it moves into the directory, and does not serve clients yet.

    Example:
        >>> from kafwire.admin import ReplicaInfo
        >>> ReplicaInfo(4096, 0, is_future=False).size
        4096
    """

    __module__ = "kafwire.admin"
    size: int
    offset_lag: int
    is_future: bool


@dataclass(frozen=True, slots=True)
class LogDirDescription:
    """A log directory of a broker.

    Args:
        error: why the broker cannot use it, for example KAFKA_STORAGE_ERROR after a disk failed; None: it can.
        replicas: the replicas in it, by partition.
        total_bytes: the size of its volume; None from brokers before Kafka 3.3.
        usable_bytes: the free bytes of its volume; None from brokers before Kafka 3.3.
        is_cordoned: True if it gets no further replicas (KIP-1066); False from brokers before Kafka 4.3.

    Example:
        >>> from kafwire.admin import LogDirDescription
        >>> LogDirDescription(None, {}, 1000, 400, is_cordoned=False).usable_bytes
        400
    """

    __module__ = "kafwire.admin"
    error: KafkaError | None
    replicas: dict[TopicPartition, ReplicaInfo]
    total_bytes: int | None
    usable_bytes: int | None
    is_cordoned: bool


@dataclass(frozen=True, slots=True)
class ReplicaLogDirs:
    """The log directory of a replica, and the one into which it moves.

    Args:
        current_dir: the directory; None if the broker has no such replica, or its directory is offline.
        current_lag: the offsets by which it is behind the high watermark; None without a directory.
        future_dir: the directory into which it moves; None if it does not move.
        future_lag: the offsets that are left to copy there; None if it does not move.

    Example:
        >>> from kafwire.admin import ReplicaLogDirs
        >>> ReplicaLogDirs("/data/1", 0, None, None).current_dir
        '/data/1'
    """

    __module__ = "kafwire.admin"
    current_dir: str | None
    current_lag: int | None
    future_dir: str | None
    future_lag: int | None


@dataclass(frozen=True, slots=True)
class PartitionReassignment:
    """A reassignment in progress.

    Args:
        replicas: the brokers that have a replica now, including those of the two other fields.
        adding_replicas: the brokers that get a replica.
        removing_replicas: the brokers that lose theirs, once those are in sync.

    Example:
        >>> from kafwire.admin import PartitionReassignment
        >>> PartitionReassignment((3, 1), (3,), (1,)).adding_replicas
        (3,)
    """

    __module__ = "kafwire.admin"
    replicas: tuple[int, ...]
    adding_replicas: tuple[int, ...]
    removing_replicas: tuple[int, ...]


class ReplicaCalls(AdminRequests):
    """The calls about replicas."""

    def describe_log_dirs(
        self, brokers: Iterable[int] | None, *, timeout: float | None
    ) -> Work[Outcomes[int, dict[str, LogDirDescription]]]:
        """Describe the log directories of brokers; None: of all of them."""
        message = protocol.DescribeLogDirsRequest(topics=None)
        what, limit_ms = "describing log directories", timeout_ms_of(timeout)

        async def send(broker: int, _: list[int]) -> Mapping[int, dict[str, LogDirDescription] | KafkaError]:
            return {broker: _log_dirs(await route.call(broker, message), broker)}

        route: Route[int] = self._given(lambda broker: broker)
        if brokers is None:
            return self._everywhere(route, send, what, limit_ms)
        return self._work(nodes_of("brokers", brokers, "describe_log_dirs([1, 2])"), route, send, what, limit_ms)

    def describe_replica_log_dirs(
        self, replicas: Iterable[tuple[str, int, int]], *, timeout: float | None
    ) -> Work[Outcomes[TopicPartitionReplica, ReplicaLogDirs]]:
        """Find the log directories of replicas."""
        example = "describe_replica_log_dirs([(topic, 0, broker)])"
        if isinstance(replicas, str | bytes | TopicPartitionReplica) or not isinstance(replicas, Iterable):
            raise ConfigError(f"replicas={replicas!r}: write a list of replicas: {example}")
        asked = [replica_of(each) for each in replicas]
        request: Any = protocol.DescribeLogDirsRequest

        async def send(
            broker: int, keys: list[TopicPartitionReplica]
        ) -> Mapping[TopicPartitionReplica, ReplicaLogDirs | KafkaError]:
            topics = [
                request.DescribableLogDirTopic(topic=topic, partitions=numbers)
                for topic, numbers in by_topic((key.topic, key.partition) for key in keys).items()
            ]
            found = _log_dirs(await route.call(broker, request(topics=topics)), broker)
            if isinstance(found, KafkaError):
                return dict.fromkeys(keys, found)
            return {key: _directories(TopicPartition(key.topic, key.partition), found) for key in keys}

        route = self._given(_broker_of)
        return self._work(asked, route, send, "describing log directories", timeout_ms_of(timeout))

    def alter_replica_log_dirs(
        self, assignment: Directories, *, timeout: float | None
    ) -> Work[Outcomes[TopicPartitionReplica, None]]:
        """Move replicas between the log directories of their brokers."""
        if not isinstance(assignment, Mapping):
            raise ConfigError(f"assignment={assignment!r}: write a dict: {{(topic, 0, broker): '/data/2'}}")
        asked = {replica_of(key): text_of(f"the directory of {key}", path) for key, path in assignment.items()}
        request: Any = protocol.AlterReplicaLogDirsRequest

        async def send(
            broker: int, keys: list[TopicPartitionReplica]
        ) -> Mapping[TopicPartitionReplica, KafkaError | None]:
            dirs: dict[str, list[tuple[str, int]]] = {}
            for key in keys:
                dirs.setdefault(asked[key], []).append((key.topic, key.partition))
            message = request(
                dirs=[
                    request.AlterReplicaLogDir(
                        path=path,
                        topics=[
                            request.AlterReplicaLogDirTopic(name=topic, partitions=numbers)
                            for topic, numbers in by_topic(partitions).items()
                        ],
                    )
                    for path, partitions in dirs.items()
                ]
            )
            response = await route.call(broker, message)
            return {
                TopicPartitionReplica(topic.topic_name, each.partition_index, broker): error_of(
                    each,
                    f"moving the replica {topic.topic_name}-{each.partition_index} of broker {broker}",
                    "AlterReplicaLogDirs",
                    topic=topic.topic_name,
                )
                for topic in response.results
                for each in topic.partitions
            }

        route = self._given(_broker_of)
        return self._work(asked, route, send, "moving replicas", timeout_ms_of(timeout))

    def alter_partition_reassignments(
        self,
        reassignments: Reassigned,
        *,
        allow_replication_factor_change: bool,
        timeout: float | None,
    ) -> Work[Outcomes[TopicPartition, None]]:
        """Begin to move partitions to other brokers, or cancel the moves of those with None."""
        if not isinstance(reassignments, Mapping):
            raise ConfigError(f"reassignments={reassignments!r}: write a dict: {{(topic, 0): [1, 2]}}; None cancels")
        asked = {partition_of(key): _targets_of(key, replicas) for key, replicas in reassignments.items()}
        allows = flag_of("allow_replication_factor_change", allow_replication_factor_change)
        request: Any = protocol.AlterPartitionReassignmentsRequest

        async def send(broker: int, keys: list[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            topics = [
                request.ReassignableTopic(
                    name=topic,
                    partitions=[
                        request.ReassignablePartition(
                            partition_index=number, replicas=asked[TopicPartition(topic, number)]
                        )
                        for number in numbers
                    ],
                )
                for topic, numbers in by_topic(keys).items()
            ]
            message = request(topics=topics, timeout_ms=BROKER_TIMEOUT_MS, allow_replication_factor_change=allows)
            with needs(request, "allow_replication_factor_change=False", "4.1"):
                response = await route.call(broker, message)
            error = error_of(response, "reassigning partitions", "AlterPartitionReassignments")
            if error is not None:
                return dict.fromkeys(keys, error)
            return {
                TopicPartition(topic.name, each.partition_index): error_of(
                    each,
                    f"reassigning {topic.name}-{each.partition_index}",
                    "AlterPartitionReassignments",
                    topic=topic.name,
                )
                for topic in response.responses
                for each in topic.partitions
            }

        route = self._any()
        return self._work(asked, route, send, "reassigning partitions", timeout_ms_of(timeout))

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None, *, timeout: float | None
    ) -> Work[dict[TopicPartition, PartitionReassignment]]:
        """List the reassignments in progress, of these partitions or of all."""
        request: Any = protocol.ListPartitionReassignmentsRequest
        topics = None
        if partitions is not None:
            asked = partitions_of("partitions", partitions)
            topics = [
                request.ListPartitionReassignmentsTopics(name=topic, partition_indexes=numbers)
                for topic, numbers in by_topic(asked).items()
            ]
        message = request(topics=topics, timeout_ms=BROKER_TIMEOUT_MS)
        what = "listing reassignments"

        async def send(broker: int) -> dict[TopicPartition, PartitionReassignment] | KafkaError:
            response = await route.call(broker, message)
            return error_of(response, what, "ListPartitionReassignments") or {
                TopicPartition(topic.name, each.partition_index): PartitionReassignment(
                    tuple(each.replicas), tuple(each.adding_replicas), tuple(each.removing_replicas)
                )
                for topic in response.topics
                for each in topic.partitions
            }

        route = self._any()
        return self._single(route, send, what, timeout_ms_of(timeout))

    def elect_leaders(
        self, election_type: str, partitions: Iterable[tuple[str, int]] | None, *, timeout: float | None
    ) -> Work[Outcomes[TopicPartition, None]]:
        """Elect the leaders of these partitions, or of all that need it."""
        one_of("election_type", election_type, ELECTION_TYPES)
        request: Any = protocol.ElectLeadersRequest
        what, limit_ms, route = f"electing {election_type} leaders", timeout_ms_of(timeout), self._any()

        async def elect(
            broker: int, keys: list[TopicPartition] | None
        ) -> dict[TopicPartition, KafkaError | None] | KafkaError:
            topics = None
            if keys is not None:
                topics = [
                    request.TopicPartitions(topic=topic, partitions=numbers)
                    for topic, numbers in by_topic(keys).items()
                ]
            message = request(
                election_type=ELECTION_TYPES[election_type], topic_partitions=topics, timeout_ms=BROKER_TIMEOUT_MS
            )
            with needs(request, f"an election of type {election_type}", "2.4"):
                response = await route.call(broker, message)
            return error_of(response, what, "ElectLeaders") or _elections(response, election_type)

        async def send(broker: int, keys: list[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            found = await elect(broker, keys)
            return dict.fromkeys(keys, found) if isinstance(found, KafkaError) else found

        if partitions is not None:
            asked = partitions_of("partitions", partitions)
            return self._work(asked, route, send, what, limit_ms)
        whole = self._single(route, lambda broker: elect(broker, None), what, limit_ms)

        async def run() -> Outcomes[TopicPartition, None]:
            found = await whole()
            return Outcomes(
                {key: None for key, error in found.items() if error is None},
                {key: error for key, error in found.items() if error is not None},
            )

        return run


def _broker_of(replica: TopicPartitionReplica) -> int:
    return replica.broker_id


def _targets_of(partition: Any, replicas: Any) -> list[int] | None:
    if replicas is None:
        return None
    targets = nodes_of(f"the replicas of {partition}", replicas, "[1, 2]; None cancels a reassignment")
    if not targets:
        raise ConfigError(f"the replicas of {partition}: at least one broker is needed; None cancels a reassignment")
    return targets


def _log_dirs(response: Any, broker: int) -> dict[str, LogDirDescription] | KafkaError:
    """Return a broker's directories by path, or the error of its response."""
    what, api = f"describing the log directories of broker {broker}", "DescribeLogDirs"
    error = error_of(response, what, api)
    if error is not None:
        return error
    if not response.results:  # before version 3 a broker has no other way to refuse
        return broker_error(ErrorCode.CLUSTER_AUTHORIZATION_FAILED, what, api=api)
    return {
        each.log_dir: LogDirDescription(
            error_of(each, f"log directory {each.log_dir} of broker {broker}", api),
            {
                TopicPartition(topic.name, replica.partition_index): ReplicaInfo(
                    replica.partition_size, replica.offset_lag, replica.is_future_key
                )
                for topic in each.topics
                for replica in topic.partitions
            },
            each.total_bytes if each.total_bytes >= 0 else None,
            each.usable_bytes if each.usable_bytes >= 0 else None,
            each.is_cordoned,
        )
        for each in response.results
    }


def _directories(partition: TopicPartition, log_dirs: Mapping[str, LogDirDescription]) -> ReplicaLogDirs:
    """Find a partition's directory, and the one into which it moves."""
    current: tuple[str | None, int | None] = None, None
    future: tuple[str | None, int | None] = None, None
    for path, described in log_dirs.items():
        replica = described.replicas.get(partition)
        if replica is not None and replica.is_future:
            future = path, replica.offset_lag
        elif replica is not None:
            current = path, replica.offset_lag
    return ReplicaLogDirs(*current, *future)


def _elections(response: Any, election_type: str) -> dict[TopicPartition, KafkaError | None]:
    return {
        TopicPartition(topic.topic, each.partition_id): error_of(
            each,
            f"electing the {election_type} leader of {topic.topic}-{each.partition_id}",
            "ElectLeaders",
            topic=topic.topic,
        )
        for topic in response.replica_election_results
        for each in topic.partition_result
    }
