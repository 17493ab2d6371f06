"""The limits of the fuzzer: the requests that it may send, and the addresses.

Every API of Kafka 4.4 and 3.9 has a class here. Without `destructive` the fuzzer sends only the first two:

- read: changes nothing;
- session: touches only groups, producers and clients that the fuzzer named itself;
- write: creates or changes topics, records, configurations, credentials, ...;
- destructive: deletes, or belongs to the controllers and to the brokers among themselves.

Damage can turn one request into another, so the checks decode the bytes as the server does.
"""

import ipaddress
import socket
import struct
from collections.abc import Iterator
from typing import Any

from kafwire.errors import KafkaConnectionError, ProtocolError
from kafwire.protocol import MESSAGES, MetadataRequest
from kafwire.protocol.framing import request_header_version
from kafwire.protocol.header import RequestHeader
from kafwire.protocol.spec import Request, Struct

READ, SESSION, WRITE, DESTRUCTIVE = "read", "session", "write", "destructive"
PREFIX = "kafwire-fuzz-"

_CLASSES = {
    READ: """Fetch ListOffsets Metadata OffsetFetch FindCoordinator DescribeGroups ListGroups ApiVersions
        OffsetForLeaderEpoch DescribeAcls DescribeConfigs DescribeLogDirs DescribeDelegationToken
        ListPartitionReassignments DescribeClientQuotas DescribeUserScramCredentials DescribeQuorum DescribeCluster
        DescribeProducers DescribeTransactions ListTransactions ConsumerGroupDescribe ListConfigResources
        DescribeTopicPartitions ShareGroupDescribe StreamsGroupDescribe DescribeShareGroupOffsets""",
    SESSION: """OffsetCommit JoinGroup Heartbeat LeaveGroup SyncGroup SaslHandshake SaslAuthenticate InitProducerId
        ConsumerGroupHeartbeat GetTelemetrySubscriptions PushTelemetry ShareGroupHeartbeat ShareFetch
        ShareAcknowledge""",
    # AddPartitionsToTxn and its like end in markers in the user's topics; a streams group creates its topics.
    WRITE: """Produce CreateTopics CreatePartitions AddPartitionsToTxn AddOffsetsToTxn EndTxn TxnOffsetCommit CreateAcls
        AlterConfigs IncrementalAlterConfigs AlterReplicaLogDirs CreateDelegationToken RenewDelegationToken
        ExpireDelegationToken ElectLeaders AlterPartitionReassignments AlterClientQuotas AlterUserScramCredentials
        StreamsGroupHeartbeat AlterShareGroupOffsets StreamsGroupTopologyDescriptionUpdate""",
    DESTRUCTIVE: """DeleteTopics DeleteRecords DeleteAcls DeleteGroups OffsetDelete DeleteShareGroupOffsets
        UpdateFeatures UnregisterBroker UnregisterController WriteTxnMarkers AddRaftVoter RemoveRaftVoter
        UpdateRaftVoter
        InitializeShareGroupState ReadShareGroupState WriteShareGroupState DeleteShareGroupState
        ReadShareGroupStateSummary Vote BeginQuorumEpoch EndQuorumEpoch AlterPartition Envelope FetchSnapshot
        BrokerRegistration BrokerHeartbeat AllocateProducerIds ControllerRegistration AssignReplicasToDirs
        LeaderAndIsr StopReplica UpdateMetadata ControlledShutdown""",
}
CLASS_OF: dict[str, str] = {name: kind for kind, names in _CLASSES.items() for name in names.split()}
# Requests that make a broker respond and stop, or leave the cluster; not even a scratch cluster survives them.
NEVER = {"ControlledShutdown", "StopReplica", "LeaderAndIsr", "UpdateMetadata"}

_OWN = {"group_id", "transactional_id"}
_HEADER_START = struct.Struct(">hh")
# Keys that newer servers may give to APIs.
_KEYS_TO_COME = range(95, 1000)
# The same for versions; no server has higher ones.
_VERSIONS_TO_COME = 64
# The effect of these depends on their fields. The other allowed APIs only read, whatever their fields.
_CONDITIONAL = {"Metadata", "Fetch", "ListOffsets", "OffsetForLeaderEpoch"}
# Parts of kafwire's errors for an incomplete message: no server can read that. Another reader may accept other messages
# that kafwire refuses (text that is not UTF-8, tags out of order, an odd null).
_ENDS_EARLY = ("runs past the end", "the length is", "do not fit into")


def request_name(api_key: int) -> str | None:
    """Return Kafka's name of an API that has messages in kafwire, else None."""
    return _NAMES_BY_KEY.get(api_key)


def _by_key() -> dict[int, str]:
    found = {}
    for name in MESSAGES:
        if name.endswith("Request"):
            request_class = MESSAGES[name]
            assert issubclass(request_class, Request)
            found[request_class.api_key] = name.removesuffix("Request")
    return found


