"""The fuzzer's finds: each rule broken and kept, the judge's verdicts, and how finds are made smaller."""

import struct
from typing import Any
from uuid import UUID

import pytest

from kafwire import protocol
from kafwire.protocol import MESSAGES
from kafwire.records import encode_batch
from kafwire.testing.fuzzer import case as cases
from kafwire.testing.fuzzer import damage, execute, judge, rules
from kafwire.testing.fuzzer.case import Bind, Case, Step
from kafwire.testing.fuzzer.damage import Damage
from kafwire.testing.fuzzer.execute import Exchange, Transcript
from kafwire.testing.fuzzer.shrink import features, shrink
from kafwire.testing.fuzzer.world import World

RANGES = {18: (0, 4), 3: (0, 13)}
WORLD = World(ranges=RANGES)


def build(cls: Any, fields: dict[str, Any]) -> Any:
    """A message from plain dicts and lists."""
    kinds = {field.name: field for field in cls.__fields__}
    made: dict[str, Any] = {}
    for name, value in fields.items():
        struct_class = kinds[name].struct
        if struct_class is None or value is None:
            made[name] = value
        elif isinstance(value, list):
            made[name] = [build(struct_class, each) for each in value]
        else:
            made[name] = build(struct_class, value)
    return cls(**made)


def broken(api: str, request: dict[str, Any], response: dict[str, Any], version: int) -> list[str]:
    asked, responded = build(MESSAGES[f"{api}Request"], request), build(MESSAGES[f"{api}Response"], response)
    return [rule.name for rule, _ in rules.broken(api, asked, responded, version, WORLD)]


def groups(*names: str) -> dict[str, Any]:
    return {"groups": [{"group_id": name} for name in names]}


def fetched(**fields: Any) -> dict[str, Any]:
    return {"responses": [{"topic": "t", "partitions": [{"partition_index": 0, **fields}]}]}


def metadata(**fields: Any) -> dict[str, Any]:
    part = {"partition_index": 0, "leader_id": 1, "replica_nodes": [1, 2], "isr_nodes": [1]}
    topics = [{"name": "t", "partitions": [part | fields]}]
    return {"brokers": [{"node_id": 1}], "topics": topics}


def versions(**fields: Any) -> dict[str, Any]:
    keys = [{"api_key": 18, "min_version": 0, "max_version": 4}, {"api_key": 3, "min_version": 0, "max_version": 13}]
    return {"api_keys": keys} | fields


def joined(**fields: Any) -> dict[str, Any]:
    own = {"generation_id": 1, "member_id": "m", "leader": "m", "protocol_name": "range"}
    return own | {"members": [{"member_id": "m"}]} | fields


def produced(**fields: Any) -> dict[str, Any]:
    return {"responses": [{"name": "t", "partition_responses": [{"index": 0, **fields}]}]}


PRODUCE = {"topic_data": [{"name": "t", "partition_data": [{"index": 0}]}]}
FETCH = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 0}]}]}
LATE_FETCH = {"topics": [{"topic": "t", "partitions": [{"partition": 0, "fetch_offset": 5}]}]}
ASKED = {"topics": [{"name": "t"}]}
JOIN = {"protocols": [{"name": "range"}]}
ACLS = {"creations": [{"principal": "a"}, {"principal": "b"}]}
OK: list[str] = []
ECHO, VALUE, RANGE, UNIQUE = ["echo"], ["value"], ["range"], ["unique"]
BATCH = encode_batch([b"a", b"b"])
NEXT = struct.pack(">q", 2) + BATCH[8:]

