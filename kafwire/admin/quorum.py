"""The quorum of controllers: its state, and changes of its voters (KIP-595, KIP-853)."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterable
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import node_of, text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.requests import BROKER_TIMEOUT_MS, AdminRequests
from kafwire.cluster.requirements import needs
from kafwire.error_codes import ErrorCode
from kafwire.errors import ConfigError, KafkaError, ProtocolError
from kafwire.integers import integer
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work

__all__ = ["MetadataQuorum", "QuorumCalls", "QuorumReplica", "RaftVoterEndpoint"]

METADATA_TOPIC = "__cluster_metadata"
HIGHEST_PORT = 0xFFFF
VOTERS_SINCE = "3.9 (with KRaft)"
# The leader moved, or the request was not forwarded in time: the response of a later request differs.
MOVING = frozenset({ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.LEADER_NOT_AVAILABLE, ErrorCode.REQUEST_TIMED_OUT})


@dataclass(frozen=True, slots=True)
class RaftVoterEndpoint:
    """The address of a controller for the other controllers.

    Args:
        name: the listener, for example "CONTROLLER".
        host: the host.
        port: the port.

    Raises:
        ConfigError: an argument has a bad value.

    Example:
        >>> from kafwire.admin import RaftVoterEndpoint
        >>> RaftVoterEndpoint("CONTROLLER", "controller-4", 9093).port
        9093
    """

    __module__ = "kafwire.admin"
    name: str
    host: str
    port: int

    def __post_init__(self) -> None:
        text_of("name", self.name)
        text_of("host", self.host)
        number = integer(self.port)
        if number is None or not 0 <= number <= HIGHEST_PORT:
            raise ConfigError(f"port={self.port!r}: it must be a whole number from 0 to {HIGHEST_PORT}")


@dataclass(frozen=True, slots=True)
class QuorumReplica:
    """A node with a copy of the metadata log: a controller, or a broker. Times are by the leader's clock.

    Args:
        replica_id: the node's id.
        directory_id: the id of its metadata directory; None from brokers before Kafka 3.9, or if it is not known.
        log_end_offset: the offset after the last record that it has; None if the leader does not know it.
        lag: the number of offsets by which it is behind the leader; None if the leader does not know it.
        last_fetch_ms: the time of its last fetch in milliseconds since the epoch; None if the leader does not know it.
        last_caught_up_ms: the last time at which it had all records; None if the leader does not know it.

    Example:
        >>> from kafwire.admin import QuorumReplica
        >>> QuorumReplica(2, None, 90, 10, None, None).lag
        10
    """

    __module__ = "kafwire.admin"
    replica_id: int
    directory_id: uuid.UUID | None
    log_end_offset: int | None
    lag: int | None
    last_fetch_ms: int | None
    last_caught_up_ms: int | None


@dataclass(frozen=True, slots=True)
class MetadataQuorum:
    """The leader of the metadata log, and the nodes that follow it.

    Args:
        leader_id: the id of the controller that leads.
        leader_epoch: the epoch of its leadership.
        high_watermark: the offset up to which the voters have committed the log; None if the leader does not know it.
        voters: the controllers that elect the leader.
        observers: the other nodes that read the log: brokers, and controllers without a vote.
        nodes: the endpoints of the voters, by node id; empty from brokers before Kafka 3.9.

    Example:
        >>> from kafwire.admin import MetadataQuorum
        >>> MetadataQuorum(1, 5, 90, (), (), {}).leader_id
        1
    """

    __module__ = "kafwire.admin"
    leader_id: int
    leader_epoch: int
    high_watermark: int | None
    voters: tuple[QuorumReplica, ...]
    observers: tuple[QuorumReplica, ...]
    nodes: dict[int, tuple[RaftVoterEndpoint, ...]]


class QuorumCalls(AdminRequests):
    """The calls about controllers."""

    def describe_metadata_quorum(self, *, timeout: float | None) -> Work[MetadataQuorum]:
        """Describe the leader, the voters and the observers of the metadata log."""
        request: Any = protocol.DescribeQuorumRequest
        partition = request.PartitionData(partition_index=0)
        message = request(topics=[request.TopicData(topic_name=METADATA_TOPIC, partitions=[partition])])
        what = "describing the metadata quorum"

        async def send(broker: int) -> MetadataQuorum | KafkaError:
            with needs(request, "describe_metadata_quorum", "3.3 (with KRaft)"):
                response = await route.call(broker, message)
            error = error_of(response, what, "DescribeQuorum")
            if error is not None:
                return error
            found = [(topic.topic_name, each) for topic in response.topics for each in topic.partitions]
            if [(name, each.partition_index) for name, each in found] != [(METADATA_TOPIC, 0)]:
                listed = ", ".join(f"{name}-{each.partition_index}" for name, each in found) or "no partition"
                return ProtocolError(f"{what}: the response has {listed}, not {METADATA_TOPIC}-0")
            return error_of(found[0][1], what, "DescribeQuorum") or _quorum(found[0][1], response.nodes)

        route = self._any(also=MOVING)
        return self._single(route, send, what, timeout_ms_of(timeout))

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID | str,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None,
        timeout: float | None,
    ) -> Work[None]:
        """Make a controller a voter."""
        request: Any = protocol.AddRaftVoterRequest
        message = request(
            cluster_id=None if cluster_id is None else text_of("cluster_id", cluster_id),
            timeout_ms=BROKER_TIMEOUT_MS,
            voter_id=node_of("voter_id", voter_id),
            voter_directory_id=directory_id_of(directory_id),
            listeners=[
                request.Listener(name=each.name, host=each.host, port=each.port) for each in _endpoints(endpoints)
            ],
        )
        return self._command(message, f"adding voter {voter_id}", ("add_raft_voter", VOTERS_SINCE), timeout)

    def remove_raft_voter(
        self, voter_id: int, directory_id: uuid.UUID | str, *, cluster_id: str | None, timeout: float | None
    ) -> Work[None]:
        """Remove a controller from the voters."""
        message = protocol.RemoveRaftVoterRequest(
            cluster_id=None if cluster_id is None else text_of("cluster_id", cluster_id),
            voter_id=node_of("voter_id", voter_id),
            voter_directory_id=directory_id_of(directory_id),
        )
        return self._command(message, f"removing voter {voter_id}", ("remove_raft_voter", VOTERS_SINCE), timeout)

    def unregister_controller(self, controller_id: int, *, timeout: float | None) -> Work[None]:
        """Remove the registration of a controller that will not come back."""
        message = protocol.UnregisterControllerRequest(controller_id=node_of("controller_id", controller_id))
        needed = "unregister_controller", "4.4"
        late = {ErrorCode.REQUEST_TIMED_OUT}
        return self._command(message, f"unregistering controller {controller_id}", needed, timeout, also=late)


def directory_id_of(value: Any) -> uuid.UUID:
    """Return the id of a directory, given as one, or as the text in the directory's meta.properties."""
    found = value
    if isinstance(value, str):
        try:
            found = uuid.UUID(bytes=base64.b64decode(value.rstrip("=") + "==", altchars=b"-_", validate=True))
        except ValueError:
            found = None
    if not isinstance(found, uuid.UUID) or not found.int:
        raise ConfigError(f"directory_id={value!r}: write directory.id of the controller's meta.properties, or a UUID")
    return found


