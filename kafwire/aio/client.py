"""`AsyncClient`: `Client` for asyncio."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Unpack

from kafwire.aio.token_calls import AsyncTokenCalls
from kafwire.calls.client import ClientCalls, offsets_of
from kafwire.cluster.metadata import TopicInfo
from kafwire.cluster.offset_spec import Bound, OffsetSpec, Timestamps
from kafwire.config import ClientConfig
from kafwire.config.checks import described_by
from kafwire.errors import KafkaError
from kafwire.peer_names import CLIENT, CLIENT_ARGUMENTS, lookup, refuse_arguments
from kafwire.types import ClusterMetadata, TopicPartition

if TYPE_CHECKING:
    from kafwire.aio.scan import AsyncScan
    from kafwire.config.typed_options import ScanOptions
    from kafwire.scanner.reader import ProgressOption


@refuse_arguments(CLIENT_ARGUMENTS, blocking=False)
@described_by(ClientConfig)
class AsyncClient(AsyncTokenCalls):
    """`kafwire.Client` for asyncio: a connection to a cluster for single requests. An async context manager.

    It connects on the first call. It may be created outside a running loop, and used from several loops and threads. A
    call that is cancelled ends at once; the broker may still execute the request.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ClientConfig`, for example `request_timeout_ms=5000`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncClient(bootstrap) as client:
        ...         return await client.partitions_for(topic)
        >>> asyncio.run(main())
        {0}
    """

    _kind = ClientCalls
    _calls: ClientCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(CLIENT, blocking=False)

    async def call(
        self,
        message: Any,
        *,
        broker: int | None = None,
        version: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
    ) -> Any:
        """Send a request message, and return its response message, as `Client.call` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(bootstrap) as client:
            ...         response = await client.call(kafwire.protocol.DescribeClusterRequest())
            ...         return [broker.broker_id for broker in response.brokers]
            >>> asyncio.run(main())
            [1]
        """
        return await self._run(self._calls.call(message, broker=broker, version=version, timeout=timeout))

    async def topic(self, name: str) -> TopicInfo:
        """Look up a topic's id and its partitions, as `Client.topic` does."""
        return await self._run(self._cluster.topic, name)

    async def partitions_for(self, topic: str) -> set[int]:
        """Look up the numbers of a topic's partitions, as `Client.partitions_for` does."""
        return await self._run(self._cluster.partitions, topic)

    async def metadata(self, topics: Iterable[str] | None = None) -> ClusterMetadata:
        """Ask a broker for the cluster's brokers and topics, as `Client.metadata` does."""
        return await self._run(self._calls.metadata(topics))

    async def offsets(
        self,
        partitions: Iterable[TopicPartition],
        when: OffsetSpec = "latest",
        *,
        isolation_level: str = "read_uncommitted",
        on_error: Callable[[TopicPartition, KafkaError], object] | None = None,
    ) -> dict[TopicPartition, int]:
        """Look up offsets by time, as `Client.offsets` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(bootstrap) as client:
            ...         return await client.offsets([partition], "latest")
            >>> asyncio.run(main())[partition]
            3
        """
        work = self._calls.offsets(partitions, when, isolation_level, available=on_error is not None)
        return offsets_of(await self._run(work), on_error)

    async def scan(
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
    ) -> AsyncScan:
        """Read records between two bounds, as `Client.scan` does. Returns an `AsyncScan`.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(bootstrap) as client, await client.scan(topic) as scan:
            ...         return [len(batch) async for batch in scan.batches()]
            >>> asyncio.run(main())
            [3]
        """
        from kafwire.aio.scan import AsyncScan
        from kafwire.scanner.reader import Asked

        self._check()
        asked = Asked(
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
        found = await self._run(partial(asked.find, self._cluster))
        return AsyncScan(self._engine, self._cluster, asked.reading, found, title=asked.title, force=asked.force)

    async def create_topic(
        self,
        name: str,
        *,
        partitions: int = -1,
        replication_factor: int = -1,
        config: Mapping[str, str] | None = None,
    ) -> None:
        """Create a topic, and wait until a broker knows all its leaders, as `Client.create_topic` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(bootstrap) as client:
            ...         await client.create_topic(new_topic, partitions=2)
            ...         return await client.partitions_for(new_topic)
            >>> asyncio.run(main())
            {0, 1}
        """
        await self._run(self._calls.create_topic(name, partitions, replication_factor, config))

    async def create_partitions(self, name: str, count: int) -> None:
        """Add partitions to a topic, and wait until a broker knows all leaders, as `Client.create_partitions` does."""
        await self._run(self._calls.create_partitions(name, count))

    async def delete_topic(self, name: str) -> None:
        """Delete a topic and all its records, as `Client.delete_topic` does."""
        await self._run(self._calls.delete_topic(name))

    async def topic_config(self, name: str) -> dict[str, str | None]:
        """Read a topic's configuration, defaults included, as `Client.topic_config` does."""
        return await self._run(self._calls.topic_config(name))