TABLE: list[tuple[str, dict[str, Any], dict[str, Any], int, list[str]]] = [
    # any API
    ("Heartbeat", {}, {"error_code": 25}, 3, OK),
    ("Heartbeat", {}, {"error_code": 4711}, 3, ["error-code"]),
    ("Heartbeat", {}, {"throttle_time_ms": -1}, 3, RANGE),
    ("Heartbeat", {}, {"throttle_time_ms": -1, "error_code": 25}, 3, RANGE),
    ("DescribeGroups", {"groups": ["a"]}, {"groups": [{"group_id": "a", "error_code": -3}]}, 4, ["error-code"]),
    # echo
    ("DescribeGroups", {"groups": ["a", "b"]}, groups("b", "a"), 4, OK),
    ("DescribeGroups", {"groups": ["a", "b"]}, groups("a"), 4, ECHO),
    ("DescribeGroups", {"groups": ["a"]}, groups("a", "b"), 4, ECHO),
    ("DescribeGroups", {"groups": ["a"]}, groups("a", "a"), 4, ECHO),
    ("DescribeGroups", {"groups": ["a", "a"]}, groups("a", "a"), 4, OK),
    ("ConsumerGroupDescribe", {"group_ids": ["a"]}, groups(), 0, ECHO),
    ("DescribeConfigs", {"resources": [{"resource_type": 2, "resource_name": "t"}]}, {}, 4, ECHO),
    ("FindCoordinator", {"coordinator_keys": ["a"]}, {"coordinators": [{"key": "b"}]}, 4, ["echo", "echo"]),
    ("OffsetFetch", {"topics": None}, {"topics": [{"name": "t"}]}, 2, OK),
    ("OffsetFetch", {"groups": [{"group_id": "a"}]}, {"error_code": 15}, 8, OK),
    ("ListPartitionReassignments", {"topics": [{"name": "t", "partition_indexes": [0]}]}, {}, 0, OK),
    ("ShareFetch", {"share_session_epoch": 0}, {"responses": [{"partitions": [{}]}]}, 1, ECHO),
    ("ShareFetch", {"share_session_epoch": 1}, {"responses": [{"partitions": [{}]}]}, 1, OK),
    # counts
    ("CreateAcls", ACLS, {"results": [{}, {}]}, 2, OK),
    ("CreateAcls", ACLS, {"results": [{}]}, 2, ["count"]),
    ("CreateAcls", {"creations": [{"principal": "a"}] * 2}, {"results": [{}]}, 2, OK),
    # once
    ("ListGroups", {}, groups("a", "b"), 3, OK),
    ("ListGroups", {}, groups("a", "a"), 3, UNIQUE),
    # numbers
    ("InitProducerId", {}, {"producer_id": 0, "producer_epoch": 0}, 3, OK),
    ("InitProducerId", {}, {"producer_id": -1, "producer_epoch": 0}, 3, RANGE),
    ("InitProducerId", {}, {"producer_id": 0, "producer_epoch": -1}, 3, RANGE),
    ("InitProducerId", {}, {"producer_id": -1, "producer_epoch": -1, "error_code": 14}, 3, OK),
    # fetch
    ("Fetch", FETCH, fetched(high_watermark=5, last_stable_offset=5, log_start_offset=0), 11, OK),
    ("Fetch", FETCH, fetched(high_watermark=5, last_stable_offset=-1, log_start_offset=-1), 11, OK),
    ("Fetch", FETCH, fetched(high_watermark=5, last_stable_offset=6, log_start_offset=0), 11, ["order"]),
    ("Fetch", FETCH, fetched(high_watermark=5, last_stable_offset=6, error_code=1), 11, OK),
    ("Fetch", FETCH, fetched(high_watermark=4, records=BATCH + NEXT), 3, OK),
    ("Fetch", FETCH, fetched(high_watermark=2, records=BATCH + NEXT), 3, OK),  # written since it was noted
    ("Fetch", FETCH, fetched(high_watermark=1, records=NEXT), 3, ["records"]),
    ("Fetch", FETCH, fetched(high_watermark=9, records=NEXT + BATCH), 3, ["records"]),
    ("Fetch", FETCH, fetched(high_watermark=9, records=BATCH + BATCH), 3, ["records"]),
    ("Fetch", FETCH, fetched(high_watermark=9, records=BATCH[:-1] + b"?"), 3, ["records"]),
    ("Fetch", FETCH, fetched(high_watermark=9, records=BATCH, error_code=1), 3, ["records"]),
    ("Fetch", LATE_FETCH, fetched(high_watermark=9, records=BATCH), 3, ["records"]),
    ("Fetch", FETCH, fetched(high_watermark=5, last_stable_offset=-1, log_start_offset=0), 11, OK),
    ("Produce", PRODUCE, produced(error_code=3, base_offset=-1), 8, OK),
    ("Produce", PRODUCE, produced(base_offset=-1), 8, RANGE),
    ("Fetch", FETCH, {}, 4, ECHO),
    ("Fetch", FETCH | {"session_epoch": 0}, {}, 7, ECHO),
    ("Fetch", FETCH | {"session_epoch": 1}, {}, 7, OK),
    # metadata
    ("Metadata", ASKED, metadata(), 8, OK),
    ("Metadata", ASKED, metadata(leader_id=7), 8, VALUE),
    ("Metadata", ASKED, metadata(leader_id=7, error_code=5), 8, OK),
    ("Metadata", ASKED, metadata(isr_nodes=[3]), 8, VALUE),
    ("Metadata", ASKED, metadata(replica_nodes=[1, 1]), 8, VALUE),
    ("Metadata", ASKED, metadata(partition_index=-1), 8, VALUE),
    ("Metadata", {"topics": [{"name": "u"}]}, metadata(), 8, ["echo", "echo"]),
    ("Metadata", {"topics": None}, metadata(), 8, OK),
    ("Metadata", {"topics": []}, metadata(), 0, OK),
    ("Metadata", {"topics": []}, metadata(), 1, ECHO),
    ("Metadata", {"topics": [{"name": None, "topic_id": UUID(int=5)}]}, {"brokers": []}, 12, ECHO),
    ("Metadata", {"topics": None}, {"brokers": [{"node_id": 1}] * 2}, 8, UNIQUE),
    # the versions
    ("ApiVersions", {}, versions(), 3, OK),
    ("ApiVersions", {}, {"api_keys": [{"api_key": 18, "min_version": 0, "max_version": 4}]}, 3, VALUE),
    (
        "ApiVersions",
        {},
        versions(api_keys=[{"api_key": 18, "min_version": 5, "max_version": 4}], error_code=1),
        3,
        VALUE,
    ),
    ("ApiVersions", {}, {"error_code": 35, "api_keys": [{"api_key": 18, "max_version": 4}]}, 0, OK),
    ("ApiVersions", {}, {"error_code": 35}, 0, VALUE),
    # groups
    ("JoinGroup", JOIN, joined(), 5, OK),
    ("JoinGroup", JOIN, joined(generation_id=-1), 5, VALUE),
    ("JoinGroup", JOIN, joined(member_id="", leader="x"), 5, VALUE),
    ("JoinGroup", JOIN, joined(protocol_name="other"), 5, VALUE),
    ("JoinGroup", JOIN, joined(members=[]), 5, VALUE),
    ("JoinGroup", JOIN, joined(generation_id=-1, error_code=25), 5, OK),
    ("JoinGroup", JOIN, joined(member_id="", error_code=79), 5, VALUE),
    (
        *("OffsetFetch", {"topics": [{"name": "t", "partition_indexes": [0]}]}),
        *({"topics": [{"name": "t", "partitions": [{"committed_offset": 5, "error_code": 3}]}]}, 2, VALUE),
    ),
    # pages
    ("DescribeTopicPartitions", ASKED, {"topics": [{"name": "u"}]}, 0, ECHO),
    (
        *("DescribeTopicPartitions", ASKED | {"response_partition_limit": 1}),
        *({"topics": [{"name": "t", "partitions": [{}, {}]}]}, 0, ECHO),
    ),
]