_NAMES_BY_KEY = _by_key()


def request_class(api: str) -> type[Request[Any]]:
    """Return the class of `api`'s requests."""
    found = MESSAGES[f"{api}Request"]
    assert issubclass(found, Request)
    return found


def allowed(api: str, *, destructive: bool) -> bool:
    """True if requests of `api` may be sent."""
    kind = CLASS_OF.get(api, DESTRUCTIVE)
    return api not in NEVER and (destructive or kind in (READ, SESSION))


def frames_of(stream: bytes) -> Iterator[bytes]:
    """Yield the frames that a server finds in a stream, up to the first incomplete one."""
    position = 0
    while len(stream) - position >= 4:
        (size,) = struct.unpack_from(">i", stream, position)
        if size < 0 or size > len(stream) - position - 4:
            return
        yield stream[position + 4 : position + 4 + size]
        position += 4 + size


def unfinished(stream: bytes) -> tuple[int, int]:
    """Return the rest after the last whole frame: (its bytes, the size that it claims; -1 without a whole size)."""
    position = sum(4 + len(frame) for frame in frames_of(stream))
    rest = len(stream) - position
    return rest, struct.unpack_from(">i", stream, position)[0] if rest >= 4 else -1


def read_request(frame: bytes) -> tuple[str, int, Any] | None:
    """Return (API, version, message) of a request at the start of `frame`, else None; bytes may be left over."""
    try:
        return _read(frame)
    except ProtocolError:
        return None


def _read(frame: bytes) -> tuple[str, int, Any] | None:
    if len(frame) < 4:
        return None
    key, version = _HEADER_START.unpack_from(frame)
    name = request_name(key)
    if name is None:
        return None
    found = request_class(name)
    _, used = RequestHeader.plan(request_header_version(found, version)).decode_prefix(frame)
    message, _ = found.plan(version).decode_prefix(memoryview(frame)[used:])
    return name, version, message


def permits(stream: bytes, *, destructive: bool) -> bool:
    """True if every request that a server can find in `stream` may be sent.

    Without `destructive`: no frame of an API that changes anything, nothing that creates a topic, no group or
    transactional id that is not the fuzzer's own in a request that could touch it, no fetch in a replica's name. Where
    that depends on a request's fields, a request that kafwire cannot decode is refused, unless no server can decode it.
    """
    return all(len(frame) < 4 or _permits_frame(frame, destructive=destructive) for frame in frames_of(stream))


def _permits_frame(frame: bytes, *, destructive: bool) -> bool:
    key, version = _HEADER_START.unpack_from(frame)
    name = request_name(key)
    if name is None:
        return destructive or key not in _KEYS_TO_COME
    if destructive or not allowed(name, destructive=destructive):
        return allowed(name, destructive=destructive)
    if name not in _CONDITIONAL and CLASS_OF[name] != SESSION:
        return True
    try:
        read = _read(frame)
    except ProtocolError as error:
        if not request_class(name).oldest_version <= version <= request_class(name).max_version:
            return not 0 <= version < _VERSIONS_TO_COME
        return any(words in error.message for words in _ENDS_EARLY)
    return read is not None and _harmless(*read)


def _harmless(name: str, version: int, message: Any) -> bool:
    if name == "Metadata":
        if version < MetadataRequest.ALLOWS_CREATION:
            return not message.topics
        return not message.topics or not message.allow_auto_topic_creation
    if name in ("Fetch", "ListOffsets", "OffsetForLeaderEpoch") and message.replica_id >= 0:
        return False
    if name == "Fetch" and message.replica_state.replica_id >= 0:
        return False
    return CLASS_OF[name] != SESSION or _own_names(message)


def _own_names(message: Struct) -> bool:
    for field in type(message).__fields__:
        value = getattr(message, field.name)
        if field.name in _OWN and value is not None and not value.startswith(PREFIX):
            return False
        if field.struct is not None and value is not None:
            for element in value if field.array else [value]:
                if not _own_names(element):
                    return False
    return True


def addresses(host: str, port: int) -> list[tuple[int, tuple[Any, ...]]]:
    """Return all addresses of `host`: (family, socket address). Raises `KafkaConnectionError` if it has none."""
    try:
        found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
    except OSError as error:
        raise KafkaConnectionError(f"{host}:{port} cannot be resolved: {error}; check the name") from error
    return [(family, address) for family, _, _, _, address in found]


def remote_addresses(resolved: list[tuple[int, tuple[Any, ...]]]) -> list[str]:
    """Return the addresses that are not loopback."""
    return [
        str(address[0]) for _, address in resolved if not ipaddress.ip_address(address[0].split("%")[0]).is_loopback
    ]
