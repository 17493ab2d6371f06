"""Requests that change nothing, in every version that a real broker serves: it responds, and the response decodes."""

from collections.abc import Iterator

import pytest

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.protocol import (
    MESSAGES,
    ApiVersionsRequest,
    ApiVersionsResponse,
    CreateTopicsRequest,
    DeleteTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    InitProducerIdRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
    Request,
    Response,
)
from kafwire.testing.cluster import KafkaCluster
from tests.support import seeds
from tests.support.broker.raw_connection import RawConnection, harmless
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