@pytest.mark.parametrize(("api", "request_fields", "response", "version", "expected"), TABLE)
def test_rules(
    api: str, request_fields: dict[str, Any], response: dict[str, Any], version: int, expected: list[str]
) -> None:
    assert broken(api, request_fields, response, version) == expected


# -- the judge

HEARTBEAT: Any = MESSAGES["HeartbeatRequest"]


def verdict(*exchanges: Exchange, damaged: bool = False, delivery: str = cases.TURNS) -> list[tuple[str, int]]:
    changes = (Damage(damage.CUT, amount=1),) if damaged else ()
    steps = tuple(Step("Heartbeat", 3, HEARTBEAT(), (), changes) for _ in exchanges)
    transcript = Transcript(Case(1, 0, cases.VALID, steps, delivery), list(exchanges))
    return [(found.rule, found.step) for found in judge.judge(transcript, WORLD)]


def exchange(step: int = 0, status: str = execute.RESPONDED, **fields: Any) -> Exchange:
    return Exchange(step, status, **({"asked_id": 1, "response_id": 1} | fields))


def test_verdicts_on_one_exchange() -> None:
    assert verdict(exchange()) == []
    assert verdict(exchange(status=execute.SILENT)) == [("hang", 0)]
    assert verdict(exchange(status=execute.SILENT), damaged=True) == [("hang", 0)]
    assert verdict(exchange(status=execute.CLOSED)) == [("closed", 0)]
    assert verdict(exchange(status=execute.CLOSED), damaged=True) == []
    assert verdict(exchange(status=execute.CLOSED), delivery=cases.HALF_CLOSED) == []
    assert verdict(exchange(status=execute.REFUSED)) == [("refused", 0)]
    assert verdict(exchange(status=execute.BAD_SIZE)) == [("bad-size", 0)]
    assert verdict(exchange(status=execute.WAITING)) == verdict(exchange(status=execute.NONE)) == []
    assert verdict(exchange(response_id=2)) == [("correlation", 0)]
    assert verdict(exchange(asked_id=None, response_id=2)) == []
    assert verdict(exchange(extra=1)) == [("unasked-answer", 0)]
    assert verdict(exchange(error="a response came (acks=0)")) == [("unasked-answer", 0)]
    assert verdict(exchange(error="bytes are left over")) == [("unreadable", 0)]