def _endpoints(endpoints: Any) -> list[RaftVoterEndpoint]:
    example = 'write a list: [RaftVoterEndpoint("CONTROLLER", host, port)]'
    if isinstance(endpoints, str | bytes) or not isinstance(endpoints, Iterable):
        raise ConfigError(f"endpoints={endpoints!r}: {example}")
    found = list(endpoints)
    if not found or not all(isinstance(each, RaftVoterEndpoint) for each in found):
        raise ConfigError(f"endpoints={found!r}: {example}")
    return found


def _quorum(partition: Any, nodes: Iterable[Any]) -> MetadataQuorum:
    replicas = [*partition.current_voters, *partition.observers]
    end = next((each.log_end_offset for each in replicas if each.replica_id == partition.leader_id), -1)
    return MetadataQuorum(
        partition.leader_id,
        partition.leader_epoch,
        _known(partition.high_watermark),
        tuple(_replica(each, end) for each in partition.current_voters),
        tuple(_replica(each, end) for each in partition.observers),
        {
            node.node_id: tuple(RaftVoterEndpoint(each.name, each.host, each.port) for each in node.listeners)
            for node in nodes
        },
    )


def _replica(replica: Any, leader_end: int) -> QuorumReplica:
    end = _known(replica.log_end_offset)
    return QuorumReplica(
        replica.replica_id,
        replica.replica_directory_id if replica.replica_directory_id.int else None,
        end,
        None if end is None or leader_end < 0 else max(0, leader_end - end),
        _known(replica.last_fetch_timestamp),
        _known(replica.last_caught_up_timestamp),
    )


def _known(number: int) -> int | None:
    """Return a number of the leader's; -1: it does not know it."""
    return number if number >= 0 else None
