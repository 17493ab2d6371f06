"""Kafka's error codes, by Kafka's own names (`org.apache.kafka.common.protocol.Errors`). Imports nothing of kafwire."""

from __future__ import annotations

from enum import IntEnum
from typing import Self

_RETRY = True
_FINAL = False


class ErrorCode(IntEnum):
    """One of Kafka's error codes: a number with a name, `retriable` (a retry may help), and a `message` for the user.

    Example:
        >>> from kafwire.errors import ErrorCode
        >>> ErrorCode(3).name, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION.retriable
        ('UNKNOWN_TOPIC_OR_PARTITION', True)
    """

    __module__ = "kafwire.errors"

    retriable: bool
    message: str

    def __new__(cls, code: int, retriable: bool = False, message: str = "") -> Self:
        """Create the member of a number; `ErrorCode(3)` finds it."""
        made = int.__new__(cls, code)
        made._value_ = code
        made.retriable = retriable
        made.message = message
        return made

    @property
    def code(self) -> int:
        """The number on the wire."""
        return int(self)

    UNKNOWN_SERVER_ERROR = -1, _FINAL, "the broker failed in a way it does not explain; its log says more"
    NONE = 0, _FINAL, "no error"
    OFFSET_OUT_OF_RANGE = 1, _FINAL, "the log has no such offset (deleted, or not written yet); read from elsewhere"
    CORRUPT_MESSAGE = 2, _RETRY, "a batch failed its CRC or has a form the broker refuses"
    UNKNOWN_TOPIC_OR_PARTITION = 3, _RETRY, "this broker knows no such topic or partition; check the name"
    INVALID_FETCH_SIZE = 4, _FINAL, "the fetch asks for an impossible number of bytes"
    LEADER_NOT_AVAILABLE = 5, _RETRY, "the partition has no leader at the moment; an election may be under way"
    NOT_LEADER_OR_FOLLOWER = 6, _RETRY, "this broker does not lead or hold the partition; refresh the metadata"
    REQUEST_TIMED_OUT = 7, _RETRY, "the broker ran out of time; it may still have done the work"
    BROKER_NOT_AVAILABLE = 8, _FINAL, "the broker asked for is not there"
    REPLICA_NOT_AVAILABLE = 9, _RETRY, "this broker has no usable replica of the partition"
    MESSAGE_TOO_LARGE = 10, _FINAL, "the record batch is larger than the broker takes; see max.message.bytes"
    STALE_CONTROLLER_EPOCH = 11, _FINAL, "the sender's controller epoch is old; another controller has taken over"
    OFFSET_METADATA_TOO_LARGE = 12, _FINAL, "the text stored beside a committed offset is too long; shorten it"
    NETWORK_EXCEPTION = 13, _RETRY, "the connection to another broker broke before its response"
    COORDINATOR_LOAD_IN_PROGRESS = 14, _RETRY, "the coordinator is still loading its state; ask again shortly"
    COORDINATOR_NOT_AVAILABLE = 15, _RETRY, "there is no coordinator at the moment; look it up again"
    NOT_COORDINATOR = 16, _RETRY, "this broker is not the coordinator any more; look it up again"
    INVALID_TOPIC_EXCEPTION = 17, _FINAL, "the topic's name is not allowed, or the topic may not be used like this"
    RECORD_LIST_TOO_LARGE = 18, _FINAL, "the batch is larger than a log segment of the topic; see segment.bytes"
    NOT_ENOUGH_REPLICAS = 19, _RETRY, "fewer replicas are in sync than min.insync.replicas; nothing was written"
    NOT_ENOUGH_REPLICAS_AFTER_APPEND = 20, _RETRY, "written, but to fewer replicas than min.insync.replicas"
    INVALID_REQUIRED_ACKS = 21, _FINAL, "acks must be 0, 1 or all (-1)"
    ILLEGAL_GENERATION = 22, _FINAL, "the group has moved on to another generation; join it again"
    INCONSISTENT_GROUP_PROTOCOL = 23, _FINAL, "this member shares no assignor or protocol type with the group"
    INVALID_GROUP_ID = 24, _FINAL, "the group id is empty or not allowed"
    UNKNOWN_MEMBER_ID = 25, _FINAL, "the coordinator does not know this member (expired or never joined); rejoin"
    INVALID_SESSION_TIMEOUT = 26, _FINAL, "the session timeout is outside the range that the broker allows"
    REBALANCE_IN_PROGRESS = 27, _FINAL, "the group is rebalancing; join again"
    INVALID_COMMIT_OFFSET_SIZE = 28, _FINAL, "the commit is larger than the offsets topic takes"
    TOPIC_AUTHORIZATION_FAILED = 29, _FINAL, "not permitted on this topic; ask for an ACL"
    GROUP_AUTHORIZATION_FAILED = 30, _FINAL, "not permitted on this group; ask for an ACL"
    CLUSTER_AUTHORIZATION_FAILED = 31, _FINAL, "not permitted on the cluster; ask for an ACL"
    INVALID_TIMESTAMP = 32, _FINAL, "a record's timestamp is too far from the broker's clock for this topic"
    UNSUPPORTED_SASL_MECHANISM = 33, _FINAL, "the broker does not offer this SASL mechanism on this listener"
    ILLEGAL_SASL_STATE = 34, _FINAL, "a request came at the wrong point of the SASL exchange"
    UNSUPPORTED_VERSION = 35, _FINAL, "the broker does not serve this version of the request"
    TOPIC_ALREADY_EXISTS = 36, _FINAL, "there is a topic of this name already"
    INVALID_PARTITIONS = 37, _FINAL, "the number of partitions is not possible"
    INVALID_REPLICATION_FACTOR = 38, _FINAL, "the replication factor is below 1 or above the number of brokers"
    INVALID_REPLICA_ASSIGNMENT = 39, _FINAL, "the replica assignment names unknown brokers or is uneven"
    INVALID_CONFIG = 40, _FINAL, "a configuration name or value is not allowed"
    NOT_CONTROLLER = 41, _RETRY, "this node is not the active controller; find it again"
    INVALID_REQUEST = 42, _FINAL, "the broker cannot make sense of the request; its log says why"
    UNSUPPORTED_FOR_MESSAGE_FORMAT = (
        43,
        _FINAL,
        "the server refuses this format of records: try compression_type=none",
    )
    POLICY_VIOLATION = 44, _FINAL, "a policy set on the cluster forbids these parameters"
    OUT_OF_ORDER_SEQUENCE_NUMBER = 45, _FINAL, "a batch before this one is missing; the idempotent sequence broke"
    DUPLICATE_SEQUENCE_NUMBER = 46, _FINAL, "the broker has this batch already"
    INVALID_PRODUCER_EPOCH = 47, _FINAL, "the broker knows a newer epoch of this producer"
    INVALID_TXN_STATE = 48, _FINAL, "the transaction is not in a state that allows this"
    INVALID_PRODUCER_ID_MAPPING = 49, _FINAL, "this producer id does not belong to the transactional id"
    INVALID_TRANSACTION_TIMEOUT = 50, _FINAL, "the transaction timeout is above transaction.max.timeout.ms"
    CONCURRENT_TRANSACTIONS = 51, _RETRY, "the last transaction of this id is still being finished"
    TRANSACTION_COORDINATOR_FENCED = 52, _FINAL, "a former transaction coordinator wrote; a newer one is in charge"
    TRANSACTIONAL_ID_AUTHORIZATION_FAILED = 53, _FINAL, "not permitted on this transactional id; ask for an ACL"
    SECURITY_DISABLED = 54, _FINAL, "the cluster runs without an authorizer"
    OPERATION_NOT_ATTEMPTED = 55, _FINAL, "not tried, because another part of the same request failed"
    KAFKA_STORAGE_ERROR = 56, _RETRY, "the broker's disk or log directory failed"
    LOG_DIR_NOT_FOUND = 57, _FINAL, "the broker has no such log directory"
    SASL_AUTHENTICATION_FAILED = 58, _FINAL, "the credentials were refused; check user, password and mechanism"
    UNKNOWN_PRODUCER_ID = 59, _FINAL, "the broker has forgotten this producer (its records expired)"
    REASSIGNMENT_IN_PROGRESS = 60, _FINAL, "the partition is being moved; wait until that has ended"
    DELEGATION_TOKEN_AUTH_DISABLED = 61, _FINAL, "the cluster has delegation tokens switched off"
    DELEGATION_TOKEN_NOT_FOUND = 62, _FINAL, "there is no such delegation token"
    DELEGATION_TOKEN_OWNER_MISMATCH = 63, _FINAL, "this principal neither owns nor may renew the token"
    DELEGATION_TOKEN_REQUEST_NOT_ALLOWED = 64, _FINAL, "tokens need a TLS or SASL connection not made with a token"
    DELEGATION_TOKEN_AUTHORIZATION_FAILED = 65, _FINAL, "not permitted on this delegation token"
    DELEGATION_TOKEN_EXPIRED = 66, _FINAL, "the delegation token has expired; get a new one"
    INVALID_PRINCIPAL_TYPE = 67, _FINAL, "this type of principal is not supported"
    NON_EMPTY_GROUP = 68, _FINAL, "the group still has members; stop them first"
    GROUP_ID_NOT_FOUND = 69, _FINAL, "there is no such group"
    FETCH_SESSION_ID_NOT_FOUND = 70, _RETRY, "the broker dropped the fetch session; a full fetch opens a new one"
    INVALID_FETCH_SESSION_EPOCH = 71, _RETRY, "the fetch session is out of step; a full fetch opens a new one"
    LISTENER_NOT_FOUND = 72, _RETRY, "the leader has no listener of the name this client came in by"
    TOPIC_DELETION_DISABLED = 73, _FINAL, "the cluster forbids deleting topics; see delete.topic.enable"
    FENCED_LEADER_EPOCH = 74, _RETRY, "the client's leader epoch is older than the broker's; refresh the metadata"
    UNKNOWN_LEADER_EPOCH = 75, _RETRY, "the client's leader epoch is newer than the broker's, which lags behind"
    UNSUPPORTED_COMPRESSION_TYPE = 76, _FINAL, "this request version cannot carry the topic's compression type"
    STALE_BROKER_EPOCH = 77, _FINAL, "the broker has restarted since this was sent"
    OFFSET_NOT_AVAILABLE = 78, _RETRY, "a new leader does not know its high watermark yet; ask again shortly"
    MEMBER_ID_REQUIRED = 79, _FINAL, "join again with the member id of this response"
    PREFERRED_LEADER_NOT_AVAILABLE = 80, _RETRY, "the preferred leader is not there to be elected"
    GROUP_MAX_SIZE_REACHED = 81, _FINAL, "the group is full; see group.max.size"
    FENCED_INSTANCE_ID = 82, _FINAL, "another member runs with the same group.instance.id; ids must be unique"
    ELIGIBLE_LEADERS_NOT_AVAILABLE = 83, _RETRY, "no replica that may lead is there"
    ELECTION_NOT_NEEDED = 84, _RETRY, "the partition already has the leader asked for"
    NO_REASSIGNMENT_IN_PROGRESS = 85, _FINAL, "the partition is not being moved"
    GROUP_SUBSCRIBED_TO_TOPIC = 86, _FINAL, "the group is reading the topic; its offsets cannot be deleted now"
    INVALID_RECORD = 87, _FINAL, "the broker refused a record, as one without a key in a compacted topic"
    UNSTABLE_OFFSET_COMMIT = 88, _RETRY, "a transaction has offsets of this partition still open"
    THROTTLING_QUOTA_EXCEEDED = 89, _RETRY, "a quota is used up; wait for the throttle time"
    PRODUCER_FENCED = 90, _FINAL, "the coordinator knows a newer epoch of this transactional id"
    RESOURCE_NOT_FOUND = 91, _FINAL, "the request names something that does not exist"
    DUPLICATE_RESOURCE = 92, _FINAL, "the request names the same thing twice"
    UNACCEPTABLE_CREDENTIAL = 93, _FINAL, "the credential breaks a rule, such as too few iterations"
    INCONSISTENT_VOTER_SET = 94, _FINAL, "sender and receiver disagree on the voters of the quorum"
    INVALID_UPDATE_VERSION = 95, _FINAL, "the version in the update is not allowed"
    FEATURE_UPDATE_FAILED = 96, _FINAL, "the controller could not change the finalised features; its log says why"
    PRINCIPAL_DESERIALIZATION_FAILURE = 97, _FINAL, "a broker could not read the principal of a forwarded request"
    SNAPSHOT_NOT_FOUND = 98, _FINAL, "there is no such snapshot"
    POSITION_OUT_OF_RANGE = 99, _FINAL, "the position lies outside the snapshot"
    UNKNOWN_TOPIC_ID = 100, _RETRY, "this broker knows no topic of that id; refresh the metadata"
    DUPLICATE_BROKER_REGISTRATION = 101, _FINAL, "another live broker has this id"
    BROKER_ID_NOT_REGISTERED = 102, _FINAL, "no broker of that id is registered"
    INCONSISTENT_TOPIC_ID = 103, _RETRY, "the topic's id differs from the log's; refresh the metadata"
    INCONSISTENT_CLUSTER_ID = 104, _FINAL, "this broker belongs to another cluster; check the addresses"
    TRANSACTIONAL_ID_NOT_FOUND = 105, _FINAL, "there is no such transactional id"
    FETCH_SESSION_TOPIC_ID_ERROR = 106, _RETRY, "the fetch session mixed topic ids and names; a full fetch repairs it"
    INELIGIBLE_REPLICA = 107, _FINAL, "a replica of the new in-sync set may not be in it"
    NEW_LEADER_ELECTED = 108, _FINAL, "the partition changed as asked and has a new leader"
    OFFSET_MOVED_TO_TIERED_STORAGE = 109, _FINAL, "the offset is in remote storage only"
    FENCED_MEMBER_EPOCH = 110, _FINAL, "the group fenced this member; give up its partitions and join again"
    UNRELEASED_INSTANCE_ID = 111, _FINAL, "the instance id is still taken by another member"
    UNSUPPORTED_ASSIGNOR = 112, _FINAL, "the group coordinator has no such assignor"
    STALE_MEMBER_EPOCH = 113, _FINAL, "the member's epoch is old; a heartbeat brings the current one"
    MISMATCHED_ENDPOINT_TYPE = 114, _FINAL, "the request is for a controller and reached a broker, or the reverse"
    UNSUPPORTED_ENDPOINT_TYPE = 115, _FINAL, "this endpoint type is not supported yet"
    UNKNOWN_CONTROLLER_ID = 116, _FINAL, "there is no controller of that id"
    UNKNOWN_SUBSCRIPTION_ID = 117, _FINAL, "the telemetry subscription has changed; fetch it again"
    TELEMETRY_TOO_LARGE = 118, _FINAL, "the telemetry is larger than the broker takes"
    INVALID_REGISTRATION = 119, _FINAL, "the controller refused the broker's registration"
    TRANSACTION_ABORTABLE = 120, _FINAL, "the transaction cannot commit; abort it and go on with the next"
    INVALID_RECORD_STATE = 121, _FINAL, "the share group's record cannot be acknowledged in its state"
    SHARE_SESSION_NOT_FOUND = 122, _RETRY, "the broker dropped the share session; open a new one"
    INVALID_SHARE_SESSION_EPOCH = 123, _RETRY, "the share session is out of step; open a new one"
    FENCED_STATE_EPOCH = 124, _FINAL, "the share group's state has a newer epoch"
    INVALID_VOTER_KEY = 125, _FINAL, "the voter's id or directory does not match the replica that was asked"
    DUPLICATE_VOTER = 126, _FINAL, "the voter is in the set already"
    VOTER_NOT_FOUND = 127, _FINAL, "the voter is not in the set"
    INVALID_REGULAR_EXPRESSION = 128, _FINAL, "the broker cannot compile the subscription's pattern (RE2 syntax)"
    REBOOTSTRAP_REQUIRED = 129, _FINAL, "what the client knows of the cluster is too old; bootstrap again"
    STREAMS_INVALID_TOPOLOGY = 130, _FINAL, "the streams group's topology is not valid"
    STREAMS_INVALID_TOPOLOGY_EPOCH = 131, _FINAL, "the streams topology's epoch is not valid"
    STREAMS_TOPOLOGY_FENCED = 132, _FINAL, "the streams topology's epoch is outdated"
    SHARE_SESSION_LIMIT_REACHED = 133, _RETRY, "the broker holds as many share sessions as it may"
    GROUP_DELETION_FAILED = 134, _FINAL, "the coordinator could not delete the group"
    STREAMS_TOPOLOGY_DESCRIPTION_UPDATE_FAILED = 135, _FINAL, "the broker could not store the topology's description"
    CONTROLLER_ID_NOT_REGISTERED = 136, _FINAL, "there is no registered controller of that id"