def test_a_failure_after_a_close_is_no_finding_of_its_own() -> None:
    assert verdict(exchange(0, execute.CLOSED), exchange(1, execute.CLOSED)) == [("closed", 0)]
    assert verdict(exchange(0), exchange(1, execute.SILENT)) == [("hang", 1)]


def test_rules_are_applied_only_to_the_right_response() -> None:
    response = build(MESSAGES["HeartbeatResponse"], {"error_code": 4711})
    read = {"api": "Heartbeat", "version": 3, "request": HEARTBEAT(), "response": response}
    assert verdict(exchange(**read)) == [("error-code", 0)]
    assert verdict(exchange(**read, response_id=2)) == [("correlation", 0)]


def test_a_shape_has_no_values_of_one_run() -> None:
    def shape(text: str) -> str:
        return judge.Violation("echo", 0, text, "").shape

    assert shape("leaves out ['a'] in 3 topics") == shape("leaves out ['b', 'c'] in 14 topics") != shape("twice ['a']")
    assert shape("is -5") == shape("is 7")


# -- made smaller

Metadata = protocol.MetadataRequest


def topics(*names: str) -> list[Any]:
    return [Metadata.MetadataRequestTopic(name=name) for name in names]


def test_a_case_shrinks_to_the_cause() -> None:
    request: Any = Metadata(topics=topics("a" * 64, "b"), include_topic_authorized_operations=True)
    request.unknown_tagged_fields = ((9, b"x"),)
    other = Step("Metadata", 9, Metadata(topics=topics("c")))
    changes = (Damage(damage.CUT, amount=1), Damage(damage.FLIP, amount=3))
    target = Step(
        "Metadata", 9, request, (Bind("topics[0].name", 0, "cluster_id"), Bind("topics[1].name", 1, "x")), changes
    )
    case = Case(1, 0, cases.ODD, (other, other, target), cases.SPLIT, (5, 9))

    def breaks(candidate: Case) -> bool:
        flips = [change for change in candidate.target.damage if change.op == damage.FLIP]
        return bool(flips and any(len(topic.name or "") > 8 for topic in candidate.target.message.topics or ()))  # type: ignore[attr-defined]

    small = shrink(case, breaks)
    assert breaks(small)
    assert (len(small.steps), small.delivery, small.pieces) == (1, cases.TURNS, ())
    assert [change.op for change in small.target.damage] == [damage.FLIP]
    assert small.target.binds == ()
    message: Any = small.target.message
    assert [len(topic.name) for topic in message.topics] == [16]
    assert not message.unknown_tagged_fields
    assert not message.include_topic_authorized_operations
    assert request.topics[0].name == "a" * 64, "the case itself is left alone"
    assert features(small) == ("flip",)
    assert features(small.with_steps((Step("Metadata", 9, small.target.message),)))[-1] == "topics.name"


