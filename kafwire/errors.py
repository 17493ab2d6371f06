"""Every error that kafwire raises, and the table of Kafka's own error codes (`error_codes`)."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Mapping
from typing import Any, Self, TypeVar

from kafwire.error_codes import ErrorCode
from kafwire.foreign_text import printable
from kafwire.permissions import RESOURCE_TYPES, needed

__all__ = [
    "ERROR_CODES",
    "AdminError",
    "AuthenticationError",
    "AuthorizationError",
    "BrokerError",
    "CommitFailedError",
    "ConfigError",
    "CorruptBatchError",
    "DecodeError",
    "ErrorCode",
    "FramingError",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "OffsetsFencedError",
    "PollIntervalError",
    "ProducerFencedError",
    "ProtocolError",
    "PurgedError",
    "RecordTooLargeError",
    "SchemaError",
    "SchemaRegistryError",
    "SerializationError",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionFatalError",
    "TransactionStateError",
    "TransactionTimeoutError",
    "UnknownSchemaError",
    "broker_error",
]


_Error = TypeVar("_Error", bound="KafkaError")


class KafkaError(Exception):
    """The base class of all errors that kafwire raises on purpose.

    `in_doubt`, of a delivery's error: True if the record may be in the log, because a request with it got no response.
    If it is False, the record is not in the log and never will be.

    `delivery`, of an error of `send_batch`: the `BatchDelivery` or `AsyncBatchDelivery` of the rows that were buffered
    before the error. Those rows are sent. None for all other errors.
    """

    in_doubt = False
    delivery: Any = None

    # Errors include texts of brokers, certificates and endpoints, and names from the wire: none of them may write a
    # line of its own into a log, or control a terminal. Only kafwire's own texts have several lines.
    _has_lines = False

    def __init__(self, *args: Any) -> None:
        """Create the error; characters that are not printable are escaped."""
        lines = self._has_lines
        super().__init__(*(printable(each, lines=lines) if isinstance(each, str) else each for each in args))

    # Copies have the text and every field; `__init__` does not run again, so subclasses may take any arguments. A
    # pickle has the cause too, if it can be pickled. It lacks `delivery`, which belongs to this process.

    def __reduce__(self) -> tuple[Any, ...]:
        fields = {name: value for name, value in vars(self).items() if name != "delivery"}
        return _restore, (type(self), self.args, fields, _pickled(self.__cause__))

    def __copy__(self) -> Self:
        return _linked(_restore(type(self), self.args, dict(vars(self))), self)

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        fields = {name: copy.deepcopy(value, memo) for name, value in vars(self).items() if name != "delivery"}
        if "delivery" in vars(self):
            fields["delivery"] = self.delivery
        return _linked(_restore(type(self), copy.deepcopy(self.args, memo), fields), self)


class ConfigError(KafkaError, ValueError):
    """An option, or an argument of a public call, is unknown, of the wrong type or out of range."""

    _has_lines = True  # for the text with the command that converts a file


class UnknownPartition(ConfigError):
    """The current metadata has no partition `partition` of `topic`; it may have been added since.

    Not for users: a producer refreshes the metadata until the partition exists or `max_block_ms` has passed.
    """

    def __init__(self, message: str, *, topic: str, partition: int) -> None:
        """Create the error."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition


# The error of calls of a client that was made before a fork.
FORKED = (
    "this client was made before a fork: make one in each process, where a worker starts (gunicorn: post_fork; Celery: "
    "worker_process_init) or at its first use there"
)


def no_partition(topic: str, count: int, partition: int, message: str = "") -> ConfigError:
    """Return the error for a partition number that a topic with `count` partitions does not have."""
    hint = ": None leaves it to the partitioner" if partition == -1 else ""
    message = message or f"topic {topic!r} has partitions 0 to {count - 1}, not {partition!r}{hint}"
    if count <= partition < 1 << 31:
        return UnknownPartition(message, topic=topic, partition=partition)
    return ConfigError(message)


class KafkaTimeoutError(KafkaError, TimeoutError):
    """An operation timed out. The broker may or may not have executed it."""


class KafkaConnectionError(KafkaError, ConnectionError):
    """There is no connection, or it broke while a request was in flight."""


class AuthenticationError(KafkaError):
    """The broker and this client do not accept each other: a certificate, a password or a token was refused.

    The text names it, and has the other side's message. This is no connection error: a retry would not help.
    """


