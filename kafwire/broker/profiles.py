"""Profiles of other servers that speak Kafka's protocol: data, each difference from Kafka with its public source.

    with EmbeddedKafka(server="redpanda") as kafka: ...

A profile is a model made from public documents. No profile was compared with the server of its name: all are
unverified. `docs/reference/server-profiles.md` is written from this module.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from kafwire.similar_names import similar

Range = tuple[int, int]

_REDPANDA = "https://github.com/redpanda-data/redpanda/blob/1c6cff34ea8b4b65db02eb603d21dfef59c0f61c/src/v"
_HANDLERS = f"{_REDPANDA}/kafka/server/handlers"
_AUTOMQ = "https://github.com/AutoMQ/automq/blob/f1ce98ec8981faecf0be05a57cadbbbeeef2a290"
_AUTOMQ_MESSAGES = f"{_AUTOMQ}/clients/src/main/resources/common/message"
_AUTOMQ_TOPICS = f"{_AUTOMQ}/metadata/src/main/java/org/apache/kafka/controller/ReplicationControlManager.java"
_AUTOMQ_GROUPS = (
    f"{_AUTOMQ}/group-coordinator/src/main/java/org/apache/kafka/coordinator/group/GroupCoordinatorConfig.java"
)
_AZURE = "https://learn.microsoft.com/azure/event-hubs"
_AZURE_CONFIGURATIONS = f"{_AZURE}/apache-kafka-configurations"
_AZURE_OVERVIEW = f"{_AZURE}/azure-event-hubs-apache-kafka-overview"
_AZURE_LIST = "https://github.com/oliveigah/klife/issues/13"
_AZURE_LOG = "https://github.com/Azure/azure-event-hubs-for-kafka/issues/209"
_AZURE_OLD_LOG = "https://github.com/Azure/azure-event-hubs-for-kafka/issues/69"
_WARPSTREAM = "https://docs.warpstream.com/warpstream/kafka/reference/protocol-and-feature-support"


@dataclass(frozen=True)
class Difference:
    """A difference from Kafka. `is_modelled`: the embedded broker with this profile behaves so."""

    text: str
    source: str
    is_modelled: bool = True


@dataclass(frozen=True, eq=False)
class ServerProfile:
    """A server, and its known differences from Kafka 4.4.

    Args:
        name: the value of `EmbeddedKafka(server=...)`.
        title: the product.
        described: the release or the date that the sources are about.
        differences: all known differences.
        versions: the advertised versions of the APIs that it serves; None: those of the embedded broker.
        features: the finalised levels of features (KIP-584).
        configs: broker options with other defaults.
        codecs: numbers of the codecs that it stores, as in a batch's attributes; None: all.
        refuses_newer_api_versions: it closes a connection on an ApiVersions version that it does not know, instead of a
            response with the versions that it knows (KIP-511).
        lists_all_to_newer: its response to an unknown ApiVersions version lists all APIs.
        replication_factor: the factor that each new topic gets; None: the requested one.
    """

    name: str
    title: str
    described: str
    differences: tuple[Difference, ...]
    versions: Mapping[str, Range | None]
    features: Mapping[str, int] = field(default_factory=dict)
    configs: Mapping[str, str] = field(default_factory=dict)
    codecs: frozenset[int] | None = None
    refuses_newer_api_versions: bool = False
    lists_all_to_newer: bool = False
    replication_factor: int | None = None

    def range_of(self, api: str, ours: Range) -> Range | None:
        """Return the advertised versions of an API that the embedded broker serves in `ours`; None: not offered."""
        return (self.versions[api] or ours) if api in self.versions else None


def _versions(table: str) -> Mapping[str, Range | None]:
    """Parse rows such as `Produce 0-7`; a row without versions means those of the embedded broker."""
    found: dict[str, Range | None] = {}
    for row in table.strip().splitlines():
        name, _, text = row.partition(" ")
        low, _, high = text.partition("-")
        found[name] = (int(low), int(high or low)) if text else None
    return MappingProxyType(found)


REDPANDA = ServerProfile(
    name="redpanda",
    title="Redpanda",
    described="source of 2024-12-20",
    versions=_versions("""
