"""The error codes of responses and the request elements that they belong to: a table of facts about messages.

A response has an error code at its top, or in elements of arrays that mirror arrays of the request: topics, partitions,
groups. Fields with the same name on both sides are not in the table.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.protocol.spec import Field, Struct

TOPIC, PARTITION = "topic", "partition"
ELEMENT = ""  # in `names`: the request's element itself, a string or a number
TOPIC_RESOURCE = 2  # the type of a topic among the resources that have configs
_TOPIC_NAMES = ("name", "topic", "topic_name", "resource_name")
_PARTITION_NAMES = ("partition_index", "partition", "index")


@dataclass(frozen=True)
class Level:
    """An array of a response.

    `asked`: the arrays of the request that it mirrors; none: only the response itself has its elements.
    `names`: fields that have another name in the request. `blank`: values of an error's element that are not the
    defaults.
    """

    array: str
    asked: tuple[str, ...]
    kind: str = ""
    names: Mapping[str, str] = field(default_factory=dict)
    blank: Mapping[str, Any] = field(default_factory=dict)
    code: str = "error_code"
    inner: Level | None = None


def _partitions(asked: str = "partitions", array: str = "partitions", index: str = "", /, **blank: Any) -> Level:
    """A level of partitions; `index`: the response's name of a partition, where the request has a number alone."""
    return Level(array, (asked,), PARTITION, {index: ELEMENT} if index else {}, blank)


def _topics(inner: Level | None = None, array: str = "topics", asked: str = "topics", **names: str) -> Level:
    return Level(array, (asked,), TOPIC, names, inner=inner)


def _named(array: str, asked: str, name: str = "", **names: str) -> Level:
    return Level(array, (asked,), names={name: ELEMENT} if name else names)


_COMMITTED = Level(
    "partitions", ("partition_indexes",), PARTITION, {"partition_index": ELEMENT}, {"committed_offset": -1}
)
_ADDED = Level(
    "results_by_partition", ("partitions",), PARTITION, {"partition_index": ELEMENT}, code="partition_error_code"
)

# By API, the outermost array with an error code in it or below. Of several, the first that a version has counts.
LEVELS: Mapping[str, tuple[Level, ...]] = MappingProxyType(
    {
        "AddPartitionsToTxn": (
            _topics(_ADDED, "results_by_topic_v3_and_below", "v3_and_below_topics"),
            Level("results_by_transaction", ("transactions",), inner=_topics(_ADDED, "topic_results")),
        ),
        "AlterClientQuotas": (_named("entries", "entries"),),
        "AlterConfigs": (Level("responses", ("resources",), TOPIC),),
        "AlterPartitionReassignments": (_topics(_partitions(), "responses"),),
        # The request has topics inside the log directories to which they move.
        "AlterReplicaLogDirs": (Level("results", (), TOPIC, inner=Level("partitions", (), PARTITION)),),
        "AlterShareGroupOffsets": (_topics(_partitions(), "responses"),),
        "AlterUserScramCredentials": (Level("results", ("deletions", "upsertions"), names={"user": "name"}),),
        "ConsumerGroupDescribe": (_named("groups", "group_ids", "group_id"),),
        "CreateAcls": (_named("results", "creations"),),
        "CreatePartitions": (_topics(None, "results"),),
        "CreateTopics": (Level("topics", ("topics",), TOPIC, blank={"num_partitions": -1, "replication_factor": -1}),),
        "DeleteAcls": (_named("filter_results", "filters"),),
        "DeleteGroups": (_named("results", "groups_names", "group_id"),),
        "DeleteRecords": (_topics(_partitions(low_watermark=-1)),),
        "DeleteShareGroupOffsets": (_topics(None, "responses"),),
        "DeleteShareGroupState": (_topics(_partitions(), "results"),),
        "DeleteTopics": (
            Level("responses", ("topics",), TOPIC),
            Level("responses", ("topic_names",), TOPIC, {"name": ELEMENT}),
        ),
        "DescribeConfigs": (Level("results", ("resources",), TOPIC),),
        "DescribeGroups": (_named("groups", "groups", "group_id"),),
        "DescribeLogDirs": (Level("results", ()),),
        "DescribeProducers": (_topics(_partitions("partition_indexes", "partitions", "partition_index")),),
        "DescribeQuorum": (_topics(_partitions()),),
        "DescribeShareGroupOffsets": (
            Level("groups", ("groups",), inner=_topics(_partitions("partitions", "partitions", "partition_index"))),
        ),
        "DescribeTopicPartitions": (_topics(Level("partitions", (), PARTITION, blank={"leader_id": -1})),),
        "DescribeTransactions": (_named("transaction_states", "transactional_ids", "transactional_id"),),
        "DescribeUserScramCredentials": (_named("results", "users", user="name"),),
        "ElectLeaders": (
            _topics(
                _partitions("partitions", "partition_result", "partition_id"),
                "replica_election_results",
                "topic_partitions",
            ),
        ),
        "Fetch": (_topics(_partitions(), "responses"),),
        "FindCoordinator": (
            Level(
                "coordinators",
                ("coordinator_keys",),
                names={"key": ELEMENT},
                blank={"node_id": -1, "port": -1},
            ),
        ),
        "IncrementalAlterConfigs": (Level("responses", ("resources",), TOPIC),),
        "InitializeShareGroupState": (_topics(_partitions(), "results"),),
        "LeaveGroup": (_named("members", "members"),),
        "ListOffsets": (_topics(_partitions(timestamp=-1, offset=-1)),),
        "Metadata": (_topics(Level("partitions", (), PARTITION, blank={"leader_id": -1})),),
        "OffsetCommit": (_topics(_partitions()),),
        "OffsetDelete": (_topics(_partitions()),),
        "OffsetFetch": (Level("groups", ("groups",), inner=_topics(_COMMITTED)), _topics(_COMMITTED)),
        "OffsetForLeaderEpoch": (_topics(_partitions(leader_epoch=-1, end_offset=-1)),),
        "Produce": (
            _topics(_partitions("partition_data", "partition_responses", base_offset=-1), "responses", "topic_data"),
        ),
        "ReadShareGroupState": (_topics(_partitions(), "results"),),
        "ReadShareGroupStateSummary": (_topics(_partitions(), "results"),),
        "ShareAcknowledge": (_topics(_partitions(), "responses"),),
        "ShareFetch": (_topics(_partitions(records=b""), "responses"),),
        "ShareGroupDescribe": (_named("groups", "group_ids", "group_id"),),
        "StreamsGroupDescribe": (_named("groups", "group_ids", "group_id"),),
        "TxnOffsetCommit": (_topics(_partitions()),),
        "UpdateFeatures": (_named("results", "feature_updates"),),
        "WriteShareGroupState": (_topics(_partitions(), "results"),),
        "WriteTxnMarkers": (
            Level(
                "markers",
                ("markers",),
                inner=_topics(_partitions("partition_indexes", "partitions", "partition_index")),
            ),
        ),
    }
)
# Values of a response with an error at its top that are not the defaults.
BLANK: Mapping[str, Mapping[str, Any]] = MappingProxyType(
    {
        "CreateDelegationToken": {"issue_timestamp_ms": -1, "expiry_timestamp_ms": -1, "max_timestamp_ms": -1},
        "FindCoordinator": {"node_id": -1, "port": -1},
        "InitProducerId": {"producer_id": -1, "producer_epoch": -1},
        "JoinGroup": {"generation_id": -1},
    }
)
_SESSION_ERRORS = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
        ErrorCode.SHARE_SESSION_NOT_FOUND,
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
        ErrorCode.SHARE_SESSION_LIMIT_REACHED,
    }
)
# APIs whose clients check the top for these errors only, and the elements for all others.
_AT_TOP: Mapping[str, frozenset[ErrorCode]] = MappingProxyType(
    {
        "Fetch": _SESSION_ERRORS,
        "ShareFetch": _SESSION_ERRORS,
        "ShareAcknowledge": _SESSION_ERRORS,
        "Metadata": frozenset({ErrorCode.REBOOTSTRAP_REQUIRED}),
    }
)
# APIs whose clients check the partitions for these errors, and outer levels for all others.
_AT_PARTITIONS: Mapping[str, frozenset[ErrorCode]] = MappingProxyType(
    {"OffsetFetch": frozenset({ErrorCode.UNSTABLE_OFFSET_COMMIT})}
)


