"""Message classes as users meet them: construction, comparison, errors that name the field, headers, records."""

import copy
import gc
import pickle
import random
import subprocess
import sys
import tracemalloc
from typing import Any
from uuid import UUID

import pytest

from kafwire import protocol
from kafwire.errors import ProtocolError
from kafwire.memory._buffer import Buffer
from kafwire.protocol import (
    MESSAGES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    DescribeConfigsResponse,
    FetchRequest,
    FetchResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    MetadataResponse,
    ProduceRequest,
    ProduceResponse,
    RequestHeader,
)
from kafwire.protocol.spec import Data, Message, Request, Struct, Versions, field, int32, uint16, uint32
from tests.support import seeds

Topic = MetadataRequest.MetadataRequestTopic
Partition = MetadataResponse.MetadataResponsePartition


# --- objects ---


def test_defaults_are_kafkas() -> None:
    request = FetchRequest()
    assert request.max_bytes == 0x7FFFFFFF
    assert request.session_epoch == -1
    assert request.cluster_id is None
    assert request.topics == []
    assert request.replica_state == FetchRequest.ReplicaState(replica_id=-1, replica_epoch=-1)
    assert FetchRequest.FetchPartition().high_watermark == 2**63 - 1
    assert MetadataRequest().topics == []
    assert MetadataRequest().allow_auto_topic_creation is True
    assert FetchResponse.PartitionData().records is None
    assert FetchRequest.FetchTopic().topic_id == UUID(int=0)


def test_defaults_are_not_shared() -> None:
    one, other = FetchRequest(), FetchRequest()
    one.topics.append(FetchRequest.FetchTopic())
    one.replica_state.replica_id = 7
    assert other.topics == []
    assert other.replica_state.replica_id == -1
    decoded = FetchRequest.decode(other.encode(15), 15)
    decoded.replica_state.replica_id = 9
    assert FetchRequest.decode(other.encode(15), 15).replica_state.replica_id == -1


def test_slots_and_keywords_only() -> None:
    request: Any = MetadataRequest()
    with pytest.raises(AttributeError):
        request.topic = []
    with pytest.raises(TypeError, match="MetadataRequest has no field 'topic'; it has"):
        bad(MetadataRequest, topic=[])
    with pytest.raises(TypeError):
        MetadataRequest([])  # type: ignore[call-arg, arg-type]
    assert not hasattr(request, "__dict__")


def test_equality_and_repr() -> None:
    one = MetadataRequest(topics=[Topic(name="a")])
    assert one == MetadataRequest(topics=[Topic(name="a")])
    assert one != MetadataRequest(topics=[Topic(name="b")])
    assert one != MetadataRequest(topics=[Topic(name="a")], unknown_tagged_fields=((9, b""),))
    assert one != Topic(name="a")
    assert one != "a"
    assert repr(one).startswith(
        "MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic("
        "topic_id=UUID('00000000-0000-0000-0000-000000000000'), name='a')], allow_auto_topic_creation=True"
    )
    with pytest.raises(TypeError, match="unhashable"):
        hash(one)
    large = ProduceRequest.PartitionProduceData(records=memoryview(bytes(1000)))
    assert repr(large) == "ProduceRequest.PartitionProduceData(index=0, records=<1000 bytes>)"


def test_copy_and_pickle() -> None:
    message = ProduceRequest(topic_data=[topic_data(memoryview(b"abc"))], unknown_tagged_fields=((5, b"x"),))
    for twin in (copy.deepcopy(message), pickle.loads(pickle.dumps(message))):
        assert twin == message
        assert twin is not message
        assert twin.topic_data[0].partition_data[0] is not message.topic_data[0].partition_data[0]


def test_deleted_field() -> None:
    request = MetadataRequest()
    del request.topics
    assert "topics=<not set>" in repr(request).replace("'", "")
    with pytest.raises(ProtocolError, match="topics: the field is not set"):
        request.encode(1)
    with pytest.raises(AttributeError):
        _ = request == MetadataRequest()


