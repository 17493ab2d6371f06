"""Kafka's JSON form of messages: names, values, both directions, and refused forms."""

import gzip
import json
import math
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.errors import ProtocolError
from kafwire.protocol import MESSAGES, FetchRequest, FetchResponse, MetadataRequest, ProduceRequest
from kafwire.protocol.kafka_json import UNKNOWN_TAGGED_FIELDS, camel_case, from_json, snake_case, to_json
from tests.support import reference_messages as reference
from tests.support import seeds

MADE = json.loads(gzip.decompress((Path(__file__).parents[2] / "data" / "made.json.gz").read_bytes()))["vectors"]
BODIES = [
    vector
    for vector in MADE
    if vector["kind"] in {"request_body", "response_body"}
    and MESSAGES[vector["message"]].oldest_version <= vector["version"] <= MESSAGES[vector["message"]].max_version
]
VERSIONS = [
    pytest.param(MESSAGES[name], MESSAGES[name].max_version, id=f"{name}-v{MESSAGES[name].max_version}")
    for name in MESSAGES
]


@pytest.mark.parametrize(
    ("declared", "kafkas"),
    [
        ("topics", "topics"),
        ("throttle_time_ms", "throttleTimeMs"),
        ("isr_nodes", "isrNodes"),
        ("k_raft_version_feature", "kRaftVersionFeature"),
        ("replica_id", "replicaId"),
    ],
)
def test_names(declared: str, kafkas: str) -> None:
    assert camel_case(declared) == kafkas
    assert snake_case(kafkas) == declared
    assert snake_case(kafkas[0].upper() + kafkas[1:]) == declared


def without_what_java_drops(value: Any) -> Any:
    if isinstance(value, dict):
        kept = {key: inner for key, inner in value.items() if key != UNKNOWN_TAGGED_FIELDS}
        return {key: None if key == "records" else without_what_java_drops(inner) for key, inner in kept.items()}
    return [without_what_java_drops(element) for element in value] if isinstance(value, list) else value


@pytest.mark.parametrize("vector", BODIES, ids=[vector["id"] for vector in BODIES])
def test_messages_of_other_clients_have_javas_json(vector: dict[str, Any]) -> None:
    cls, version = MESSAGES[vector["message"]], vector["version"]
    message = cls.decode(bytes.fromhex(vector["hex"]), version)
    form = to_json(message, version)
    assert without_what_java_drops(form) == without_what_java_drops(vector["expect"])
    assert from_json(cls, json.loads(json.dumps(form)), version) == message


@pytest.mark.parametrize(("cls", "version"), VERSIONS)
@given(st.data())
@settings(max_examples=seeds.examples(2))
def test_any_message_comes_back_through_text(cls: Any, version: int, data: st.DataObject) -> None:
    message = data.draw(reference.messages(cls, version))
    text = json.dumps(to_json(message, version), allow_nan=False)
    assert from_json(cls, json.loads(text), version) == message


def test_only_fields_of_the_version() -> None:
    request = FetchRequest(max_wait_ms=500, topics=[FetchRequest.FetchTopic(topic="t", topic_id=UUID(int=5))])
    assert to_json(request, 12)["topics"] == [{"topic": "t", "partitions": []}]
    assert to_json(request, 13)["topics"] == [{"topicId": "AAAAAAAAAAAAAAAAAAAABQ", "partitions": []}]
    assert "clusterId" not in to_json(request, 12)  # tagged, at its default
    assert to_json(FetchRequest(cluster_id="c"), 12)["clusterId"] == "c"


def test_forms_of_records() -> None:
    partition = ProduceRequest.PartitionProduceData(index=1, records=b"\0\1\2")
    request = ProduceRequest(
        topic_data=[ProduceRequest.TopicProduceData(name="t", partition_data=[partition, partition])]
    )
    partition.records = b"\0\1\2"

    def shown(**options: Any) -> Any:
        return to_json(request, 9, **options)["topicData"][0]["partitionData"][0]

    assert shown() == {"index": 1, "records": "AAEC"}
    assert shown(records="size") == {"index": 1, "recordsSizeInBytes": 3}
    assert shown(records=lambda data: [len(data)]) == {"index": 1, "records": [3]}
    with pytest.raises(ProtocolError, match=r"recordsSizeInBytes is the size of the records; the records are needed"):
        from_json(ProduceRequest, to_json(request, 9, records="size"), 9)


def test_unknown_tagged_fields_are_kept_under_a_name_that_no_field_has() -> None:
    request = MetadataRequest(unknown_tagged_fields=((7, b"\0\1"), (9, b"")))
    form = to_json(request, 12)
    assert form[UNKNOWN_TAGGED_FIELDS] == [{"tag": 7, "data": "AAE="}, {"tag": 9, "data": ""}]
    assert from_json(MetadataRequest, form, 12) == request
    assert not any(camel_case(field.name).startswith("_") for name in MESSAGES for field in MESSAGES[name].__fields__)