def response_of(api: str) -> Any:
    """Return the class of an API's responses."""
    return protocol.MESSAGES[api + "Response"]


def field_of(kind: Any, name: str, version: int) -> Field | None:
    """Return a field of a message or a struct in it, if this version has it."""
    return next((each for each in kind.__fields__ if each.name == name and version in each.versions), None)


def path(api: str, version: int) -> tuple[Level, ...]:
    """Return the nested arrays of a response in a version, the outermost first."""
    kind = response_of(api)
    request: Any = protocol.MESSAGES[api + "Request"]
    for first in LEVELS.get(api, ()):
        mirrored = not first.asked or any(field_of(request, name, version) for name in first.asked)
        if mirrored and field_of(kind, first.array, version) is not None:
            levels, level = [], first
            while True:
                levels.append(level)
                if level.inner is None:
                    return tuple(levels)
                level = level.inner
    return ()


def struct_of(api: str, levels: tuple[Level, ...]) -> type[Struct]:
    """Return the struct of the elements of the last of these arrays."""
    kind = response_of(api)
    for level in levels:
        kind = next(each.struct for each in kind.__fields__ if each.name == level.array)
    found: type[Struct] = kind
    return found


def depth(api: str, version: int, code: int, *, kind: str = "") -> int | None:
    """Return the depth in arrays of an error: 0 is the response itself. None: this version has no place for it.

    `kind`: TOPIC or PARTITION, for an error of one of them.
    """
    levels = path(api, version)
    having = [
        number
        for number in range(len(levels) + 1)
        if field_of(
            struct_of(api, levels[:number]) if number else response_of(api),
            levels[number - 1].code if number else "error_code",
            version,
        )
    ]
    if api in _AT_TOP and code not in _AT_TOP[api]:
        having = [number for number in having if number]
    if not kind and code in _AT_PARTITIONS.get(api, ()):
        kind = PARTITION
    if kind:
        first = next((n for n, level in enumerate(levels, 1) if level.kind == kind), len(levels) + 1)
        having = [number for number in having if number >= first]
    return having[0] if having else None


def names_of(kind: str) -> tuple[str, ...]:
    """Return the names of fields that name topics or partitions."""
    return _TOPIC_NAMES if kind == TOPIC else _PARTITION_NAMES


def has_kind(api: str, kind: str) -> bool:
    """True if requests of an API are about topics, or partitions."""
    return any(level.kind == kind for level in _all_levels(api))


def _all_levels(api: str) -> Iterator[Level]:
    for first in LEVELS.get(api, ()):
        level: Level | None = first
        while level is not None:
            yield level
            level = level.inner
