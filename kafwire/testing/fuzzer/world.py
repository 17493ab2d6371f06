"""The survey of the server: its API versions, brokers, topics, and offsets at the time of the survey."""

from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from uuid import UUID

from kafwire.errors import KafkaConnectionError, KafkaError, ProtocolError
from kafwire.protocol import (
    ApiVersionsRequest,
    CreateTopicsRequest,
    FetchRequest,
    ListOffsetsRequest,
    MetadataRequest,
    ProduceRequest,
)
from kafwire.protocol.spec import Request
from kafwire.records import encode_batch
from kafwire.testing.fuzzer.connection import Target, TargetConnection
from kafwire.testing.fuzzer.safety import PREFIX, request_class

PRODUCE, FETCH, LIST_OFFSETS, METADATA, CREATE_TOPICS = 0, 1, 2, 3, 19
OWN_TOPICS = {f"{PREFIX}one": 1, f"{PREFIX}three": 3}
_TOPICS_KEPT = 8
_EARLIEST, _LATEST = -2, -1


@dataclass
class Partition:
    """A partition at the time of the survey."""

    leader: int
    start: int = 0
    end: int = 0


@dataclass
class Topic:
    """A topic at the time of the survey; its id is zero if the server has no topic ids."""

    name: str
    id: UUID
    partitions: dict[int, Partition]


@dataclass
class World:
    """The survey's result."""

    ranges: dict[int, tuple[int, int]] = field(default_factory=dict)
    node_id: int = 0
    brokers: list[int] = field(default_factory=list)
    topics: dict[str, Topic] = field(default_factory=dict)
    cluster_id: str | None = None
    destructive: bool = False

    def versions(self, api: str) -> range:
        """Return the versions of `api` that both the server and kafwire have, without unstable ones.

        Kafka 4 advertises Produce from 0 on for librdkafka, but serves it from 3 on, as its range of Fetch shows
        (KAFKA-18659).
        """
        found = request_class(api)
        low, high = self.ranges.get(found.api_key, (1, 0))
        if found is ProduceRequest and self.ranges.get(FETCH, (0, 0))[0] >= FetchRequest.min_version:
            low = found.min_version
        return range(max(low, found.oldest_version), min(high, found.max_stable_version) + 1)

    def topic_ids(self) -> dict[str, UUID]:
        """Return the topic ids by name."""
        return {name: topic.id for name, topic in self.topics.items() if topic.id.int}


def ask_versions(target: Target) -> dict[int, tuple[int, int]]:
    """Return the versions that the server advertises, by ApiVersions 3, or by 0 for old servers."""
    named = ApiVersionsRequest(client_software_name="kafwire-fuzz", client_software_version="1")
    for version, request in ((3, named), (0, ApiVersionsRequest())):
        with TargetConnection(target) as connection:
            response = connection.call(request, version)
        if response.api_keys:
            return {each.api_key: (each.min_version, each.max_version) for each in response.api_keys}
    raise ProtocolError("the server's ApiVersions response has no API; is it a Kafka listener?")


def survey(target: Target, *, destructive: bool) -> World:
    """Survey the server. With `destructive`, first create the fuzzer's own topics, with records.

    Raises `KafkaConnectionError` or `ProtocolError` if that fails.
    """
    world = World(ranges=ask_versions(target), destructive=destructive)
    if METADATA not in world.ranges:
        return world
    with TargetConnection(target) as connection:
        if destructive:
            _make_topics(connection, world)
        _read_metadata(connection, world, None)
        if LIST_OFFSETS in world.ranges:
            _read_offsets(connection, world)
    return world


def _ask(connection: TargetConnection, world: World, api: str, make: Callable[[int], Request[Any]]) -> tuple[Any, int]:
    """Return the response in the newest version that can be decoded, and that version: bugs must not end the run."""
    failure: KafkaError = KafkaConnectionError(f"no version of {api} is shared with the server")
    for version in reversed(world.versions(api)):
        try:
            return connection.call(make(version), version), version
        except ProtocolError as error:
            failure = error
    raise failure


