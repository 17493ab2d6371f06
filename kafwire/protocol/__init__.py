"""Kafka's messages: one class per message, every version of it; and the headers that frame them.

`kafwire.protocol.MetadataRequest` and the like import the file of their API on first use: `metadata.py`. `MESSAGES` has
every class by Kafka's name. This package turns bytes into objects and back: no I/O, no versions chosen, no state.
"""

import re
from collections.abc import Iterator, Mapping
from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.protocol.add_offsets_to_txn import AddOffsetsToTxnRequest, AddOffsetsToTxnResponse
    from kafwire.protocol.add_partitions_to_txn import AddPartitionsToTxnRequest, AddPartitionsToTxnResponse
    from kafwire.protocol.add_raft_voter import AddRaftVoterRequest, AddRaftVoterResponse
    from kafwire.protocol.allocate_producer_ids import AllocateProducerIdsRequest, AllocateProducerIdsResponse
    from kafwire.protocol.alter_client_quotas import AlterClientQuotasRequest, AlterClientQuotasResponse
    from kafwire.protocol.alter_configs import AlterConfigsRequest, AlterConfigsResponse
    from kafwire.protocol.alter_partition import AlterPartitionRequest, AlterPartitionResponse
    from kafwire.protocol.alter_partition_reassignments import (
        AlterPartitionReassignmentsRequest,
        AlterPartitionReassignmentsResponse,
    )
    from kafwire.protocol.alter_replica_log_dirs import AlterReplicaLogDirsRequest, AlterReplicaLogDirsResponse
    from kafwire.protocol.alter_share_group_offsets import AlterShareGroupOffsetsRequest, AlterShareGroupOffsetsResponse
    from kafwire.protocol.alter_user_scram_credentials import (
        AlterUserScramCredentialsRequest,
        AlterUserScramCredentialsResponse,
    )
    from kafwire.protocol.api_versions import ApiVersionsRequest, ApiVersionsResponse
    from kafwire.protocol.assign_replicas_to_dirs import AssignReplicasToDirsRequest, AssignReplicasToDirsResponse
    from kafwire.protocol.begin_quorum_epoch import BeginQuorumEpochRequest, BeginQuorumEpochResponse
    from kafwire.protocol.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
    from kafwire.protocol.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
    from kafwire.protocol.consumer_group_describe import ConsumerGroupDescribeRequest, ConsumerGroupDescribeResponse
    from kafwire.protocol.consumer_group_heartbeat import ConsumerGroupHeartbeatRequest, ConsumerGroupHeartbeatResponse
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
    from kafwire.protocol.controller_registration import ControllerRegistrationRequest, ControllerRegistrationResponse
    from kafwire.protocol.create_acls import CreateAclsRequest, CreateAclsResponse
    from kafwire.protocol.create_delegation_token import CreateDelegationTokenRequest, CreateDelegationTokenResponse
    from kafwire.protocol.create_partitions import CreatePartitionsRequest, CreatePartitionsResponse
    from kafwire.protocol.create_topics import CreateTopicsRequest, CreateTopicsResponse
    from kafwire.protocol.default_principal import DefaultPrincipalData
    from kafwire.protocol.delete_acls import DeleteAclsRequest, DeleteAclsResponse
    from kafwire.protocol.delete_groups import DeleteGroupsRequest, DeleteGroupsResponse
    from kafwire.protocol.delete_records import DeleteRecordsRequest, DeleteRecordsResponse
    from kafwire.protocol.delete_share_group_offsets import (
        DeleteShareGroupOffsetsRequest,
        DeleteShareGroupOffsetsResponse,
    )
    from kafwire.protocol.delete_share_group_state import DeleteShareGroupStateRequest, DeleteShareGroupStateResponse
    from kafwire.protocol.delete_topics import DeleteTopicsRequest, DeleteTopicsResponse
    from kafwire.protocol.describe_acls import DescribeAclsRequest, DescribeAclsResponse
    from kafwire.protocol.describe_client_quotas import DescribeClientQuotasRequest, DescribeClientQuotasResponse
    from kafwire.protocol.describe_cluster import DescribeClusterRequest, DescribeClusterResponse
    from kafwire.protocol.describe_configs import DescribeConfigsRequest, DescribeConfigsResponse
    from kafwire.protocol.describe_delegation_token import (
        DescribeDelegationTokenRequest,
        DescribeDelegationTokenResponse,
    )
    from kafwire.protocol.describe_groups import DescribeGroupsRequest, DescribeGroupsResponse
    from kafwire.protocol.describe_log_dirs import DescribeLogDirsRequest, DescribeLogDirsResponse
    from kafwire.protocol.describe_producers import DescribeProducersRequest, DescribeProducersResponse
    from kafwire.protocol.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse
    from kafwire.protocol.describe_share_group_offsets import (
        DescribeShareGroupOffsetsRequest,
        DescribeShareGroupOffsetsResponse,
    )
    from kafwire.protocol.describe_topic_partitions import (
        DescribeTopicPartitionsRequest,
        DescribeTopicPartitionsResponse,
    )
    from kafwire.protocol.describe_transactions import DescribeTransactionsRequest, DescribeTransactionsResponse
    from kafwire.protocol.describe_user_scram_credentials import (
        DescribeUserScramCredentialsRequest,
        DescribeUserScramCredentialsResponse,
    )
    from kafwire.protocol.elect_leaders import ElectLeadersRequest, ElectLeadersResponse
    from kafwire.protocol.end_quorum_epoch import EndQuorumEpochRequest, EndQuorumEpochResponse
    from kafwire.protocol.end_txn import EndTxnRequest, EndTxnResponse
    from kafwire.protocol.envelope import EnvelopeRequest, EnvelopeResponse
    from kafwire.protocol.expire_delegation_token import ExpireDelegationTokenRequest, ExpireDelegationTokenResponse
    from kafwire.protocol.fetch import FetchRequest, FetchResponse
    from kafwire.protocol.fetch_snapshot import FetchSnapshotRequest, FetchSnapshotResponse
    from kafwire.protocol.find_coordinator import FindCoordinatorRequest, FindCoordinatorResponse
    from kafwire.protocol.framing import (
        decode_response,
        decode_versioned,
        encode_request,
        encode_request_header,
        encode_versioned,
    )
    from kafwire.protocol.get_telemetry_subscriptions import (
        GetTelemetrySubscriptionsRequest,
        GetTelemetrySubscriptionsResponse,
    )
    from kafwire.protocol.header import RequestHeader, ResponseHeader
    from kafwire.protocol.heartbeat import HeartbeatRequest, HeartbeatResponse
    from kafwire.protocol.incremental_alter_configs import (
        IncrementalAlterConfigsRequest,
        IncrementalAlterConfigsResponse,
    )
    from kafwire.protocol.init_producer_id import InitProducerIdRequest, InitProducerIdResponse
    from kafwire.protocol.initialize_share_group_state import (
        InitializeShareGroupStateRequest,
        InitializeShareGroupStateResponse,
    )
    from kafwire.protocol.join_group import JoinGroupRequest, JoinGroupResponse
    from kafwire.protocol.leave_group import LeaveGroupRequest, LeaveGroupResponse
    from kafwire.protocol.list_config_resources import ListConfigResourcesRequest, ListConfigResourcesResponse
    from kafwire.protocol.list_groups import ListGroupsRequest, ListGroupsResponse
    from kafwire.protocol.list_offsets import ListOffsetsRequest, ListOffsetsResponse
    from kafwire.protocol.list_partition_reassignments import (
        ListPartitionReassignmentsRequest,
        ListPartitionReassignmentsResponse,
    )
    from kafwire.protocol.list_transactions import ListTransactionsRequest, ListTransactionsResponse
    from kafwire.protocol.metadata import MetadataRequest, MetadataResponse
    from kafwire.protocol.offset_commit import OffsetCommitRequest, OffsetCommitResponse
    from kafwire.protocol.offset_delete import OffsetDeleteRequest, OffsetDeleteResponse
    from kafwire.protocol.offset_fetch import OffsetFetchRequest, OffsetFetchResponse
    from kafwire.protocol.offset_for_leader_epoch import OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse
    from kafwire.protocol.produce import ProduceRequest, ProduceResponse
    from kafwire.protocol.push_telemetry import PushTelemetryRequest, PushTelemetryResponse
    from kafwire.protocol.read_share_group_state import ReadShareGroupStateRequest, ReadShareGroupStateResponse
    from kafwire.protocol.read_share_group_state_summary import (
        ReadShareGroupStateSummaryRequest,
        ReadShareGroupStateSummaryResponse,
    )
    from kafwire.protocol.remove_raft_voter import RemoveRaftVoterRequest, RemoveRaftVoterResponse
    from kafwire.protocol.renew_delegation_token import RenewDelegationTokenRequest, RenewDelegationTokenResponse
    from kafwire.protocol.sasl_authenticate import SaslAuthenticateRequest, SaslAuthenticateResponse
    from kafwire.protocol.sasl_handshake import SaslHandshakeRequest, SaslHandshakeResponse
    from kafwire.protocol.share_acknowledge import ShareAcknowledgeRequest, ShareAcknowledgeResponse
    from kafwire.protocol.share_fetch import ShareFetchRequest, ShareFetchResponse
    from kafwire.protocol.share_group_describe import ShareGroupDescribeRequest, ShareGroupDescribeResponse
    from kafwire.protocol.share_group_heartbeat import ShareGroupHeartbeatRequest, ShareGroupHeartbeatResponse
    from kafwire.protocol.spec import Data, Message, Request, Response, Struct
    from kafwire.protocol.streams_group_describe import StreamsGroupDescribeRequest, StreamsGroupDescribeResponse
    from kafwire.protocol.streams_group_heartbeat import StreamsGroupHeartbeatRequest, StreamsGroupHeartbeatResponse
    from kafwire.protocol.sync_group import SyncGroupRequest, SyncGroupResponse
    from kafwire.protocol.txn_offset_commit import TxnOffsetCommitRequest, TxnOffsetCommitResponse
    from kafwire.protocol.unregister_broker import UnregisterBrokerRequest, UnregisterBrokerResponse
    from kafwire.protocol.update_features import UpdateFeaturesRequest, UpdateFeaturesResponse
    from kafwire.protocol.update_raft_voter import UpdateRaftVoterRequest, UpdateRaftVoterResponse
    from kafwire.protocol.vote import VoteRequest, VoteResponse
    from kafwire.protocol.write_share_group_state import WriteShareGroupStateRequest, WriteShareGroupStateResponse
    from kafwire.protocol.write_txn_markers import WriteTxnMarkersRequest, WriteTxnMarkersResponse

