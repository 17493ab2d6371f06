"""Names of confluent-kafka, aiokafka and kafka-python that have another name in kafwire: the line to write instead.

Tables of facts, and how classes show them: `hasattr` is False for these names, and reading one is an AttributeError
with the line. Classes have them by a `__getattr__`. Producers, deliveries, batches and records have them as attributes
of a class: CPython 3.11 has its fast path for classes without `__getattr__` only, and `producer.send` takes 150 ns, or
200 ns with one. Parameters of methods that have the same name are a TypeError with the line.

Lines are those of the async classes; the blocking ones leave out `await`, `async` and `Async`. A comment in a line
describes the difference. Imports nothing of kafwire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import wraps
from inspect import CO_COROUTINE
from types import ModuleType
from typing import Any, NoReturn, TypeVar

_Kind = TypeVar("_Kind", bound=type)

_LEAVE = "leave it out: "
_CLIENT = "  # client = kafwire.AsyncClient(bootstrap_servers)"
_ADMIN = "  # admin = kafwire.AsyncAdmin(bootstrap_servers)"
_CREDENTIALS = "leave it out: make a new client with them, or give sasl_oauthbearer_token_provider, a function"
_METADATA = {
    "cluster_id": f"(await client.metadata([])).cluster_id{_CLIENT}",
    "list_topics": f"(await client.metadata()).topics{_CLIENT}",
    "set_sasl_credentials": _CREDENTIALS,
}

PRODUCER = {
    **_METADATA,
    "bootstrap_connected": '(await producer.metrics())["connections"]  # each has "connected"',
    "create_batch": 'await producer.send_batch(topic, pyarrow.table({"value": values}), partition=partition)',
    "max_usable_produce_magic": "leave it out: records have format 2, which all brokers take",
    "poll": "leave it out: records are sent, and callbacks run, without it",
    "produce": "await producer.send(topic, value, key=key)  # add_done_callback of its result: on_delivery",
    "produce_batch": 'await producer.send_batch(topic, pyarrow.table({"value": values}))',
    "start": "leave it out: the first send connects",
    "stop": "await producer.close()",
}

CONSUMER = {
    **_METADATA,
    "topics": f"{{topic.name for topic in (await client.metadata()).topics}}{_CLIENT}",
    "bootstrap": "leave it out: a new consumer connects by itself",
    "bootstrap_connected": '(await consumer.metrics())["connections"]  # each has "connected"',
    "commit_async": "await consumer.commit()",
    "consume": "await consumer.poll(timeout)  # a list of batches of records",
    "consumer_group_metadata": "consumer.group_metadata()",
    "get_watermark_offsets": "await consumer.beginning_offsets([partition]), await consumer.end_offsets([partition])",
    "getmany": "await consumer.poll(timeout)  # in seconds; a list of batches of records",
    "getone": "async for record in consumer: ...",
    "highwater": "consumer.high_watermark(partition)",
    "incremental_assign": "await consumer.assign([*consumer.assignment, *partitions])",
    "incremental_unassign": "await consumer.assign(consumer.assignment - set(partitions))",
    "last_poll_timestamp": "consumer.lag(partition)  # how far reading is behind",
    "last_stable_offset": (
        '(await consumer.metrics())["partitions"][f"{topic}-{partition.partition}"]["last_stable_offset"]'
    ),
    "memberid": "consumer.group_metadata().member_id",
    "partitions_for_topic": "await consumer.partitions_for(topic)",
    "seek_to_committed": "await consumer.seek(partition, (await consumer.committed([partition]))[partition])",
    "start": "leave it out: a new consumer connects by itself",
    "store_offsets": "await consumer.commit(batch)  # stored at once; enable_auto_commit=False leaves it to you",
    "unassign": "await consumer.unsubscribe()",
}

SHARE_CONSUMER = {
    "acknowledge_offset": "consumer.acknowledge(record)",
    "commit_async": "await consumer.commit()",
    "commit_sync": "await consumer.commit()",
    "set_acknowledgement_commit_callback": "leave it out: commit returns when the brokers know, or raises",
    "set_sasl_credentials": _CREDENTIALS,
    "unsubscribe": "await consumer.close()",
}


_SAME_IN_ADMIN = (
    *("abort_transaction", "alter_configs", "alter_group_offsets", "alter_partition_reassignments"),
    *("alter_replica_log_dirs", "alter_user_scram_credentials", "create_acls", "delete_acls", "delete_group_offsets"),
    *("delete_groups", "delete_records", "describe_acls", "describe_features", "describe_groups", "describe_log_dirs"),
    *("describe_metadata_quorum", "describe_producers", "describe_transactions", "describe_user_scram_credentials"),
    *("elect_leaders", "find_hanging_transactions", "list_config_resources", "list_group_offsets", "list_groups"),
    *("list_partition_reassignments", "list_transactions", "update_features"),
)
_ALTER_CONFIGS = "await admin.alter_configs(...)"
_ALTER_OFFSETS = "await admin.alter_group_offsets(group, {partition: offset})"
_FEATURES = "await admin.describe_features()"
_GROUP_OFFSETS = "(await admin.list_group_offsets([group]))[group]"
_LATEST = 'await admin.list_offsets({partition: "latest"})'
_OTHER_IN_ADMIN = {
    "alter_consumer_group_offsets": _ALTER_OFFSETS,
    "api_versions": _FEATURES,
    "delete_consumer_groups": "await admin.delete_groups([group])",
    "describe_consumer_groups": "await admin.describe_groups([group])",
    "describe_topic_partitions": "await admin.describe_topics([topic])",
    "find_coordinator": "(await admin.describe_groups([group]))[group].coordinator",
    "get_broker_version_data": _FEATURES,
    "incremental_alter_configs": _ALTER_CONFIGS,
    "list_consumer_group_offsets": _GROUP_OFFSETS,
    "list_consumer_groups": "await admin.list_groups()",
    "remove_group_members": "await admin.remove_members(group)",
    "reset_configs": _ALTER_CONFIGS,
    "reset_group_offsets": _ALTER_OFFSETS,
}
_OF_BOTH = {
    "poll": "leave it out: calls return their results",
    "set_sasl_credentials": _CREDENTIALS,
    "start": "leave it out: the first call connects",
}
ADMIN = {
    **_OTHER_IN_ADMIN,
    **_OF_BOTH,
    "cluster_id": "(await admin.describe_cluster()).cluster_id",
    "list_partition_offsets": _LATEST,
    "stop": "await admin.close()",
    "wait_for_topics": "leave it out: clients wait for the leaders of a new topic",
}

# `Client` has the calls of most programs; `Admin` has all of them.
CLIENT = {
    **{name: f"await admin.{name}(...){_ADMIN}" for name in _SAME_IN_ADMIN},
    **{name: f"{line}{_ADMIN}" for name, line in _OTHER_IN_ADMIN.items()},
    **_OF_BOTH,
    "cluster_id": "(await client.metadata([])).cluster_id",
    "create_topics": "await client.create_topic(new_topic, partitions=6, replication_factor=1)  # for each topic",
    "delete_topics": "await client.delete_topic(other_topic)  # for each topic",
    "describe_cluster": "await client.metadata([])  # brokers, controller_id and cluster_id",
    "describe_configs": "await client.topic_config(topic)  # of others: Admin.describe_configs",
    "describe_topics": "(await client.metadata([topic])).topics",
    "list_offsets": 'await client.offsets([partition], "latest")',
    "list_partition_offsets": 'await client.offsets([partition], "latest")',
    "list_topics": "(await client.metadata()).topics",
    "stop": "await client.close()",
    "wait_for_topics": "leave it out: create_topic returns when the leaders are known",
}

_CALLBACK = (
    "delivery.add_done_callback(function)  # of one argument, the delivery: its exception() is None or the error"
)
DELIVERY = {
    "add_both": _CALLBACK,
    "add_callback": _CALLBACK,
    "add_errback": _CALLBACK,
    "failed": "delivery.done() and delivery.exception() is not None",
    "get": "delivery.result(timeout)  # in seconds",
    "is_done": "delivery.done()",
    "retriable": "leave it out: records are sent again until delivery_timeout_ms is over",
    "succeeded": "delivery.done() and delivery.exception() is None",
}

_LOOP = "for record in batch: ..."
BATCH = {
    **dict.fromkeys(("headers", "key", "offset", "timestamp", "timestamp_ms", "timestamp_type", "value"), _LOOP),
    "error": "leave it out: the call that reads raises errors",
}

RECORD = {
    "checksum": "leave it out: reading checks the CRC of each batch",
    "error": "leave it out: the call that reads raises errors",
    "leader_epoch": "leave it out: a consumer compares epochs itself, and raises LogTruncatedError",
    "serialized_header_size": 'sum(len(name.encode()) + len(value or b"") for name, value in record.headers)',
    "serialized_key_size": 'len(record.key or b"")  # without a deserializer',
    "serialized_value_size": 'len(record.value or b"")  # without a deserializer',
    "timestamp": "record.timestamp_ms",
}

MODULE = {
    **dict.fromkeys(("AIOConsumer", "AIOKafkaConsumer"), "kafwire.AsyncConsumer"),
    **dict.fromkeys(("AIOKafkaProducer", "AIOProducer"), "kafwire.AsyncProducer"),
    **dict.fromkeys(("AdminClient", "KafkaAdminClient"), "kafwire.Client"),
    "AIOKafkaAdminClient": "kafwire.AsyncClient",
    **dict.fromkeys(("KafkaConsumer", "DeserializingConsumer"), "kafwire.Consumer"),
    **dict.fromkeys(("KafkaProducer", "SerializingProducer"), "kafwire.Producer"),
    "DeserializingShareConsumer": "kafwire.ShareConsumer",
    "KafkaException": "kafwire.KafkaError",
    **dict.fromkeys(("ConsumerRecord", "Message"), "kafwire.Record"),
    "ConsumerRebalanceListener": "kafwire.Consumer(..., on_assigned=function, on_revoked=function, on_lost=function)",
    "NewTopic": "client.create_topic(topic, partitions=6, replication_factor=1)",
    "NewPartitions": "client.create_partitions(topic, 6)",
    "OffsetAndMetadata": "consumer.commit({partition: (offset, text)})",
    "OFFSET_BEGINNING": 'kafwire.Consumer(..., start="earliest")',
    "OFFSET_END": 'kafwire.Consumer(..., start="latest")',
    "OFFSET_STORED": "leave it out: members of a group begin at the committed offset",
}

# Parameters of methods that have the same name here.
_BOUNDED = "leave it out: default_api_timeout_ms bounds the call"
_WITHIN = dict.fromkeys(("timeout", "timeout_ms"), _BOUNDED)
_HANDLERS = "kafwire.AsyncConsumer(..., on_assigned=function, on_revoked=function, on_lost=function)"
_OFFSETS = "await producer.send_offsets_to_transaction(offsets, group)"

PRODUCER_ARGUMENTS = {
    "close": {"null_logger": "leave it out: the module logging has the logger 'kafwire'"},
    "metrics": {"raw": "await producer.metrics()"},
    "purge": {
        "blocking": "await producer.purge()  # returns when the records are dropped",
        "in_queue": "await producer.purge()  # of records in the queue; in_flight=True: of those in requests too",
    },
    "send_offsets_to_transaction": dict.fromkeys(("group_id", "group_metadata", "positions"), _OFFSETS),
}
CONSUMER_ARGUMENTS = {
    "beginning_offsets": _WITHIN,
    "close": {
        "autocommit": "await consumer.close()  # commits processed records; enable_auto_commit=False does not",
        "timeout_ms": "await consumer.close(timeout)  # in seconds",
    },
    "commit": {
        "asynchronous": "await consumer.commit()  # returns when the coordinator has the offsets",
        "message": "await consumer.commit(record)",
        "offsets": "await consumer.commit({partition: offset})",
        "timeout_ms": _BOUNDED,
    },
    "committed": {
        **_WITHIN,
        "metadata": "(await consumer.committed([partition]))[partition].metadata",
        "partition": "(await consumer.committed([partition]))[partition]",
    },
    "end_offsets": _WITHIN,
    "metrics": {"raw": "await consumer.metrics()"},
    "offsets_for_times": {**_WITHIN, "partitions": "await consumer.offsets_for_times({partition: timestamp_ms})"},
    "pause": {"partitions": "await consumer.pause(*partitions)"},
    "poll": {
        "timeout_ms": "await consumer.poll(timeout)  # in seconds; a list of batches of records",
        "update_offsets": "await consumer.seek(partition, offset)  # reads a record again",
    },
    "position": {"partitions": "await consumer.position(partition)", "timeout_ms": _BOUNDED},
    "resume": {"partitions": "await consumer.resume(*partitions)"},
    "subscribe": dict.fromkeys(("listener", "on_assign", "on_lost", "on_revoke"), _HANDLERS),
}


_RAISED = "leave it out: errors are raised; on_error=function gets them instead"
_FOUND = "leave it out: the broker is found"
_FROM_ALL = "leave it out: all brokers are asked"


def _first(line: str, *parameters: str, **others: str) -> dict[str, str]:
    """Return the lines of a method: `parameters` have another name, or are the first one."""
    return {**dict.fromkeys(parameters, f"await admin.{line}"), **others}


def _within(method: str) -> str:
    return f"await admin.{method}(..., timeout=10)  # in seconds"


ADMIN_ARGUMENTS = {
    "abort_transaction": _first("abort_transaction(partition, producer_id=..., producer_epoch=...)", "spec"),
    "alter_configs": _first(
        'alter_configs({kafwire.admin.ConfigResource.topic(topic): {"retention.ms": "3600000"}})',
        *("config_resources", "resources"),
        incremental="leave it out: other options of the resource stay as they are",
        raise_on_unknown=_RAISED,
    ),
    "alter_group_offsets": _first(
        "alter_group_offsets(group, {partition: offset})", "group_id", group_coordinator_id=_FOUND
    ),
    "alter_partition_reassignments": {"timeout_ms": _within("alter_partition_reassignments")},
    "alter_replica_log_dirs": _first("alter_replica_log_dirs({...: ...})", "replica_assignments"),
    "create_acls": _first('create_acls([kafwire.admin.AclBinding("Topic", topic, "User:alice", "Read")])', "acls"),
    "create_partitions": _first(
        "create_partitions({topic: 6})",
        *("new_partitions", "topic_partitions"),
        raise_errors=_RAISED,
        timeout_ms=_within("create_partitions"),
    ),
    "create_topics": _first(
        "create_topics([kafwire.admin.NewTopic(new_topic, partitions=6)])",
        "new_topics",
        raise_errors=_RAISED,
        timeout_ms=_within("create_topics"),
        wait_for_metadata="leave it out: clients wait for the leaders of a new topic",
    ),
    "delete_acls": _first(
        'delete_acls([kafwire.admin.AclFilter("Topic", topic)])', "acl_binding_filters", "acl_filters"
    ),
    "delete_group_offsets": _first("delete_group_offsets(group, [partition])", "group_id", group_coordinator_id=_FOUND),
    "delete_groups": _first("delete_groups([group])", "group_ids", group_coordinator_id=_FOUND),
    "delete_records": _first(
        "delete_records({partition: offset})",
        *("records_to_delete", "topic_partition_offsets"),
        partition_leader_id=_FOUND,
        timeout_ms=_within("delete_records"),
    ),
    "delete_topics": {"raise_errors": _RAISED, "timeout_ms": _within("delete_topics")},
    "describe_acls": _first(
        'describe_acls(kafwire.admin.AclFilter("Topic", topic))', "acl_binding_filter", "acl_filter"
    ),
    "describe_configs": _first(
        "describe_configs([kafwire.admin.ConfigResource.topic(topic)])",
        "config_resources",
        config_filter="await admin.describe_configs(..., names=...)",
        include_synonyms="await admin.describe_configs(..., synonyms=True)",
    ),
    "describe_features": {"send_request_to_controller": _FOUND},
    "describe_groups": _first(
        "describe_groups([group])",
        "group_ids",
        group_coordinator_id=_FOUND,
        include_authorized_operations="await admin.describe_groups([group], authorized_operations=True)",
    ),
    "describe_log_dirs": _first("describe_log_dirs()  # of all partitions", "topic_partitions"),
    "describe_producers": {"broker_id": "await admin.describe_producers([partition], broker=node_id)"},
    "elect_leaders": _first(
        'elect_leaders("preferred", [partition])',
        "topic_partitions",
        raise_errors=_RAISED,
        timeout_ms=_within("elect_leaders"),
    ),
    "find_hanging_transactions": {
        "broker_ids": "await admin.find_hanging_transactions(broker=node_id)",
        "max_transaction_timeout_ms": "await admin.find_hanging_transactions(longer_than_ms=900_000)",
    },
    "list_config_resources": _first('list_config_resources(["topic"])', "resource_types"),
    "list_group_offsets": _first("list_group_offsets([group])", "group_specs"),
    "list_groups": {
        "broker_ids": _FROM_ALL,
        "states_filter": 'await admin.list_groups(states=["Stable"])',
        "types_filter": 'await admin.list_groups(types=["consumer"])',
    },
    "list_offsets": _first('list_offsets({partition: "latest"})', "topic_partition_offsets"),
    "list_partition_reassignments": _first(
        "list_partition_reassignments([partition])",
        "topic_partitions",
        timeout_ms=_within("list_partition_reassignments"),
    ),
    "list_transactions": {
        "broker_ids": _FROM_ALL,
        "duration_filter_ms": "await admin.list_transactions(longer_than_ms=60_000)",
        "producer_id_filters": "await admin.list_transactions(producer_ids=[1000])",
        "state_filters": 'await admin.list_transactions(states=["Ongoing"])',
        "transactional_id_pattern": 'await admin.list_transactions(pattern="billing-.*")',
    },
    "update_features": _first("update_features({...: ...})", "feature_updates", timeout_ms=_within("update_features")),
}
CLIENT_ARGUMENTS = {
    "create_partitions": {
        **dict.fromkeys(
            ("new_partitions", "topic_partitions"), "await client.create_partitions(topic, 6)  # for each topic"
        ),
        "raise_errors": "leave it out: errors are raised",
        "timeout_ms": _BOUNDED,
        "validate_only": f"await admin.create_partitions({{topic: 6}}, validate_only=True){_ADMIN}",
    },
}
SHARE_CONSUMER_ARGUMENTS = {
    "acknowledge": dict.fromkeys(("ack_type", "message"), 'consumer.acknowledge(record, "accept")  # release, reject'),
}


def line_for(line: str, *, blocking: bool) -> str:
    """Return a line of a table, for the blocking or the async classes.

    Args:
        line: the line.
        blocking: for the blocking classes.

    Returns:
        The line.
    """
    if not blocking:
        return line
    return line.replace("await ", "").replace("async ", "").replace("Async", "")


def _advice(line: str, *, blocking: bool) -> str:
    """Return the end of an error's text."""
    advice = line_for(line, blocking=blocking)
    return advice if advice.startswith(_LEAVE) else f"write {advice}"