def test_binds_follow_their_steps() -> None:
    step = Step("Heartbeat", 3, HEARTBEAT())
    bound = Step("Heartbeat", 3, HEARTBEAT(), (Bind("member_id", 1, "x"), Bind("group_id", 2, "y")))
    case = Case(1, 0, cases.VALID, (step, step, step, bound))
    small = shrink(case, lambda candidate: any(bind.target == "group_id" for bind in candidate.target.binds))
    assert [(bind.target, bind.step) for bind in small.target.binds] == [("group_id", 0)]
    assert len(small.steps) == 2
    assert not shrink(case, lambda candidate: len(candidate.steps) == len(case.steps)).target.binds


def test_shrinking_ends() -> None:
    case = Case(1, 0, cases.VALID, (Step("Metadata", 9, Metadata(topics=topics("a", "b", "c"))),))
    tried: list[Case] = []

    def never(candidate: Case) -> bool:
        tried.append(candidate)
        return False

    shrink(case, never, attempts=3)
    assert len(tried) == 3
    assert shrink(case, lambda _: True, seconds=-1.0) is case


# -- damage


def test_each_damage_has_its_described_effect() -> None:
    def done(*changes: Damage, frame: bytes = b"abcd") -> bytes:
        return damage.apply(frame, [], changes)

    assert done() == b"\0\0\0\4abcd"
    assert done(Damage(damage.CUT, amount=1)) == b"\0\0\0\3abc"
    assert done(Damage(damage.CUT, amount=9)) == b"\0\0\0\0"
    assert done(Damage(damage.APPEND, data=b"xy")) == b"\0\0\0\6abcdxy"
    assert done(Damage(damage.FLIP, amount=9)) == b"\0\0\0\4a`cd"
    assert done(Damage(damage.FLIP, amount=9 + 32)) == b"\0\0\0\4a`cd"
    assert done(Damage(damage.FLIP, amount=12)) == b"\0\0\0\4arcd"
    assert done(Damage(damage.DELETE, amount=5)) == b"\0\0\0\3acd"
    assert done(Damage(damage.INSERT, amount=4, data=b"x")) == b"\0\0\0\5abcdx"
    assert done(Damage(damage.INSERT, amount=5, data=b"x")) == b"\0\0\0\5xabcd"
    assert done(Damage(damage.SIZE, amount=-2)) == b"\0\0\0\2abcd"
    assert done(Damage(damage.SIZE, amount=2), Damage(damage.CUT, amount=1)) == b"\0\0\0\5abc"
    assert done(Damage(damage.SIZE, "absolute", amount=-1)) == b"\xff\xff\xff\xffabcd"
    assert done(Damage(damage.SIZE, "absolute", amount=1 << 40)) == b"\x7f\xff\xff\xffabcd"
    assert done(Damage(damage.FLIP), Damage(damage.DELETE), frame=b"") == b"\0\0\0\0"


def test_damage_is_written_and_read() -> None:
    for change in (
        Damage(damage.SET, "body.topics", "count", b"\0\1"),
        Damage(damage.CUT, amount=3),
        Damage(damage.INSERT, data=b"x", amount=2),
        Damage(damage.SIZE, "absolute", amount=-1),
    ):
        assert Damage.from_json(change.to_json()) == change
    assert Damage(damage.SET, "body.topics", "count").shape == "set count"
    assert Damage(damage.SIZE, "absolute").shape == "size absolute"


def test_varints_are_shortest() -> None:
    assert [damage.varint(value) for value in (0, 127, 128, 300)] == [b"\0", b"\x7f", b"\x80\1", b"\xac\2"]
