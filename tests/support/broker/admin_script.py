"""The same administration by each client, of a real and an embedded Kafka: what came of each step, as text."""

from __future__ import annotations

import itertools
import re
import uuid
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import confluent_kafka
from confluent_kafka import admin

import kafwire
from kafwire import protocol
from tests.support.deadlines import until
from tests.support.java.admin import JavaAdmin

PATIENCE = 20.0
_kinds: Any = admin  # its types do not say that it exports them
# Kafka's broker has this one as a dynamic default, since it has eligible leader replicas (KIP-966).
_ELSEWHERE = "min.insync.replicas"
_RETENTION = ("log.retention.hours", "log.retention.ms")


def normalised(lines: list[str], prefix: str) -> list[str]:
    """Lines without what differs from run to run."""
    hexadecimal = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
    return [hexadecimal.sub("ID", line.replace(prefix, "T")) for line in lines]


def by_kafwire(bootstrap: str, prefix: str) -> list[str]:
    """The fields of brokers' responses."""
    with kafwire.Client(bootstrap) as client:
        return list(_by_kafwire(client, bootstrap, prefix))


def _by_kafwire(client: kafwire.Client, bootstrap: str, prefix: str) -> Iterator[str]:
    topic = f"{prefix}.one"
    for fields in _CREATIONS:
        name = fields.get("name", "{}").format(topic)
        yield f"create {fields}: {_create(client, **(fields | {'name': name}))}"
    _settle(client)
    for name in (topic, f"{prefix}_one", f"{prefix}.two"):
        yield f"create {name}: {_create(client, name=name, validate_only=True)}"
    for changes in _CHANGES:
        yield f"alter {changes}: {_alter(client, 2, topic, changes)}"
    for kind, name, changes in _OTHERS:
        yield f"alter {kind} {name} {changes}: {_alter(client, kind, name, changes, validate_only=True)}"
    _settle(client)
    yield from _describe(client, topic)
    yield from _partitions(client, topic)
    yield from _records(client, bootstrap, topic)
    yield from _elections(client, topic)
    yield from _quotas(client, prefix)
    yield from _deletions(client, topic)


_Fields = dict[str, Any]
_ASSIGNMENTS: tuple[dict[int, list[int]], ...] = ({0: [1], 1: [1]}, {1: [1]}, {0: [9]}, {0: []}, {0: [1, 1]})
_CREATIONS: list[_Fields] = [
    {"configs": {"retention.ms": " 86400000 ", "segment.bytes": "1048576"}},
    {},
    {"name": ""},
    {"name": ".."},
    {"name": "a b"},
    {"name": "x" * 250},
    {"name": "n", "num_partitions": 0},
    {"name": "n", "num_partitions": -2},
    {"name": "n", "replication_factor": 0},
    {"name": "n", "replication_factor": 9},
    {"name": "n", "configs": {"nope": "1"}},
    {"name": "n", "configs": {"retention.ms": None}},
    {"name": "n", "configs": {"min.insync.replicas": "0"}},
    {"name": "n", "configs": {"remote.storage.enable": "true"}},
    {"name": "n", "assignments": {0: [1]}, "num_partitions": -1},
    {"name": "n", "assignments": {0: [1]}, "replication_factor": -1},
    *(
        {"name": "n", "assignments": each, "num_partitions": -1, "replication_factor": -1, "validate_only": True}
        for each in _ASSIGNMENTS
    ),
    {"name": "__cluster_metadata"},
]
_CHANGES: list[list[tuple[str, int, str | None]]] = [
    [("retention.ms", 0, "1000"), ("max.message.bytes", 0, "2000")],
    [("cleanup.policy", 2, "compact")],
    [("cleanup.policy", 3, "compact")],
    [("retention.ms", 2, "1")],
    [("retention.ms", 0, "x")],
    [("retention.ms", 0, "-2")],
    [("retention.ms", 0, None)],
    [("retention.ms", 0, "1"), ("retention.ms", 0, "2")],
    [("nope", 0, "1")],
    [("nope", 1, None)],
    [("preallocate", 0, "yes")],
    [("compression.type", 0, "zip")],
    [("compression.gzip.level", 0, "0")],
    [("segment.bytes", 0, "1000")],
    [("min.compaction.lag.ms", 0, "10"), ("max.compaction.lag.ms", 0, "5")],
    [("follower.replication.throttled.replicas", 0, "0:1,x")],
    [("segment.bytes", 1, None)],
]
_OTHERS: list[tuple[int, str, list[tuple[str, int, str | None]]]] = [
    (2, "", [("retention.ms", 0, "1")]),
    (2, "not-there", [("retention.ms", 0, "1")]),
    (2, "a b", [("retention.ms", 0, "1")]),
    (3, "x", []),
    (4, "1", [("num.partitions", 0, "3")]),
    (4, "2", [("log.retention.ms", 0, "3")]),
    (4, "x", [("log.retention.ms", 0, "3")]),
    (4, "", [("log.retention.ms", 0, "x")]),
    (4, "1", [("log.retention.ms", 0, "5")]),
    (32, "", [("nope", 0, "1")]),
    (32, "group", [("nope", 0, "1")]),
]


