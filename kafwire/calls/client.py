"""The calls of `Client` and `AsyncClient`: arguments checked, then one or a few requests on the engine.

Each method checks its arguments in the caller's thread, as their iterators may run any code, and returns the function
that the engine calls.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import partial
from typing import Any

from kafwire import protocol
from kafwire.calls.pushing_cluster import ADMIN, PushingCluster
from kafwire.calls.tokens import TokenRequests
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import Partition, Place, list_available, list_offsets
from kafwire.cluster.offset_spec import OffsetSpec, isolation_number, partition_of, place_of
from kafwire.cluster.topic_deletion import delete_topics
from kafwire.config import ClientConfig, from_config
from kafwire.errors import AuthorizationError, ConfigError, KafkaError, broker_error
from kafwire.integers import integer
from kafwire.runtime.engine import default_engine
from kafwire.runtime.interfaces import Engine, Work
from kafwire.runtime.log import cluster_log as log
from kafwire.timeouts import timeout_of
from kafwire.types import BrokerMetadata, ClusterMetadata, PartitionMetadata, TopicMetadata, TopicPartition

TOPIC_RESOURCE = 2
OnError = Callable[[TopicPartition, KafkaError], object]
FoundOffsets = tuple[dict[TopicPartition, int], dict[TopicPartition, KafkaError]]
keywords_of = partial(from_config, ClientConfig)

# Time limit for the controller to create or delete a topic.
TOPIC_TIMEOUT_MS = 30_000


class ClientCalls(TokenRequests):
    """The calls of `Client` and `AsyncClient`, which document them."""

    def call(
        self, message: Any, *, broker: int | None = None, version: int | None = None, timeout: float | None = None
    ) -> Work[Any]:
        """Send any request, to `broker` or to any broker."""
        if not hasattr(type(message), "response"):
            raise ConfigError(f"{message!r} is not a request message; see kafwire.protocol.MESSAGES")
        seconds = timeout_of(timeout)
        timeout_ms = None if seconds is None else seconds * 1000
        return partial(self._cluster.call, message, node=broker, version=version, timeout_ms=timeout_ms)

    def metadata(self, topics: Iterable[str] | None) -> Work[ClusterMetadata]:
        """List the brokers, and `topics` or all."""
        named = None
        if topics is not None:
            named = [protocol.MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        asked = self.call(protocol.MetadataRequest(topics=named, allow_auto_topic_creation=False))

        async def ask() -> ClusterMetadata:
            return cluster_metadata(await asked())

        return ask

    def offsets(
        self, partitions: Iterable[TopicPartition], when: OffsetSpec, isolation_level: str, *, available: bool
    ) -> Work[FoundOffsets]:
        """Look up offsets by time. With `available`, partitions without a leader or offset for now get errors."""
        wanted, level = _wanted_offsets(partitions, when, isolation_level)

        async def ask() -> FoundOffsets:
            failed: Mapping[Partition, KafkaError] = {}
            if available:
                found, failed = await list_available(self._cluster, wanted, isolation_level=level)
            else:
                found = await list_offsets(self._cluster, wanted, isolation_level=level)
            offsets = {TopicPartition(*where): offset for where, offset in found.items()}
            return offsets, {TopicPartition(*where): error for where, error in failed.items()}

        return ask

    def create_topic(
        self, name: str, partitions: int, replication_factor: int, config: Mapping[str, str] | None
    ) -> Work[None]:
        """Create a topic and wait until it is usable."""
        _check_topic(name, "create_topic(topic)")
        request: Any = protocol.CreateTopicsRequest
        numbers = {"partitions": partitions, "replication_factor": replication_factor}
        for what, number in numbers.items():
            if integer(number) is None:
                raise ConfigError(f"{what}={number!r}: it must be a whole number, or -1 for the broker's default")
        topic = request.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[request.CreatableTopicConfig(name=key, value=str(value)) for key, value in (config or {}).items()],
        )
        message = request(topics=[topic], timeout_ms=TOPIC_TIMEOUT_MS)

        async def create() -> None:
            _raise_first((await self._cluster.call(message)).topics, f"creating topic {name!r}", "CreateTopics", name)
            try:
                info = await self._cluster.topic(name, patient=True)
            except AuthorizationError as error:  # the Create permission does not include Describe
                log.warning(
                    "kafwire: topic %r is created; no permission to see when it is ready: %s",
                    name,
                    error,
                    topic=name,
                    error=error,
                )
                return
            for partition in sorted(info.partitions):
                await self._cluster.leader(name, partition)

        return create

    def create_partitions(self, name: str, count: int) -> Work[None]:
        """Add partitions to a topic up to `count`, and wait until they can be used."""
        _check_topic(name, "create_partitions(topic, count)")
        if (integer(count) or 0) < 1:
            raise ConfigError(f"count={count!r}: the number of all partitions is needed, a whole number from 1")
        request: Any = protocol.CreatePartitionsRequest
        topic = request.CreatePartitionsTopic(name=name, count=count, assignments=None)
        message = request(topics=[topic], timeout_ms=TOPIC_TIMEOUT_MS)

        async def create() -> None:
            results = (await self._cluster.call(message)).results
            _raise_first(results, f"adding partitions to topic {name!r}", "CreatePartitions", name)
            await self._cluster.topic(name, fresh=True)  # Alter implies Describe
            for partition in range(count):
                await self._cluster.leader(name, partition)

        return create

    def delete_topic(self, name: str) -> Work[None]:
        """Delete a topic."""
        _check_topic(name, "delete_topic(topic)")
        request: Any = protocol.DeleteTopicsRequest
        state = request.DeleteTopicState(name=name)
        message = request(topics=[state], timeout_ms=TOPIC_TIMEOUT_MS)

        async def delete() -> None:
            responses = (await delete_topics(self._cluster.call, message)).responses
            _raise_first(responses, f"deleting topic {name!r}", "DeleteTopics", name)
            self._cluster.forget([name])  # a new topic of this name is another topic

        return delete

    def topic_config(self, name: str) -> Work[dict[str, str | None]]:
        """Return a topic's configuration."""
        _check_topic(name, "topic_config(topic)")
        request: Any = protocol.DescribeConfigsRequest
        resource = request.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        message = request(resources=[resource])

        async def describe() -> dict[str, str | None]:
            results = (await self._cluster.call(message)).results
            _raise_first(results, f"describing topic {name!r}", "DescribeConfigs", name)
            return {entry.name: entry.value for entry in results[0].configs}

        return describe