def test_dictionaries() -> None:
    message = MetadataResponse(topics=[MetadataResponse.MetadataResponseTopic(name="t", partitions=[Partition()])])
    plain = message.to_dict()
    assert plain["topics"][0]["partitions"][0]["isr_nodes"] == []
    assert plain["topics"][0]["topic_id"] == UUID(int=0)
    assert "unknown_tagged_fields" not in plain
    assert MetadataResponse.from_dict(plain) == message
    assert MetadataResponse.from_dict({}) == MetadataResponse()
    assert ProduceRequest(topic_data=[topic_data(memoryview(b"ab"))]).to_dict()["topic_data"][0]["partition_data"] == [
        {"index": 0, "records": b"ab"}
    ]
    strange = MetadataRequest(topics=None, unknown_tagged_fields=((7, b"x"),))
    assert strange.to_dict()["unknown_tagged_fields"] == {7: b"x"}
    assert MetadataRequest.from_dict(strange.to_dict()) == strange


@pytest.mark.parametrize(
    ("values", "text"),
    [
        ({"topic": []}, "MetadataRequest has no field 'topic'"),
        ({"topics": [{"named": 1}]}, r"MetadataRequest.topics\[0\] has no field 'named'"),
        ({"topics": [7]}, r"MetadataRequest.topics\[0\]: expected a mapping, not int"),
        ({"topics": {"name": "a"}}, "MetadataRequest.topics: expected a list, not dict"),
        ([], "expected a mapping, not list"),
    ],
)
def test_bad_dictionaries(values: Any, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        MetadataRequest.from_dict(values)


# --- encoding: values that have no form ---


def bad(cls: Any, **fields: Any) -> Any:
    """A message with values that a type checker would not let through."""
    return cls(**fields)


def topic_data(records: Any) -> ProduceRequest.TopicProduceData:
    partition = ProduceRequest.PartitionProduceData(records=records)
    return ProduceRequest.TopicProduceData(partition_data=[partition])


@pytest.mark.parametrize(
    ("message", "version", "text"),
    [
        (bad(MetadataRequest, topics=None), 0, "topics: None is not allowed here in this version"),
        (
            bad(MetadataRequest, topics=[bad(Topic, name=None)]),
            9,
            r"topics\[0\].name: None is not allowed here in this version",
        ),
        (bad(MetadataRequest, topics="abc"), 1, "topics: expected a list, not str"),
        (
            bad(MetadataRequest, topics=[{"name": "a"}]),
            1,
            r"topics\[0\]: expected MetadataRequest.MetadataRequestTopic, not d",
        ),
        (bad(MetadataRequest, topics=[Topic(), None]), 1, r"topics\[1\]: None is not allowed inside an array"),
        (bad(MetadataRequest, topics=[bad(Topic, name=b"a")]), 1, r"topics\[0\].name: expected a str, not bytes"),
        (
            bad(MetadataRequest, topics=[bad(Topic, name="\ud800")]),
            1,
            r"topics\[0\].name: the text has a lone surrogate",
        ),
        (
            bad(MetadataRequest, topics=[bad(Topic, name="x" * 32768)]),
            1,
            r"topics\[0\].name: 32768 bytes; 32767 is the most",
        ),
        (
            bad(MetadataRequest, topics=[bad(Topic, name="x" * 32768)]),
            12,
            r"topics\[0\].name: 32768 bytes; 32767 is the most",
        ),
        (
            bad(MetadataRequest, topics=[bad(Topic, topic_id="a")]),
            12,
            r"topics\[0\].topic_id: expected a uuid.UUID, not str",
        ),
        (bad(MetadataRequest, allow_auto_topic_creation=1), 4, "allow_auto_topic_creation: expected a bool, not int"),
        (bad(ProduceRequest, acks=40000), 3, "acks: 40000 is outside -32768 to 32767"),
        (bad(ProduceRequest, acks=10**30), 3, "acks: 10+ is outside"),
        (bad(ProduceRequest, acks=1.0), 3, "acks: expected an int, not float"),
        (bad(ProduceRequest, acks=None), 3, "acks: expected an int, not NoneType"),
        (
            bad(ProduceRequest, topic_data=[topic_data("abc")]),
            3,
            r"topic_data\[0\].partition_data\[0\].records: expected byt",
        ),
        (
            bad(ProduceRequest, topic_data=[topic_data(memoryview(b"abcd")[::2])]),
            3,
            "records: expected contiguous bytes",
        ),
        (bad(FetchRequest, replica_state=None), 15, "replica_state: None is not allowed here in this version"),
        (bad(FetchRequest, unknown_tagged_fields=((1, b""),)), 15, "unknown_tagged_fields: tag 1 is"),
        (bad(FetchRequest, unknown_tagged_fields=((9, b""), (8, b""))), 15, "unknown_tagged_fields: tag 8 is"),
        (bad(FetchRequest, unknown_tagged_fields=((2**31 - 1, b""),)), 15, "unknown_tagged_fields: tag 2147483647 is"),
        (bad(FetchRequest, unknown_tagged_fields=((9, 5),)), 15, "unknown_tagged_fields must be"),
        (bad(FetchRequest, unknown_tagged_fields=("ab",)), 15, "unknown_tagged_fields must be"),
    ],
)
def test_values_without_a_form(message: Message, version: int, text: str) -> None:
    with pytest.raises(ProtocolError, match=text) as caught:
        message.encode(version)
    assert caught.value.api == type(message).__name__
    assert caught.value.version == version


def test_index_types_are_numbers() -> None:
    class Number:
        def __index__(self) -> int:
            return 7

    request: Any = bad(ListOffsetsRequest, replica_id=Number())
    assert ListOffsetsRequest.decode(request.encode(1), 1).replica_id == 7


def test_a_uuid_of_the_wrong_size() -> None:
    class Odd(UUID):
        @property
        def bytes(self) -> bytes:
            return b"short"

    with pytest.raises(ProtocolError, match="topic_id: a UUID whose bytes are not 16 bytes"):
        MetadataRequest(topics=[Topic(topic_id=Odd(int=1))]).encode(12)


@pytest.mark.parametrize(
    ("message", "lacking", "having"),
    [
        (MetadataRequest(allow_auto_topic_creation=False), 3, 4),
        (MetadataRequest(include_cluster_authorized_operations=True), 11, 10),
        (FetchRequest(forgotten_topics_data=[FetchRequest.ForgottenTopic()]), 6, 7),
        (bad(FetchRequest, forgotten_topics_data=None), 6, None),
        (FetchRequest(replica_state=FetchRequest.ReplicaState(replica_id=1)), 14, 15),
        (DeleteTopicsRequest(topics=[DeleteTopicsRequest.DeleteTopicState()]), 5, 6),
        (InitProducerIdRequest(producer_id=5), 2, 3),
    ],
)
def test_value_that_a_version_lacks(message: Message, lacking: int, having: int | None) -> None:
    with pytest.raises(ProtocolError, match="so it cannot carry"):
        message.encode(lacking)
    if having is not None:
        assert type(message).decode(message.encode(having), having) == message


def test_ignorable_value_is_dropped() -> None:
    request = FetchRequest(rack_id="a", cluster_id="b", session_id=7)
    assert FetchRequest.decode(request.encode(4), 4) == FetchRequest()
    topic = Topic(name="a", topic_id=UUID(int=5))
    assert MetadataRequest.decode(MetadataRequest(topics=[topic]).encode(9), 9).topics == [Topic(name="a")]


@pytest.mark.parametrize("version", [-1, 14, 1000])
def test_version_that_does_not_exist(version: int) -> None:
    with pytest.raises(ProtocolError, match=f"version {version} does not exist; kafwire has 0 to 13"):
        MetadataRequest().encode(version)
    with pytest.raises(ProtocolError, match=f"version {version} does not exist"):
        MetadataResponse.decode(b"", version)


# --- decoding ---


def test_records_are_views_of_immutable_bytes() -> None:
    response = FetchResponse(
        responses=[FetchResponse.FetchableTopicResponse(partitions=[FetchResponse.PartitionData(records=b"x" * 100)])]
    )
    encoded = response.encode(12)

    def records(message: FetchResponse) -> Any:
        return message.responses[0].partitions[0].records

    for data in (encoded, Buffer(encoded), memoryview(encoded)):
        message = FetchResponse.decode(data, 12)
        assert isinstance(records(message), memoryview)
        assert message == response
        assert message.encode(12) == encoded
    whole = memoryview(encoded)
    assert records(FetchResponse.decode(whole, 12)).obj is whole.obj
    changing = bytearray(encoded)
    copied = records(FetchResponse.decode(changing, 12))
    changing[:] = bytes(len(changing))
    assert copied == b"x" * 100


def test_values_that_are_not_bytes() -> None:
    for data in ("text", None, 7, [1]):
        with pytest.raises(TypeError, match="MetadataRequest is decoded from bytes"):
            MetadataRequest.decode(data, 0)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cls", "version", "data", "offset", "text"),
    [
        (MetadataRequest, 1, "fffffffe", 4, "topics: an array of -2 elements"),
        (MetadataRequest, 0, "ffffffff", 4, "topics: null where null is not allowed"),
        (MetadataRequest, 1, "7fffffff00", 4, "topics: 2147483647 elements do not fit into 1 bytes"),
        (MetadataRequest, 9, "ffffffff0f000000", 5, "topics: 4294967294 elements do not fit into 3 bytes"),
        (MetadataRequest, 9, "ffffffff10000000", 5, "topics: a compact array's count takes more than 32 bits"),
        (MetadataRequest, 1, "000000010005616263", 6, r"topics\[0\].name: the length is 5 bytes, but 3 are left"),
        (MetadataRequest, 1, "00000001fffe", 6, r"topics\[0\].name: a length of -2"),
        (MetadataRequest, 1, "00000001ffff", 6, r"topics\[0\].name: null where null is not allowed"),
        (MetadataRequest, 1, "000000010002c328", 6, r"topics\[0\].name: a string that is not UTF-8"),
        (MetadataRequest, 12, "000100010180", 6, "the head of a tagged field runs past the end"),
        (MetadataRequest, 12, "00010005", 4, "5 tagged fields do not fit into 0 bytes"),
        (MetadataRequest, 12, "0001000205000500", 8, "tag 5 comes after tag 5"),
        (DeleteTopicsRequest, 1, "00000001ffff00000000", 6, r"topic_names\[0\]: null where null is not allowed"),
        (DescribeConfigsRequest, 1, "000000010200016100000001ffff", 14, r"configuration_keys\[0\]: null where null"),
    ],
)
def test_bytes_that_are_not_allowed(cls: type[Message], version: int, data: str, offset: int, text: str) -> None:
    with pytest.raises(ProtocolError, match=text) as caught:
        cls.decode(bytes.fromhex(data), version)
    assert caught.value.offset == offset