def _read_metadata(connection: TargetConnection, world: World, names: list[str] | None) -> Any:
    def make(version: int) -> MetadataRequest:
        topics: Any = None if names is None else [MetadataRequest.MetadataRequestTopic(name=name) for name in names]
        if names is None and version == 0:
            topics = []
        return MetadataRequest(
            topics=topics, allow_auto_topic_creation=names is not None or version < MetadataRequest.ALLOWS_CREATION
        )

    response, _ = _ask(connection, world, "Metadata", make)
    world.brokers = sorted(broker.node_id for broker in response.brokers)
    world.cluster_id = response.cluster_id
    here = [broker.node_id for broker in response.brokers if broker.port == connection.target.port]
    world.node_id = here[0] if here else world.brokers[0] if world.brokers else 0
    found = sorted(
        (topic for topic in response.topics if topic.name and topic.error_code == 0 and topic.partitions),
        # The fuzzer's own topics first, internal ones last, as the list is cut.
        key=lambda topic: (topic.is_internal, topic.name not in OWN_TOPICS, topic.name),
    )
    if world.destructive:
        # A destructive run changes only the fuzzer's own topics.
        found = [topic for topic in found if topic.name in OWN_TOPICS]
    for topic in found[:_TOPICS_KEPT]:
        partitions = {part.partition_index: Partition(part.leader_id) for part in topic.partitions}
        world.topics[topic.name] = Topic(topic.name, topic.topic_id, dict(sorted(partitions.items())))
    return response


def _read_offsets(connection: TargetConnection, world: World) -> None:
    for timestamp in (_EARLIEST, _LATEST):
        topics = [
            ListOffsetsRequest.ListOffsetsTopic(
                name=topic.name,
                partitions=[
                    ListOffsetsRequest.ListOffsetsPartition(partition_index=index, timestamp=timestamp)
                    for index, partition in topic.partitions.items()
                    if partition.leader == world.node_id
                ],
            )
            for topic in world.topics.values()
        ]
        request = ListOffsetsRequest(replica_id=-1, topics=topics)
        response, _ = _ask(connection, world, "ListOffsets", partial(_always, request))
        for topic in response.topics:
            for part in topic.partitions:
                partition = world.topics[topic.name].partitions.get(part.partition_index)
                if partition is not None and part.error_code == 0:
                    if timestamp == _EARLIEST:
                        partition.start = part.offset
                    else:
                        partition.end = part.offset


def _make_topics(connection: TargetConnection, world: World) -> None:
    if CREATE_TOPICS in world.ranges:
        topics = [
            CreateTopicsRequest.CreatableTopic(name=name, num_partitions=count, replication_factor=1)
            for name, count in OWN_TOPICS.items()
        ]
        request = CreateTopicsRequest(topics=topics, timeout_ms=5000)
        _ask(connection, world, "CreateTopics", partial(_always, request))
    connection.settle(lambda: _have_leaders(_read_metadata(connection, world, list(OWN_TOPICS))))
    if PRODUCE in world.ranges:
        _fill(connection, world)


def _always(request: Request[Any], version: int) -> Request[Any]:
    del version
    return request


def _have_leaders(response: Any) -> bool:
    return all(
        topic.error_code == 0 and topic.partitions and all(part.leader_id >= 0 for part in topic.partitions)
        for topic in response.topics
    )


def _fill(connection: TargetConnection, world: World) -> None:
    def make(version: int, codec: str) -> ProduceRequest:
        data = [
            ProduceRequest.TopicProduceData(
                name=topic.name if version < ProduceRequest.BY_TOPIC_ID else "",
                topic_id=topic.id if version >= ProduceRequest.BY_TOPIC_ID else UUID(int=0),
                partition_data=[
                    ProduceRequest.PartitionProduceData(
                        index=index, records=encode_batch([b"one", b"two", b"three"], compression=codec)
                    )
                    for index, partition in topic.partitions.items()
                    if partition.leader == world.node_id
                ],
            )
            for topic in world.topics.values()
        ]
        return ProduceRequest(acks=1, timeout_ms=5000, topic_data=data)

    for codec in ("none", "lz4"):
        _ask(connection, world, "Produce", partial(make, codec=codec))