_NAMED_KEYS = 3


def _key_text(key: Any) -> str:
    """Format a key of `AdminError`: "topic-partition" for a partition."""
    if isinstance(key, tuple):
        return "-".join(map(str, key))
    return str(key)


class AdminError(KafkaError):
    """A call of `Admin` failed for some of its keys: topics, groups, partitions and so on.

    `results` has the result of each key that succeeded, `errors` the error of each other key. A call about one key
    raises its error instead. With `on_error`, a call returns the results and raises no error of a key.
    """

    def __init__(self, results: Mapping[Any, Any], errors: Mapping[Any, KafkaError]) -> None:
        """Create the error; the text names the first failed keys."""
        self.results = dict(results)
        self.errors = dict(errors)
        named = "; ".join(f"{_key_text(key)}: {error}" for key, error in list(self.errors.items())[:_NAMED_KEYS])
        more = f"; and {len(self.errors) - _NAMED_KEYS} more" if len(self.errors) > _NAMED_KEYS else ""
        failed = f"{len(self.errors)} of {len(self.errors) + len(self.results)} failed"
        super().__init__(printable(f"{failed}: {named}{more}"))


class PurgedError(KafkaError):
    """`purge()` gave up a record before it was acknowledged. `in_doubt` is True if it may be in the log."""


class ProtocolError(KafkaError):
    """Bytes that Kafka's protocol does not allow, or a value that the protocol cannot express.

    `api` is the message ("MetadataResponse"), `version` its version, and `offset` the byte offset in the body at which
    parsing failed. Each is None if it is not known.
    """

    def __init__(
        self, message: str, *, api: str | None = None, version: int | None = None, offset: int | None = None
    ) -> None:
        """Create the error; the text ends with the known parts of the place."""
        self.message = printable(message)
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


class CorruptBatchError(ProtocolError):
    """A fetched batch that cannot be read: its checksum is wrong, or its bytes contradict each other.

    `topic` and `partition` are the batch's. `base_offset` is the batch's first offset, and `next_offset` the offset
    after its end, from its header (-1 if they are not known). To read on after it, seek to `next_offset`, or set
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
        """Create the error."""
        super().__init__(message, api="FetchResponse", offset=offset)
        self.topic = topic
        self.partition = partition
        self.base_offset = base_offset
        self.next_offset = next_offset


class LogTruncatedError(KafkaError):
    """Records that were read are no longer in the log: a leader was elected that did not have them (KIP-320).

    `position` is the position in `topic` and `partition`. The log agrees with the read records up to `offset`: `seek`
    there to read on.
    """

    def __init__(self, message: str, *, topic: str, partition: int, position: int, offset: int) -> None:
        """Create the error."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.position = position
        self.offset = offset


class OffsetsFencedError(KafkaError):
    """Offsets were not stored in a database, because another reader of the partition has stored higher or later ones.

    `topic` and `partition` name the partition; `offset` and `generation` are the stored values. Roll the transaction
    back, and stop reading the partition.
    """

    def __init__(self, message: str, *, topic: str, partition: int, offset: int, generation: int) -> None:
        """Create the error."""
        super().__init__(message)
        self.topic = topic
        self.partition = partition
        self.offset = offset
        self.generation = generation


class SerializationError(KafkaError):
    """A serializer or deserializer failed. Its exception is the `__cause__`.

    `topic` is the topic, `part` is "key" or "value". For a read, `partition` and `offset` are the record's, and reading
    stops there: `seek` to `offset + 1` to skip it. For a send they are None and -1, and no record was buffered.
    """

    def __init__(self, message: str, *, topic: str, part: str, partition: int | None = None, offset: int = -1) -> None:
        """Create the error."""
        super().__init__(message)
        self.topic = topic
        self.part = part
        self.partition = partition
        self.offset = offset


class FramingError(KafkaError, ValueError):
    """A key, a value or a header has no schema id where its framing expects one, or an id does not fit the framing."""


class SchemaError(KafkaError, ValueError):
    """A schema that cannot be parsed, that kafwire cannot decode, or that does not match the reader's."""