def test_long_compact_string() -> None:
    """A compact length could say more than Kafka lets a string have."""
    data = b"\x02" + b"\0" * 16 + b"\x81\x80\x02" + b"x" * 32768 + bytes(5)
    with pytest.raises(ProtocolError, match="a string of 32768 bytes; 32767 is the most"):
        MetadataRequest.decode(data, 12)


@pytest.mark.parametrize("size", [0, 1, 126, 127, 128, 129, 16_382, 16_383, 16_384])
def test_lengths_around_those_that_take_a_byte_more(size: int) -> None:
    """A compact length is one more than the bytes, in groups of seven bits."""
    message = protocol.SaslAuthenticateRequest(auth_bytes=bytes(size))
    data = message.encode(2)
    head = bytes([size + 1]) if size < 127 else bytes([(size + 1) & 127 | 128, (size + 1) >> 7])
    if size >= 16_383:
        head = bytes([(size + 1) & 127 | 128, (size + 1) >> 7 & 127 | 128, (size + 1) >> 14])
    assert data == head + bytes(size) + b"\0"
    assert protocol.SaslAuthenticateRequest.decode(data, 2) == message
    topics = [protocol.MetadataRequest.MetadataRequestTopic(name="x") for _ in range(size)]
    many = protocol.MetadataRequest(topics=topics)
    assert protocol.MetadataRequest.decode(many.encode(9), 9).topics == topics


