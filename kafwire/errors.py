"""Every error that kafwire raises, and the table of Kafka's own error codes. Imports nothing of kafwire."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

__all__ = [
    "ERROR_CODES",
    "BrokerError",
    "ConfigError",
    "CorruptBatchError",
    "ErrorCode",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "ProducerFencedError",
    "ProtocolError",
    "PurgedError",
    "RecordTooLargeError",
    "SerializationError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionFatalError",
    "TransactionStateError",
    "TransactionTimeoutError",
    "broker_error",
]


class KafkaError(Exception):
    """Base of all errors that kafwire raises on purpose.

    `in_doubt`, of a delivery's error: the record may be in the log nevertheless, as an attempt to send it was not
    answered. Without it the record is not there, and never will be.

    `delivery`, of what `send_batch` raises: the `BatchDelivery` (awaited: `AsyncBatchDelivery`) of the rows that were
    buffered before the error, and are sent. None for all else.
    """

    in_doubt = False
    delivery: Any = None

    def __reduce__(self) -> Any:
        made = super().__reduce__()
        if isinstance(made, tuple) and len(made) > 2 and isinstance(made[2], dict):  # a delivery is this process's
            return (*made[:2], {name: value for name, value in made[2].items() if name != "delivery"})
        return made


class ConfigError(KafkaError, ValueError):
    """An option, or an argument of a public call, is unknown, of the wrong type or out of range."""


class KafkaTimeoutError(KafkaError, TimeoutError):
    """The time given to an operation ran out. Says nothing about whether the broker did it."""


class KafkaConnectionError(KafkaError, ConnectionError):
    """No connection, or it broke while something was in flight."""


class PurgedError(KafkaError):
    """A record that `purge()` gave up before it was acknowledged; `in_doubt` says whether it may be in the log."""


class ProtocolError(KafkaError):
    """Bytes that are not what Kafka's protocol allows, or a value that has no form in it.

    `api` is the message ("MetadataResponse"), `version` its version, `offset` the byte offset in the body where
    reading failed; each is None where it is not known.
    """

    def __init__(
        self, message: str, *, api: str | None = None, version: int | None = None, offset: int | None = None
    ) -> None:
        """Make the error; what is known of the place is added to the text."""
        self.message = message
        self.api = api
        self.version = version
        self.offset = offset
        place = " ".join(
            part
            for part in (
                api or "",
                "" if version is None else f"version {version}",
                "" if offset is None else f"at offset {offset}",
            )
            if part
        )
        super().__init__(f"{message} [{place}]" if place else message)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_protocol_error, (type(self), self.message, self.api, self.version, self.offset)


class CorruptBatchError(ProtocolError):
    """A fetched batch that cannot be read: a wrong checksum, or bytes that contradict themselves.

    `topic` and `partition` are where it was read, `base_offset` is that of the batch, `next_offset` is where its header
    says that it ends (-1 where they are not known). To read on behind it, seek to `next_offset`, or choose
    `on_corrupt="skip"`.
    """

    def __init__(
        self,
        message: str,
        *,
        topic: str,
        partition: int,
        base_offset: int,
        next_offset: int = -1,
        offset: int | None = None,
    ) -> None:
        """Make the error."""
        super().__init__(message, api="FetchResponse", offset=offset)
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.next_offset = next_offset

    def __reduce__(self) -> tuple[object, ...]:
        fields = self.message, self.topic, self.partition, self.base_offset, self.next_offset, self.offset
        return _restore_corrupt_batch, fields


class LogTruncatedError(KafkaError):
    """Records that were fetched are not in the log any more: an election of a leader that did not have them (KIP-320).

    Reading was at `position` of `topic` and `partition`; the log agrees with what was read up to `offset`. `seek` there
    to read on.
    """

    def __init__(self, message: str, *, topic: str, partition: int, position: int, offset: int) -> None:
        """Make the error."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.position = position
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_truncated, (str(self), self.topic, self.partition, self.position, self.offset)