class DecodeError(KafkaError):
    """A value that its schema does not allow.

    `row` is its number among the given values, `cause` the mistake, `schema_id` the id in its first bytes, or None.
    """

    def __init__(self, message: str, *, row: int, cause: str, schema_id: Any = None) -> None:
        """Create the error."""
        super().__init__(message)
        self.row = row
        self.cause = cause
        self.schema_id = schema_id


class SchemaRegistryError(KafkaError):
    """A schema registry cannot be reached, refuses a request, or its response has no schema.

    `status` is the HTTP status, `code` the registry's error code; each is None if there is none. `retriable` is True if
    the same request may succeed later.
    """

    def __init__(
        self, message: str, *, status: int | None = None, code: int | None = None, retriable: bool = False
    ) -> None:
        """Create the error."""
        super().__init__(message)
        self.status = status
        self.code = code
        self.retriable = retriable


class UnknownSchemaError(SchemaRegistryError):
    """The registry has no schema with this id, or no subject or version of this name."""


class BrokerError(KafkaError):
    """A broker responded with an error code.

    `code` and `name` are Kafka's. `retriable` is True if the same request may succeed later.
    """

    def __init__(self, code: int, name: str, retriable: bool, message: str = "") -> None:
        """Create the error from its parts; `broker_error` fills them from the table."""
        self.code = int(code)  # always a plain number, as other builds may unpickle the error
        self.name = name
        self.retriable = retriable
        self.message = printable(message)  # it may include text of a broker
        super().__init__(f"{name} ({code}): {self.message}" if message else f"{name} ({code})")


class AuthorizationError(BrokerError):
    """The cluster does not permit this to the client: an ACL is missing, or one denies it.

    `operation` is the operation that needs a permission ("Write"), on the resource `resource_type` ("Topic") and
    `resource_name` ("flights"), in the words of Kafka's ACLs. The cluster itself has no name. Unknown fields are None.

    It is not retried. After an ACL was added, the next call succeeds.
    """

    def __init__(
        self,
        code: int,
        name: str,
        message: str,
        *,
        operation: str | None,
        resource_type: str,
        resource_name: str | None,
    ) -> None:
        """Create the error from its parts; `broker_error` fills them by the code and the request."""
        super().__init__(code, name, False, message)
        self.operation = operation
        self.resource_type = resource_type
        self.resource_name = resource_name


class RecordTooLargeError(BrokerError):
    """A record or batch is larger than the limit of the client or of the broker. `code` is 10 or 18."""

    def __init__(self, message: str, *, code: int = ErrorCode.MESSAGE_TOO_LARGE) -> None:
        """Create the error; the client's own limit reports code 10 too."""
        super().__init__(code, ERROR_CODES[code].name, retriable=False, message=message)


class CommitFailedError(KafkaError):
    """Offsets were not committed, because this member does not own their partitions any more.

    The group assigned them to another member, which starts at the last committed offsets, and processes later records
    again. `partitions` are (topic, partition) pairs.
    """

    def __init__(self, message: str, *, partitions: tuple[tuple[str, int], ...] = ()) -> None:
        """Create the error."""
        super().__init__(message)
        self.partitions = partitions


class PollIntervalError(KafkaTimeoutError):
    """The member left its group, because no records were read from the consumer for `max_poll_interval_ms`.

    Records in hand were not committed; another member processes them again. The next call joins the group again.
    """


class TransactionError(KafkaError):
    """A transactional call failed. The subclass and its flags tell the remedy.

    `retriable`: make the same call again. `abortable`: abort the transaction, then the producer can continue. `fatal`:
    close the producer. The broker's own error, if there is one, is the `__cause__`.
    """

    retriable = False
    abortable = False
    fatal = False


class TransactionStateError(TransactionError):
    """The producer's state does not allow the call, for example `send` outside of a transaction. It had no effect."""


class TransactionAbortableError(TransactionError):
    """The transaction cannot be committed. Abort it; then the producer can begin the next one."""

    abortable = True


class TransactionAbortedError(TransactionError):
    """The record's transaction was aborted. Readers of committed records do not see it."""


class TransactionFatalError(TransactionError):
    """The producer cannot be used any more. Close it."""

    fatal = True


class ProducerFencedError(TransactionFatalError):
    """The producer lost its transactional id. Close it.

    Another producer has taken over the id, or the coordinator aborted a transaction that was open for longer than
    `transaction_timeout_ms`.
    """


class TransactionTimeoutError(TransactionError, KafkaTimeoutError):
    """A transactional call timed out; its operation continues. Make the call again to wait for the outcome."""

    retriable = True