def _public(owner: type) -> str:
    """Return the name of a class as users know it."""
    return next(kind.__name__ for kind in owner.__mro__ if not kind.__name__.startswith("_"))


def _missing(owner: type, name: str, line: str | None, *, blocking: bool) -> AttributeError:
    """Return the error for an unknown attribute, with the line of a table if the table has one."""
    text = f"{_public(owner)!r} object has no attribute {name!r}"
    return AttributeError(text if line is None else f"{text}: {_advice(line, blocking=blocking)}")


def missing_name(module: ModuleType, name: str) -> AttributeError:
    """Make the error for an unknown name of the package, with the line to write for a name of a peer.

    Args:
        module: the package.
        name: the name.

    Returns:
        The error; Python finds similar names by its `name` and `obj`.
    """
    text = f"module {module.__name__!r} has no attribute {name!r}"
    if name in MODULE:
        return AttributeError(f"{text}: {_advice(MODULE[name], blocking='Async' not in MODULE[name])}")
    return AttributeError(text, name=name, obj=module)


def refuse_arguments(table: Mapping[str, Mapping[str, str]], *, blocking: bool) -> Callable[[_Kind], _Kind]:
    """Make a class decorator: parameters of the peers are a TypeError with the line to write instead.

    Args:
        table: parameters and their lines, by method.
        blocking: whether it is a blocking class.

    Returns:
        The decorator.
    """

    def decorate(kind: _Kind) -> _Kind:
        for name, lines in table.items():
            setattr(kind, name, _checked(getattr(kind, name), name, lines, blocking=blocking))
        return kind

    return decorate