_marks = itertools.count(1_000_000)


def _settle(client: kafwire.Client) -> None:
    """Return when the broker has applied all that the controller has decided.

    It applies one change after the other, and shows each before it has applied it. So when the second of two is seen,
    the first and all before it are applied.
    """
    alter, describe = protocol.AlterClientQuotasRequest, protocol.DescribeClientQuotasRequest
    entity = [alter.EntityData(entity_type="client-id", entity_name="settled")]
    component = describe.ComponentData(entity_type="client-id", match_type=0, match="settled")

    def change(rate: float, *, remove: bool = False) -> None:
        op = alter.OpData(key="producer_byte_rate", value=rate, remove=remove)
        client.call(alter(entries=[alter.EntryData(entity=entity, ops=[op])]))

    def is_shown(rate: float) -> bool:
        found = client.call(describe(components=[component], strict=True), broker=1).entries
        return any(value.value == rate for each in found or () for value in each.values)

    for rate in (float(next(_marks)), float(next(_marks))):
        change(rate)
        until(lambda rate=rate: is_shown(rate), "the broker has applied what was decided")  # type: ignore[misc]
    change(0, remove=True)


def _create(client: kafwire.Client, *, validate_only: bool = False, **fields: Any) -> str:
    request = protocol.CreateTopicsRequest
    configs = [request.CreatableTopicConfig(name=n, value=v) for n, v in fields.pop("configs", {}).items()]
    assignments = [
        request.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
        for index, nodes in fields.pop("assignments", {}).items()
    ]
    topic = request.CreatableTopic(
        **({"num_partitions": 1, "replication_factor": 1} | fields), configs=configs, assignments=assignments
    )
    (result,) = client.call(request(topics=[topic], validate_only=validate_only)).topics
    shown = [(c.name, c.value, c.config_source == 1) for c in result.configs if c.name != _ELSEWHERE]
    return repr((result.error_code, result.error_message, result.num_partitions, result.replication_factor, shown))


def _alter(
    client: kafwire.Client,
    kind: int,
    name: str,
    changes: list[tuple[str, int, str | None]],
    *,
    validate_only: bool = False,
) -> str:
    request = protocol.IncrementalAlterConfigsRequest
    configs = [request.AlterableConfig(name=n, config_operation=op, value=v) for n, op, v in changes]
    resource = request.AlterConfigsResource(resource_type=kind, resource_name=name, configs=configs)
    (result,) = client.call(request(resources=[resource], validate_only=validate_only), broker=1).responses
    return repr((result.error_code, result.error_message))


def _shown(each: Any) -> tuple[Any, ...]:
    """An option; the default of `retention.ms` is another option in Kafka, `log.retention.hours`."""
    synonyms = tuple((s.name, s.value, s.source) for s in each.synonyms if s.name not in _RETENTION)
    return (each.name, each.value, each.config_source, each.config_type, each.read_only, each.is_sensitive, *synonyms)