def client_core(
    bootstrap_servers: str | Iterable[str], options: Mapping[str, Any], engine: Engine | None
) -> PushingCluster:
    """Return the connections of a new client; `ConfigError` for bad arguments of its constructor."""
    config = ClientConfig.build({"bootstrap_servers": bootstrap_servers, **options})
    return PushingCluster(Cluster(default_engine() if engine is None else engine, config), ADMIN)


def offsets_of(found: FoundOffsets, on_error: OnError | None) -> dict[TopicPartition, int]:
    """Return the offsets of a look-up, after `on_error` got its errors. In the caller's thread or event loop."""
    offsets, failed = found
    if on_error is not None:
        for where, error in failed.items():
            on_error(where, error)
    return offsets


def cluster_metadata(response: Any) -> ClusterMetadata:
    """Convert a MetadataResponse to typed values, with partitions in order."""
    return ClusterMetadata(
        cluster_id=response.cluster_id,
        controller_id=response.controller_id,
        brokers=tuple(BrokerMetadata(one.node_id, one.host, one.port, one.rack) for one in response.brokers),
        topics=tuple(
            TopicMetadata(
                name=topic.name,
                topic_id=topic.topic_id,
                is_internal=topic.is_internal,
                partitions=tuple(
                    PartitionMetadata(
                        partition_index=part.partition_index,
                        leader_id=part.leader_id,
                        leader_epoch=part.leader_epoch,
                        replica_nodes=tuple(part.replica_nodes),
                        isr_nodes=tuple(part.isr_nodes),
                        offline_replicas=tuple(part.offline_replicas),
                        error_code=part.error_code,
                    )
                    for part in sorted(topic.partitions, key=lambda part: part.partition_index)
                ),
                error_code=topic.error_code,
            )
            for topic in response.topics
        ),
    )


def _wanted_offsets(
    partitions: Iterable[TopicPartition], when: OffsetSpec, isolation_level: str
) -> tuple[dict[Partition, Place], int]:
    """Return the places to look up and the isolation level's number; raise `ConfigError` for bad arguments."""
    place, level = place_of(when), isolation_number(isolation_level)
    return dict.fromkeys(map(partition_of, partitions), place), level


def _check_topic(name: Any, line: str) -> None:
    """Raise `ConfigError` with the `line` to write if a name, such as a list of names, is no text."""
    if not isinstance(name, str):
        raise ConfigError(f"{name!r} is not a topic: write {line} for each topic")


def _raise_first(responses: Iterable[Any], what: str, api: str, topic: str) -> None:
    for response in responses:
        if response.error_code:
            detail = getattr(response, "error_message", None)
            context = f"{what}: {detail}" if detail else what
            raise broker_error(response.error_code, context, api=api, topic=topic)
