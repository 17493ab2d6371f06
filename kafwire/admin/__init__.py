"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.acls import AclBinding, AclFilter
    from kafwire.admin.cluster import ClusterBroker, ClusterDescription, FeatureDescription, FeatureRange, FeatureUpdate
    from kafwire.admin.group_offsets import GroupOffset
    from kafwire.admin.group_types import GroupDescription, GroupListing, GroupMember, InternalTopic, StreamsAssignment, StreamsMember, StreamsSubtopology, StreamsTask, StreamsTopology, TopologyDescription, TopologyNode
    from kafwire.admin.hanging_transactions import HangingTransaction
    from kafwire.admin.quorum import MetadataQuorum, QuorumReplica, RaftVoterEndpoint
    from kafwire.admin.quotas import QuotaEntity, QuotaFilter, QuotaMatch
    from kafwire.admin.replica_arguments import TopicPartitionReplica
    from kafwire.admin.replicas import LogDirDescription, PartitionReassignment, ReplicaInfo, ReplicaLogDirs
    from kafwire.admin.topics import CreatedTopic, NewTopic
    from kafwire.admin.transactions import FencedProducer, ProducerState, TransactionDescription, TransactionListing
    from kafwire.admin.users import ScramCredential, ScramDeletion, ScramUpsertion

__all__ = ["AclBinding", "AclFilter", "ClusterBroker", "ClusterDescription", "CreatedTopic", "FeatureDescription", "FeatureRange", "FeatureUpdate", "FencedProducer", "GroupDescription", "GroupListing", "GroupMember", "GroupOffset", "HangingTransaction", "InternalTopic", "LogDirDescription", "MetadataQuorum", "NewTopic", "PartitionReassignment", "ProducerState", "QuorumReplica", "QuotaEntity", "QuotaFilter", "QuotaMatch", "RaftVoterEndpoint", "ReplicaInfo", "ReplicaLogDirs", "ScramCredential", "ScramDeletion", "ScramUpsertion", "StreamsAssignment", "StreamsMember", "StreamsSubtopology", "StreamsTask", "StreamsTopology", "TopicPartitionReplica", "TopologyDescription", "TopologyNode", "TransactionDescription", "TransactionListing",]

_HOMES = {"AclBinding": "kafwire.admin.acls", "AclFilter": "kafwire.admin.acls", "ClusterBroker": "kafwire.admin.cluster", "ClusterDescription": "kafwire.admin.cluster", "CreatedTopic": "kafwire.admin.topics", "FeatureDescription": "kafwire.admin.cluster", "FeatureRange": "kafwire.admin.cluster", "FeatureUpdate": "kafwire.admin.cluster", "FencedProducer": "kafwire.admin.transactions", "GroupDescription": "kafwire.admin.group_types", "GroupListing": "kafwire.admin.group_types", "GroupMember": "kafwire.admin.group_types", "GroupOffset": "kafwire.admin.group_offsets", "HangingTransaction": "kafwire.admin.hanging_transactions", "InternalTopic": "kafwire.admin.group_types", "LogDirDescription": "kafwire.admin.replicas", "MetadataQuorum": "kafwire.admin.quorum", "NewTopic": "kafwire.admin.topics", "PartitionReassignment": "kafwire.admin.replicas", "ProducerState": "kafwire.admin.transactions", "QuorumReplica": "kafwire.admin.quorum", "QuotaEntity": "kafwire.admin.quotas", "QuotaFilter": "kafwire.admin.quotas", "QuotaMatch": "kafwire.admin.quotas", "RaftVoterEndpoint": "kafwire.admin.quorum", "ReplicaInfo": "kafwire.admin.replicas", "ReplicaLogDirs": "kafwire.admin.replicas", "ScramCredential": "kafwire.admin.users", "ScramDeletion": "kafwire.admin.users", "ScramUpsertion": "kafwire.admin.users", "StreamsAssignment": "kafwire.admin.group_types", "StreamsMember": "kafwire.admin.group_types", "StreamsSubtopology": "kafwire.admin.group_types", "StreamsTask": "kafwire.admin.group_types", "StreamsTopology": "kafwire.admin.group_types", "TopicPartitionReplica": "kafwire.admin.replica_arguments", "TopologyDescription": "kafwire.admin.group_types", "TopologyNode": "kafwire.admin.group_types", "TransactionDescription": "kafwire.admin.transactions", "TransactionListing": "kafwire.admin.transactions",}

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, _HOMES)