def _describe(client: kafwire.Client, topic: str) -> Iterator[str]:
    request = protocol.DescribeConfigsRequest
    for kind, name in ((2, topic), (2, "not-there"), (2, "a b"), (4, "2"), (4, "x"), (32, "")):
        resource = request.DescribeConfigsResource(resource_type=kind, resource_name=name, configuration_keys=None)
        (result,) = client.call(request(resources=[resource], include_synonyms=True), broker=1).results
        shown = [_shown(each) for each in result.configs if each.name != _ELSEWHERE]
        yield f"describe {kind} {name}: {result.error_code} {result.error_message} {sorted(shown)}"
    wanted = protocol.DescribeTopicPartitionsRequest
    for cursor, limit in ((None, 1), (wanted.Cursor(topic_name="zzz", partition_index=1), 5)):
        names = [wanted.TopicRequest(name=name) for name in (topic, f"{topic}.not-there", "a b")]
        response = client.call(wanted(topics=names, cursor=cursor, response_partition_limit=limit))
        yield f"topics: {response}"
    cluster = client.call(protocol.DescribeClusterRequest(endpoint_type=2))
    yield f"cluster: {cluster.error_code} {cluster.error_message}"


def _partitions(client: kafwire.Client, topic: str) -> Iterator[str]:
    request = protocol.CreatePartitionsRequest
    cases: list[tuple[str, int, list[list[int]] | None, bool]] = [
        ("not-there", 2, None, True),
        (topic, 1, None, True),
        (topic, 0, None, True),
        (topic, 3, [[1]], True),
        (topic, 2, [[9]], True),
        (topic, 2, [[1, 1]], True),
        (topic, 2, [[]], True),
        (topic, 2, None, False),
        (topic, 3, [[1]], False),
    ]
    for name, count, nodes, validate_only in cases:
        assignments = None if nodes is None else [request.CreatePartitionsAssignment(broker_ids=n) for n in nodes]
        wanted = request.CreatePartitionsTopic(name=name, count=count, assignments=assignments)
        message = request(topics=[wanted], validate_only=validate_only, timeout_ms=9000)
        yield f"partitions {name} {count} {nodes}: {client.call(message)}"
    _settle(client)
    yield f"there are {sorted(client.partitions_for(topic))}"


def _records(client: kafwire.Client, bootstrap: str, topic: str) -> Iterator[str]:
    request = protocol.DeleteRecordsRequest
    _alter(client, 2, topic, [("retention.ms", 0, "-1")])
    with kafwire.Producer(bootstrap) as producer:
        for number in range(5):
            producer.send(topic, b"%d" % number, partition=0).result(10)
    for name, index, offset in (
        (topic, 0, 2),
        (topic, 0, 1),
        (topic, 0, 6),
        (topic, 0, -2),
        (topic, 9, 0),
        ("no", 0, 0),
        (topic, 0, -1),
    ):
        part = request.DeleteRecordsPartition(partition_index=index, offset=offset)
        wanted = request.DeleteRecordsTopic(name=name, partitions=[part])
        yield f"delete {name} {index} {offset}: {client.call(request(topics=[wanted], timeout_ms=5000), broker=1)}"


def _elections(client: kafwire.Client, topic: str) -> Iterator[str]:
    request = protocol.ElectLeadersRequest
    for kind, name, parts in ((0, topic, [0, 9]), (1, topic, [0]), (7, topic, [0]), (0, "not-there", [0])):
        wanted = [request.TopicPartitions(topic=name, partitions=parts)]
        yield f"elect {kind}: {client.call(request(election_type=kind, topic_partitions=wanted))}"
    move = protocol.AlterPartitionReassignmentsRequest
    for name, index, nodes in (
        (topic, 0, [1]),
        (topic, 0, []),
        (topic, 0, [9]),
        (topic, 0, [1, 1]),
        (topic, 0, None),
        (topic, 77, [1]),
        ("no", 0, [1]),
    ):
        part = move.ReassignablePartition(partition_index=index, replicas=nodes)
        yield f"move: {client.call(move(topics=[move.ReassignableTopic(name=name, partitions=[part])]))}"
    yield f"moves: {client.call(protocol.ListPartitionReassignmentsRequest())}"