def test_tagged_field_with_bytes_left_over() -> None:
    message = ApiVersionsResponse(finalized_features_epoch=5)
    data = bytearray(message.encode(3))
    at = data.index(bytes([1, 8]) + (5).to_bytes(8, "big"))
    data[at + 1] = 9
    data.insert(at + 10, 0)
    with pytest.raises(ProtocolError, match="finalized_features_epoch: 1 bytes are left over in tagged field 1"):
        ApiVersionsResponse.decode(data, 3)
    data[at + 1] = 7
    with pytest.raises(ProtocolError, match="finalized_features_epoch: a field of 8 bytes runs past the end"):
        ApiVersionsResponse.decode(data, 3)


def test_unknown_tagged_fields_are_kept_in_order() -> None:
    message = ApiVersionsResponse(
        finalized_features_epoch=5, zk_migration_ready=True, unknown_tagged_fields=((4, b"four"), (1000, b""))
    )
    assert ApiVersionsResponse.decode(message.encode(3), 3) == message
    with pytest.raises(ProtocolError, match="tag 2 is out of range or order, or a field"):
        ApiVersionsResponse(unknown_tagged_fields=((2, b""),)).encode(3)
    assert ApiVersionsResponse.decode(message.encode(2), 2) == ApiVersionsResponse()