__all__ = [
    "MESSAGES",
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
    "ConsumerGroupDescribeRequest",
    "ConsumerGroupDescribeResponse",
    "ConsumerGroupHeartbeatRequest",
    "ConsumerGroupHeartbeatResponse",
    "ConsumerProtocolAssignment",
    "ConsumerProtocolSubscription",
    "ControlRecordTypeSchema",
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
    "LeaderChangeMessage",
    "LeaveGroupRequest",
    "LeaveGroupResponse",
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
    "OffsetCommitRequest",
    "OffsetCommitResponse",
    "OffsetDeleteRequest",
    "OffsetDeleteResponse",
    "OffsetFetchRequest",
    "OffsetFetchResponse",
    "OffsetForLeaderEpochRequest",
    "OffsetForLeaderEpochResponse",
    "ProduceRequest",
    "ProduceResponse",
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
    "ShareGroupDescribeRequest",
    "ShareGroupDescribeResponse",
    "ShareGroupHeartbeatRequest",
    "ShareGroupHeartbeatResponse",
    "SnapshotFooterRecord",
    "SnapshotHeaderRecord",
    "StreamsGroupDescribeRequest",
    "StreamsGroupDescribeResponse",
    "StreamsGroupHeartbeatRequest",
    "StreamsGroupHeartbeatResponse",
    "Struct",
    "SyncGroupRequest",
    "SyncGroupResponse",
    "TxnOffsetCommitRequest",
    "TxnOffsetCommitResponse",
    "UnregisterBrokerRequest",
    "UnregisterBrokerResponse",
    "UpdateFeaturesRequest",
    "UpdateFeaturesResponse",
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
# The messages that are neither a request nor a response, by the file they are in.
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
    "header": ("RequestHeader", "ResponseHeader"),
}


def _modules() -> dict[str, str]:
    """The file of every message, by the message's name: that of an API is the API's name in snake_case."""
    found = {
        name: re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", re.sub("(Request|Response)$", "", name)).lower()
        for name in __all__
        if re.search("[a-z](Request|Response)$", name)
    }
    found.update((name, file) for file, names in _DATA.items() for name in names)
    return found


_MODULES = _modules()


class _Messages(Mapping[str, "type[Message]"]):
    """The message classes by Kafka's name; a class is imported when it is asked for."""

    def __getitem__(self, name: str) -> "type[Message]":
        message: type[Message] = getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)
        return message

    def __iter__(self) -> Iterator[str]:
        return iter(_MODULES)

    def __len__(self) -> int:
        return len(_MODULES)


MESSAGES: Mapping[str, "type[Message]"] = _Messages()


def __getattr__(name: str) -> object:
    if name in _MODULES:
        value: object = MESSAGES[name]
    elif name in _VOCABULARY:
        value = getattr(import_module(f"{__name__}.spec"), name)
    elif name in _FRAMING:
        value = getattr(import_module(f"{__name__}.framing"), name)
    else:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
