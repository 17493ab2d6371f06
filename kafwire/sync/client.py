"""`Client`: any request to any broker, and the few administrative calls that a program needs around its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self

from kafwire import protocol
from kafwire.config import ClientConfig, from_dotted
from kafwire.errors import ConfigError, KafkaError, broker_error
from kafwire.logic.metadata import TopicInfo
from kafwire.net.cluster import Cluster
from kafwire.net.engine import engine
from kafwire.net.offsets import list_offsets
from kafwire.net.ranges import Bound, When, timestamp_of
from kafwire.structs import TopicPartition

if TYPE_CHECKING:
    from kafwire.sync.scan import Scan

TOPIC_RESOURCE = 2
ISOLATION_LEVELS = ("read_uncommitted", "read_committed")


class Client:
    """A connection to a cluster for single requests. Thread-safe; a context manager.

    Options are those of `kafwire.config.ClientConfig`; an unknown one, or a bad value, raises `ConfigError`. Connecting
    is put off to the first call.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Any) -> None:
        config = ClientConfig.build({"bootstrap_servers": bootstrap_servers, **options})
        self._engine = engine()
        self._cluster = Cluster(self._engine, config)
        self._closed = False

    @classmethod
    def from_config(cls, options: Mapping[str, Any]) -> Self:
        """The same from Kafka's own option names: `{"bootstrap.servers": ...}`."""
        return cls(**from_dotted(options))

    def call(
        self,
        message: Any,
        *,
        broker: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request message and return its response message, in the highest stable version that both sides have.

        `broker` is a node id; None asks any. `version` insists on one, be it unstable: a broker that lacks it answers
        with UNSUPPORTED_VERSION or closes the connection, as Kafka does. Lost connections are retried for `timeout`
        seconds (default: `default_api_timeout_ms`); error codes in the response are left for the caller to read. Raises
        `KafkaConnectionError`, `KafkaTimeoutError`, `ProtocolError`.
        """
        if not hasattr(type(message), "response"):
            raise ConfigError(f"{message!r} is not a request message; see kafwire.protocol.MESSAGES")
        self._check()
        return self._engine.run(
            self._cluster.call(
                message, node=broker, version=version, timeout_ms=None if timeout is None else timeout * 1000
            )
        )

    def topic(self, name: str) -> TopicInfo:
        """A topic's id and partitions; `BrokerError` UNKNOWN_TOPIC_OR_PARTITION when it does not exist."""
        self._check()
        return self._engine.run(self._cluster.topic(name))

    def metadata(self, topics: Iterable[str] | None = None) -> Any:
        """The brokers' MetadataResponse for `topics` (None: all)."""
        named = None
        if topics is not None:
            named = [protocol.MetadataRequest.MetadataRequestTopic(name=name) for name in topics]
        return self.call(protocol.MetadataRequest(topics=named, allow_auto_topic_creation=False))

    def offsets(
        self, partitions: Iterable[TopicPartition], when: When = "latest", *, isolation_level: str = "read_uncommitted"
    ) -> dict[TopicPartition, int]:
        """For each partition the first offset at or after `when`, -1 where there is none."""
        self._check()
        timestamp = timestamp_of(when)
        if isolation_level not in ISOLATION_LEVELS:
            raise ConfigError(f"isolation_level={isolation_level!r}: allowed: {', '.join(ISOLATION_LEVELS)}")
        wanted = {(tp.topic, tp.partition): timestamp for tp in partitions}
        found = self._engine.run(
            list_offsets(self._cluster, wanted, isolation_level=int(isolation_level == "read_committed"))
        )
        return {TopicPartition(topic, partition): offset for (topic, partition), offset in found.items()}

    def scan(
        self,
        topics: str | Sequence[str],
        *,
        partitions: Sequence[int] | None = None,
        start: Bound = "earliest",
        end: Bound = "latest",
        columns: Sequence[str] | None = None,
        layout: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Scan:
        """`kafwire.scan` over this client's connections; `options` are those of reading, like `isolation_level`."""
        from kafwire.sync.scan import Scan

        self._check()
        return Scan(
            self._cluster,
            topics,
            partitions=partitions,
            start=start,
            end=end,
            columns=columns,
            layout=layout,
            options={"bootstrap_servers": self._cluster.bootstrap, **options},
        )

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic; -1 leaves a number to the broker's defaults. Returns when a broker knows all its leaders."""
        request: Any = protocol.CreateTopicsRequest
        topic = request.CreatableTopic(
            name=name,
            num_partitions=partitions,
            replication_factor=replication_factor,
            configs=[request.CreatableTopicConfig(name=key, value=str(value)) for key, value in (config or {}).items()],
        )
        self._raise_first(self.call(request(topics=[topic], timeout_ms=30_000)).topics, f"creating topic {name!r}")
        self._check()
        self._engine.run(self._cluster.topic(name, patient=True))
        for partition in sorted(self._cluster.metadata.topics[name].partitions):
            self._engine.run(self._cluster.leader(name, partition))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records."""
        request: Any = protocol.DeleteTopicsRequest
        message = request(topics=[request.DeleteTopicState(name=name)], topic_names=[name], timeout_ms=30_000)
        self._raise_first(self.call(message).responses, f"deleting topic {name!r}")

    def topic_config(self, name: str) -> dict[str, str | None]:
        """A topic's configuration as the broker sees it, defaults included; None for what is secret."""
        request: Any = protocol.DescribeConfigsRequest
        resource = request.DescribeConfigsResource(
            resource_type=TOPIC_RESOURCE, resource_name=name, configuration_keys=None
        )
        results = self.call(request(resources=[resource])).results
        self._raise_first(results, f"describing topic {name!r}")
        return {entry.name: entry.value for entry in results[0].configs}

    def close(self) -> None:
        """Close all connections; a second close, or one in a forked child, does nothing."""
        if self._closed or self._engine.is_over:
            return
        self._closed = True
        self._engine.run(self._cluster.close())

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _check(self) -> None:
        self._engine.check_process()
        if self._closed:
            raise KafkaError("this client is closed")

    @staticmethod
    def _raise_first(answers: Iterable[Any], what: str) -> None:
        for answer in answers:
            if answer.error_code:
                detail = getattr(answer, "error_message", None)
                raise broker_error(answer.error_code, f"{what}: {detail}" if detail else what)
