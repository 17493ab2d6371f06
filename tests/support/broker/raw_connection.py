"""A connection to a real broker without a client, and a harmless request for each API."""

import socket
from uuid import UUID

from kafwire import protocol
from kafwire.protocol import (
    ApiVersionsRequest,
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
