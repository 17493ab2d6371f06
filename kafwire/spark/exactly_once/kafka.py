"""`Coordination` on a Kafka cluster. Its methods are coroutines without a pause: `completed` runs them in the caller.

One object serves a process of the driver from batch to batch, and keeps its connections and the part of the state topic
that it has read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

from kafwire.cluster.prepared_transactions import PreparedTransactions
from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, ConfigError, KafkaError, KafkaTimeoutError
from kafwire.producer.sequencer import Identity
from kafwire.spark import processes
from kafwire.spark.exactly_once.decisions import Record, coordinator_id, prefix_of
from kafwire.spark.exactly_once.outcomes import Described
from kafwire.spark.lookup import client_options
from kafwire.types import Offset, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    import kafwire
    from kafwire.spark.options import WriteOptions

_T = TypeVar("_T")

# A decision is written within milliseconds. A driver that was killed in between holds readers for so long at most.
_COORDINATOR_TIMEOUT_MS = 10_000
_LOOK_AGAIN_S = 0.02
_REPLICAS = 3


def completed(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never pauses."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value  # type: ignore[no-any-return]
    coroutine.close()
    raise AssertionError("a coroutine of the sink paused")


class KafkaCoordination:
    """The coordination of one sink. Its options are those of its producers."""

    def __init__(self, options: WriteOptions) -> None:
        """Connect to nothing yet."""
        assert options.sink is not None
        assert options.state_topic is not None
        self._options = options
        self._sink = options.sink
        self._place = TopicPartition(options.state_topic, 0)
        self._client_options = client_options(options)
        self._client: kafwire.Client | None = None
        self._coordinator: kafwire.Producer | None = None
        self._connections = processes.Connections(self._client_options)
        self._engine = self._connections.cluster.engine
        self._transactions = PreparedTransactions(self._connections.cluster)
        self._next = 0  # the first offset that was not read
        self._state: dict[bytes, bytes] = {}
        self._waiting_since: float | None = None

    def close(self) -> None:
        """Close all connections."""
        self._drop_coordinator()
        if self._client is not None:
            self._client.close()
            self._client = None
        self._connections.close()

    async def fence(self) -> Identity:
        """See `Coordination`."""
        self._prepare()
        self._drop_coordinator()
        self._waiting_since = None
        producer = self._coordinator = self._producer(coordinator_id(self._sink), timeout_ms=_COORDINATOR_TIMEOUT_MS)
        with _explained(self._sink):
            producer.init_transactions()
        return self._identity(producer)

    async def high_watermark(self) -> int:
        """See `Coordination`."""
        return self._end("read_uncommitted")

    async def last_stable_offset(self) -> int:
        """See `Coordination`."""
        return self._end("read_committed")

    async def wait(self) -> None:
        """See `Coordination`."""
        now = time.monotonic()
        if self._waiting_since is None:
            self._waiting_since = now
        limit_s = ClientConfig.build(self._client_options).default_api_timeout_ms / 1000
        if now - self._waiting_since > limit_s:
            raise KafkaTimeoutError(
                f"a transaction of another program has been open in the state topic {self._place.topic} for "
                f"{limit_s:g} s and hides decisions of the sink {self._sink}: only the sink may write to that topic"
            )
        time.sleep(_LOOK_AGAIN_S)  # noqa: ASYNC251 - no event loop runs these coroutines

    async def read(self, end: int) -> Sequence[Record]:
        """See `Coordination`."""
        place = self._place
        if end < self._next:  # the topic was recreated
            self._state.clear()
            self._next = 0
        start = max(self._next, self._made.offsets([place], "earliest")[place])
        if start < end:
            with self._made.scan(
                place.topic,
                start={place: Offset(start)},
                end={place: Offset(end)},
                isolation_level="read_committed",
            ) as scan:
                for batch in scan.batches():
                    for record in batch:
                        self._keep(record.key, record.value)
        self._next = end
        return list(self._state.items())

    async def write(self, records: Sequence[Record]) -> Identity:
        """See `Coordination`."""
        producer = self._coordinator
        if producer is None:
            raise KafkaError(f"the sink {self._sink} was not taken over")
        try:
            producer.begin_transaction()
            for key, value in records:
                producer.send(self._place.topic, value, key=key, partition=self._place.partition)
            producer.commit_transaction()
        except BaseException:
            self._drop_coordinator()
            raise
        return self._identity(producer)

    async def end(self, handles: Sequence[TransactionHandle], *, commit: bool) -> Sequence[int]:
        """See `Coordination`."""
        return self._engine.run(self._transactions.end, handles, commit=commit)

    async def describe(self, transactional_ids: Sequence[str]) -> Mapping[str, Described]:
        """See `Coordination`."""
        found = self._engine.run(self._transactions.describe, transactional_ids)
        return {
            name: Described(
                state.transaction_state,
                state.producer_id,
                state.producer_epoch,
                state.transaction_start_time_ms,
                state.transaction_timeout_ms,
            )
            for name, state in found.items()
        }

    async def ongoing(self, prefix: str) -> Sequence[str]:
        """See `Coordination`."""
        return self._engine.run(self._transactions.ongoing, prefix)

    def now_ms(self) -> int:
        """See `Coordination`."""
        return time.time_ns() // 1_000_000

    def _keep(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        if value is None:
            self._state.pop(bytes(key), None)
        else:
            self._state[bytes(key)] = bytes(value)

    def _end(self, isolation: str) -> int:
        return self._made.offsets([self._place], "latest", isolation_level=isolation)[self._place]

    @property
    def _made(self) -> kafwire.Client:
        assert self._client is not None
        return self._client

    @staticmethod
    def _identity(producer: kafwire.Producer) -> Identity:
        identity = producer._transactional().identity
        assert identity is not None
        return identity

    def _drop_coordinator(self) -> None:
        producer, self._coordinator = self._coordinator, None
        if producer is not None:
            with contextlib.suppress(KafkaError):  # records that it gives up are those of a decision that failed
                producer.close(0.0)

    def _producer(self, transactional_id: str, *, timeout_ms: int) -> kafwire.Producer:
        given = {**self._options.client, "transactional_id": transactional_id, "transaction_timeout_ms": timeout_ms}
        return self._connections.producer(given)

    def _prepare(self) -> None:
        """Check the sink once, before its first batch: the state topic, time-outs, permissions."""
        if self._client is not None:
            return
        import kafwire

        with processes.naming_this_host():
            client = kafwire.Client(**self._client_options)
        try:
            with _explained(self._sink):
                self._check_state_topic(client)
                self._check_tasks()
        except BaseException:
            client.close()
            raise
        self._client = client

    def _check_state_topic(self, client: kafwire.Client) -> None:
        name = self._place.topic
        (topic,) = client.metadata([name]).topics
        if topic.error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            replicas = min(_REPLICAS, len(client.metadata([]).brokers))
            try:
                client.create_topic(
                    name, partitions=1, replication_factor=replicas, config={"cleanup.policy": "compact"}
                )
            except BrokerError as error:
                if error.code != ErrorCode.TOPIC_ALREADY_EXISTS:
                    raise
            (topic,) = client.metadata([name]).topics
        if len(topic.partitions) > 1:
            raise ConfigError(
                f"option stateTopic={name}: the topic has {len(topic.partitions)} partitions, one is needed"
            )
        try:
            policy = client.topic_config(name).get("cleanup.policy")
        except AuthorizationError:
            return  # DESCRIBE_CONFIGS is not needed for anything else
        if policy != "compact":
            raise ConfigError(
                f"option stateTopic={name}: its cleanup.policy is {policy}, which removes decisions; set it to compact"
            )

    def _check_tasks(self) -> None:
        """Take a producer id as the tasks will: the coordinator checks the time-out and the permissions."""
        timeout_ms = int(self._options.client["transaction_timeout_ms"])
        with self._producer(f"{prefix_of(self._sink)}check", timeout_ms=timeout_ms) as producer:
            try:
                producer.init_transactions()
            except KafkaError as error:
                cause = error.__cause__
                if isinstance(cause, BrokerError) and cause.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                    raise ConfigError(
                        f"option kafka.transaction.timeout.ms={timeout_ms} is above the brokers' "
                        "transaction.max.timeout.ms: lower the one or raise the other"
                    ) from None
                raise


class _explained:  # noqa: N801 - used as a function
    """Adds the permissions that a sink needs to an error about a missing one."""

    def __init__(self, sink: str) -> None:
        self._sink = sink

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        causes = (error, error.__cause__) if error is not None else ()
        if error is not None and any(isinstance(each, AuthorizationError) for each in causes):
            error.add_note(
                f"the sink {self._sink} needs WRITE and DESCRIBE on TransactionalIds with the prefix "
                f"{prefix_of(self._sink)!r}, and READ, WRITE and CREATE on its state topic"
            )
