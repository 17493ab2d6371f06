"""`Client`: any request to any broker, and the administrative calls that most programs need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Unpack

from kafwire.calls.client import ClientCalls, offsets_of
from kafwire.cluster.metadata import TopicInfo
from kafwire.cluster.offset_spec import Bound, OffsetSpec, Timestamps
from kafwire.config import ClientConfig
from kafwire.config.checks import described_by
from kafwire.errors import KafkaError
from kafwire.peer_names import CLIENT, CLIENT_ARGUMENTS, lookup, refuse_arguments
from kafwire.sync.token_calls import TokenCalls
from kafwire.types import ClusterMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.config.typed_options import ScanOptions
    from kafwire.scanner.reader import ProgressOption
    from kafwire.sync.scan import Scan


@refuse_arguments(CLIENT_ARGUMENTS, blocking=True)
@described_by(ClientConfig)
class Client(TokenCalls):
    """A connection to a cluster for single requests. Thread-safe; a context manager.

    It connects on the first call.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ClientConfig`, for example `request_timeout_ms=5000`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.

    Example:
        >>> with kafwire.Client(bootstrap) as client:
        ...     client.create_topic(new_topic, partitions=3)
        ...     sorted(client.partitions_for(new_topic))
        [0, 1, 2]
    """

    _kind = ClientCalls
    _calls: ClientCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(CLIENT, blocking=True)

    def call(
        self,
        message: Any,
        *,
        broker: int | None = None,
        version: int | None = None,
        timeout: float | None = None,
    ) -> Any:
        """Send a request message, and return its response message.

        The version is the highest stable one that client and broker share. A lost connection is retried. Error codes in
        the response are left to the caller.

        Args:
            message: a request of `kafwire.protocol`.
            broker: the node id of the broker to send to; None: any broker.
            version: the version to send, even an unstable or a removed one. A broker that lacks it responds with
                UNSUPPORTED_VERSION or closes the connection.
            timeout: seconds for all attempts; by default `default_api_timeout_ms`.

        Returns:
            The response message.

        Raises:
            KafkaConnectionError: no broker could be reached, or the broker does not exist.
            KafkaTimeoutError: no response came in time.
            ProtocolError: the message does not fit the version, or the response cannot be decoded.

        Example:
            >>> response = client.call(kafwire.protocol.DescribeClusterRequest())
            >>> [broker.broker_id for broker in response.brokers]
            [1]
        """
        return self._run(self._calls.call(message, broker=broker, version=version, timeout=timeout))

    def topic(self, name: str) -> TopicInfo:
        """Look up a topic's id and its partitions.

        Args:
            name: the topic.

        Returns:
            A `TopicInfo` with `name`, `topic_id` and `partitions`, a dict by partition number.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION if the topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> client.topic(topic).partitions[0].leader
            1
        """
        return self._run(self._cluster.topic, name)

    def partitions_for(self, topic: str) -> set[int]:
        """Look up the numbers of a topic's partitions.

        Args:
            topic: the topic.

        Returns:
            The partition numbers.

        Raises:
            BrokerError: UNKNOWN_TOPIC_OR_PARTITION if the topic does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> client.partitions_for(topic)
            {0}
        """
        return self._run(self._cluster.partitions, topic)

    def metadata(self, topics: Iterable[str] | None = None) -> ClusterMetadata:
        """Ask a broker for the cluster's brokers and topics.

        Args:
            topics: the topics to describe; None describes all of them.

        Returns:
            A `ClusterMetadata`. It includes a topic that does not exist, with an `error_code`.

        Raises:
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> cluster = client.metadata([topic])
            >>> [(broker.node_id, broker.host) for broker in cluster.brokers]
            [(1, '...')]
            >>> cluster.topics[0].partitions[0].leader_id
            1
        """
        return self._run(self._calls.metadata(topics))

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        when: OffsetSpec = "latest",
        *,
        isolation_level: str = "read_uncommitted",
        on_error: Callable[[TopicPartition, KafkaError], object] | None = None,
    ) -> dict[TopicPartition, int]:
        """Look up offsets by time.

        Args:
            partitions: the partitions to look in.
            when: "earliest", "latest", a datetime with a time zone, or milliseconds since the epoch.
            isolation_level: "read_uncommitted", or "read_committed", whose "latest" is the last stable offset.
            on_error: called with each partition that has no leader, or whose leader does not respond within 2 s, and
                its error; the result lacks those partitions. Without it, the first error is raised when
                `default_api_timeout_ms` is over.

        Returns:
            For each partition the first offset at or after `when`; -1 without such a record.

        Raises:
            ConfigError: `when` or `isolation_level` is not one of these.
            BrokerError: a partition does not exist, or its leader refuses the request.
            KafkaConnectionError: a leader could not be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> client.offsets([partition], "latest")[partition]
            3
        """
        work = self._calls.offsets(partitions, when, isolation_level, available=on_error is not None)
        return offsets_of(self._run(work), on_error)

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
        """Read records between two bounds over this client's connections. See `kafwire.scan`.

        Args:
            topics: one topic or several.
            partitions: the partition numbers to read; None reads all.
            start: the start bound.
            end: the end bound; exclusive.
            columns: the columns to decode; None decodes all.
            layout: names and types of the columns.
            timestamps: read only records with a timestamp in [from, to).
            progress: True shows a progress bar on a terminal, "force" shows it always.
            options: fields of `kafwire.config.ScanConfig` that concern reading, for example `isolation_level`.

        Returns:
            A `Scan`.

        Raises:
            ConfigError: an argument or an option has a bad value.
            BrokerError: a topic or an offset does not exist.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> pa.table(client.scan(topic, columns=["offset", "value"])).num_rows
            3
        """
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
        """Create a topic, and wait until a broker knows the leaders of all its partitions.

        Args:
            name: the topic.
            partitions: the number of partitions; -1: the broker's default.
            replication_factor: the number of replicas of each; -1: the broker's default.
            config: the topic's configuration, for example `{"cleanup.policy": "compact"}`.

        Raises:
            BrokerError: the cluster refuses the topic, for example with TOPIC_ALREADY_EXISTS.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: the leaders were not known within `default_api_timeout_ms`.

        Example:
            >>> client.create_topic(new_topic, partitions=2, config={"retention.ms": "3600000"})
            >>> client.topic_config(new_topic)["retention.ms"]
            '3600000'
        """
        self._run(self._calls.create_topic(name, partitions, replication_factor, config))

    def create_partitions(self, name: str, count: int) -> None:
        """Add partitions to a topic, and wait until a broker knows their leaders.

        Records stay where they are; keys of later records may go to other partitions.

        Args:
            name: the topic.
            count: how many partitions the topic is to have in all.

        Raises:
            ConfigError: the topic is no text, or the count no whole number from 1.
            BrokerError: the cluster refuses it, for example with INVALID_PARTITIONS if the topic has as many already.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: the leaders were not known within `default_api_timeout_ms`.

        Example:
            >>> client.create_topic(new_topic, partitions=2)
            >>> client.create_partitions(new_topic, 3)
            >>> sorted(client.partitions_for(new_topic))
            [0, 1, 2]
        """
        self._run(self._calls.create_partitions(name, count))

    def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records.

        Args:
            name: the topic.

        Raises:
            BrokerError: the topic does not exist, or may not be deleted.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> client.delete_topic(topic)
        """
        self._run(self._calls.delete_topic(name))

    def topic_config(self, name: str) -> dict[str, str | None]:
        """Read a topic's configuration, defaults included.

        Args:
            name: the topic.

        Returns:
            Each option with its value as text; None for a value that the broker hides.

        Raises:
            BrokerError: the topic does not exist, or may not be described.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> client.topic_config(topic)["cleanup.policy"]
            'delete'
        """
        return self._run(self._calls.topic_config(name))