def test_a_lying_count_takes_a_list_and_no_more() -> None:
    """1 MiB of bytes that announce 500,000 strings, of which the first is wrong already."""
    data = (500_000).to_bytes(4, "big") + b"\xff\xfe" + bytes(2**20)
    tracemalloc.start()
    with pytest.raises(ProtocolError):
        DeleteTopicsRequest.decode(data, 1)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 500_000 * 8 + 2**16


def test_the_collector_does_not_walk_decoded_messages() -> None:
    topic = MetadataResponse.MetadataResponseTopic(name="t", partitions=[Partition(isr_nodes=[1, 2])] * 1000)
    message = MetadataResponse.decode(MetadataResponse(topics=[topic]).encode(12), 12)
    partitions = message.topics[0].partitions
    for made in (message, message.brokers, message.topics, message.topics[0], partitions, partitions[0].isr_nodes):
        assert not gc.is_tracked(made)
    fetched = FetchResponse.decode(FetchResponse(responses=[FetchResponse.FetchableTopicResponse()]).encode(12), 12)
    assert not gc.is_tracked(fetched.responses[0])


def test_failing_decodes_leak_nothing() -> None:
    encoded = MetadataResponse(
        topics=[MetadataResponse.MetadataResponseTopic(name="t" * 50, partitions=[Partition(isr_nodes=[1000] * 9)])] * 9
    ).encode(12)

    def fail_everywhere() -> None:
        for size in range(0, len(encoded), 7):
            with pytest.raises(ProtocolError):
                MetadataResponse.decode(encoded[:size], 12)

    fail_everywhere()
    gc.collect()
    tracemalloc.start()
    before, _ = tracemalloc.get_traced_memory()
    for _ in range(3):
        fail_everywhere()
    gc.collect()
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert after - before < 4096


