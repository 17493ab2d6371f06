"""`ShareConsumer`: a member of a share group, whose members share the records of the same partitions (KIP-932)."""

from __future__ import annotations

import warnings
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Self, Unpack

from kafwire.calls.consumer import servers_first
from kafwire.calls.share import ShareCalls, keywords_of, share_core
from kafwire.config import ShareConsumerConfig
from kafwire.config.checks import described_by
from kafwire.consumer.core import CLOSE_SECONDS
from kafwire.consumer.share.share_batch import ShareBatch
from kafwire.handles import refuse_copy
from kafwire.peer_names import SHARE_CONSUMER, SHARE_CONSUMER_ARGUMENTS, lookup, refuse_arguments
from kafwire.runtime.client import PushingClient
from kafwire.runtime.interfaces import Engine

if TYPE_CHECKING:
    from kafwire.config.typed_options import ShareConsumerOptions
    from kafwire.records import Record


@refuse_arguments(SHARE_CONSUMER_ARGUMENTS, blocking=True)
@described_by(ShareConsumerConfig)
class ShareConsumer(PushingClient):
    """A reader of topics as a member of a share group. A context manager, for one thread.

    Members of a share group read the same partitions: one member acquires each record for a limited time; the record is
    delivered again if it is released, or not acknowledged in time. Records have no order, and members commit no
    offsets. The group's option `share.auto.offset.reset` ("latest" by default) sets where a group begins.

    In implicit mode, the default, reading the next batch accepts a batch; after an exception in a loop, closing the
    consumer releases it. With `share_acknowledgement_mode="explicit"`, call a batch's `accept`, `release` or `reject`,
    in any order and in any thread.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: the topics to read.
        columns: the Arrow columns to decode, as for `kafwire.scan`; None decodes all.
        layout: names and types of the columns, as for `kafwire.scan`.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ShareConsumerConfig`, for example `group_id="workers"`.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: no response came within `default_api_timeout_ms`.

    Example:
        >>> with kafwire.ShareConsumer(bootstrap, topics=topic, group_id=share_group) as consumer:
        ...     for batch in consumer.batches():
        ...         print(batch.delivery_count, [record.value for record in batch])
        ...         break
        1 [b'EWR-IAH', b'JFK-MIA', b'JFK-BQN']
    """

    __reduce_ex__ = refuse_copy
    _calls: ShareCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(SHARE_CONSUMER, blocking=True)

    @servers_first
    def __init__(
        self,
        bootstrap_servers: str | Iterable[str],
        topics: str | Iterable[str],
        *,
        columns: Sequence[str] | None = None,
        layout: Mapping[str, Any] | None = None,
        engine: Engine | None = None,
        **options: Unpack[ShareConsumerOptions],
    ) -> None:
        self._core = share_core(bootstrap_servers, options, engine, topics, columns, layout)
        self._engine = self._core.cluster.engine
        self._calls = ShareCalls(self._core)
        self._pushing = self._core.pushing
        self._hand = self._calls.hand
        self._closed = False
        try:
            self._engine.run(self._core.start)
        except BaseException:
            self.close()
            raise

    @classmethod
    def from_config(cls, options: Mapping[str, Any], *, engine: Engine | None = None) -> Self:
        """Make a consumer from Kafka's own option names.

        Args:
            options: option names of the Java client and librdkafka, with their values; and the arguments `topics`,
                `columns` and `layout`.
            engine: the engine to run on; None: the engine of this process.

        Returns:
            The consumer.

        Raises:
            ConfigError: an option is unknown, not supported, or has a bad value.
            KafkaError: as the constructor does.
        """
        return cls(engine=engine, **keywords_of(options))

    def batches(self, timeout: float | None = None) -> Iterator[ShareBatch]:
        """Iterate over acquired records, in batches of one partition.

        Args:
            timeout: seconds without records after which the iterator ends; None: it never ends.

        Returns:
            An iterator of `ShareBatch`.

        Raises:
            CorruptBatchError: a batch cannot be decoded; it is rejected.
            AuthorizationError: this client must not read a topic, or be in the group.
            BrokerError: the group or a partition cannot be read.
        """
        while self._fill(timeout, by_silence=True):
            yield self._hand.take(1)[0]

    def poll(self, timeout: float | None = 0.0) -> list[ShareBatch]:
        """Return batches of acquired records, about `max_poll_records` from each broker.

        With `share_acquire_mode="record_limit"` it is at most `max_poll_records` from all brokers together.

        Args:
            timeout: seconds to wait for the first batch; None: no limit.

        Returns:
            The batches; an empty list if nothing came in time.

        Raises:
            KafkaError: as `batches` does.
        """
        self._fill(timeout)
        return self._hand.take()

    def _fill(self, timeout: float | None, *, by_silence: bool = False) -> bool:
        """Count the records in hand as processed, and wait for batches; return False if none came."""
        self._check()
        more, fetched = self._calls.read(timeout, by_silence=by_silence)(), self._hand.fetched
        while not self._hand.waiting:
            if not fetched:
                self._engine.run(more)
            if not fetched:
                return False
            while fetched:
                self._hand.decode()
        return True

    def __iter__(self) -> Iterator[Record]:
        """Iterate over single records, for ever; in implicit mode, reading the next record accepts a record.

        A second loop continues where the first one stopped. `poll` and `batches` deliver the rest of its batch.

        Returns:
            An iterator of `Record`.

        Raises:
            KafkaError: as `batches` does.
        """
        while True:
            self._check()
            record = self._hand.next()
            if record is not None:
                yield record
            elif self._fill(None):
                self._hand.begin()

    def acknowledge(self, record: Record, kind: str | int = "accept") -> None:
        """Acknowledge a record of this consumer, from a batch or from a loop over records.

        In implicit mode, records without this call are accepted as usual.

        Args:
            record: a record that is in hand.
            kind: "accept", "release", "reject" or "renew", or Kafka's numbers for these, 1 to 4.

        Raises:
            ConfigError: there is no such kind.
            KafkaError: the record is acknowledged already, its lock expired, or another consumer has it.

        Example:
            >>> with kafwire.ShareConsumer(
            ...     bootstrap, topics=topic, group_id=share_group, share_acknowledgement_mode="explicit"
            ... ) as consumer:
            ...     for record in consumer:
            ...         consumer.acknowledge(record, "reject" if record.value == b"JFK-MIA" else "accept")
            ...         if record.value == b"JFK-BQN":
            ...             break
            ...     consumer.commit()
            ...     consumer.metrics()["acknowledged"]
            3
        """
        self._check()
        self._core.open_batches.acknowledge(record, kind)

    def commit(self, timeout: float | None = None) -> None:
        """Send all acknowledgements, and wait for the brokers' responses.

        Args:
            timeout: seconds; None: `default_api_timeout_ms`.

        Raises:
            BrokerError: acknowledgements of some records came too late: their locks had expired.
            KafkaTimeoutError: no response came in time.
        """
        self._run(self._calls.commit(timeout))

    def subscribe(self, topics: str | Iterable[str]) -> None:
        """Read only these topics.

        Args:
            topics: one topic or several.

        Raises:
            BrokerError: a topic does not exist.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.
        """
        self._run(self._calls.subscribe(topics))

    @property
    def subscription(self) -> set[str]:
        """The topics that the consumer reads."""
        return set(self._core.topics)

    def metrics(self) -> dict[str, Any]:
        """Return a snapshot of counters.

        Returns:
            `acquired`, `acknowledged`, and `expired` (before their delivery): records. `member_id`, `state`,
            `partitions`: the membership. `connections`: requests, bytes and latencies of each connection.

        Raises:
            KafkaError: the consumer is closed.
        """
        return self._run(self._core.snapshot)

    def close(self, timeout: float = CLOSE_SECONDS) -> None:
        """Send all acknowledgements, release other records, and leave the group.

        Args:
            timeout: seconds for all of it.
        """
        if self._closed or self._engine.is_over:
            return
        close = self._calls.close(timeout)
        self._closed = True
        self._engine.run(close)

    def __repr__(self) -> str:
        closed = ", closed" if self._closed else ""
        return f"<ShareConsumer of {', '.join(self._core.topics)} for group {self._core.config.group_id!r}{closed}>"

    def __del__(self) -> None:
        if not getattr(self, "_closed", True) and not self._engine.is_over:
            warnings.warn(f"never closed: {self!r}", ResourceWarning, source=self, stacklevel=2)
            self._engine.start(self._core.abandon)
