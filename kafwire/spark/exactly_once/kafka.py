"""`Coordination` on a Kafka cluster. Its coroutines never suspend: `completed` runs them in the caller.

One object serves a process of the driver from batch to batch, and keeps its connections and the part of the state topic
that it has read.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Coroutine, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

from kafwire.admin.outcomes import Outcomes
from kafwire.admin.transactions import TransactionCalls, sorted_listings
from kafwire.calls.admin import AdminCalls
from kafwire.cluster.list_offsets import log_ends
from kafwire.cluster.prepared_transactions import PreparedTransactions
from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError, ConfigError, KafkaError, KafkaTimeoutError, ProtocolError
from kafwire.producer.outcome.sequencer import Identity
from kafwire.spark import processes
from kafwire.spark.exactly_once.decisions import Record, coordinator_id, prefix_of
from kafwire.spark.exactly_once.outcomes import Described
from kafwire.spark.options import TWO_PHASE, client_names
from kafwire.types import Offset, TopicPartition, TransactionHandle

if TYPE_CHECKING:
    import kafwire
    from kafwire.spark.options import WriteOptions

_T = TypeVar("_T")
_P = ParamSpec("_P")

# A decision is written within milliseconds. A driver that was killed meanwhile blocks readers for at most this time.
_COORDINATOR_TIMEOUT_MS = 10_000
_LOOK_AGAIN_S = 0.02
_FENCED = (ErrorCode.INVALID_PRODUCER_EPOCH, ErrorCode.PRODUCER_FENCED)
_REPLICAS = 3


def completed(coroutine: Coroutine[Any, Any, _T]) -> _T:
    """Run a coroutine that never suspends."""
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
        self._client_options = {name: value for name, value in options.client.items() if name in client_names()}
        self._opened: kafwire.Client | None = None  # its connections serve all of the sink's requests
        self._is_checked = False
        self._stable: int | None = None  # a last stable offset that was fetched and not used yet
        self._coordinator: kafwire.Producer | None = None
        self._next = 0  # the first offset that was not read
        self._state: dict[bytes, bytes] = {}
        self._waiting_since: float | None = None

    def close(self) -> None:
        """Close all connections."""
        self._drop_coordinator()
        if self._opened is not None:
            self._opened.close()
            self._opened = None

    async def fence(self) -> Identity:
        """See `Coordination`."""
        self._check()
        self._drop_coordinator()
        self._waiting_since = None
        # A decision's transaction must time out: an open one hides the state topic from a driver that reads it.
        producer = self._coordinator = self._producer(
            coordinator_id(self._sink), timeout_ms=_COORDINATOR_TIMEOUT_MS, is_two_phase=False
        )
        with _explained(self._sink):
            producer.init_transactions()
        return self._identity(producer)

    async def high_watermark(self) -> int:
        """See `Coordination`. Fetches the last stable offset too: if it reaches the end, there is no second request."""
        end, self._stable = self._run(log_ends, self._client._cluster, self._place)
        return end

    async def last_stable_offset(self) -> int:
        """See `Coordination`."""
        stable, self._stable = self._stable, None
        if stable is None:
            _, stable = self._run(log_ends, self._client._cluster, self._place)
        return stable

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
        start = self._next or self._client.offsets([place], "earliest")[place]
        if start < end:
            with self._client.scan(
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
            topic, partition = self._place
            written = [producer.send(topic, value, key=key, partition=partition) for key, value in records]
            producer.commit_transaction()
        except BaseException as error:
            self._drop_coordinator()
            if _is_fenced(error):
                raise KafkaError(
                    f"another driver took over the sink {self._sink} while this one wrote to {self._place.topic}: stop "
                    f"the other query, or give one of the two another `sink` name ({error})"
                ) from error
            raise
        self._take_in(records, [delivery.result().offset for delivery in written])
        return self._identity(producer)

    async def end(self, handles: Sequence[TransactionHandle], *, commit: bool) -> Sequence[int]:
        """See `Coordination`."""
        return self._run(PreparedTransactions(self._client._cluster).end, handles, commit=commit)

    async def describe(self, transactional_ids: Sequence[str]) -> Mapping[str, Described]:
        """See `Coordination`."""
        outcomes = self._run(self._admin.describe_transactions(transactional_ids, timeout=None))
        _raise_first(outcomes, but=ErrorCode.TRANSACTIONAL_ID_NOT_FOUND)
        return {
            name: Described(
                found.state,
                found.producer_id,
                found.producer_epoch,
                -1 if found.started_ms is None else found.started_ms,
                found.timeout_ms,
            )
            for name, found in outcomes.results.items()
        }

    async def ongoing(self, prefix: str) -> Sequence[str]:
        """See `Coordination`."""
        outcomes = self._run(
            self._admin.list_transactions(
                states=["Ongoing"], producer_ids=None, longer_than_ms=None, pattern=None, prefix=prefix, timeout=None
            )
        )
        _raise_first(outcomes)
        return [each.transactional_id for each in sorted_listings(outcomes.results)]

    def now_ms(self) -> int:
        """See `Coordination`."""
        return time.time_ns() // 1_000_000

    def _take_in(self, records: Sequence[Record], offsets: Sequence[int]) -> None:
        """Count own records, and the transaction's marker after them, as read if they directly follow the last read.

        No other driver writes between the records and the marker: its InitProducerId waits for the marker.
        """
        first = self._next
        if list(offsets) != list(range(first, first + len(offsets))):
            return
        for key, value in records:
            self._keep(key, value)
        self._next = first + len(offsets) + 1

    def _keep(self, key: bytes | None, value: bytes | None) -> None:
        if key is None:
            return
        if value is None:
            self._state.pop(bytes(key), None)
        else:
            self._state[bytes(key)] = bytes(value)

    @property
    def _client(self) -> kafwire.Client:
        if self._opened is None:
            import kafwire

            with processes.naming_this_host():
                self._opened = kafwire.Client(**self._client_options)
        return self._opened

    def _run(self, function: Callable[_P, Coroutine[Any, Any, _T]], *args: _P.args, **kwargs: _P.kwargs) -> _T:
        return self._client._engine.run(function, *args, **kwargs)

    @property
    def _admin(self) -> TransactionCalls:
        return AdminCalls(self._client._cluster)

    def _producer(self, transactional_id: str, *, timeout_ms: int, is_two_phase: bool) -> kafwire.Producer:
        import kafwire

        own = {
            "transactional_id": transactional_id,
            "transaction_timeout_ms": timeout_ms,
            "transaction_two_phase_commit_enable": is_two_phase,
        }
        return kafwire.Producer._sharing(self._client, {**self._options.client, **own})

    @staticmethod
    def _identity(producer: kafwire.Producer) -> Identity:
        identity = producer._calls.transactions().identity
        assert identity is not None
        return identity

    def _drop_coordinator(self) -> None:
        producer, self._coordinator = self._coordinator, None
        if producer is not None:
            with contextlib.suppress(KafkaError):  # records that it gives up are those of a decision that failed
                producer.close(0.0)

    def _check(self) -> None:
        """Check the sink once, before its first batch: the state topic, time-outs, permissions."""
        if self._is_checked:
            return
        with _explained(self._sink):
            self._check_state_topic(self._client)
            self._check_tasks()
        self._is_checked = True

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
            return  # other brokers may not know the new topic yet, and its settings are the sink's
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
        is_two_phase = self._options.is_two_phase
        name = f"{prefix_of(self._sink)}check"
        with self._producer(name, timeout_ms=timeout_ms, is_two_phase=is_two_phase) as producer:
            try:
                producer.init_transactions()
            except KafkaError as error:
                cause = error.__cause__
                if is_two_phase and isinstance(cause, ProtocolError):
                    raise ConfigError(f"option {TWO_PHASE}: {cause.message}") from None
                if isinstance(cause, BrokerError) and cause.code == ErrorCode.INVALID_TRANSACTION_TIMEOUT:
                    raise ConfigError(
                        f"option kafka.transaction.timeout.ms={timeout_ms} is above the brokers' "
                        "transaction.max.timeout.ms: lower the one or raise the other"
                    ) from None
                raise


def _raise_first(outcomes: Outcomes[Any, Any], *, but: int = 0) -> None:
    """Raise the first error of a call's keys, except those with the code `but`."""
    for error in outcomes.errors.values():
        if not (isinstance(error, BrokerError) and error.code == but):
            raise error


def _is_fenced(error: BaseException | None) -> bool:
    """Return True if another producer with the coordinator's id caused an error."""
    while error is not None:
        if isinstance(error, BrokerError) and error.code in _FENCED:
            return True
        error = error.__cause__
    return False


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