class SerializationError(KafkaError):
    """A key or value that its serializer cannot make bytes of, or bytes that its deserializer can make nothing of.

    `topic`; `part` is "key" or "value". When reading, `partition` and `offset` are the record's, and reading stays
    there: `seek` to `offset + 1` to pass it over. When sending they are None and -1, and nothing was buffered. What the
    serializer raised is the `__cause__`.
    """

    def __init__(self, message: str, *, topic: str, part: str, partition: int | None = None, offset: int = -1) -> None:
        """Make the error."""
        super().__init__(message)
        self.topic = topic
        self.part = part
        self.partition = partition
        self.offset = offset

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_serialization, (str(self), self.topic, self.part, self.partition, self.offset)


class BrokerError(KafkaError):
    """A broker answered with an error code.

    `code` and `name` are Kafka's, `retriable` says whether the same request may succeed later.
    """

    def __init__(self, code: int, name: str, retriable: bool, message: str = "") -> None:
        """Make the error from its parts; `broker_error` fills them from the table."""
        self.code = code
        self.name = name
        self.retriable = retriable
        self.message = message
        super().__init__(f"{name} ({code}): {message}" if message else f"{name} ({code})")

    def __reduce__(self) -> tuple[object, ...]:
        return BrokerError, (self.code, self.name, self.retriable, self.message)


class RecordTooLargeError(BrokerError):
    """A record or batch is larger than the client's limit or than the broker takes; `code` is 10 or 18."""

    def __init__(self, message: str, *, code: int = 10) -> None:
        """Make the error; the client's own limit reports code 10 too."""
        super().__init__(code, ERROR_CODES[code].name, retriable=False, message=message)

    def __reduce__(self) -> tuple[object, ...]:
        return _restore_too_large, (self.message, self.code)


class TransactionError(KafkaError):
    """A transaction, or its producer, cannot go on as it was asked to; the subclasses and flags say what to do.

    `retriable`: the same call may be made again. `abortable`: abort the transaction, the producer then goes on.
    `fatal`: close the producer. The broker's own error, if there is one, is the `__cause__`.
    """

    retriable = False
    abortable = False
    fatal = False


class TransactionStateError(TransactionError):
    """A call that has no sense now, such as `send` outside a transaction; nothing was done."""


class TransactionAbortableError(TransactionError):
    """The transaction cannot be committed: abort it. The producer then takes the next one."""

    abortable = True


class TransactionAbortedError(TransactionError):
    """A record of a transaction that was aborted: nobody who reads committed records sees it."""


class TransactionFatalError(TransactionError):
    """The producer can do nothing more: close it."""

    fatal = True


class ProducerFencedError(TransactionFatalError):
    """Another producer has taken over the transactional id, or the coordinator has aborted a transaction that was
    open for too long (`transaction_timeout_ms`): close this producer.
    """


class TransactionTimeoutError(TransactionError, KafkaTimeoutError):
    """The time for a transactional call ran out; what it began goes on. Call it again to wait for the outcome."""

    retriable = True


def _restore_protocol_error(
    cls: type[ProtocolError], message: str, api: str | None, version: int | None, offset: int | None
) -> ProtocolError:
    return cls(message, api=api, version=version, offset=offset)


def _restore_corrupt_batch(
    message: str, topic: str, partition: int, base_offset: int, next_offset: int, offset: int | None
) -> CorruptBatchError:
    return CorruptBatchError(
        message, topic=topic, partition=partition, base_offset=base_offset, next_offset=next_offset, offset=offset
    )


def _restore_serialization(
    message: str, topic: str, part: str, partition: int | None, offset: int
) -> SerializationError:
    return SerializationError(message, topic=topic, part=part, partition=partition, offset=offset)


def _restore_truncated(message: str, topic: str, partition: int, position: int, offset: int) -> LogTruncatedError:
    return LogTruncatedError(message, topic=topic, partition=partition, position=position, offset=offset)


def _restore_too_large(message: str, code: int) -> RecordTooLargeError:
    return RecordTooLargeError(message, code=code)


@dataclass(frozen=True, slots=True)
class ErrorCode:
    """One of Kafka's error codes: number, name, whether a retry may help, and what it means to the user."""

    code: int
    name: str
    retriable: bool
    message: str


def broker_error(code: int, context: str = "") -> BrokerError:
    """Make the exception for `code`, its text ending in `context` (broker, topic, partition, what was asked).

    A code that is not in the table is a `BrokerError` too, not retriable, named UNKNOWN_ERROR_CODE.
    """
    known = ERROR_CODES.get(code)
    if known is None:
        known = ErrorCode(code, "UNKNOWN_ERROR_CODE", _FINAL, "kafwire has no name for this error code")
    text = f"{known.message} [{context}]" if context else known.message
    if code in _TOO_LARGE:
        return RecordTooLargeError(text, code=code)
    return BrokerError(known.code, known.name, known.retriable, text)


