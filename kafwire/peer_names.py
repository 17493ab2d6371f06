"""Methods of confluent-kafka, aiokafka and kafka-python with another name in kafwire, and the line to write instead.

For these names `hasattr` is False, and access raises an AttributeError with the line. Most classes use `__getattr__`
for this. Producers use attributes of a base class: CPython 3.11 has its fast path only for classes without
`__getattr__`, and `producer.send` takes 150 ns, or 200 ns with one.

Lines are those of the async classes; the blocking ones leave out `await`, `async` and `Async`. A comment in a line
describes the difference. Imports nothing of kafwire.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, NoReturn

_LEAVE = "leave it out: "
_CLIENT = "  # client = kafwire.AsyncClient(bootstrap_servers)"
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


def _asking(request: str, of: str = "") -> str:
    """Return a line with a raw request; `of` is its broker, if not any broker will do."""
    broker = f", broker={of}" if of else ""
    return f"await client.call(kafwire.protocol.{request}{broker})"


_COORDINATOR = "coordinator"
_FIND = _asking("FindCoordinatorRequest(coordinator_keys=[group])")
_COMMITTED = "await consumer.committed([partition])  # of a consumer with assign=[partition], group_id=group"
_COMMIT = "await consumer.commit({partition: offset})  # of a consumer with assign=[partition], group_id=group"
_ALTER_CONFIGS = _asking("IncrementalAlterConfigsRequest(resources=...)")
_LIST_GROUPS = f"{_asking('ListGroupsRequest()', 'node_id')}  # of each broker in client.metadata([]).brokers"
_DESCRIBE_GROUPS = _asking("DescribeGroupsRequest(groups=[group])", _COORDINATOR)
_DELETE_GROUPS = _asking("DeleteGroupsRequest(groups_names=[group])", _COORDINATOR)
_VERSIONS = _asking("ApiVersionsRequest(client_software_name=name, client_software_version=version)", "node_id")

ADMIN = {
    "abort_transaction": _asking("WriteTxnMarkersRequest(markers=...)", "leader"),
    "alter_configs": _ALTER_CONFIGS,
    "alter_consumer_group_offsets": _COMMIT,
    "alter_group_offsets": _COMMIT,
    "alter_partition_reassignments": _asking("AlterPartitionReassignmentsRequest(topics=...)"),
    "alter_replica_log_dirs": _asking("AlterReplicaLogDirsRequest(dirs=...)", "node_id"),
    "alter_user_scram_credentials": _asking("AlterUserScramCredentialsRequest(upsertions=...)"),
    "api_versions": _VERSIONS,
    "cluster_id": "(await client.metadata([])).cluster_id",
    "create_acls": _asking("CreateAclsRequest(creations=...)"),
    "create_partitions": _asking(
        "CreatePartitionsRequest(topics=[kafwire.protocol.CreatePartitionsRequest.CreatePartitionsTopic("
        "name=topic, count=6, assignments=None)], timeout_ms=30_000)"
    ),
    "create_topics": "await client.create_topic(new_topic, partitions=6, replication_factor=1)  # for each topic",
    "delete_acls": _asking("DeleteAclsRequest(filters=...)"),
    "delete_consumer_groups": _DELETE_GROUPS,
    "delete_group_offsets": _asking("OffsetDeleteRequest(group_id=group, topics=...)", _COORDINATOR),
    "delete_groups": _DELETE_GROUPS,
    "delete_records": _asking("DeleteRecordsRequest(topics=...)", "leader"),
    "delete_topics": "await client.delete_topic(other_topic)  # for each topic",
    "describe_acls": _asking("DescribeAclsRequest(resource_type_filter=...)"),
    "describe_cluster": "await client.metadata([])  # brokers, controller_id and cluster_id",
    "describe_configs": "await client.topic_config(topic)  # of others: kafwire.protocol.DescribeConfigsRequest",
    "describe_consumer_groups": _DESCRIBE_GROUPS,
    "describe_features": f"{_VERSIONS}  # supported_features and finalized_features",
    "describe_groups": _DESCRIBE_GROUPS,
    "describe_log_dirs": _asking("DescribeLogDirsRequest(topics=None)", "node_id"),
    "describe_metadata_quorum": _asking("DescribeQuorumRequest(topics=...)"),
    "describe_producers": _asking("DescribeProducersRequest(topics=...)", "leader"),
    "describe_topic_partitions": _asking("DescribeTopicPartitionsRequest(topics=...)"),
    "describe_topics": "(await client.metadata([topic])).topics",
    "describe_transactions": _asking("DescribeTransactionsRequest(transactional_ids=...)", _COORDINATOR),
    "describe_user_scram_credentials": _asking("DescribeUserScramCredentialsRequest(users=None)"),
    "elect_leaders": _asking("ElectLeadersRequest(topic_partitions=...)"),
    "find_coordinator": _FIND,
    "find_hanging_transactions": _asking("ListTransactionsRequest(duration_filter=900_000)", "node_id"),
    "get_broker_version_data": _VERSIONS,
    "incremental_alter_configs": _ALTER_CONFIGS,
    "list_config_resources": _asking("ListConfigResourcesRequest()"),
    "list_consumer_group_offsets": _COMMITTED,
    "list_consumer_groups": _LIST_GROUPS,
    "list_group_offsets": _COMMITTED,
    "list_groups": _LIST_GROUPS,
    "list_offsets": 'await client.offsets([partition], "latest")',
    "list_partition_offsets": 'await client.offsets([partition], "latest")',
    "list_partition_reassignments": _asking("ListPartitionReassignmentsRequest(topics=None, timeout_ms=30_000)"),
    "list_topics": "(await client.metadata()).topics",
    "list_transactions": _asking("ListTransactionsRequest()", "node_id"),
    "poll": "leave it out: calls return their results",
    "remove_group_members": _asking("LeaveGroupRequest(group_id=group, members=...)", _COORDINATOR),
    "reset_configs": _ALTER_CONFIGS,
    "reset_group_offsets": _COMMIT,
    "set_sasl_credentials": _CREDENTIALS,
    "start": "leave it out: the first call connects",
    "stop": "await client.close()",
    "update_features": _asking("UpdateFeaturesRequest(feature_updates=...)"),
    "wait_for_topics": "leave it out: create_topic returns when the leaders are known",
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


def _missing(owner: type, name: str, line: str | None, *, blocking: bool) -> AttributeError:
    """Return the error for an unknown attribute, with the line of a table if the table has one."""
    public = next(kind.__name__ for kind in owner.__mro__ if not kind.__name__.startswith("_"))
    text = f"{public!r} object has no attribute {name!r}"
    if line is None:
        return AttributeError(text)
    advice = line_for(line, blocking=blocking)
    return AttributeError(f"{text}: {'' if advice.startswith(_LEAVE) else 'write '}{advice}")


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


class _Names:
    """A base of the producers, which hides the names from an instance's `dir`."""

    __slots__ = ()

    def __dir__(self) -> list[str]:
        known: dict[str, Any] = {}
        for kind in reversed(type(self).__mro__):
            known |= vars(kind)
        return [name for name in super().__dir__() if not isinstance(known.get(name), _Elsewhere)]


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