def _checked(method: Callable[..., Any], name: str, lines: Mapping[str, str], *, blocking: bool) -> Callable[..., Any]:
    """Wrap a method, which stays a coroutine function if it is one."""

    def check(owner: type, options: Iterable[str]) -> None:
        for option in options:
            if option in lines:
                text = f"{_public(owner)}.{name}() got an unexpected keyword argument {option!r}"
                raise TypeError(f"{text}: {_advice(lines[option], blocking=blocking)}")

    @wraps(method)
    def checked(self: Any, *args: Any, **options: Any) -> Any:
        if options:
            check(type(self), options)
        return method(self, *args, **options)

    @wraps(method)
    async def checked_coroutine(self: Any, *args: Any, **options: Any) -> Any:
        if options:
            check(type(self), options)
        return await method(self, *args, **options)

    return checked_coroutine if method.__code__.co_flags & CO_COROUTINE else checked


def lookup(table: Mapping[str, str], *, blocking: bool) -> Callable[[Any, str], NoReturn]:
    """Return the `__getattr__` of a public class.

    Args:
        table: the names in other clients.
        blocking: True for a blocking class.

    Returns:
        The function.
    """

    def __getattr__(self: Any, name: str) -> NoReturn:  # noqa: N807
        raise _missing(type(self), name, table.get(name), blocking=blocking)

    return __getattr__