def large_metadata() -> MetadataResponse:
    return MetadataResponse(
        topics=[
            MetadataResponse.MetadataResponseTopic(
                name=f"topic-é-{i}",
                topic_id=UUID(int=i),
                partitions=[Partition(partition_index=j, isr_nodes=[1, 2, 3000]) for j in range(i % 7)],
            )
            for i in range(300)
        ]
    )


@pytest.mark.parametrize("version", [0, 8, 12])
def test_large_message(version: int) -> None:
    """Fields decoded at the first look are the same as fields decoded at once (from bytes that may change)."""
    encoded = large_metadata().encode(version)
    at_once = MetadataResponse.decode(bytearray(encoded), version)
    for look in (
        lambda message: message == at_once,
        lambda message: at_once == message,
        lambda message: message.encode(version) == encoded,
        lambda message: message.to_dict() == at_once.to_dict(),
        lambda message: repr(message) == repr(at_once),
        lambda message: pickle.loads(pickle.dumps(message)) == at_once,
    ):
        message = MetadataResponse.decode(encoded, version)
        assert look(message)
        assert look(message)
    message = MetadataResponse.decode(Buffer(encoded), version)
    assert isinstance(message.topics[6].partitions, list)
    assert message.topics[6].partitions is message.topics[6].partitions
    message.topics[6].partitions.clear()
    assert message.topics[6].partitions == []
    message.topics[13].partitions = []
    assert message.topics[13].partitions == []
    del message.topics[20].partitions
    with pytest.raises(AttributeError):
        _ = message.topics[20].partitions
    with pytest.raises(ProtocolError, match=r"topics\[20\].partitions: the field is not set"):
        message.encode(version)


def test_large_message_in_bytes_that_change() -> None:
    encoded = large_metadata().encode(12)
    changing = bytearray(encoded)
    message = MetadataResponse.decode(changing, 12)
    changing[:] = bytes(len(changing))
    assert message == MetadataResponse.decode(encoded, 12)


def test_text_inside_a_large_message_is_checked_at_once() -> None:
    config = DescribeConfigsResponse.DescribeConfigsResourceResult
    result = DescribeConfigsResponse.DescribeConfigsResult(configs=[config(name=f"name-{i:05}") for i in range(2000)])
    encoded = DescribeConfigsResponse(results=[result]).encode(4)
    assert DescribeConfigsResponse.decode(encoded, 4).results == [result]
    damaged = encoded.replace(b"name-01234", b"name-\xff1234")
    with pytest.raises(ProtocolError, match=r"results\[0\].configs\[1234\].name: a string that is not UTF-8"):
        DescribeConfigsResponse.decode(damaged, 4)


@pytest.mark.parametrize("version", [0, 8, 12])
def test_damaged_large_message(version: int) -> None:
    """Whatever is wrong with a large message shows when it is decoded, never later."""
    encoded = large_metadata().encode(version)
    seed = seeds.of_test()
    chance = random.Random(seed)
    refused = 0
    for _ in range(150):
        damaged = bytearray(encoded)
        damaged[chance.randrange(len(damaged))] = chance.choice((0, 0x7F, 0x80, 0xFF))
        outcomes: list[object] = []
        for data in (damaged, bytes(damaged)):
            try:
                outcomes.append(MetadataResponse.decode(data, version))
            except ProtocolError as error:
                outcomes.append(str(error))
        assert outcomes[0] == outcomes[1]
        refused += isinstance(outcomes[0], str)
    assert refused > 10


def test_records_of_a_large_message_are_views_too() -> None:
    partitions = [FetchResponse.PartitionData(partition_index=i, records=bytes([i]) * 5000) for i in range(20)]
    response = FetchResponse(responses=[FetchResponse.FetchableTopicResponse(partitions=partitions)])
    encoded = response.encode(12)
    decoded = FetchResponse.decode(encoded, 12)
    records: Any = decoded.responses[0].partitions[7].records
    assert isinstance(records, memoryview)
    assert records.obj is encoded
    assert decoded == response


