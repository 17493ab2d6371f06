"""`Client`: any request to any broker, and the few administrative calls that a program needs around its data."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from types import TracebackType
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.cluster.client_requests import Requests
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import TopicInfo
from kafwire.cluster.offset_spec import Bound, OffsetSpec, Timestamps
from kafwire.config import ClientConfig, from_config
from kafwire.errors import KafkaError
from kafwire.options import ClientOptions, ScanOptions
from kafwire.runtime.engine import engine
from kafwire.types import ClusterMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.scanner.reader import ProgressOption
    from kafwire.sync.scan import Scan


class Client:
    """A connection to a cluster for single requests. Thread-safe; a context manager.

    Options are those of `kafwire.config.ClientConfig`; an unknown one, or a bad value, raises `ConfigError`. Connecting
    is put off to the first call.
    """

    def __init__(self, bootstrap_servers: str | Iterable[str], **options: Unpack[ClientOptions]) -> None:
        config = ClientConfig.build({"bootstrap_servers": bootstrap_servers, **options})
        self._engine = engine()
        self._cluster = Cluster(self._engine, config)
        self._requests = Requests(self._cluster)
        self._closed = False

    @classmethod
    def from_config(cls, options: Mapping[str, Any]) -> Self:
        """The same from Kafka's own option names: `{"bootstrap.servers": ...}`."""
        return cls(**from_config(ClientConfig, options))

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
        self._check()
        return self._engine.run(self._requests.call(message, broker=broker, version=version, timeout=timeout))

    def topic(self, name: str) -> TopicInfo:
        """A topic's id and partitions; `BrokerError` UNKNOWN_TOPIC_OR_PARTITION when it does not exist."""
        self._check()
        return self._engine.run(self._requests.topic(name))

    def partitions_for(self, topic: str) -> set[int]:
        """The numbers of a topic's partitions.

        Raises `BrokerError` (UNKNOWN_TOPIC_OR_PARTITION) when it does not exist, `KafkaConnectionError`,
        `KafkaTimeoutError`.
        """
        self._check()
        return self._engine.run(self._requests.partitions_for(topic))

    def metadata(self, topics: Iterable[str] | None = None) -> ClusterMetadata:
        """The cluster's brokers, and `topics` (None: all) with their partitions, as a broker knows them now.

        A topic that does not exist is there with its `error_code`.
        """
        self._check()
        return self._engine.run(self._requests.metadata(topics))

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        when: OffsetSpec = "latest",
        *,
        isolation_level: str = "read_uncommitted",
    ) -> dict[TopicPartition, int]:
        """For each partition the first offset at or after `when`, -1 where there is none."""
        self._check()
        return self._engine.run(self._requests.offsets(partitions, when, isolation_level))

    def scan(
        self,
        topics: str | Sequence[str],
        *,
        partitions: Sequence[int] | None = None,
        start: Bound = "earliest",
        end: Bound = "latest",
        columns: Sequence[str] | None = None,
        layout: Mapping[str, Any] | None = None,
        timestamps: Timestamps | None = None,
        progress: ProgressOption = False,
        **options: Unpack[ScanOptions],
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
            timestamps=timestamps,
            progress=progress,
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
        self._check()
        self._engine.run(self._requests.create_topic(name, partitions, replication_factor, config))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records."""
        self._check()
        self._engine.run(self._requests.delete_topic(name))

    def topic_config(self, name: str) -> dict[str, str | None]:
        """A topic's configuration as the broker sees it, defaults included; None for what is secret."""
        self._check()
        return self._engine.run(self._requests.topic_config(name))

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