class _Elsewhere:
    """One of the names: access, on an instance or on the class, raises an AttributeError."""

    __slots__ = ("_blocking", "_line", "_name")

    def __init__(self, name: str, line: str, blocking: bool) -> None:
        self._name = name
        self._line = line
        self._blocking = blocking

    def __get__(self, instance: object, owner: type) -> NoReturn:
        raise _missing(owner, self._name, self._line, blocking=self._blocking)


def _named(table: Mapping[str, str], *, blocking: bool) -> dict[str, Any]:
    """Return the class attributes for the names of a table. Type checkers do not see them."""
    return {name: _Elsewhere(name, line, blocking) for name, line in table.items()}


def _listed(self: object) -> list[str]:
    """A `__dir__` that leaves out the names of a table."""
    known: dict[str, Any] = {}
    for kind in reversed(type(self).__mro__):
        known |= vars(kind)
    return [name for name in object.__dir__(self) if not isinstance(known.get(name), _Elsewhere)]


def attributes(table: Mapping[str, str]) -> dict[str, Any]:
    """Make the attributes of a compiled class for the names of a table.

    Args:
        table: the names, and their lines.

    Returns:
        The entries for the class's dict.
    """
    return {**_named(table, blocking=True), "__dir__": _listed}


class _Names:
    """A base of the producers, which hides the names from an instance's `dir`."""

    __slots__ = ()

    __dir__ = _listed


class ProducerNames(_Names):
    """A base of `Producer`."""

    __slots__ = ()
    vars().update(_named(PRODUCER, blocking=True))


class AsyncProducerNames(_Names):
    """A base of `AsyncProducer`."""

    __slots__ = ()
    vars().update(_named(PRODUCER, blocking=False))


def called_property(name: str, values: Iterable[Any]) -> set[Any]:
    """Return a set that raises a TypeError with advice when it is called: in other clients the property is a method.

    Args:
        name: the property's name.
        values: the elements of the set.

    Returns:
        The set.

    Example:
        >>> called_property("assignment", {1, 2}) == {1, 2}
        True
    """
    return _Property(name, values)


class _Property(set[Any]):
    """The set that `called_property` returns. Copies, pickles and results of operators are plain sets."""

    def __init__(self, name: str, values: Iterable[Any]) -> None:
        super().__init__(values)
        self._name = name

    def __call__(self) -> NoReturn:
        raise TypeError(f"{self._name} is a property, not a method: write consumer.{self._name}")

    def copy(self) -> set[Any]:
        return set(self)

    def __repr__(self) -> str:
        return repr(set(self))

    def __reduce__(self) -> tuple[type[set[Any]], tuple[list[Any]]]:
        return set, (list(self),)
