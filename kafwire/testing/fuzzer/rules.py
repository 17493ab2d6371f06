"""The protocol's promises about a response, as data: one line per promise.

`RULES` is the table. A rule looks at a request and its response, and yields a sentence for each broken promise. To add
a rule, add a line: with `echo`, `at_least`, `unique`, `rising`, or your own function in `Rule`. Fields are named as
paths: "topics[]/partitions[]:partition_index" are the partition indexes in all topics.

`promise` is the source: a definition's text, a KIP, or a property that every client relies on. There is no rule without
a source.
"""

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, ProtocolError
from kafwire.protocol import FetchRequest
from kafwire.protocol.framing import API_VERSIONS_KEY
from kafwire.records import decode_batches
from kafwire.testing.fuzzer.world import World

Check = Callable[[Any, Any, int, World], Iterator[str]]
ANY = "*"


@dataclass(frozen=True)
class Rule:
    """One promise. `api` "*" is every API; `check` gets request, response, version and the survey of the server.

    `asked` and `response_path` are the paths in request and response of a rule made from paths.
    """

    name: str
    api: str
    check: Check
    promise: str
    asked: str = ""
    response_path: str = ""


def select(message: Any, path: str) -> Iterator[tuple[Any, ...]]:
    """Yield the values at "a[]:key,key/b[]:key": one tuple for each way down; without a key, the element itself."""
    yield from _select(message, path.split("/"), ())


def _select(message: Any, steps: list[str], before: tuple[Any, ...]) -> Iterator[tuple[Any, ...]]:
    if not steps:
        yield before
        return
    name, _, keys = steps[0].partition(":")
    for element in getattr(message, name.removesuffix("[]")) or ():
        found = tuple(getattr(element, key) for key in keys.split(",")) if keys else (element,)
        if not keys and len(steps) > 1:
            found = ()
        yield from _select(element, steps[1:], before + found)


def walk(message: Any, place: str = "") -> Iterator[tuple[str, str, Any]]:
    """Yield every plain field: (place, name, value)."""
    for field in message.__fields__:
        value = getattr(message, field.name)
        where = f"{place}.{field.name}".removeprefix(".")
        if field.struct is None:
            yield where, field.name, value
        elif field.array:
            for element in value or ():
                yield from walk(element, f"{where}[]")
        elif value is not None:
            yield from walk(value, where)


def _failed(response: Any) -> bool:
    return bool(getattr(response, "error_code", 0))