class TaggedData(Data, versions="0", flexible="0+"):
    label: str = field("0+", tag=5)


def test_known_and_unknown_tags_are_written_in_order() -> None:
    message = TaggedData(label="a", unknown_tagged_fields=((3, b"x"), (9, b"y")))
    assert message.encode(0).hex() == "0303017805020261090179"
    assert TaggedData.decode(message.encode(0), 0) == message


# --- requests and responses ---


def test_attributes_of_an_api() -> None:
    assert HeartbeatRequest.api_key == 12
    assert HeartbeatRequest.name == "HeartbeatRequest"
    assert (HeartbeatRequest.min_version, HeartbeatRequest.max_version, HeartbeatRequest.flexible_from) == (0, 4, 4)
    assert HeartbeatRequest.response is HeartbeatResponse
    assert not HeartbeatRequest.latest_unstable
    assert InitProducerIdRequest.latest_unstable
    assert (InitProducerIdRequest.max_version, InitProducerIdRequest.max_stable_version) == (6, 5)


def test_messages_by_name() -> None:
    assert MESSAGES["FetchRequest"] is FetchRequest
    assert len(MESSAGES) == len(list(MESSAGES)) == len(set(MESSAGES))
    for name, cls in MESSAGES.items():
        assert cls.__name__ == name
        assert getattr(protocol, name) is cls
    with pytest.raises(KeyError):
        MESSAGES["NoSuchRequest"]
    with pytest.raises(AttributeError):
        protocol.NoSuchRequest  # type: ignore[attr-defined]  # noqa: B018
    assert set(protocol.__all__) <= set(dir(protocol))


def test_request_headers() -> None:
    assert protocol.encode_request_header(MetadataRequest, 8, 7, "me").hex() == "00030008000000070002" + b"me".hex()
    assert protocol.encode_request_header(MetadataRequest, 9, 7, None).hex() == "0003000900000007ffff00"
    request = MetadataRequest(topics=None)
    for version in (8, 9):
        header = protocol.encode_request_header(MetadataRequest, version, -1, "me")
        assert protocol.encode_request(request, version, -1, "me") == header + request.encode(version)
    with pytest.raises(ProtocolError, match="RequestHeader"):
        protocol.encode_request_header(MetadataRequest, 8, 2**31, "me")


def test_response_headers() -> None:
    body = ProduceResponse(throttle_time_ms=3)
    assert protocol.decode_response(ProduceRequest, b"\0\0\0\7" + body.encode(8), 8) == (7, body)
    assert protocol.decode_response(ProduceRequest, b"\0\0\0\7\0" + body.encode(9), 9) == (7, body)
    tagged = b"\0\0\0\7\1\x09\2ab" + body.encode(9)
    assert protocol.decode_response(ProduceRequest, Buffer(tagged), 9) == (7, body)
    with pytest.raises(ProtocolError) as caught:
        protocol.decode_response(ProduceRequest, b"\0\0\0", 9)
    assert caught.value.api == "ResponseHeader"
    with pytest.raises(ProtocolError, match="left over"):
        protocol.decode_response(ProduceRequest, b"\0\0\0\7\0" + body.encode(9) + b"\0", 9)


def test_api_versions_has_the_old_header() -> None:
    response = ApiVersionsResponse(api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, max_version=4)])
    assert protocol.decode_response(ApiVersionsRequest, b"\0\0\0\7" + response.encode(3), 3) == (7, response)


@pytest.mark.parametrize("body_version", [0, 4])
def test_refused_api_versions_carries_the_range(body_version: int) -> None:
    """KIP-511: the body is in version 0, whatever was asked."""
    response = ApiVersionsResponse(
        error_code=35, api_keys=[ApiVersionsResponse.ApiVersion(api_key=18, min_version=0, max_version=3)]
    )
    data = b"\0\0\0\7" + response.encode(body_version)
    assert protocol.decode_response(ApiVersionsRequest, data, 4) == (7, response)