_TOO_LARGE = (10, 18)
_RETRY = True
_FINAL = False

_TABLE = (
    (-1, "UNKNOWN_SERVER_ERROR", _FINAL, "the broker failed in a way it does not explain; its log says more"),
    (0, "NONE", _FINAL, "no error"),
    (1, "OFFSET_OUT_OF_RANGE", _FINAL, "the log has no such offset (deleted, or not written yet); read from elsewhere"),
    (2, "CORRUPT_MESSAGE", _RETRY, "a batch failed its CRC or has a form the broker refuses; is the network sound?"),
    (3, "UNKNOWN_TOPIC_OR_PARTITION", _RETRY, "this broker knows no such topic or partition; check the name"),
    (4, "INVALID_FETCH_SIZE", _FINAL, "the fetch asks for an impossible number of bytes"),
    (5, "LEADER_NOT_AVAILABLE", _RETRY, "the partition has no leader at the moment; an election may be under way"),
    (6, "NOT_LEADER_OR_FOLLOWER", _RETRY, "this broker does not lead or hold the partition; refresh the metadata"),
    (7, "REQUEST_TIMED_OUT", _RETRY, "the broker ran out of time; it may still have done the work"),
    (8, "BROKER_NOT_AVAILABLE", _FINAL, "the broker asked for is not there"),
    (9, "REPLICA_NOT_AVAILABLE", _RETRY, "this broker has no usable replica of the partition"),
    (10, "MESSAGE_TOO_LARGE", _FINAL, "the record batch is larger than the broker takes; see max.message.bytes"),
    (11, "STALE_CONTROLLER_EPOCH", _FINAL, "the sender's controller epoch is old; another controller has taken over"),
    (12, "OFFSET_METADATA_TOO_LARGE", _FINAL, "the text stored beside a committed offset is too long; shorten it"),
    (13, "NETWORK_EXCEPTION", _RETRY, "the connection to another broker broke before it answered"),
    (14, "COORDINATOR_LOAD_IN_PROGRESS", _RETRY, "the coordinator is still loading its state; ask again shortly"),
    (15, "COORDINATOR_NOT_AVAILABLE", _RETRY, "there is no coordinator at the moment; look it up again"),
    (16, "NOT_COORDINATOR", _RETRY, "this broker is not the coordinator any more; look it up again"),
    (17, "INVALID_TOPIC_EXCEPTION", _FINAL, "the topic's name is not allowed, or the topic may not be used like this"),
    (18, "RECORD_LIST_TOO_LARGE", _FINAL, "the batch is larger than a log segment of the topic; see segment.bytes"),
    (19, "NOT_ENOUGH_REPLICAS", _RETRY, "fewer replicas are in sync than min.insync.replicas; nothing was written"),
    (20, "NOT_ENOUGH_REPLICAS_AFTER_APPEND", _RETRY, "written, but to fewer replicas than min.insync.replicas"),
    (21, "INVALID_REQUIRED_ACKS", _FINAL, "acks must be 0, 1 or all (-1)"),
    (22, "ILLEGAL_GENERATION", _FINAL, "the group has moved on to another generation; join it again"),
    (23, "INCONSISTENT_GROUP_PROTOCOL", _FINAL, "this member shares no assignor or protocol type with the group"),
    (24, "INVALID_GROUP_ID", _FINAL, "the group id is empty or not allowed"),
    (25, "UNKNOWN_MEMBER_ID", _FINAL, "the coordinator does not know this member (expired or never joined); rejoin"),
    (26, "INVALID_SESSION_TIMEOUT", _FINAL, "the session timeout is outside the range that the broker allows"),
    (27, "REBALANCE_IN_PROGRESS", _FINAL, "the group is rebalancing; join again"),
    (28, "INVALID_COMMIT_OFFSET_SIZE", _FINAL, "the commit is larger than the offsets topic takes"),
    (29, "TOPIC_AUTHORIZATION_FAILED", _FINAL, "not permitted on this topic; ask for an ACL"),
    (30, "GROUP_AUTHORIZATION_FAILED", _FINAL, "not permitted on this group; ask for an ACL"),
    (31, "CLUSTER_AUTHORIZATION_FAILED", _FINAL, "not permitted on the cluster; ask for an ACL"),
    (32, "INVALID_TIMESTAMP", _FINAL, "a record's timestamp is too far from the broker's clock for this topic"),
    (33, "UNSUPPORTED_SASL_MECHANISM", _FINAL, "the broker does not offer this SASL mechanism on this listener"),
    (34, "ILLEGAL_SASL_STATE", _FINAL, "a request came at the wrong point of the SASL exchange; is SASL on there?"),
    (35, "UNSUPPORTED_VERSION", _FINAL, "the broker does not serve this version of the request"),
    (36, "TOPIC_ALREADY_EXISTS", _FINAL, "there is a topic of this name already"),
    (37, "INVALID_PARTITIONS", _FINAL, "the number of partitions is not possible"),
    (38, "INVALID_REPLICATION_FACTOR", _FINAL, "the replication factor is below 1 or above the number of brokers"),
    (39, "INVALID_REPLICA_ASSIGNMENT", _FINAL, "the replica assignment names unknown brokers or is uneven"),
    (40, "INVALID_CONFIG", _FINAL, "a configuration name or value is not allowed"),
    (41, "NOT_CONTROLLER", _RETRY, "this node is not the active controller; find it again"),
    (42, "INVALID_REQUEST", _FINAL, "the broker cannot make sense of the request; its log says why"),
    (43, "UNSUPPORTED_FOR_MESSAGE_FORMAT", _FINAL, "the topic's message format is too old for this request"),
    (44, "POLICY_VIOLATION", _FINAL, "a policy set on the cluster forbids these parameters"),
    (45, "OUT_OF_ORDER_SEQUENCE_NUMBER", _FINAL, "a batch before this one is missing; the idempotent sequence broke"),
    (46, "DUPLICATE_SEQUENCE_NUMBER", _FINAL, "the broker has this batch already"),
    (47, "INVALID_PRODUCER_EPOCH", _FINAL, "a newer producer with the same id has written; this one is fenced"),
    (48, "INVALID_TXN_STATE", _FINAL, "the transaction is not in a state that allows this"),
    (49, "INVALID_PRODUCER_ID_MAPPING", _FINAL, "this producer id does not belong to the transactional id (expired?)"),
    (50, "INVALID_TRANSACTION_TIMEOUT", _FINAL, "the transaction timeout is above transaction.max.timeout.ms"),
    (51, "CONCURRENT_TRANSACTIONS", _RETRY, "the last transaction of this id is still being finished"),
    (52, "TRANSACTION_COORDINATOR_FENCED", _FINAL, "a former transaction coordinator wrote; a newer one is in charge"),
    (53, "TRANSACTIONAL_ID_AUTHORIZATION_FAILED", _FINAL, "not permitted on this transactional id; ask for an ACL"),
    (54, "SECURITY_DISABLED", _FINAL, "the cluster runs without an authorizer"),
    (55, "OPERATION_NOT_ATTEMPTED", _FINAL, "not tried, because another part of the same request failed"),
    (56, "KAFKA_STORAGE_ERROR", _RETRY, "the broker's disk or log directory failed"),
    (57, "LOG_DIR_NOT_FOUND", _FINAL, "the broker has no such log directory"),
    (58, "SASL_AUTHENTICATION_FAILED", _FINAL, "the credentials were refused; check user, password and mechanism"),
    (59, "UNKNOWN_PRODUCER_ID", _FINAL, "the broker has forgotten this producer (its records expired)"),
    (60, "REASSIGNMENT_IN_PROGRESS", _FINAL, "the partition is being moved; wait until that has ended"),
    (61, "DELEGATION_TOKEN_AUTH_DISABLED", _FINAL, "the cluster has delegation tokens switched off"),
    (62, "DELEGATION_TOKEN_NOT_FOUND", _FINAL, "there is no such delegation token"),
    (63, "DELEGATION_TOKEN_OWNER_MISMATCH", _FINAL, "this principal neither owns nor may renew the token"),
    (64, "DELEGATION_TOKEN_REQUEST_NOT_ALLOWED", _FINAL, "tokens need a TLS or SASL connection not made with a token"),
    (65, "DELEGATION_TOKEN_AUTHORIZATION_FAILED", _FINAL, "not permitted on this delegation token"),
    (66, "DELEGATION_TOKEN_EXPIRED", _FINAL, "the delegation token has expired; get a new one"),
    (67, "INVALID_PRINCIPAL_TYPE", _FINAL, "this type of principal is not supported"),
    (68, "NON_EMPTY_GROUP", _FINAL, "the group still has members; stop them first"),
    (69, "GROUP_ID_NOT_FOUND", _FINAL, "there is no such group"),
    (70, "FETCH_SESSION_ID_NOT_FOUND", _RETRY, "the broker dropped the fetch session; a full fetch opens a new one"),
    (71, "INVALID_FETCH_SESSION_EPOCH", _RETRY, "the fetch session is out of step; a full fetch opens a new one"),
    (72, "LISTENER_NOT_FOUND", _RETRY, "the leader has no listener of the name this client came in by"),
    (73, "TOPIC_DELETION_DISABLED", _FINAL, "the cluster forbids deleting topics; see delete.topic.enable"),
    (74, "FENCED_LEADER_EPOCH", _RETRY, "the client's leader epoch is older than the broker's; refresh the metadata"),
    (75, "UNKNOWN_LEADER_EPOCH", _RETRY, "the client's leader epoch is newer than the broker's, which lags behind"),
    (76, "UNSUPPORTED_COMPRESSION_TYPE", _FINAL, "this request version cannot carry the topic's compression type"),
    (77, "STALE_BROKER_EPOCH", _FINAL, "the broker has restarted since this was sent"),
    (78, "OFFSET_NOT_AVAILABLE", _RETRY, "a new leader does not know its high watermark yet; ask again shortly"),
    (79, "MEMBER_ID_REQUIRED", _FINAL, "join again with the member id that came with this answer"),
    (80, "PREFERRED_LEADER_NOT_AVAILABLE", _RETRY, "the preferred leader is not there to be elected"),
    (81, "GROUP_MAX_SIZE_REACHED", _FINAL, "the group is full; see group.max.size"),
    (82, "FENCED_INSTANCE_ID", _FINAL, "another member runs with the same group.instance.id; ids must be unique"),
    (83, "ELIGIBLE_LEADERS_NOT_AVAILABLE", _RETRY, "no replica that may lead is there"),
    (84, "ELECTION_NOT_NEEDED", _RETRY, "the partition already has the leader asked for"),
    (85, "NO_REASSIGNMENT_IN_PROGRESS", _FINAL, "the partition is not being moved"),
    (86, "GROUP_SUBSCRIBED_TO_TOPIC", _FINAL, "the group is reading the topic; its offsets cannot be deleted now"),
    (87, "INVALID_RECORD", _FINAL, "the broker refused a record (a compacted topic needs keys; check the timestamp)"),
    (88, "UNSTABLE_OFFSET_COMMIT", _RETRY, "a transaction has offsets of this partition still open"),
    (89, "THROTTLING_QUOTA_EXCEEDED", _RETRY, "a quota is used up; wait for the throttle time"),
    (90, "PRODUCER_FENCED", _FINAL, "another producer with this transactional id has taken over; close this one"),
    (91, "RESOURCE_NOT_FOUND", _FINAL, "the request names something that does not exist"),
    (92, "DUPLICATE_RESOURCE", _FINAL, "the request names the same thing twice"),
    (93, "UNACCEPTABLE_CREDENTIAL", _FINAL, "the credential breaks a rule, such as too few iterations"),
    (94, "INCONSISTENT_VOTER_SET", _FINAL, "sender and receiver disagree on who votes in the quorum"),
    (95, "INVALID_UPDATE_VERSION", _FINAL, "the version in the update is not allowed"),
    (96, "FEATURE_UPDATE_FAILED", _FINAL, "the controller could not change the finalised features; its log says why"),
    (97, "PRINCIPAL_DESERIALIZATION_FAILURE", _FINAL, "a broker could not read the principal of a forwarded request"),
    (98, "SNAPSHOT_NOT_FOUND", _FINAL, "there is no such snapshot"),
    (99, "POSITION_OUT_OF_RANGE", _FINAL, "the position lies outside the snapshot"),
    (100, "UNKNOWN_TOPIC_ID", _RETRY, "this broker knows no topic of that id (recreated?); refresh the metadata"),
    (101, "DUPLICATE_BROKER_REGISTRATION", _FINAL, "another live broker has this id"),
    (102, "BROKER_ID_NOT_REGISTERED", _FINAL, "no broker of that id is registered"),
    (103, "INCONSISTENT_TOPIC_ID", _RETRY, "the topic's id differs from the log's (recreated?); refresh the metadata"),
    (104, "INCONSISTENT_CLUSTER_ID", _FINAL, "this broker belongs to another cluster; check the addresses"),
    (105, "TRANSACTIONAL_ID_NOT_FOUND", _FINAL, "there is no such transactional id"),
    (106, "FETCH_SESSION_TOPIC_ID_ERROR", _RETRY, "the fetch session mixed topic ids and names; a full fetch mends it"),
    (107, "INELIGIBLE_REPLICA", _FINAL, "a replica of the new in-sync set may not be in it"),
    (108, "NEW_LEADER_ELECTED", _FINAL, "the partition changed as asked and has a new leader"),
    (109, "OFFSET_MOVED_TO_TIERED_STORAGE", _FINAL, "the offset is in remote storage only"),
    (110, "FENCED_MEMBER_EPOCH", _FINAL, "the group fenced this member; give up its partitions and join again"),
    (111, "UNRELEASED_INSTANCE_ID", _FINAL, "the instance id is still taken by another member"),
    (112, "UNSUPPORTED_ASSIGNOR", _FINAL, "the group coordinator has no such assignor"),
    (113, "STALE_MEMBER_EPOCH", _FINAL, "the member's epoch is old; a heartbeat brings the current one"),
    (114, "MISMATCHED_ENDPOINT_TYPE", _FINAL, "the request is for a controller and reached a broker, or the reverse"),
    (115, "UNSUPPORTED_ENDPOINT_TYPE", _FINAL, "this endpoint type is not supported yet"),
    (116, "UNKNOWN_CONTROLLER_ID", _FINAL, "there is no controller of that id"),
    (117, "UNKNOWN_SUBSCRIPTION_ID", _FINAL, "the telemetry subscription has changed; fetch it again"),
    (118, "TELEMETRY_TOO_LARGE", _FINAL, "the telemetry is larger than the broker takes"),
    (119, "INVALID_REGISTRATION", _FINAL, "the controller refused the broker's registration"),
    (120, "TRANSACTION_ABORTABLE", _FINAL, "the transaction cannot commit; abort it and go on with the next"),
    (121, "INVALID_RECORD_STATE", _FINAL, "the share group's record cannot be acknowledged in its state"),
    (122, "SHARE_SESSION_NOT_FOUND", _RETRY, "the broker dropped the share session; open a new one"),
    (123, "INVALID_SHARE_SESSION_EPOCH", _RETRY, "the share session is out of step; open a new one"),
    (124, "FENCED_STATE_EPOCH", _FINAL, "the share group's state has a newer epoch"),
    (125, "INVALID_VOTER_KEY", _FINAL, "the voter's id or directory does not match the replica that was asked"),
    (126, "DUPLICATE_VOTER", _FINAL, "the voter is in the set already"),
    (127, "VOTER_NOT_FOUND", _FINAL, "the voter is not in the set"),
    (128, "INVALID_REGULAR_EXPRESSION", _FINAL, "the broker cannot compile the subscription's pattern (RE2 syntax)"),
    (129, "REBOOTSTRAP_REQUIRED", _FINAL, "what the client knows of the cluster is too old; bootstrap again"),
    (130, "STREAMS_INVALID_TOPOLOGY", _FINAL, "the streams group's topology is not valid"),
    (131, "STREAMS_INVALID_TOPOLOGY_EPOCH", _FINAL, "the streams topology's epoch is not valid"),
    (132, "STREAMS_TOPOLOGY_FENCED", _FINAL, "the streams topology's epoch is outdated"),
    (133, "SHARE_SESSION_LIMIT_REACHED", _RETRY, "the broker holds as many share sessions as it may"),
)

ERROR_CODES: dict[int, ErrorCode] = {row[0]: ErrorCode(*row) for row in _TABLE}