def name_of(error: BaseException) -> str:
    """Return the name of an error in metrics, logs and traces: Kafka's, or that of the class."""
    return error.name if isinstance(error, BrokerError) else type(error).__name__


def _restore(kind: type[_Error], args: tuple[Any, ...], fields: dict[str, Any], cause: bytes | None = None) -> _Error:
    """Create a copy of an error from its parts."""
    made = kind.__new__(kind, *args)
    made.args = args
    vars(made).update(fields)
    if cause is not None:
        with contextlib.suppress(Exception):  # the class of the cause may be unknown to this process
            import pickle

            made.__cause__ = pickle.loads(cause)  # noqa: S301  # it is part of a pickle that is being loaded
    return made


def _linked(made: _Error, error: _Error) -> _Error:
    """Copy the links of `error` to other errors to the copy `made`."""
    made.__cause__, made.__context__ = error.__cause__, error.__context__
    made.__suppress_context__ = error.__suppress_context__
    return made


def _pickled(cause: BaseException | None) -> bytes | None:
    """Pickle a cause separately; None if it cannot be pickled, so that the rest of the error still can."""
    if cause is None:
        return None
    try:
        import pickle  # only a process that pickles errors loads it

        made = pickle.dumps(cause)
        pickle.loads(made)  # noqa: S301  # an exception with its own arguments may fail only here
    except Exception:  # noqa: BLE001  # a foreign class may raise anything
        return None
    return made


def broker_error(
    code: int,
    context: str = "",
    *,
    api: str | None = None,
    topic: str | None = None,
    group: str | None = None,
    transactional_id: str | None = None,
    user: str | None = None,
) -> BrokerError:
    """Return the exception for an error code.

    Args:
        code: Kafka's error code. A code that is not in the table is not retriable, and named UNKNOWN_ERROR_CODE.
        context: broker, topic, partition or request; it ends the text.
        api: the request with this response ("Produce"); the operation of an `AuthorizationError` depends on it.
        topic: the topic of the code, if it has one; the other names are like it.
        group: the consumer group.
        transactional_id: the transactional id.
        user: the principal ("User:alice").

    Returns:
        A `BrokerError`; for codes 10 and 18 a `RecordTooLargeError`; for a missing permission an
        `AuthorizationError`.

    Example:
        >>> from kafwire.errors import broker_error
        >>> broker_error(3, "topic 'flights'").name
        'UNKNOWN_TOPIC_OR_PARTITION'
        >>> broker_error(29, api="Produce", topic="flights").message
        "this client needs an ACL that permits Write on Topic 'flights'"
    """
    known = ERROR_CODES.get(code)
    if known in RESOURCE_TYPES:
        names = {"Topic": topic, "Group": group, "TransactionalId": transactional_id, "User": user}
        return _authorization_error(code, api, names.get(RESOURCE_TYPES[code]), context)
    text = "kafwire has no name for this error code" if known is None else known.message
    if context:
        text += f" [{context}]"
    if known is None:
        return BrokerError(code, "UNKNOWN_ERROR_CODE", False, text)
    if known in _TOO_LARGE:
        return RecordTooLargeError(text, code=known)
    return BrokerError(known, known.name, known.retriable, text)


def _authorization_error(code: int, api: str | None, resource_name: str | None, context: str) -> AuthorizationError:
    """Return the error for a code that reports a missing permission."""
    resource_type = RESOURCE_TYPES[code]
    if resource_name is not None:
        resource = f"{resource_type} {resource_name!r}"
    else:
        resource = f"{'the' if resource_type == 'Cluster' else 'a'} {resource_type}"
    permission = needed(api, code)
    if permission is None:
        text = f"no ACL permits this to this client on {resource}"
    else:
        text = f"this client needs an ACL that permits {permission.operation} on {resource}"
        if permission.instead:
            text += f", or {permission.instead}"
    return AuthorizationError(
        code,
        ERROR_CODES[code].name,
        f"{text} [{context}]" if context else text,
        operation=None if permission is None else permission.operation,
        resource_type=resource_type,
        resource_name=resource_name,
    )


_TOO_LARGE = (ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.RECORD_LIST_TOO_LARGE)

ERROR_CODES: dict[int, ErrorCode] = {known.code: known for known in ErrorCode}