@pytest.mark.parametrize("value", [math.inf, -math.inf, 1.5, 0.0])
def test_numbers_without_a_json_form(value: float) -> None:
    cls: Any = MESSAGES["DescribeClientQuotasResponse"]
    response = cls(entries=[cls.EntryData(values=[cls.ValueData(key="k", value=value)])])
    assert from_json(cls, json.loads(json.dumps(to_json(response, 1), allow_nan=False)), 1) == response


def test_a_value_that_the_version_cannot_say_is_refused() -> None:
    with pytest.raises(ProtocolError, match=r"replicaState: the version lacks this field.*FetchRequest version 12"):
        to_json(FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=3)), 12)
    with pytest.raises(ProtocolError, match=r"topics: null is not allowed.*MetadataRequest version 0"):
        to_json(MetadataRequest(topics=None), 0)
    with pytest.raises(ProtocolError, match="version 99 does not exist"):
        to_json(MetadataRequest(), 99)
    with pytest.raises(ProtocolError, match=r"topics\[0\]: a str is not a struct"):
        to_json(MetadataRequest(topics=["t"]), 0)  # type: ignore[list-item]


FETCH: dict[str, Any] = to_json(
    FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(topic="t", partitions=[FetchResponse.PartitionData()])]
    ),
    11,
)


def changed(path: str, value: Any = ...) -> Any:
    """FETCH with one value replaced, or removed."""
    form = json.loads(json.dumps(FETCH))
    place = form
    *steps, last = path.split("/")
    for step in steps:
        place = place[int(step) if step.isdigit() else step]
    if value is ...:
        del place[last]
    else:
        place[last] = value
    return form


P = "responses/0/partitions/0"


@pytest.mark.parametrize(
    ("form", "message"),
    [
        ([], "the message: expected an object, not an array"),
        (changed("sessionId"), "the message: the field sessionId is missing"),
        (changed(f"{P}/errorCode"), r"responses\[0\]\.partitions\[0\]: the field errorCode is missing"),
        (changed("sesionId", 1), r"there is no field sesionId; did you mean sessionId\?"),
        (changed("zzz", 1), r"there is no field zzz; there are throttleTimeMs, errorCode, sessionId, responses"),
        (changed("nodeEndpoints", []), "the field nodeEndpoints is not in this version, only in 16 to"),
        (changed("responses", None), "responses: null is not allowed"),
        (changed("responses", {}), "responses: expected an array, not an object"),
        (changed("responses/0/topic", 5), r"responses\[0\]\.topic: expected a string, not 5"),
        (changed("errorCode", 40000), "errorCode: 40000 is not between -32768 and 32767, the limits of int16"),
        (changed("errorCode", 10**60), "errorCode: an integer of more than 128 bits is not between"),
        (changed("errorCode", True), "errorCode: expected an integer, not true"),
        (changed("errorCode", 1.0), "errorCode: expected an integer, not a fraction"),
        (changed(f"{P}/records", "%%"), r"responses\[0\]\.partitions\[0\]\.records: not base64"),
        (changed(f"{P}/records", "é"), r"records: not base64"),
        (changed("_unknownTaggedFields", {}), "_unknownTaggedFields: expected an array, not an object"),
        (changed("_unknownTaggedFields", [1]), r'_unknownTaggedFields\[0\]: expected an object with "tag" and "data"'),
    ],
)
def test_a_form_that_is_no_message_is_refused_with_its_place(form: Any, message: str) -> None:
    with pytest.raises(ProtocolError, match=message) as caught:
        from_json(FetchResponse, form, 11)
    assert (caught.value.api, caught.value.version) == ("FetchResponse", 11)


@pytest.mark.parametrize(
    ("value", "message"),
    [("AAAA", "expected a UUID"), ("!" * 22, "expected a UUID"), (None, "null is not allowed"), (3, "not 3")],
)
def test_values_that_are_no_uuid(value: Any, message: str) -> None:
    form = to_json(FetchRequest(topics=[FetchRequest.FetchTopic()]), 13)
    form["topics"][0]["topicId"] = value
    with pytest.raises(ProtocolError, match=message):
        from_json(FetchRequest, form, 13)


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ([{"tag": 9, "data": ""}, {"tag": 9, "data": ""}], "tag 9 is there twice"),
        ([{"tag": 0, "data": ""}], "tag 0 is that of a declared field"),
        ([{"tag": -1, "data": ""}], "tag: -1 is not between 0"),
        ([{"tag": 9, "data": 1}], "data: expected base64 in a string, not 1"),
    ],
)
def test_unknown_tagged_fields_that_cannot_be(entries: Any, message: str) -> None:
    form = {**to_json(FetchRequest(), 12), UNKNOWN_TAGGED_FIELDS: entries}
    with pytest.raises(ProtocolError, match=message):
        from_json(FetchRequest, form, 12)
