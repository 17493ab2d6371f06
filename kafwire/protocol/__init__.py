"""Kafka's messages: one class per message, with all its versions; and the headers that frame them.

`kafwire.protocol.MetadataRequest` and the other names import the file of their API on first use: `api/metadata.py`.
`MESSAGES` has every class by Kafka's name. This package converts bytes to objects and back: no I/O, no choice of
versions, no state.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.protocol.api.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
    from kafwire.protocol.api.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
    from kafwire.protocol.api.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from kafwire.protocol.api.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
    from kafwire.protocol.api.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from kafwire.protocol.api.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from kafwire.protocol.api.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kafwire.protocol.api.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from kafwire.protocol.api.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
    from kafwire.protocol.api.alter_share_group_offsets import (
        AlterShareGroupOffsetsRequest,
        AlterShareGroupOffsetsResponse,
    )
    from kafwire.protocol.api.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from kafwire.protocol.api.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from kafwire.protocol.api.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
    from kafwire.protocol.api.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
    from kafwire.protocol.api.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
    from kafwire.protocol.api.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
    from kafwire.protocol.api.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
    from kafwire.protocol.api.consumer_group_heartbeat import (
        ConsumerGroupHeartbeatRequest,
        ConsumerGroupHeartbeatResponse,
    )
    from kafwire.protocol.api.controlled_shutdown import ControlledShutdownRequest, ControlledShutdownResponse
    from kafwire.protocol.api.controller_registration import (
        ControllerRegistrationRequest,
        ControllerRegistrationResponse,
    )
    from kafwire.protocol.api.create_acls import CreateAclsRequest, CreateAclsResponse
    from kafwire.protocol.api.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from kafwire.protocol.api.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from kafwire.protocol.api.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kafwire.protocol.api.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from kafwire.protocol.api.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from kafwire.protocol.api.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
    from kafwire.protocol.api.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
    )
    from kafwire.protocol.api.delete_share_group_state import (
        DeleteShareGroupStateRequest,
        DeleteShareGroupStateResponse,
    )
    from kafwire.protocol.api.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kafwire.protocol.api.describe_acls import DescribeAclsRequest, DescribeAclsResponse
    from kafwire.protocol.api.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
    from kafwire.protocol.api.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
    from kafwire.protocol.api.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from kafwire.protocol.api.describe_delegation_token import (
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )
    from kafwire.protocol.api.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
    from kafwire.protocol.api.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
    from kafwire.protocol.api.describe_producers import DescribeProducersRequest, DescribeProducersResponse
    from kafwire.protocol.api.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from kafwire.protocol.api.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
    )
    from kafwire.protocol.api.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )
    from kafwire.protocol.api.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
    from kafwire.protocol.api.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )
    from kafwire.protocol.api.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from kafwire.protocol.api.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
    from kafwire.protocol.api.end_txn import EndTxnRequest, EndTxnResponse
    from kafwire.protocol.api.envelope import EnvelopeRequest, EnvelopeResponse
    from kafwire.protocol.api.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from kafwire.protocol.api.fetch import FetchRequest, FetchResponse
    from kafwire.protocol.api.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
    from kafwire.protocol.api.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
    from kafwire.protocol.api.get_telemetry_subscriptions import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
    )
    from kafwire.protocol.api.heartbeat import HeartbeatRequest, HeartbeatResponse
    from kafwire.protocol.api.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kafwire.protocol.api.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from kafwire.protocol.api.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
    )
    from kafwire.protocol.api.join_group import JoinGroupRequest, JoinGroupResponse
    from kafwire.protocol.api.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
    from kafwire.protocol.api.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kafwire.protocol.api.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
    from kafwire.protocol.api.list_groups import ListGroupsRequest, ListGroupsResponse
    from kafwire.protocol.api.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from kafwire.protocol.api.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from kafwire.protocol.api.list_transactions import ListTransactionsRequest, ListTransactionsResponse
    from kafwire.protocol.api.metadata import MetadataRequest, MetadataResponse
    from kafwire.protocol.api.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kafwire.protocol.api.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from kafwire.protocol.api.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from kafwire.protocol.api.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
    from kafwire.protocol.api.produce import ProduceRequest, ProduceResponse
    from kafwire.protocol.api.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
    from kafwire.protocol.api.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
    from kafwire.protocol.api.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
    )
    from kafwire.protocol.api.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from kafwire.protocol.api.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
    from kafwire.protocol.api.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
    from kafwire.protocol.api.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
    from kafwire.protocol.api.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
    from kafwire.protocol.api.share_fetch import ShareFetchRequest, ShareFetchResponse
    from kafwire.protocol.api.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
    from kafwire.protocol.api.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
    from kafwire.protocol.api.stop_replica import StopReplicaRequest, StopReplicaResponse
    from kafwire.protocol.api.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
    from kafwire.protocol.api.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
    from kafwire.protocol.api.streams_group_topology_description_update import (
        StreamsGroupTopologyDescriptionUpdateRequest,
        StreamsGroupTopologyDescriptionUpdateResponse,
    )
    from kafwire.protocol.api.sync_group import SyncGroupRequest, SyncGroupResponse
    from kafwire.protocol.api.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
    from kafwire.protocol.api.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from kafwire.protocol.api.unregister_controller import UnregisterControllerRequest, UnregisterControllerResponse
    from kafwire.protocol.api.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from kafwire.protocol.api.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
    from kafwire.protocol.api.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
    from kafwire.protocol.api.vote import VoteRequest, VoteResponse
    from kafwire.protocol.api.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
    from kafwire.protocol.api.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse
    from kafwire.protocol.consumer_protocol import ConsumerProtocolAssignment, ConsumerProtocolSubscription
    from kafwire.protocol.control_records import (
        ControlRecordTypeSchema,
        EndTxnMarker,
        KRaftVersionRecord,
        LeaderChangeMessage,
        SnapshotFooterRecord,
        SnapshotHeaderRecord,
        VotersRecord,
    )
    from kafwire.protocol.default_principal import DefaultPrincipalData
    from kafwire.protocol.framing import (
        decode_response,
        decode_versioned,
        encode_request,
        encode_request_header,
        encode_versioned,
    )
    from kafwire.protocol.group_records import (
        ConsumerGroupCurrentMemberAssignmentKey,
        ConsumerGroupCurrentMemberAssignmentValue,
        ConsumerGroupMemberMetadataKey,
        ConsumerGroupMemberMetadataValue,
        ConsumerGroupMetadataKey,
        ConsumerGroupMetadataValue,
        ConsumerGroupPartitionMetadataKey,
        ConsumerGroupPartitionMetadataValue,
        ConsumerGroupRegularExpressionKey,
        ConsumerGroupRegularExpressionValue,
        ConsumerGroupTargetAssignmentMemberKey,
        ConsumerGroupTargetAssignmentMemberValue,
        ConsumerGroupTargetAssignmentMetadataKey,
        ConsumerGroupTargetAssignmentMetadataValue,
        GroupMetadataKey,
        GroupMetadataValue,
        LegacyOffsetCommitKey,
        LegacyOffsetCommitValue,
        OffsetCommitKey,
        OffsetCommitValue,
    )
    from kafwire.protocol.header import RequestHeader, ResponseHeader
    from kafwire.protocol.producer_snapshot import (
        ProducerSnapshot,
    )
    from kafwire.protocol.share_group_records import (
        ShareGroupCurrentMemberAssignmentKey,
        ShareGroupCurrentMemberAssignmentValue,
        ShareGroupMemberMetadataKey,
        ShareGroupMemberMetadataValue,
        ShareGroupMetadataKey,
        ShareGroupMetadataValue,
        ShareGroupPartitionMetadataKey,
        ShareGroupPartitionMetadataValue,
        ShareGroupStatePartitionMetadataKey,
        ShareGroupStatePartitionMetadataValue,
        ShareGroupTargetAssignmentMemberKey,
        ShareGroupTargetAssignmentMemberValue,
        ShareGroupTargetAssignmentMetadataKey,
        ShareGroupTargetAssignmentMetadataValue,
    )
    from kafwire.protocol.share_state_records import (
        ShareSnapshotKey,
        ShareSnapshotValue,
        ShareUpdateKey,
        ShareUpdateValue,
    )
    from kafwire.protocol.spec import Data, Message, Request, Response, Struct
    from kafwire.protocol.streams_group_records import (
        StreamsGroupCurrentMemberAssignmentKey,
        StreamsGroupCurrentMemberAssignmentValue,
        StreamsGroupMemberMetadataKey,
        StreamsGroupMemberMetadataValue,
        StreamsGroupMetadataKey,
        StreamsGroupMetadataValue,
        StreamsGroupTargetAssignmentMemberKey,
        StreamsGroupTargetAssignmentMemberValue,
        StreamsGroupTargetAssignmentMetadataKey,
        StreamsGroupTargetAssignmentMetadataValue,
        StreamsGroupTopologyKey,
        StreamsGroupTopologyValue,
    )
    from kafwire.protocol.transaction_index import AbortedTxn
    from kafwire.protocol.transaction_records import (
        TransactionLogKey,
        TransactionLogValue,
    )

__all__ = [
    "MESSAGES",
    "AbortedTxn",
    "AddOffsetsToTxnRequest",
    "AddOffsetsToTxnResponse",
    "AddPartitionsToTxnRequest",
    "AddPartitionsToTxnResponse",
    "AddRaftVoterRequest",
    "AddRaftVoterResponse",
    "AllocateProducerIdsRequest",
    "AllocateProducerIdsResponse",
    "AlterClientQuotasRequest",
    "AlterClientQuotasResponse",
    "AlterConfigsRequest",
    "AlterConfigsResponse",
    "AlterPartitionReassignmentsRequest",
    "AlterPartitionReassignmentsResponse",
    "AlterPartitionRequest",
    "AlterPartitionResponse",
    "AlterReplicaLogDirsRequest",
    "AlterReplicaLogDirsResponse",
    "AlterShareGroupOffsetsRequest",
    "AlterShareGroupOffsetsResponse",
    "AlterUserScramCredentialsRequest",
    "AlterUserScramCredentialsResponse",
    "ApiVersionsRequest",
    "ApiVersionsResponse",
    "AssignReplicasToDirsRequest",
    "AssignReplicasToDirsResponse",
    "BeginQuorumEpochRequest",
    "BeginQuorumEpochResponse",
    "BrokerHeartbeatRequest",
    "BrokerHeartbeatResponse",
    "BrokerRegistrationRequest",
    "BrokerRegistrationResponse",
    "ConsumerGroupCurrentMemberAssignmentKey",
    "ConsumerGroupCurrentMemberAssignmentValue",
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerGroupMemberMetadataKey",
    "ConsumerGroupMemberMetadataValue",
    "ConsumerGroupMetadataKey",
    "ConsumerGroupMetadataValue",
    "ConsumerGroupPartitionMetadataKey",
    "ConsumerGroupPartitionMetadataValue",
    "ConsumerGroupRegularExpressionKey",
    "ConsumerGroupRegularExpressionValue",
    "ConsumerGroupTargetAssignmentMemberKey",
    "ConsumerGroupTargetAssignmentMemberValue",
    "ConsumerGroupTargetAssignmentMetadataKey",
    "ConsumerGroupTargetAssignmentMetadataValue",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema",
    "ControlledShutdownRequest",
    "ControlledShutdownResponse",
    "ControllerRegistrationRequest",
    "ControllerRegistrationResponse",
    "CreateAclsRequest",
    "CreateAclsResponse",
    "CreateDelegationTokenRequest",
    "CreateDelegationTokenResponse",
    "CreatePartitionsRequest",
    "CreatePartitionsResponse",
    "CreateTopicsRequest",
    "CreateTopicsResponse",
    "Data",
    "DefaultPrincipalData",
    "DeleteAclsRequest",
    "DeleteAclsResponse",
    "DeleteGroupsRequest",
    "DeleteGroupsResponse",
    "DeleteRecordsRequest",
    "DeleteRecordsResponse",
    "DeleteShareGroupOffsetsRequest",
    "DeleteShareGroupOffsetsResponse",
    "DeleteShareGroupStateRequest",
    "DeleteShareGroupStateResponse",
    "DeleteTopicsRequest",
    "DeleteTopicsResponse",
    "DescribeAclsRequest",
    "DescribeAclsResponse",
    "DescribeClientQuotasRequest",
    "DescribeClientQuotasResponse",
    "DescribeClusterRequest",
    "DescribeClusterResponse",
    "DescribeConfigsRequest",
    "DescribeConfigsResponse",
    "DescribeDelegationTokenRequest",
    "DescribeDelegationTokenResponse",
    "DescribeGroupsRequest",
    "DescribeGroupsResponse",
    "DescribeLogDirsRequest",
    "DescribeLogDirsResponse",
    "DescribeProducersRequest",
    "DescribeProducersResponse",
    "DescribeQuorumRequest",
    "DescribeQuorumResponse",
    "DescribeShareGroupOffsetsRequest",
    "DescribeShareGroupOffsetsResponse",
    "DescribeTopicPartitionsRequest",
    "DescribeTopicPartitionsResponse",
    "DescribeTransactionsRequest",
    "DescribeTransactionsResponse",
    "DescribeUserScramCredentialsRequest",
    "DescribeUserScramCredentialsResponse",
    "ElectLeadersRequest",
    "ElectLeadersResponse",
    "EndQuorumEpochRequest",
    "EndQuorumEpochResponse",
    "EndTxnMarker",
    "EndTxnRequest",
    "EndTxnResponse",
    "EnvelopeRequest",
    "EnvelopeResponse",
    "ExpireDelegationTokenRequest",
    "ExpireDelegationTokenResponse",
    "FetchRequest",
    "FetchResponse",
    "FetchSnapshotRequest",
    "FetchSnapshotResponse",
    "FindCoordinatorRequest",
    "FindCoordinatorResponse",
    "GetTelemetrySubscriptionsRequest",
    "GetTelemetrySubscriptionsResponse",
    "GroupMetadataKey",
    "GroupMetadataValue",
    "HeartbeatRequest",
    "HeartbeatResponse",
    "IncrementalAlterConfigsRequest",
    "IncrementalAlterConfigsResponse",
    "InitProducerIdRequest",
    "InitProducerIdResponse",
    "InitializeShareGroupStateRequest",
    "InitializeShareGroupStateResponse",
    "JoinGroupRequest",
    "JoinGroupResponse",
    "KRaftVersionRecord",
    "LeaderAndIsrRequest",
    "LeaderAndIsrResponse",
    "LeaderChangeMessage",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
    "LegacyOffsetCommitKey",
    "LegacyOffsetCommitValue",
    "ListConfigResourcesRequest",
    "ListConfigResourcesResponse",
    "ListGroupsRequest",
    "ListGroupsResponse",
    "ListOffsetsRequest",
    "ListOffsetsResponse",
    "ListPartitionReassignmentsRequest",
    "ListPartitionReassignmentsResponse",
    "ListTransactionsRequest",
    "ListTransactionsResponse",
    "Message",
    "MetadataRequest",
    "MetadataResponse",
    "OffsetCommitKey",
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetCommitValue",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
    "ProducerSnapshot",
    "PushTelemetryRequest",
    "PushTelemetryResponse",
    "ReadShareGroupStateRequest",
    "ReadShareGroupStateResponse",
    "ReadShareGroupStateSummaryRequest",
    "ReadShareGroupStateSummaryResponse",
    "RemoveRaftVoterRequest",
    "RemoveRaftVoterResponse",
    "RenewDelegationTokenRequest",
    "RenewDelegationTokenResponse",
    "Request",
    "RequestHeader",
    "Response",
    "ResponseHeader",
    "SaslAuthenticateRequest",
    "SaslAuthenticateResponse",
    "SaslHandshakeRequest",
    "SaslHandshakeResponse",
    "ShareAcknowledgeRequest",
    "ShareAcknowledgeResponse",
    "ShareFetchRequest",
    "ShareFetchResponse",
    "ShareGroupCurrentMemberAssignmentKey",
    "ShareGroupCurrentMemberAssignmentValue",
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "ShareGroupMemberMetadataKey",
    "ShareGroupMemberMetadataValue",
    "ShareGroupMetadataKey",
    "ShareGroupMetadataValue",
    "ShareGroupPartitionMetadataKey",
    "ShareGroupPartitionMetadataValue",
    "ShareGroupStatePartitionMetadataKey",
    "ShareGroupStatePartitionMetadataValue",
    "ShareGroupTargetAssignmentMemberKey",
    "ShareGroupTargetAssignmentMemberValue",
    "ShareGroupTargetAssignmentMetadataKey",
    "ShareGroupTargetAssignmentMetadataValue",
    "ShareSnapshotKey",
    "ShareSnapshotValue",
    "ShareUpdateKey",
    "ShareUpdateValue",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "StopReplicaRequest",
    "StopReplicaResponse",
    "StreamsGroupCurrentMemberAssignmentKey",
    "StreamsGroupCurrentMemberAssignmentValue",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "StreamsGroupMemberMetadataKey",
    "StreamsGroupMemberMetadataValue",
    "StreamsGroupMetadataKey",
    "StreamsGroupMetadataValue",
    "StreamsGroupTargetAssignmentMemberKey",
    "StreamsGroupTargetAssignmentMemberValue",
    "StreamsGroupTargetAssignmentMetadataKey",
    "StreamsGroupTargetAssignmentMetadataValue",
    "StreamsGroupTopologyDescriptionUpdateRequest",
    "StreamsGroupTopologyDescriptionUpdateResponse",
    "StreamsGroupTopologyKey",
    "StreamsGroupTopologyValue",
    "Struct",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TransactionLogKey",
    "TransactionLogValue",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UnregisterControllerRequest",
    "UnregisterControllerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
    "UpdateMetadataRequest",
    "UpdateMetadataResponse",
    "UpdateRaftVoterRequest",
    "UpdateRaftVoterResponse",
    "VoteRequest",
    "VoteResponse",
    "VotersRecord",
    "WriteShareGroupStateRequest",
    "WriteShareGroupStateResponse",
    "WriteTxnMarkersRequest",
    "WriteTxnMarkersResponse",
    "decode_response",
    "decode_versioned",
    "encode_request",
    "encode_request_header",
    "encode_versioned",
]

_VOCABULARY = ("Data", "Message", "Request", "Response", "Struct")
_FRAMING = ("decode_response", "decode_versioned", "encode_request", "encode_request_header", "encode_versioned")
# The messages that are neither a request nor a response, by their file.
_DATA = {
    "consumer_protocol": ("ConsumerProtocolAssignment", "ConsumerProtocolSubscription"),
    "control_records": (
        "ControlRecordTypeSchema",
        "EndTxnMarker",
        "KRaftVersionRecord",
        "LeaderChangeMessage",
        "SnapshotFooterRecord",
        "SnapshotHeaderRecord",
        "VotersRecord",
    ),
    "default_principal": ("DefaultPrincipalData",),
    "group_records": (
        "LegacyOffsetCommitKey",
        "LegacyOffsetCommitValue",
        "OffsetCommitKey",
        "OffsetCommitValue",
        "GroupMetadataKey",
        "GroupMetadataValue",
        "ConsumerGroupMetadataKey",
        "ConsumerGroupMetadataValue",
        "ConsumerGroupPartitionMetadataKey",
        "ConsumerGroupPartitionMetadataValue",
        "ConsumerGroupMemberMetadataKey",
        "ConsumerGroupMemberMetadataValue",
        "ConsumerGroupTargetAssignmentMetadataKey",
        "ConsumerGroupTargetAssignmentMetadataValue",
        "ConsumerGroupTargetAssignmentMemberKey",
        "ConsumerGroupTargetAssignmentMemberValue",
        "ConsumerGroupCurrentMemberAssignmentKey",
        "ConsumerGroupCurrentMemberAssignmentValue",
        "ConsumerGroupRegularExpressionKey",
        "ConsumerGroupRegularExpressionValue",
    ),
    "share_group_records": (
        "ShareGroupPartitionMetadataKey",
        "ShareGroupPartitionMetadataValue",
        "ShareGroupMemberMetadataKey",
        "ShareGroupMemberMetadataValue",
        "ShareGroupMetadataKey",
        "ShareGroupMetadataValue",
        "ShareGroupTargetAssignmentMetadataKey",
        "ShareGroupTargetAssignmentMetadataValue",
        "ShareGroupTargetAssignmentMemberKey",
        "ShareGroupTargetAssignmentMemberValue",
        "ShareGroupCurrentMemberAssignmentKey",
        "ShareGroupCurrentMemberAssignmentValue",
        "ShareGroupStatePartitionMetadataKey",
        "ShareGroupStatePartitionMetadataValue",
    ),
    "share_state_records": (
        "ShareSnapshotKey",
        "ShareSnapshotValue",
        "ShareUpdateKey",
        "ShareUpdateValue",
    ),
    "streams_group_records": (
        "StreamsGroupMetadataKey",
        "StreamsGroupMetadataValue",
        "StreamsGroupMemberMetadataKey",
        "StreamsGroupMemberMetadataValue",
        "StreamsGroupTargetAssignmentMetadataKey",
        "StreamsGroupTargetAssignmentMetadataValue",
        "StreamsGroupTargetAssignmentMemberKey",
        "StreamsGroupTargetAssignmentMemberValue",
        "StreamsGroupCurrentMemberAssignmentKey",
        "StreamsGroupCurrentMemberAssignmentValue",
        "StreamsGroupTopologyKey",
        "StreamsGroupTopologyValue",
    ),
    "transaction_records": (
        "TransactionLogKey",
        "TransactionLogValue",
    ),
    "producer_snapshot": ("ProducerSnapshot",),
    "header": ("RequestHeader", "ResponseHeader"),
    "transaction_index": ("AbortedTxn",),
}


def _modules() -> dict[str, str]:
    """Return the file of every message, by the message's name: that of an API is its name in snake_case."""
    found = {
        name: "api." + re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub("(Request|Response)$", "", name)).lower()
        for name in __all__
        if re.search("[a-z](Request|Response)$", name)
    }
    found.update((name, file) for file, names in _DATA.items() for name in names)
    return found


_MODULES = _modules()


class _Messages(Mapping[str, "type[Message]"]):
    """The message classes by Kafka's name; a class is imported on first use."""

    def __getitem__(self, name: str) -> "type[Message]":
        message: type[Message] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return message

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


MESSAGES: Mapping[str, "type[Message]"] = _Messages()

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> object:
        if name in _MODULES:
            value: object = MESSAGES[name]
        elif name in _VOCABULARY:
            value = getattr(import_module(f"{__name__}.spec"), name)
        elif name in _FRAMING:
            value = getattr(import_module(f"{__name__}.framing"), name)
        else:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return sorted(__all__)