AddOffsetsToTxn 0-1
AddPartitionsToTxn 0-3
AlterClientQuotas 0-1
AlterConfigs 0-2
AlterPartitionReassignments 0
ApiVersions 0-3
CreateAcls 0-2
CreatePartitions 0-3
CreateTopics 0-6
DeleteAcls 0-2
DeleteGroups 0-2
DeleteRecords 0-2
DeleteTopics 0-5
DescribeAcls 0-2
DescribeClientQuotas 0-1
DescribeConfigs 0-4
DescribeGroups 0-5
DescribeLogDirs 0-2
DescribeProducers 0
DescribeTransactions 0
EndTxn 0-3
Fetch 4-11
FindCoordinator 0-3
Heartbeat 0-4
IncrementalAlterConfigs 0-1
InitProducerId 0-3
JoinGroup 0-6
LeaveGroup 0-4
ListGroups 0-4
ListOffsets 0-4
ListPartitionReassignments 0
ListTransactions 0
Metadata 0-8
OffsetCommit 1-8
OffsetDelete 0
OffsetFetch 1-7
OffsetForLeaderEpoch 0-4
Produce 0-7
SaslAuthenticate 0-2
SaslHandshake 0-1
SyncGroup 0-4
TxnOffsetCommit 0-3
"""),
    configs={"message.max.bytes": str(1 << 20)},
    lists_all_to_newer=True,
    differences=(
        Difference(
            "It serves the APIs and versions below: no topic ids, no protocols of groups after the classic one, no"
            " DescribeCluster, ElectLeaders, DescribeQuorum, UpdateFeatures or delegation tokens.",
            f"{_HANDLERS}/handlers.h",
        ),
        Difference(
            "Metadata ends at version 8, on purpose: version 9 gave trouble to Java's client.",
            f"{_HANDLERS}/metadata.h",
        ),
        Difference(
            "ApiVersions reports no features, so transactions are those of version 1.", f"{_HANDLERS}/api_versions.cc"
        ),
        Difference(
            "The response to an unknown ApiVersions version lists all APIs, not ApiVersions alone.",
            f"{_HANDLERS}/api_versions.cc",
        ),
        Difference(
            "A batch has at most 1,048,576 bytes (kafka_batch_max_bytes); in Kafka 1,048,588.",
            f"{_REDPANDA}/config/configuration.cc",
        ),
        Difference(
            "A user has one SCRAM mechanism, not several.",
            "https://docs.redpanda.com/streaming/current/develop/kafka-clients/",
            is_modelled=False,
        ),
        Difference(
            "Its names, defaults and kinds of topic and broker options differ.",
            f"{_HANDLERS}/describe_configs.cc",
            is_modelled=False,
        ),
    ),
)

EVENT_HUBS = ServerProfile(
    name="event-hubs",
    title="Azure Event Hubs, tier Standard",
    described="documents of 2026, version lists of 2019 to 2025",
    versions=_versions("""
