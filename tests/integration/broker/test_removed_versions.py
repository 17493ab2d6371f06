"""The versions that Kafka 4 removed, as Kafka 3.9.1 serves them: every response decodes, and old records are read."""

from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.errors import ErrorCode
from kafwire.protocol import (
    MESSAGES,
    ApiVersionsRequest,
    CreateTopicsRequest,
    DescribeConfigsRequest,
    FetchRequest,
    FindCoordinatorRequest,
    ListOffsetsRequest,
    MetadataRequest,
    OffsetCommitRequest,
    OffsetFetchRequest,
    OffsetForLeaderEpochRequest,
    ProduceRequest,
    Request,
    Response,
)
from kafwire.records import decode_batches
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.fuzzer.old_message import old_message
from tests.support.broker.raw_connection import RawConnection, harmless
from tests.support.deadlines import until

TOPIC = GROUP = "removed-versions"
VALUES = [b"of version 0", b"of version 1", b"of version 2"]
TOKENS = ("CreateDelegationToken", "RenewDelegationToken", "ExpireDelegationToken", "DescribeDelegationToken")
# The refusals of a broker without an authorizer, on a listener without authentication.
REFUSED = {
    **dict.fromkeys(TOKENS, ErrorCode.DELEGATION_TOKEN_REQUEST_NOT_ALLOWED),
    "DescribeAcls": ErrorCode.SECURITY_DISABLED,
}


def asked(connection: RawConnection, request: Request[Response]) -> Any:
    """The response in version 0."""
    return connection.ask(request, 0)


@pytest.fixture(scope="module")
def connection(cluster_391: KafkaCluster) -> Iterator[RawConnection]:
    """The topic exists, and has a record of each removed version of Produce."""
    opened = RawConnection(cluster_391.bootstrap)
    for version, name in enumerate((TOPIC, f"{TOPIC}-1")):
        new = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        response: Any = opened.ask(CreateTopicsRequest(topics=[new]), version)
        assert [(topic.name, topic.error_code) for topic in response.topics] == [(name, 0)]
    named = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name=TOPIC)])
    until(lambda: [part.leader_id for part in asked(opened, named).topics[0].partitions] == [1])
    for version, value in enumerate(VALUES):
        data = ProduceRequest.PartitionProduceData(records=old_message(value, magic=version // 2))
        topic = ProduceRequest.TopicProduceData(name=TOPIC, partition_data=[data])
        response = opened.ask(ProduceRequest(acks=-1, timeout_ms=30_000, topic_data=[topic]), version)
        (written,) = response.responses[0].partition_responses
        assert (written.error_code, written.base_offset) == (0, version)
    yield opened
    opened.socket.close()


def partition_of(response: Any) -> Any:
    ((partition,),) = [topic.partitions for topic in response.topics]
    return partition


@pytest.mark.parametrize(("version", "magic"), [(0, 0), (1, 0), (2, 1), (3, 1)])
def test_old_fetches_return_old_messages(connection: RawConnection, version: int, magic: int) -> None:
    partition = FetchRequest.FetchPartition(partition_max_bytes=10_000)
    topic = FetchRequest.FetchTopic(topic=TOPIC, partitions=[partition])
    response: Any = connection.ask(FetchRequest(topics=[topic], max_wait_ms=1_000), version)
    (found,) = response.responses[0].partitions
    assert (found.error_code, found.high_watermark) == (0, len(VALUES))
    batches = decode_batches(found.records)
    assert {batch.magic for batch in batches} == {magic}
    assert [record.value for batch in batches for record in batch] == VALUES


def test_old_offsets(connection: RawConnection) -> None:
    for timestamp, count, offsets in ((-1, 1, [3]), (-2, 1, [0]), (-1, 5, [3, 0])):
        wanted = ListOffsetsRequest.ListOffsetsPartition(timestamp=timestamp, max_num_offsets=count)
        listed = ListOffsetsRequest.ListOffsetsTopic(name=TOPIC, partitions=[wanted])
        response = connection.ask(ListOffsetsRequest(replica_id=-1, topics=[listed]), 0)
        found = partition_of(response)
        assert (found.error_code, found.old_style_offsets) == (0, offsets)
    for version in (0, 1):
        epoch = OffsetForLeaderEpochRequest.OffsetForLeaderPartition(leader_epoch=0)
        asked = OffsetForLeaderEpochRequest.OffsetForLeaderTopic(topic=TOPIC, partitions=[epoch])
        found = partition_of(connection.ask(OffsetForLeaderEpochRequest(topics=[asked]), version))
        assert (found.error_code, found.end_offset, found.leader_epoch) == (0, 3, 0 if version else -1)


def test_old_commits(connection: RawConnection) -> None:
    """Version 0 is about ZooKeeper, which the broker does not have."""
    commit = OffsetCommitRequest.OffsetCommitRequestPartition(committed_offset=2, committed_metadata="m")
    topic = OffsetCommitRequest.OffsetCommitRequestTopic(name=TOPIC, partitions=[commit])
    request = OffsetCommitRequest(group_id=GROUP, topics=[topic])
    assert partition_of(connection.ask(request, 0)).error_code == ErrorCode.UNSUPPORTED_VERSION
    until(lambda: asked(connection, FindCoordinatorRequest(key=GROUP)).error_code == 0)
    until(lambda: partition_of(connection.ask(request, 1)).error_code == 0)
    wanted = OffsetFetchRequest.OffsetFetchRequestTopic(name=TOPIC, partition_indexes=[0])
    for version, offset in ((0, -1), (1, 2)):
        found = partition_of(connection.ask(OffsetFetchRequest(group_id=GROUP, topics=[wanted]), version))
        assert found.committed_offset == offset


def test_old_configurations(connection: RawConnection) -> None:
    topic = DescribeConfigsRequest.DescribeConfigsResource(
        resource_type=2, resource_name=TOPIC, configuration_keys=["cleanup.policy"]
    )
    response: Any = connection.ask(DescribeConfigsRequest(resources=[topic]), 0)
    assert [(config.name, config.value) for config in response.results[0].configs] == [("cleanup.policy", "delete")]


def removed(connection: RawConnection) -> dict[type[Request[Response]], range]:
    """The APIs that the broker advertises, in their removed versions."""
    response: Any = connection.ask(ApiVersionsRequest(), 0)
    ranges = {api.api_key: (api.min_version, api.max_version) for api in response.api_keys}
    classes = [cls for cls in MESSAGES.values() if issubclass(cls, Request) and cls.api_key in ranges]
    assert all(ranges[cls.api_key][0] == cls.oldest_version for cls in classes if cls.oldest_version < cls.min_version)
    return {cls: range(cls.oldest_version, cls.min_version) for cls in classes}


def test_every_removed_version_gets_a_response(connection: RawConnection, capsys: pytest.CaptureFixture[str]) -> None:
    """`ask` compares the response with the re-encoded message."""
    asked, refused = 0, dict[str, int]()
    for cls, versions in removed(connection).items():
        for version in versions:
            request = cls() if cls in (CreateTopicsRequest, DescribeConfigsRequest) else harmless(cls, version)
            found = connection.ask(request, version).to_dict()
            asked += 1
            if (name := cls.name.removesuffix("Request")) in REFUSED:
                refused[name] = found["error_code"]
                assert found["error_code"] == REFUSED[name], f"{name} {version}"
    with capsys.disabled():
        print(f"\nasked Kafka 3.9.1 {asked} versions that Kafka 4 removed")
    assert (asked, refused) == (27, REFUSED)