def _quotas(client: kafwire.Client, user: str) -> Iterator[str]:
    request = protocol.AlterClientQuotasRequest
    cases: list[tuple[dict[str, str | None], list[tuple[str, float, bool]]]] = [
        ({"user": user}, [("producer_byte_rate", 1e9, False)]),
        ({"user": user, "client-id": None}, [("consumer_byte_rate", 2e9, False), ("request_percentage", 99.5, False)]),
        ({"user": user}, [("producer_byte_rate", 1.5, False)]),
        ({"user": user}, [("producer_byte_rate", 0, False)]),
        ({"user": user}, [("nope", 1, False)]),
        ({"user": ""}, []),
        ({}, []),
        ({"planet": "x"}, []),
    ]
    for names, ops in cases:
        entry = request.EntryData(
            entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
            ops=[request.OpData(key=key, value=value, remove=gone) for key, value, gone in ops],
        )
        (result,) = client.call(request(entries=[entry])).entries
        yield f"quota {names} {ops}: {result.error_code} {result.error_message}"
    _settle(client)
    wanted = protocol.DescribeClientQuotasRequest
    for strict in (True, False):
        component = wanted.ComponentData(entity_type="user", match_type=0, match=user)
        found = client.call(wanted(components=[component], strict=strict)).entries
        shown = [
            (
                sorted((e.entity_type, str(e.entity_name)) for e in each.entity),
                sorted((v.key, v.value) for v in each.values),
            )
            for each in found
        ]
        yield f"quotas {strict}: {sorted(shown)}"
    for names, ops in cases[:2]:
        entry = request.EntryData(
            entity=[request.EntityData(entity_type=kind, entity_name=name) for kind, name in names.items()],
            ops=[request.OpData(key=key, value=0, remove=True) for key, _, _ in ops],
        )
        client.call(request(entries=[entry]))


def _deletions(client: kafwire.Client, topic: str) -> Iterator[str]:
    request, nothing = protocol.DeleteTopicsRequest, uuid.UUID(int=0)
    for cases in (
        [(None, nothing), ("x", uuid.uuid4()), ("not-there", nothing), (None, uuid.uuid4())],
        [(topic, nothing)] * 2,
        [(topic, nothing)],
    ):
        states = [request.DeleteTopicState(name=name, topic_id=topic_id) for name, topic_id in cases]
        found = client.call(request(topics=states, timeout_ms=9000)).responses
        yield f"delete: {sorted(repr((r.name, r.error_code, r.error_message)) for r in found)}"


def by_confluent(bootstrap: str, prefix: str) -> list[str]:
    """The output of librdkafka's administration."""
    with kafwire.Client(bootstrap) as other:
        return _by_confluent(bootstrap, prefix, other)


def _by_confluent(bootstrap: str, prefix: str, other: kafwire.Client) -> list[str]:
    topic = f"{prefix}.three"
    client = admin.AdminClient({"bootstrap.servers": bootstrap})
    new, resource = _kinds.NewTopic, _kinds.ConfigResource
    lines = []

    def note(what: str, futures: dict[Any, Future[Any]], show: Callable[[Any], Any] = lambda found: found) -> None:
        for future in futures.values():
            try:
                lines.append(f"{what}: {show(future.result(PATIENCE))}")
            except confluent_kafka.KafkaException as error:
                lines.append(f"{what}: {error.args[0].code()} {error.args[0].str()}")
        _settle(other)

    note("create", client.create_topics([new(topic, 2, 1, config={"retention.ms": "1000"})]))
    note("again", client.create_topics([new(topic, 2, 1)]))
    note("factor", client.create_topics([new("n", 1, 9)]))
    note("wrong", client.create_topics([new("n", 1, 1, config={"retention.ms": "x"})]))
    note("grow", client.create_partitions([_kinds.NewPartitions(topic, 3)]))
    note("shrink", client.create_partitions([_kinds.NewPartitions(topic, 1)]))
    change = _kinds.ConfigEntry("cleanup.policy", "compact", incremental_operation=_kinds.AlterConfigOpType.APPEND)
    note("alter", client.incremental_alter_configs([resource("TOPIC", topic, incremental_configs=[change])]))

    def shown(configs: dict[str, Any]) -> list[tuple[str, str]]:
        return sorted((name, each.value) for name, each in configs.items() if name != _ELSEWHERE)

    note("describe", client.describe_configs([resource("TOPIC", topic)]), shown)
    note("unknown", client.describe_configs([resource("TOPIC", "not-there")]), shown)
    wanted = confluent_kafka.TopicCollection([topic])
    note(
        "topics",
        client.describe_topics(wanted),
        lambda found: (found.name, [(p.id, p.leader.id, [n.id for n in p.isr]) for p in found.partitions]),
    )
    offsets = [confluent_kafka.TopicPartition(topic, 0, 0)]
    note("records", client.delete_records(offsets), lambda found: found.low_watermark)
    note("delete", client.delete_topics([topic]))
    note("gone", client.delete_topics(["not-there"]))
    return lines