def echo(
    api: str,
    asked: str,
    response_path: str,
    *,
    exact: bool = True,
    when: Callable[[Any, Any, int], bool] | None = None,
    promise: str = "a response has one entry for each item of the request",
) -> Rule:
    """The response has each item of the request once, and no other. With exact=False items may be missing.

    A response whose own error code fails the whole request promises nothing about its entries.
    """

    def check(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
        del world
        if _failed(response) or (when is not None and not when(request, response, version)):
            return
        wanted, got = list(select(request, asked)), list(select(response, response_path))
        unasked = set(got) - set(wanted)
        if unasked:
            yield f"has items that were not requested: {sorted(map(repr, unasked))[:3]} in {response_path}"
        if exact:
            missing = set(wanted) - set(got)
            if missing:
                yield f"leaves out {sorted(map(repr, missing))[:3]} in {response_path}"
        twice = [each for each, count in Counter(got).items() if count > 1]
        if twice and len(set(wanted)) == len(wanted):
            yield f"has {sorted(map(repr, twice))[:3]} twice in {response_path}"

    return Rule("echo", api, check, promise, asked, response_path)


def same_count(
    api: str, asked: str, response_path: str, *, promise: str = "one result for each entry, in order"
) -> Rule:
    """The response has as many results as the request has entries, if no two entries are equal."""

    def check(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
        del version, world
        entries = getattr(request, asked)
        wanted, got = len(entries), len(getattr(response, response_path))
        alike = len({repr(each.to_dict()) for each in entries}) < len(entries)
        if not alike and wanted != got and not _failed(response):
            yield f"{response_path} has {got} entries for {wanted} in {asked}"

    return Rule("count", api, check, promise, f"{asked}[]", f"{response_path}[]")


def unique(api: str, path: str, *, promise: str) -> Rule:
    """No two entries have the same keys."""

    def check(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
        del request, version, world
        twice = [each for each, count in Counter(select(response, path)).items() if count > 1]
        if twice:
            yield f"{path} has {sorted(map(repr, twice))[:3]} more than once"

    return Rule("unique", api, check, promise, response_path=path)


def at_least(api: str, path: str, low: int, *, when_ok: bool = True, promise: str) -> Rule:
    """Numbers are not below `low`; `path` ends in the number, optionally after the entry's error code."""

    def check(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
        del request, version, world
        if "/" not in path and "[]" not in path:
            value = getattr(response, path, low)
            if value < low and not (when_ok and _failed(response)):
                yield f"{path} is below {low}"
            return
        for *_, code, value in select(response, path):
            if value < low and not (when_ok and code):
                yield f"{path} is below {low}"

    return Rule("range", api, check, promise, response_path=path)


def rising(api: str, path: str, *, promise: str) -> Rule:
    """`path` ends in an error code and numbers that must not fall; negative numbers mean unknown."""

    def check(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
        del request, version, world
        for found in select(response, path):
            numbers = [number for number in found if isinstance(number, int) and not isinstance(number, bool)]
            code, *values = numbers[-(path.rsplit(":", 1)[1].count(",") + 1) :]
            known = [value for value in values if value >= 0]
            if code == 0 and known != sorted(known):
                yield f"{path} are not in order"

    return Rule("order", api, check, promise, response_path=path)


def only_if_ok(api: str, check: Callable[[Any, Any, int], str | None], promise: str, name: str = "value") -> Rule:
    """`check` returns a sentence when a response without error breaks the promise."""

    def run(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
        del world
        if not _failed(response):
            said = check(request, response, version)
            if said:
                yield said

    return Rule(name, api, run, promise)


# -- promises that need more than a path


def _error_codes(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del request, version, world
    for place, name, value in walk(response):
        if name.endswith("error_code") and value not in ERROR_CODES:
            yield f"{place} is {value}, which is no error code of Kafka's"


def _versions_sound(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del request, version
    for each in response.api_keys:
        if not 0 <= each.min_version <= each.max_version:
            yield f"api key {each.api_key} has versions {each.min_version} to {each.max_version}"
    found = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    if response.error_code == 0 and world.ranges and found != world.ranges:
        changed = sorted(key for key in found.keys() | world.ranges.keys() if found.get(key) != world.ranges.get(key))
        yield f"api versions differ from those at the start, for api keys {changed[:5]}"


def _versions_refused(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del request, version
    if response.error_code == ErrorCode.UNSUPPORTED_VERSION and API_VERSIONS_KEY in world.ranges:
        found = {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
        if found.get(API_VERSIONS_KEY) != world.ranges[API_VERSIONS_KEY]:
            yield "a response with UNSUPPORTED_VERSION does not name the versions of ApiVersions"


def _metadata_topics(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del world
    if request.topics is None or (version == 0 and not request.topics) or _failed(response):
        return
    if any(topic.name is None and not topic.topic_id.int for topic in request.topics):
        return
    names = {topic.name for topic in request.topics if topic.name is not None}
    ids = {topic.topic_id for topic in request.topics if topic.topic_id.int}
    by_name = {topic.name for topic in response.topics}
    by_id = {topic.topic_id for topic in response.topics}
    if not ids:
        if by_name - names:
            yield "has topics that were not requested"
        if names - by_name:
            yield "leaves out requested topics"
    elif not names:
        if by_id - ids:
            yield "has topic ids that were not requested"
        if ids - by_id:
            yield "leaves out requested topic ids"


def _metadata_partitions(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del request, version, world
    brokers = {broker.node_id for broker in response.brokers}
    for topic in response.topics:
        indexes = [part.partition_index for part in topic.partitions]
        if len(indexes) != len(set(indexes)):
            yield "a topic has a partition twice"
        for part in topic.partitions:
            if part.error_code:
                continue
            if part.leader_id not in brokers:
                yield "a partition without error has a leader that is not among the brokers"
            if not set(part.isr_nodes) <= set(part.replica_nodes):
                yield "a partition's in-sync replicas are not all replicas"
            if len(part.replica_nodes) != len(set(part.replica_nodes)):
                yield "a partition has a replica twice"
            if min([part.partition_index, *part.replica_nodes], default=0) < 0:
                yield "a partition index or replica is negative"


def _fetched_records(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del version, world
    wanted = {
        (topic.topic, topic.topic_id, part.partition): part.fetch_offset
        for topic in request.topics
        for part in topic.partitions
    }
    for topic in response.responses:
        for part in topic.partitions:
            if not part.records:
                continue
            if part.error_code:
                yield "records come with an error code"
            try:
                batches = decode_batches(part.records)
            except ProtocolError as error:
                yield f"records cannot be read: {error.message}"
                continue
            start = wanted.get((topic.topic, topic.topic_id, part.partition_index))
            if batches and start is not None and batches[0].last_offset < start:
                yield "the first batch lies before the requested offset"
            offsets = [batch.base_offset for batch in batches]
            if offsets != sorted(set(offsets)):
                yield "batches are not in order of their offsets"
            if batches and 0 <= part.high_watermark < batches[0].base_offset:  # (the broker reads it before the log)
                yield "records that begin above the high watermark"


def _committed_offsets(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del request, version, world
    topics = [*response.topics, *(topic for group in response.groups for topic in group.topics)]
    for topic in topics:
        for part in topic.partitions:
            if part.error_code and part.committed_offset >= 0:
                yield "an offset comes with an error code"


def _joined(request: Any, response: Any, version: int) -> str | None:
    del version
    if response.generation_id < 0:
        return "a generation below 0 without error"
    if not response.member_id:
        return "no member id without error"
    if response.protocol_name not in {protocol.name for protocol in request.protocols}:
        return "a protocol that the member did not offer"
    ids = [member.member_id for member in response.members]
    if response.leader == response.member_id and response.member_id not in ids:
        return "the leader is not among the members that it gets"
    return None


def _member_id_given(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del request, version, world
    if response.error_code == ErrorCode.MEMBER_ID_REQUIRED and not response.member_id:
        yield "MEMBER_ID_REQUIRED without the member id to join with"


def _cursor(request: Any, response: Any, version: int, world: World) -> Iterator[str]:
    del version, world
    asked = {topic.name for topic in request.topics}
    if asked and {topic.name for topic in response.topics if topic.name is not None} - asked:
        yield "has topics that were not requested"
    count = sum(len(topic.partitions) for topic in response.topics)
    if request.response_partition_limit > 0 and count > request.response_partition_limit:
        yield "more partitions than response_partition_limit"


def _full_fetch(request: Any, response: Any, version: int) -> bool:
    del response
    return version < FetchRequest.SESSIONS or request.session_epoch in (-1, 0)


def _some(name: str) -> Callable[[Any, Any, int], bool]:
    def given(request: Any, response: Any, version: int) -> bool:
        del response, version
        return bool(getattr(request, name))

    return given


def _no_share_end(request: Any, response: Any, version: int) -> bool:
    del response, version
    return bool(request.share_session_epoch == 0)


_DEFINITION = "the API's definition"
_THROTTLE = "definitions: the duration in milliseconds for which the request was throttled, or zero if it was not"

RULES: tuple[Rule, ...] = (
    Rule("error-code", ANY, _error_codes, "org.apache.kafka.common.protocol.Errors lists all codes"),
    at_least(ANY, "throttle_time_ms", 0, when_ok=False, promise=_THROTTLE),
    # the record path
    echo(
        "Produce",
        "topic_data[]:name,topic_id/partition_data[]:index",
        "responses[]:name,topic_id/partition_responses[]:index",
    ),
    at_least("Produce", "responses[]/partition_responses[]:error_code,base_offset", 0, promise=_DEFINITION),
    echo(
        "Fetch",
        "topics[]:topic,topic_id/partitions[]:partition",
        "responses[]:topic,topic_id/partitions[]:partition_index",
        when=_full_fetch,
        promise="KIP-227: the response to a full fetch has every partition",
    ),
    rising(
        "Fetch",
        "responses[]/partitions[]:error_code,log_start_offset,last_stable_offset,high_watermark",
        promise="definition: all transactions before the last stable offset are decided, the log starts at its start",
    ),
    Rule("records", "Fetch", _fetched_records, "record batches of the message format, below the high watermark"),
    echo("ListOffsets", "topics[]:name/partitions[]:partition_index", "topics[]:name/partitions[]:partition_index"),
    echo("OffsetForLeaderEpoch", "topics[]:topic/partitions[]:partition", "topics[]:topic/partitions[]:partition"),
    echo("DeleteRecords", "topics[]:name/partitions[]:partition_index", "topics[]:name/partitions[]:partition_index"),
    # topics
    unique("Metadata", "brokers[]:node_id", promise="a node id names one broker"),
    Rule("echo", "Metadata", _metadata_topics, "definition: the topics to fetch metadata for"),
    Rule("value", "Metadata", _metadata_partitions, "a partition without error has a live leader among the brokers"),
    Rule("echo", "DescribeTopicPartitions", _cursor, "definition: the requested topics, at most this many partitions"),
    echo("CreateTopics", "topics[]:name", "topics[]:name"),
    echo("CreatePartitions", "topics[]:name", "results[]:name"),
    echo("DeleteTopics", "topic_names[]", "responses[]:name", when=_some("topic_names")),
    echo(
        "AlterPartitionReassignments",
        "topics[]:name/partitions[]:partition_index",
        "responses[]:name/partitions[]:partition_index",
    ),
    echo(
        "ListPartitionReassignments",
        "topics[]:name/partition_indexes[]",
        "topics[]:name/partitions[]:partition_index",
        exact=False,
        when=_some("topics"),
    ),
    echo("DescribeConfigs", "resources[]:resource_type,resource_name", "results[]:resource_type,resource_name"),
    echo("AlterConfigs", "resources[]:resource_type,resource_name", "responses[]:resource_type,resource_name"),
    echo(
        "IncrementalAlterConfigs", "resources[]:resource_type,resource_name", "responses[]:resource_type,resource_name"
    ),
    echo(
        "AlterReplicaLogDirs",
        "dirs[]/topics[]:name/partitions[]",
        "results[]:topic_name/partitions[]:partition_index",
    ),
    unique("DescribeLogDirs", "results[]:log_dir", promise="one result for each log directory"),
    echo("DescribeProducers", "topics[]:name/partition_indexes[]", "topics[]:name/partitions[]:partition_index"),
    # groups
    echo("DescribeGroups", "groups[]", "groups[]:group_id"),
    echo("ConsumerGroupDescribe", "group_ids[]", "groups[]:group_id"),
    echo("ShareGroupDescribe", "group_ids[]", "groups[]:group_id"),
    echo("StreamsGroupDescribe", "group_ids[]", "groups[]:group_id"),
    echo("DeleteGroups", "groups_names[]", "results[]:group_id"),
    unique("ListGroups", "groups[]:group_id", promise="a group id names one group"),
    echo(
        "OffsetCommit",
        "topics[]:name,topic_id/partitions[]:partition_index",
        "topics[]:name,topic_id/partitions[]:partition_index",
    ),
    echo("TxnOffsetCommit", "topics[]:name/partitions[]:partition_index", "topics[]:name/partitions[]:partition_index"),
    echo("OffsetDelete", "topics[]:name/partitions[]:partition_index", "topics[]:name/partitions[]:partition_index"),
    echo(
        "OffsetFetch",
        "topics[]:name/partition_indexes[]",
        "topics[]:name/partitions[]:partition_index",
        when=_some("topics"),
    ),
    echo(
        "OffsetFetch",
        "groups[]:group_id",
        "groups[]:group_id",
        promise="definition: version 8 fetches the offsets of several groups at a time",
    ),
    Rule("value", "OffsetFetch", _committed_offsets, "definition: the committed offset, -1 if there is none"),
    echo(
        "FindCoordinator",
        "coordinator_keys[]",
        "coordinators[]:key",
        promise="KIP-699 and definition: one coordinator for each key",
    ),
    only_if_ok("JoinGroup", _joined, "the group protocol: members get an id, a generation and a common protocol"),
    Rule("value", "JoinGroup", _member_id_given, "KIP-394: the member joins again with the id of this response"),
    echo("DescribeShareGroupOffsets", "groups[]:group_id", "groups[]:group_id"),
    echo("DeleteShareGroupOffsets", "topics[]:topic_name", "responses[]:topic_name", exact=False),
    echo(
        "ShareFetch",
        "topics[]:topic_id/partitions[]:partition_index",
        "responses[]:topic_id/partitions[]:partition_index",
        exact=False,
        when=_no_share_end,
        promise="KIP-932, definition: epoch 0 opens a session, with the partitions of the request",
    ),
    # transactions
    at_least(
        "InitProducerId",
        "producer_id",
        0,
        promise="definition: the current producer id; its default, without one, is -1",
    ),
    at_least("InitProducerId", "producer_epoch", 0, promise="definition: the current epoch of the producer id"),
    echo(
        "AddPartitionsToTxn",
        "v3_and_below_topics[]:name/partitions[]",
        "results_by_topic_v3_and_below[]:name/results_by_partition[]:partition_index",
    ),
    echo("AddPartitionsToTxn", "transactions[]:transactional_id", "results_by_transaction[]:transactional_id"),
    echo("DescribeTransactions", "transactional_ids[]", "transaction_states[]:transactional_id"),
    unique("ListTransactions", "transaction_states[]:transactional_id", promise="a transactional id is listed once"),
    # the cluster
    Rule("value", "ApiVersions", _versions_sound, "KIP-35: a range of versions for each API"),
    Rule("value", "ApiVersions", _versions_refused, "KIP-511: the response has the supported versions of ApiVersions"),
    unique("ApiVersions", "api_keys[]:api_key", promise="KIP-35: one range for each API"),
    unique("DescribeCluster", "brokers[]:broker_id", promise="a node id names one broker"),
    same_count("CreateAcls", "creations", "results"),
    same_count("DeleteAcls", "filters", "filter_results"),
    echo("DescribeUserScramCredentials", "users[]:name", "results[]:user", when=_some("users")),
    unique(
        "ListConfigResources",
        "config_resources[]:resource_type,resource_name",
        promise="definition: each configuration resource is a type and a name",
    ),
)


def broken(api: str, request: Any, response: Any, version: int, world: World) -> Iterator[tuple[Rule, str]]:
    """Yield each broken promise, with a sentence that describes it."""
    for rule in RULES:
        if rule.api in (ANY, api):
            for said in dict.fromkeys(rule.check(request, response, version, world)):
                yield rule, said
