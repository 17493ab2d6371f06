"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.cluster import (
        ClusterBroker,
        ClusterDescription,
        FeatureDescription,
        FeatureRange,
        FeatureUpdate,
    )
    from kafwire.admin.quorum import MetadataQuorum, QuorumReplica, RaftVoterEndpoint
    from kafwire.admin.replica_arguments import TopicPartitionReplica
    from kafwire.admin.replicas import LogDirDescription, PartitionReassignment, ReplicaInfo, ReplicaLogDirs
    from kafwire.admin.topics import CreatedTopic, NewTopic

__all__ = [
    "ClusterBroker",
    "ClusterDescription",
    "CreatedTopic",
    "FeatureDescription",
    "FeatureRange",
    "FeatureUpdate",
    "LogDirDescription",
    "MetadataQuorum",
    "NewTopic",
    "PartitionReassignment",
    "QuorumReplica",
    "RaftVoterEndpoint",
    "ReplicaInfo",
    "ReplicaLogDirs",
    "TopicPartitionReplica",
]

_TOPICS = ("CreatedTopic", "NewTopic")
_CLUSTER = ("ClusterBroker", "ClusterDescription", "FeatureDescription", "FeatureRange", "FeatureUpdate")
_QUORUM = ("MetadataQuorum", "QuorumReplica", "RaftVoterEndpoint")
_REPLICAS = ("LogDirDescription", "PartitionReassignment", "ReplicaInfo", "ReplicaLogDirs")

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(_TOPICS, "kafwire.admin.topics")
        | dict.fromkeys(_CLUSTER, "kafwire.admin.cluster")
        | dict.fromkeys(_QUORUM, "kafwire.admin.quorum")
        | dict.fromkeys(_REPLICAS, "kafwire.admin.replicas")
        | {"TopicPartitionReplica": "kafwire.admin.replica_arguments"},
    )