ApiVersions 0-3
CreatePartitions 0-1
CreateTopics 0-2
DeleteGroups 0
DeleteTopics 0-2
DescribeConfigs 0-2
DescribeGroups 0-1
Fetch 4-6
FindCoordinator 0-4
Heartbeat 0-4
InitProducerId 0
JoinGroup 0-9
LeaveGroup 0-5
ListGroups 0-1
ListOffsets 0-8
Metadata 0-5
OffsetCommit 0-8
OffsetFetch 0-8
OffsetForLeaderEpoch 0
Produce 0-7
SaslAuthenticate 0-1
SaslHandshake 0-1
SyncGroup 0-5
"""),
    configs={"socket.request.max.bytes": "1046528", "connections.max.idle.ms": "240000"},
    codecs=frozenset({0}),
    refuses_newer_api_versions=True,
    differences=(
        Difference(
            "Produce to LeaveGroup have the versions below: no fetch sessions (Fetch 7), no leader epochs (Metadata"
            " 7).",
            _AZURE_LIST,
        ),
        Difference(
            "DescribeGroups, ListGroups, CreateTopics, DeleteTopics and OffsetForLeaderEpoch have the versions"
            " below; the source is of 2019, so newer ones may exist.",
            _AZURE_OLD_LOG,
        ),
        Difference(
            "DescribeConfigs, SaslAuthenticate, CreatePartitions and DeleteGroups have the versions below.", _AZURE_LOG
        ),
        Difference(
            "AlterConfigs, IncrementalAlterConfigs, ACLs, log directories, delegation tokens and ElectLeaders are"
            " missing.",
            _AZURE_LOG,
        ),
        Difference(
            "Transactions are missing: AddPartitionsToTxn, AddOffsetsToTxn, EndTxn, TxnOffsetCommit. Premium and"
            " Dedicated have a preview of them.",
            _AZURE_LOG,
        ),
        Difference(
            "Idempotent producers work. No source names the versions of InitProducerId: 0 is assumed.", _AZURE_OVERVIEW
        ),
        Difference(
            "ApiVersions 4 closes the connection; Kafka responds in version 0 (KIP-511).",
            "https://github.com/twmb/franz-go/issues/1025",
        ),
        Difference("No ApiVersions response with features is known: none are reported.", _AZURE_LIST),
        Difference(
            "Compressed batches fail with UNSUPPORTED_FOR_MESSAGE_FORMAT. Premium and Dedicated take gzip.",
            f"{_AZURE}/apache-kafka-troubleshooting-guide",
        ),
        Difference(
            "A request of more than 1,046,528 bytes closes the connection; in Kafka of more than 104,857,600.",
            _AZURE_CONFIGURATIONS,
        ),
        Difference("A connection without requests for 240 s closes; in Kafka after 600 s.", _AZURE_CONFIGURATIONS),
        Difference("All partitions have one address.", _AZURE_OVERVIEW, is_modelled=False),
        Difference(
            "TLS and SASL are mandatory: PLAIN with a connection string, or OAUTHBEARER.",
            _AZURE_OVERVIEW,
            is_modelled=False,
        ),
        Difference(
            "Requests beyond the bought throughput are throttled; a Produce request that is delayed beyond its"
            " timeout fails with POLICY_VIOLATION.",
            f"{_AZURE}/apache-kafka-troubleshooting-guide",
            is_modelled=False,
        ),
    ),
)

WARPSTREAM = ServerProfile(
    name="warpstream",
    title="WarpStream",
    described="documents of 2025 and 2026",
    versions=_versions("""
AddOffsetsToTxn
AddPartitionsToTxn
AlterConfigs
ApiVersions
CreateAcls
CreatePartitions
CreateTopics
DeleteAcls
DeleteGroups
DeleteTopics
DescribeAcls
DescribeCluster
DescribeConfigs
DescribeGroups
DescribeTransactions
EndTxn
Fetch
FindCoordinator
Heartbeat
InitProducerId
JoinGroup
LeaveGroup
ListGroups
ListOffsets
ListTransactions
Metadata
OffsetCommit
OffsetDelete
OffsetFetch
Produce
SaslAuthenticate
SaslHandshake
SyncGroup
TxnOffsetCommit
"""),
    replication_factor=1,
    differences=(
        Difference(
            "It serves the APIs below; the page does not list those of SASL, which it has. No source names their"
            " versions: those of the embedded broker are assumed.",
            _WARPSTREAM,
        ),
        Difference(
            "OffsetForLeaderEpoch, DeleteRecords, IncrementalAlterConfigs, ElectLeaders, reassignments, log directories"
            " and the protocols of groups after the classic one are missing.",
            _WARPSTREAM,
        ),
        Difference("No source names features (KIP-584): none are reported.", _WARPSTREAM),
        Difference(
            "A requested replication factor has no effect. default.replication.factor reads 3; the profile has 1.",
            f"{_WARPSTREAM}/kafka-vs-warpstream-configuration-reference",
        ),
        Difference(
            "Topic options that it does not know are ignored, without an error.",
            f"{_WARPSTREAM}/topic-configuration-reference",
            is_modelled=False,
        ),
        Difference(
            "cleanup.policy cannot change between delete and compact after the creation of a topic.",
            f"{_WARPSTREAM}/topic-configuration-reference",
            is_modelled=False,
        ),
        Difference("Partitions have no leaders: each agent serves each partition.", _WARPSTREAM, is_modelled=False),
    ),
)

AUTOMQ = ServerProfile(
    name="automq",
    title="AutoMQ",
    described="source of 2026-08-21, made from Kafka 3.9",
    versions=_versions("""