def test_header_by_itself() -> None:
    header = RequestHeader(request_api_key=3, request_api_version=9, correlation_id=7, client_id="me")
    assert RequestHeader.decode(header.encode(2), 2) == header


# --- declaring ---


def test_versions() -> None:
    assert 3 in Versions.parse("3")
    assert 4 not in Versions.parse("3")
    assert [version for version in range(9) if version in Versions.parse("2-4")] == [2, 3, 4]
    assert 30000 in Versions.parse("2+")
    assert 1 not in Versions.parse("2+")
    assert not any(version in Versions.parse(None) for version in range(9))


class EveryTypeData(Data, versions="0-2", flexible="1+"):
    class Inner(Struct):
        number: int32 = field("0+", default=5)

    real: float = field("0+", default=0.5)
    small: uint16 = field("0+")
    medium: uint32 = field("0+")
    data: bytes | None = field("0+", nullable="1+", default=b"a")
    flags: list[bool] = field("0+")
    ids: list[UUID] | None = field("0+", nullable="0+", default=None)
    blobs: list[bytes] = field("0+")
    inner: Inner | None = field("0+", nullable="1+", default=None)


def test_types_that_few_messages_use() -> None:
    message = EveryTypeData(
        real=-1.5,
        small=65535,
        medium=2**32 - 1,
        data=None,
        flags=[True, False],
        ids=[UUID(int=1)],
        blobs=[b"", b"ab"],
        inner=EveryTypeData.Inner(number=6),
    )
    assert EveryTypeData.decode(message.encode(1), 1) == message
    message.inner = None
    assert message.encode(1).hex() == "bff8000000000000ffffffffffff0003010002" + UUID(int=1).hex + "0301036162ff00"
    assert EveryTypeData.decode(message.encode(1), 1) == message
    with pytest.raises(ProtocolError, match="data: None is not allowed here"):
        message.encode(0)
    message.data = b""
    with pytest.raises(ProtocolError, match="inner: None is not allowed here"):
        message.encode(0)
    with pytest.raises(ProtocolError, match="inner: a nullable struct is marked 2"):
        EveryTypeData.decode(message.encode(1)[:-2] + b"\2\0", 1)
    with pytest.raises(ProtocolError, match="small: -1 is outside 0 to 65535"):
        EveryTypeData(small=-1).encode(0)
    with pytest.raises(ProtocolError, match="real: expected a float, not str"):
        bad(EveryTypeData, real="1").encode(0)
    with pytest.raises(ProtocolError, match="real: the number is too large"):
        EveryTypeData(real=10**400).encode(0)
    with pytest.raises(ProtocolError, match="inner: None is not allowed here"):
        EveryTypeData().encode(0)


def test_declarations_that_make_no_sense() -> None:
    with pytest.raises(TypeError, match="is not a type of the protocol"):

        class Unknown(Data, versions="0"):
            number: int = field("0+")

    with pytest.raises(TypeError, match="must go together"):

        class Null(Data, versions="0"):
            text: str = field("0+", nullable="0+")

    with pytest.raises(TypeError, match="one type"):

        class Union(Data, versions="0"):
            text: str | bytes = field("0+")

    class Tagged(Data, versions="0"):
        text: str = field("0+", tag=0)

    with pytest.raises(TypeError, match="not a flexible one"):
        Tagged().encode(0)


def test_import_is_light() -> None:
    code = (
        "import sys, kafwire.protocol; assert 'kafwire.protocol._message' not in sys.modules;"
        "kafwire.protocol.FetchRequest;"
        "assert 'kafwire.protocol.api.metadata' not in sys.modules;"
        "assert not {'asyncio', 'ssl', 'pyarrow', 'pyspark', 'dataclasses_json'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_request_without_a_declared_response() -> None:
    assert not hasattr(Request, "response")
