"""Requests that change nothing, in every version that a real broker serves: it responds, and the response decodes."""

import socket
from collections.abc import Iterator
from uuid import UUID

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol import (
    MESSAGES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeAclsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetFetchRequest,
    ProduceRequest,
    Request,
    Response,
)
from kafwire.testing.cluster import KafkaCluster
from tests.support import seeds
from tests.support.kafka_versions import CLUSTERS

UNKNOWN_TOPIC = {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
REQUESTS: tuple[type[Request[Response]], ...] = (
    *(ApiVersionsRequest, CreateTopicsRequest, DeleteTopicsRequest, DescribeConfigsRequest, FetchRequest),
    *(InitProducerIdRequest, ListOffsetsRequest, MetadataRequest, ProduceRequest),
)
READING = ("Describe", "Fetch", "Find", "Get", "List", "Read")
"""How the names of APIs begin that change nothing; besides these: """
READING_TOO = {"ApiVersions", "ConsumerGroupDescribe", "Metadata", "OffsetFetch", "OffsetForLeaderEpoch"}
READING_TOO |= {"ShareGroupDescribe", "StreamsGroupDescribe"}


class RawConnection:
    """A socket that asks one thing at a time."""

    def __init__(self, bootstrap: str) -> None:
        host, _, port = bootstrap.partition(",")[0].rpartition(":")
        self.socket = socket.create_connection((host, int(port)), timeout=30)
        self.correlation_id = 0

    def ask(self, request: Request[Response], version: int) -> Response:
        self.correlation_id += 1
        frame = protocol.encode_request(request, version, self.correlation_id, "kafwire-test")
        self.socket.sendall(len(frame).to_bytes(4, "big") + frame)
        frame = self.read(int.from_bytes(self.read(4), "big"))
        correlation_id, response = protocol.decode_response(type(request), frame, version)
        assert correlation_id == self.correlation_id
        assert response.encode(version) == frame[-len(response.encode(version)) :]
        return response

    def read(self, size: int) -> bytes:
        data = b""
        while len(data) < size:
            part = self.socket.recv(size - len(data))
            assert part, "the broker closed the connection"
            data += part
        return data


@pytest.fixture(params=seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def connection(request: pytest.FixtureRequest) -> Iterator[RawConnection]:
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    opened = RawConnection(cluster.bootstrap)
    yield opened
    opened.socket.close()


def served(connection: RawConnection) -> dict[type[Request[Response]], range]:
    """The APIs that the broker advertises, in the declared versions."""
    response = connection.ask(ApiVersionsRequest(client_software_name="kafwire", client_software_version="0"), 3)
    assert isinstance(response, ApiVersionsResponse)
    classes = {cls.api_key: cls for cls in MESSAGES.values() if issubclass(cls, Request)}
    found = {}
    for api in response.api_keys:
        cls = classes[api.api_key]
        found[cls] = range(max(api.min_version, cls.min_version), min(api.max_version, cls.max_version) + 1)
    return found


def harmless(cls: type[Request[Response]], version: int) -> Request[Response]:
    """A request that changes nothing, about a topic that is not there."""
    name, topic_id = ("", UUID(int=5)) if version >= 13 else ("no-such-topic", UUID(int=0))
    if cls is FetchRequest:
        partition = FetchRequest.FetchPartition(partition_max_bytes=1000)
        topic = FetchRequest.FetchTopic(topic=name, topic_id=topic_id, partitions=[partition])
        return FetchRequest(topics=[topic], max_bytes=1000)
    if cls is ProduceRequest:
        data = ProduceRequest.PartitionProduceData(records=b"")
        produced = ProduceRequest.TopicProduceData(name=name, topic_id=topic_id, partition_data=[data])
        return ProduceRequest(acks=1, timeout_ms=1000, topic_data=[produced])
    if cls is ListOffsetsRequest:
        wanted = ListOffsetsRequest.ListOffsetsPartition(timestamp=-1)
        listed = ListOffsetsRequest.ListOffsetsTopic(name="no-such-topic", partitions=[wanted])
        return ListOffsetsRequest(replica_id=-1, topics=[listed])
    if cls is MetadataRequest:
        asked = MetadataRequest.MetadataRequestTopic(name="no-such-topic")
        return MetadataRequest(topics=[asked], allow_auto_topic_creation=version < 4)
    if cls is CreateTopicsRequest:
        new = CreateTopicsRequest.CreatableTopic(name="made", num_partitions=2, replication_factor=1)
        return CreateTopicsRequest(topics=[new], validate_only=True)
    if cls is DeleteTopicsRequest:
        if version < 6:
            return DeleteTopicsRequest(topic_names=["no-such-topic"], timeout_ms=30000)
        doomed = DeleteTopicsRequest.DeleteTopicState(name="no-such-topic")
        return DeleteTopicsRequest(topics=[doomed], timeout_ms=30000)
    if cls is DescribeConfigsRequest:
        broker = DescribeConfigsRequest.DescribeConfigsResource(
            resource_type=4, resource_name="1", configuration_keys=None
        )
        return DescribeConfigsRequest(resources=[broker], include_synonyms=True, include_documentation=version >= 3)
    if cls is InitProducerIdRequest:
        return InitProducerIdRequest(transactional_id=None, transaction_timeout_ms=60000)
    if cls is ApiVersionsRequest:
        return ApiVersionsRequest(client_software_name="kafwire", client_software_version="0")
    if cls is DescribeAclsRequest:  # of all kinds; 0 is none, and closes the connection
        return DescribeAclsRequest(resource_type_filter=1, operation=1, permission_type=1)
    if cls is OffsetFetchRequest and version >= 8:  # Kafka 3.9 never responds to a request without a group
        group = OffsetFetchRequest.OffsetFetchRequestGroup(group_id="no-such-group", topics=None)
        return OffsetFetchRequest(groups=[group])
    return cls()


@pytest.mark.parametrize("cls", REQUESTS, ids=lambda cls: cls.name)
def test_every_served_version(connection: RawConnection, cls: type[Request[Response]]) -> None:
    versions = served(connection)[cls]
    assert len(versions) > 0
    for version in versions:
        response = connection.ask(harmless(cls, version), version).to_dict()
        if cls is FetchRequest:
            code = response["responses"][0]["partitions"][0]["error_code"]
        elif cls is ProduceRequest:
            code = response["responses"][0]["partition_responses"][0]["error_code"]
        elif cls is ListOffsetsRequest:
            code = response["topics"][0]["partitions"][0]["error_code"]
        elif cls is MetadataRequest:
            code = response["topics"][0]["error_code"]
        elif cls is DeleteTopicsRequest:
            code = response["responses"][0]["error_code"]
        elif cls is CreateTopicsRequest:
            assert response["topics"][0]["error_code"] == 0
            continue
        elif cls is DescribeConfigsRequest:
            assert response["results"][0]["error_code"] == 0
            assert len(response["results"][0]["configs"]) > 100
            continue
        else:
            assert response["error_code"] in ({0, 14} if cls is InitProducerIdRequest else {0})  # 14: still loading
            continue
        assert code in UNKNOWN_TOPIC, version


def test_every_version_of_every_api_that_only_reads(
    connection: RawConnection, capsys: pytest.CaptureFixture[str]
) -> None:
    """`ask` compares the response with the re-encoded message; the broker's verdict on the request does not matter."""
    asked = set()
    for cls, versions in served(connection).items():
        name = cls.name.removesuffix("Request")
        if not name.startswith(READING) and name not in READING_TOO:
            continue
        for version in versions:
            connection.ask(harmless(cls, version), version)
            asked.add((name, version))
    with capsys.disabled():
        print(f"\nasked a broker {len(asked)} versions of {len({name for name, _ in asked})} APIs that only read")
    assert len({name for name, _ in asked}) >= 22


def test_a_version_of_api_versions_that_no_broker_has(connection: RawConnection) -> None:
    """KIP-511: the response names the range that is served."""
    frame = protocol.encode_request(ApiVersionsRequest(), 4, 9, None)
    frame = frame[:2] + (1000).to_bytes(2, "big") + frame[4:]
    connection.socket.sendall(len(frame).to_bytes(4, "big") + frame)
    frame = connection.read(int.from_bytes(connection.read(4), "big"))
    correlation_id, response = protocol.decode_response(ApiVersionsRequest, frame, 4)
    assert correlation_id == 9
    assert response.error_code == 35
    (api,) = response.api_keys
    assert (api.api_key, api.min_version) == (18, 0)
    assert api.max_version >= 3