AddOffsetsToTxn 0-4
AddPartitionsToTxn 0-5
AddRaftVoter 0
AlterClientQuotas 0-1
AlterConfigs 0-2
AlterPartitionReassignments 0
AlterReplicaLogDirs 0-2
AlterUserScramCredentials 0
ApiVersions 0-4
ConsumerGroupDescribe 0
ConsumerGroupHeartbeat 0
CreateAcls 0-3
CreateDelegationToken 0-3
CreatePartitions 0-3
CreateTopics 0-7
DeleteAcls 0-3
DeleteGroups 0-2
DeleteRecords 0-2
DeleteTopics 0-6
DescribeAcls 0-3
DescribeClientQuotas 0-1
DescribeCluster 0-1
DescribeConfigs 0-4
DescribeDelegationToken 0-3
DescribeGroups 0-5
DescribeLogDirs 0-4
DescribeProducers 0
DescribeQuorum 0-1
DescribeTopicPartitions 0
DescribeTransactions 0
DescribeUserScramCredentials 0
ElectLeaders 0-2
EndTxn 0-4
ExpireDelegationToken 0-2
Fetch 0-17
FindCoordinator 0-6
GetTelemetrySubscriptions 0
Heartbeat 0-4
IncrementalAlterConfigs 0-1
InitProducerId 0-5
JoinGroup 0-9
LeaveGroup 0-5
ListConfigResources 0
ListGroups 0-5
ListOffsets 0-8
ListPartitionReassignments 0
ListTransactions 0-1
Metadata 0-12
OffsetCommit 0-9
OffsetDelete 0
OffsetFetch 0-9
OffsetForLeaderEpoch 0-4
Produce 0-11
PushTelemetry 0
RemoveRaftVoter 0
RenewDelegationToken 0-2
SaslAuthenticate 0-2
SaslHandshake 0-1
SyncGroup 0-5
TxnOffsetCommit 0-4
UnregisterBroker 0
UpdateFeatures 0-1
WriteTxnMarkers 0-1
"""),
    features={"metadata.version": 20},
    replication_factor=1,
    differences=(
        Difference("It has the APIs of Kafka 3.9 without unstable versions, as below.", _AUTOMQ_MESSAGES),
        Difference("It has APIs of its own, with keys from 501 on.", _AUTOMQ_MESSAGES, is_modelled=False),
        Difference("Share groups are unstable, so they are not offered; streams groups are missing.", _AUTOMQ_MESSAGES),
        Difference(
            "ConsumerGroupHeartbeat is offered and refused, as group.coordinator.rebalance.protocols is classic.",
            _AUTOMQ_GROUPS,
        ),
        Difference(
            "The feature transaction.version is not finalised, so transactions are those of version 1.",
            f"{_AUTOMQ}/server-common/src/main/java/org/apache/kafka/server/common/TransactionVersion.java",
        ),
        Difference("Each new topic has the replication factor 1.", _AUTOMQ_TOPICS),
        Difference("min.insync.replicas of a new topic becomes 1.", _AUTOMQ_TOPICS, is_modelled=False),
    ),
)

PROFILES: Mapping[str, ServerProfile] = MappingProxyType(
    {each.name: each for each in (REDPANDA, EVENT_HUBS, WARPSTREAM, AUTOMQ)}
)


def profile_of(server: str | ServerProfile) -> ServerProfile:
    """Return a profile by its name.

    Raises:
        ValueError: there is no profile of this name.
    """
    if isinstance(server, ServerProfile):
        return server
    if server not in PROFILES:
        meant = "".join(f" (is {name} meant?)" for name in similar(server, PROFILES)[:1])
        raise ValueError(f"server={server!r} is unknown{meant}: the servers are {', '.join(PROFILES)}")
    return PROFILES[server]