def by_java(bootstrap: str, prefix: str) -> list[str]:
    """The outcomes of calls by Java's `Admin`."""
    with JavaAdmin() as java, kafwire.Client(bootstrap) as other:
        return list(_by_java(java, bootstrap, prefix, other))


def _by_java(java: JavaAdmin, bootstrap: str, prefix: str, other: kafwire.Client) -> Iterator[str]:
    for method, arguments in _java_calls(f"{prefix}.four", prefix):
        found = java.call(bootstrap, method, arguments)
        show = _JAVA_RESULTS.get(method, str)
        results = {key: show(value) for key, value in found.results.items()}
        yield f"{method} {arguments}: {results} {found.errors}"
        _settle(other)


def _java_calls(topic: str, user: str) -> list[tuple[str, dict[str, Any]]]:
    """The calls, with the arguments of JavaAdmin.java."""
    first = [topic, 0]
    new = {"name": "n", "partitions": 1, "replicas": 1}
    made = new | {"name": topic, "partitions": 2, "config": {"retention.ms": "1000"}}
    wrong: list[dict[str, Any]] = [{"name": "a b"}, {"replicas": 9}, {"config": {"nope": "1"}}]
    changes = [("cleanup.policy", "APPEND", "compact"), ("retention.ms", "SET", "x"), ("retention.ms", "DELETE", None)]
    quotas: list[tuple[str, dict[str, Any]]] = [
        ("alterClientQuotas", {"changes": [[{"user": user}, {"producer_byte_rate": rate}]]})
        for rate in (1e9, -1.0, None)
    ]
    listed: dict[str, Any] = {"components": [["user", user]], "strict": True}
    return [
        *(("createTopics", {"topics": [each]}) for each in (made, made, *(new | each for each in wrong))),
        ("createTopics", {"topics": [{"name": "n", "assignment": [[9]]}]}),
        *(("createPartitions", {"counts": {topic: count}}) for count in (3, 1)),
        *(("incrementalAlterConfigs", {"changes": [["TOPIC", topic, *change]]}) for change in changes),
        ("describeConfigs", {"resources": [["TOPIC", topic]]}),
        ("describeTopics", {"topics": [topic, "not-there"]}),
        ("describeCluster", {}),
        *(("deleteRecords", {"offsets": [[*first, offset]]}) for offset in (1, -1)),
        ("describeLogDirs", {"brokers": [1]}),
        ("electLeaders", {"type": "PREFERRED", "partitions": [first]}),
        *(("alterPartitionReassignments", {"moves": [[*first, nodes]], "allows": True}) for nodes in ([9], None)),
        ("listPartitionReassignments", {}),
        *(step for quota in quotas for step in (quota, ("describeClientQuotas", listed))),
        *(("deleteTopics", {"topics": [name]}) for name in (topic, "not-there")),
    ]


# The parts of results that two clusters have in common.
_JAVA_RESULTS: dict[str, Callable[[Any], object]] = {
    "createTopics": lambda made: (made["numPartitions"], made["replicationFactor"]),
    "describeConfigs": lambda found: sorted((each["name"], each["value"]) for each in found["entries"]),
    "describeTopics": lambda found: len(found["partitions"]),
    "describeCluster": lambda found: len(found["nodes"]),
    "describeLogDirs": lambda found: sorted(
        name for each in found.values() for name in each["replicaInfos"] if ".four-" in name
    ),
}
