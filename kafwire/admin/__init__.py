"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.acls import AclBinding, AclFilter
    from kafwire.admin.cluster import ClusterBroker, ClusterDescription, FeatureDescription, FeatureRange, FeatureUpdate
    from kafwire.admin.config_resources import ConfigResource
    from kafwire.admin.configs import Append, ConfigEntry, ConfigSynonym, Subtract
    from kafwire.admin.group_offsets import GroupOffset
    from kafwire.admin.group_types import (
        GroupDescription,
        GroupListing,
        GroupMember,
        InternalTopic,
        StreamsAssignment,
        StreamsMember,
        StreamsSubtopology,
        StreamsTask,
        StreamsTopology,
        TopologyDescription,
        TopologyNode,
    )
    from kafwire.admin.hanging_transactions import HangingTransaction
    from kafwire.admin.quorum import MetadataQuorum, QuorumReplica, RaftVoterEndpoint
    from kafwire.admin.quotas import QuotaEntity, QuotaFilter, QuotaMatch
    from kafwire.admin.records import ListedOffset
    from kafwire.admin.replica_arguments import TopicPartitionReplica
    from kafwire.admin.replicas import LogDirDescription, PartitionReassignment, ReplicaInfo, ReplicaLogDirs
    from kafwire.admin.topic_descriptions import PartitionDescription, TopicDescription, TopicListing
    from kafwire.admin.topics import CreatedTopic, NewPartitions, NewTopic
    from kafwire.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing
    from kafwire.admin.users import ScramCredential, ScramDeletion, ScramUpsertion

__all__ = [
    "AclBinding",
    "AclFilter",
    "Append",
    "ClusterBroker",
    "ClusterDescription",
    "ConfigEntry",
    "ConfigResource",
    "ConfigSynonym",
    "CreatedTopic",
    "FeatureDescription",
    "FeatureRange",
    "FeatureUpdate",
    "FencedProducer",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupOffset",
    "HangingTransaction",
    "InternalTopic",
    "ListedOffset",
    "LogDirDescription",
    "MetadataQuorum",
    "NewPartitions",
    "NewTopic",
    "PartitionDescription",
    "PartitionReassignment",
    "ProducerState",
    "QuorumReplica",
    "QuotaEntity",
    "QuotaFilter",
    "QuotaMatch",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaLogDirs",
    "ScramCredential",
    "ScramDeletion",
    "ScramUpsertion",
    "StreamsAssignment",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTopology",
    "Subtract",
    "TopicDescription",
    "TopicListing",
    "TopicPartitionReplica",
    "TopologyDescription",
    "TopologyNode",
    "TransactionDescription",
    "TransactionListing",
]

_HOMES = {
    "AclBinding": "kafwire.admin.acls",
    "AclFilter": "kafwire.admin.acls",
    "Append": "kafwire.admin.configs",
    "ClusterBroker": "kafwire.admin.cluster",
    "ClusterDescription": "kafwire.admin.cluster",
    "ConfigEntry": "kafwire.admin.configs",
    "ConfigResource": "kafwire.admin.config_resources",
    "ConfigSynonym": "kafwire.admin.configs",
    "CreatedTopic": "kafwire.admin.topics",
    "FeatureDescription": "kafwire.admin.cluster",
    "FeatureRange": "kafwire.admin.cluster",
    "FeatureUpdate": "kafwire.admin.cluster",
    "FencedProducer": "kafwire.admin.transactions",
    "GroupDescription": "kafwire.admin.group_types",
    "GroupListing": "kafwire.admin.group_types",
    "GroupMember": "kafwire.admin.group_types",
    "GroupOffset": "kafwire.admin.group_offsets",
    "HangingTransaction": "kafwire.admin.hanging_transactions",
    "InternalTopic": "kafwire.admin.group_types",
    "ListedOffset": "kafwire.admin.records",
    "LogDirDescription": "kafwire.admin.replicas",
    "MetadataQuorum": "kafwire.admin.quorum",
    "NewPartitions": "kafwire.admin.topics",
    "NewTopic": "kafwire.admin.topics",
    "PartitionDescription": "kafwire.admin.topic_descriptions",
    "PartitionReassignment": "kafwire.admin.replicas",
    "ProducerState": "kafwire.admin.transactions",
    "QuorumReplica": "kafwire.admin.quorum",
    "QuotaEntity": "kafwire.admin.quotas",
    "QuotaFilter": "kafwire.admin.quotas",
    "QuotaMatch": "kafwire.admin.quotas",
    "RaftVoterEndpoint": "kafwire.admin.quorum",
    "ReplicaInfo": "kafwire.admin.replicas",
    "ReplicaLogDirs": "kafwire.admin.replicas",
    "ScramCredential": "kafwire.admin.users",
    "ScramDeletion": "kafwire.admin.users",
    "ScramUpsertion": "kafwire.admin.users",
    "StreamsAssignment": "kafwire.admin.group_types",
    "StreamsMember": "kafwire.admin.group_types",
    "StreamsSubtopology": "kafwire.admin.group_types",
    "StreamsTask": "kafwire.admin.group_types",
    "StreamsTopology": "kafwire.admin.group_types",
    "Subtract": "kafwire.admin.configs",
    "TopicDescription": "kafwire.admin.topic_descriptions",
    "TopicListing": "kafwire.admin.topic_descriptions",
    "TopicPartitionReplica": "kafwire.admin.replica_arguments",
    "TopologyDescription": "kafwire.admin.group_types",
    "TopologyNode": "kafwire.admin.group_types",
    "TransactionDescription": "kafwire.admin.transactions",
    "TransactionListing": "kafwire.admin.transactions",
}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
