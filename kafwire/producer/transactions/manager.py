"""Transactions on the engine: one task sends the requests that `state.py` wants, one at a time.

A call of the user changes the state and waits for the outcome. Giving up the wait changes nothing: the task continues,
and the same call made again waits for the same outcome.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Protocol

from kafwire import protocol
from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import TRANSACTION, Coordinator
from kafwire.cluster.group_offsets import OffsetToCommit, went_meanwhile
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.cluster.transaction_member import TransactionMember
from kafwire.config import ProducerConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    AuthenticationError,
    AuthorizationError,
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    TransactionAbortedError,
    TransactionError,
    TransactionFatalError,
    TransactionStateError,
    TransactionTimeoutError,
)
from kafwire.integers import natural
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions import state as logic
from kafwire.producer.transactions.actions import API, Action, AddOffsets, AddPartitions, CommitOffsets, End, Initialize
from kafwire.producer.transactions.error_meanings import Meaning
from kafwire.producer.transactions.offset_topics import BY_NAME, OffsetTopics, RecreatedTopicError
from kafwire.producer.transactions.state import State
from kafwire.protocol.versions import TRANSACTION_FEATURE, TRANSACTION_V2
from kafwire.runtime.log import producer_log as log
from kafwire.types import ConsumerGroupMetadata, TransactionHandle

_TWO_PHASE_NEEDS = (
    "transaction_two_phase_commit_enable=True needs brokers with unstable.api.versions.enable=true and "
    "transaction.two.phase.commit.enable=true (KIP-939)"
)
# Markers are written quickly: if the coordinator is still ending the last transaction, a short wait is enough.
CONCURRENT_BACKOFF_MS = 20


class Records(Protocol):
    """The part of the core that transactions use."""

    cluster: Cluster
    config: ProducerConfig
    accumulator: Accumulator
    identity: Identity | None

    def on_wake(self) -> None:
        """Send the batches that may be sent now."""

    def drain(self) -> bool:
        """Close all batches and send those that may be sent; True if none is left."""

    def drop_unsent(self, error: KafkaError) -> bool:
        """Give up all batches except those in flight, with `error`; True if none is left."""


class Transactions:
    """The transactions of one producer. Runs on the engine."""

    def __init__(self, records: Records, transactional_id: str) -> None:
        self._records = records
        self._cluster = records.cluster
        self._config = records.config
        self._id = transactional_id
        self._coordinator = Coordinator(records.cluster, transactional_id, key_type=TRANSACTION)
        self._topics = OffsetTopics(records.cluster)
        self._groups: dict[str, Coordinator] = {}
        self._logic = logic.Transaction(transactional_id)
        self._news = asyncio.Event()
        self._asked = asyncio.Event()  # set while a call waits for an outcome
        self._waiting: set[asyncio.Future[None]] = set()
        self._task: asyncio.Task[None] | None = None
        # until it returns: the ending that a call wants, of which transaction
        self._unreported: tuple[State, int] | None = None
        self._closed = False
        self._problem: Exception | None = None
        records.accumulator.send_gate = self._refusal

    @property
    def state(self) -> State:
        """State of the producer."""
        return self._logic.state

    @property
    def identity(self) -> Identity | None:
        """The producer id and epoch of the next request; None before the first initialization."""
        return self._logic.identity

    @property
    def number(self) -> int:
        """Number of transactions begun."""
        return self._logic.number

    def produce_version(self, connection: BrokerConnection, at_most: int | None) -> int:
        """Return the version of Produce to use on a connection, by the version of transactions (KIP-890)."""
        request = protocol.ProduceRequest
        if self._logic.version >= TRANSACTION_V2:
            return _at_least(connection, request, request.ADDS_PARTITIONS, at_most)
        return connection.version_of(request, at_most=request.ADDS_PARTITIONS - 1)

    # -- the user's calls

    async def initialize(self, timeout_s: float | None = None, what: str = "init_transactions()") -> None:
        """Get a producer id; earlier producers with this transactional id are fenced, and their transactions ended."""
        self._logic.initialize()
        self._go_on()
        await self._until(lambda: self.state is not State.INITIALIZING, timeout_s, what)
        if self.state is State.UNINITIALIZED and self._logic.error is not None:
            error = self._logic.error.with_traceback(None)
            if self._config.transaction_two_phase_commit_enable and isinstance(error.__cause__, AuthorizationError):
                error.add_note(f"{_TWO_PHASE_NEEDS}, and the principal TWO_PHASE_COMMIT on the TransactionalId")
            raise error
        self._check_fatal()

    async def begin(self, timeout_s: float | None = None) -> None:
        """Begin a transaction; initialize first if needed."""
        if self.state in (State.UNINITIALIZED, State.INITIALIZING):
            await self.initialize(timeout_s, "begin_transaction()")
        version = TRANSACTION_V2 if self._cluster.feature(TRANSACTION_FEATURE) >= TRANSACTION_V2 else 1
        while not self._logic.begin(version):
            self._go_on()
            await self._until(lambda: self.state is not State.INITIALIZING, timeout_s, "begin_transaction()")
        self._records.accumulator.transaction_generation += 1
        self._records.accumulator.send_gate = None

    async def send_offsets(
        self,
        offsets: Mapping[Any, Any],
        group: ConsumerGroupMetadata | str,
        timeout_s: float | None = None,
    ) -> None:
        """Commit a group's offsets with the transaction; return when the coordinators have them."""
        commit = CommitOffsets(_group(group), _offsets(offsets))
        self._logic.check_open("send offsets")
        went = commit.group.went(commit.offsets) if isinstance(commit.group, TransactionMember) else []
        if went:
            self._logic.refused(commit, went_meanwhile(went, commit.group.group_id), Meaning.ABORT)
            assert self._logic.error is not None
            raise self._logic.error.with_traceback(None)
        if not commit.offsets:
            return
        self._logic.add_offsets(commit)
        self._go_on()
        await self._until(lambda: self._logic.is_done(commit), timeout_s, "send_offsets()")
        if self._logic.error is not None:
            raise self._logic.error.with_traceback(None)

    async def commit(self, timeout_s: float | None = None) -> None:
        """Send all buffered records, and commit."""
        if self._has_come_to(State.COMMITTING):
            return
        self._logic.commit()
        await self._end(timeout_s, "commit_transaction()", State.COMMITTING)

    async def abort(self, timeout_s: float | None = None) -> None:
        """Drop unsent records, and abort."""
        if self._has_come_to(State.ABORTING):
            return
        self._logic.abort()
        await self._end(timeout_s, "abort_transaction()", State.ABORTING)

    async def detach(self, timeout_s: float | None = None) -> TransactionHandle:
        """Send all buffered records, and hand the open transaction over: this producer sends nothing more."""
        self._logic.detach()
        self._look()
        self._go_on()
        await self._until(lambda: self.state is not State.DETACHING, timeout_s, "detach()")
        if self.state is State.IN_TRANSACTION:
            self._records.accumulator.send_gate = None
            raise TransactionStateError(
                f"cannot detach: the transaction of transactional_id {self._id!r} has no records; abort it"
            )
        if self.state is not State.DETACHED or self._logic.identity is None:
            self._logic.check_open("detach")
        assert self._logic.identity is not None
        return TransactionHandle(self._id, self._logic.identity.producer_id, self._logic.identity.epoch)

    def _has_come_to(self, ending: State) -> bool:
        """True if the ending that a timed-out call wanted was reached since: the repeated call returns at once."""
        has_come = self._unreported == (ending, self._logic.ended) and self._logic.ended == self._logic.number
        if has_come:
            self._unreported = None
        return has_come

    async def _end(self, timeout_s: float | None, what: str, ending: State) -> None:
        self._look()
        self._go_on()
        number = self._logic.number
        self._unreported = ending, number
        await self._until(lambda: self._logic.ended >= number or self.state is not ending, timeout_s, what)
        self._unreported = None
        if self._logic.ended < number and self._logic.error is not None:
            raise self._logic.error.with_traceback(None)

    async def close(self, timeout_s: float | None) -> None:
        """Abort an open transaction, finish a commit, and stop; take at most `timeout_s` seconds."""
        try:
            if self.state in (*logic.OPEN, State.DETACHING):
                log.warning(
                    "kafwire: the producer with transactional_id %r was closed in a transaction, which is aborted",
                    self._id,
                    transactional_id=self._id,
                )
                await self.abort(timeout_s)
            elif self.state is State.COMMITTING:
                await self.commit(timeout_s)
            elif self.state is State.ABORTING:
                await self.abort(timeout_s)
        finally:
            self.stop()

    def stop(self) -> None:
        """Send no more requests; calls that wait raise."""
        self._closed = True
        if self._task is not None:
            self._task.cancel()
        self._tell()

    # -- the sender's calls

    def admits(self, where: tuple[str, int]) -> bool:
        """True if a batch may be sent to a partition now; if not, its partition is added first."""
        admitted = self._logic.admits(where)
        if self._logic.has_pending:
            self._news.set()
        return admitted

    def batch_failed(self, error: KafkaError, *, numbered: bool) -> KafkaError:
        """Note that a batch failed for good; return the error for its deliveries."""
        failure = self._logic.batch_failed(error, numbered=numbered)
        self._look()
        self._news.set()
        return failure

    def on_progress(self) -> None:
        """Continue an ending that may have waited for batches."""
        if self.state in (
            *(State.COMMITTING, State.DETACHING),
            *(State.ABORTING, State.ABORTABLE_ERROR, State.FATAL_ERROR),
        ):
            self._news.set()

    # -- the task

    def _go_on(self) -> None:
        if self._task is None and not self._closed:
            self._task = asyncio.ensure_future(self._run())
        self._news.set()

    async def _run(self) -> None:
        try:
            await self._ask_all()
        except Exception as error:
            # A defect: but no call may wait forever because of it.
            log.exception("kafwire: the transactions of %r cannot go on", self._id, transactional_id=self._id)
            self._logic.break_off(KafkaError(f"{type(error).__name__}: {error}"))
            self._look()
            self._tell()

    async def _ask_all(self) -> None:
        failures = 0
        while True:
            self._news.clear()
            action = self._logic.next(settled=self._settled())
            self._look()
            self._tell()
            if action is None:
                await self._news.wait()
                continue
            try:
                wait_ms = await self._do(action)
            except AuthenticationError as error:
                # A retry would fail again, and can lock the account: the next call tries again.
                self._problem = error
                self._asked.clear()
                self._tell(error)
                await self._asked.wait()
                continue
            if wait_ms is None:
                failures = 0
                self._look()
                self._tell()
                self._records.on_wake()
                continue
            failures += 1
            wait = delay_ms(failures, wait_ms, self._config.retry_backoff_max_ms, self._cluster.engine.random.random())
            await asyncio.sleep(wait / 1000)

    def _settled(self) -> bool:
        if self.state in (State.COMMITTING, State.DETACHING):
            return self._records.drain()
        if self.state is State.ABORTING:
            return self._records.drop_unsent(self._aborted())
        if self._logic.error is not None and self.state in (State.ABORTABLE_ERROR, State.FATAL_ERROR):
            return self._records.drop_unsent(self._logic.error)
        return False

    def _aborted(self) -> TransactionAbortedError:
        return TransactionAbortedError(
            f"the transaction of transactional_id {self._id!r} was aborted: this record was not sent, or "
            "readers of committed records do not see it"
        )

    def _look(self) -> None:
        """Apply the state to the sender: its identity, and whether records may be sent."""
        self._records.identity = self._logic.identity
        self._records.accumulator.is_committing = self.state in (State.COMMITTING, State.DETACHING)
        if self.state is not State.IN_TRANSACTION:
            self._records.accumulator.send_gate = self._refusal

    def _refusal(self) -> Exception:
        """Return the error for a record sent now."""
        try:
            self._logic.check_open("send")
        except TransactionError as error:
            return error.with_traceback(None)
        return TransactionStateError(f"the transaction of transactional_id {self._id!r} has just begun: send again")

    def _check_fatal(self) -> None:
        if self.state is State.FATAL_ERROR and self._logic.error is not None:
            raise self._logic.error.with_traceback(None)

    def _tell(self, error: AuthenticationError | None = None) -> None:
        """Make all waiting calls check the state, or raise `error`."""
        for waiter in self._waiting:
            if waiter.done():
                continue
            if error is None:
                waiter.set_result(None)
            else:
                waiter.set_exception(error.with_traceback(None))

    async def _until(self, done: Callable[[], bool], timeout_s: float | None, what: str) -> None:
        limit_s = self._config.max_block_ms / 1000 if timeout_s is None else timeout_s
        try:
            async with asyncio.timeout(limit_s):
                while not done():
                    if self._closed:
                        raise TransactionFatalError(
                            f"the producer with transactional_id {self._id!r} was closed before {what} completed"
                        )
                    waiter = asyncio.get_running_loop().create_future()
                    self._waiting.add(waiter)
                    self._asked.set()
                    try:
                        await waiter
                    finally:
                        self._waiting.discard(waiter)
        except TimeoutError:
            because = f" (last: {self._problem})" if self._problem is not None else ""
            raise TransactionTimeoutError(
                f"{what} has no outcome after {limit_s:g} s{because}: it continues, call it again to wait for it"
            ) from None

    async def _do(self, action: Action) -> int | None:
        """Send the action's request; return None if the response changed the state, else the first back-off in ms."""
        backoff_ms = self._config.retry_backoff_ms
        coordinator = self._coordinator
        if isinstance(action, CommitOffsets):
            coordinator = self._group_coordinator(action.group.group_id)
        try:
            connection = await coordinator.connection()
            ids = await self._topic_ids(action, connection)
        except RecreatedTopicError as error:
            self._logic.refused(action, error, Meaning.ABORT)
            return None
        except BrokerError as error:
            self._problem = error
            meaning = self._logic.meaning(action, error.code)
            if meaning <= Meaning.FIND_COORDINATOR:
                return backoff_ms
            self._logic.refused(action, error, meaning)
            return None
        except (KafkaConnectionError, KafkaTimeoutError) as error:
            self._problem = error
            return backoff_ms
        except ProtocolError as error:
            self._logic.refused(action, error, Meaning.FATAL)
            return None
        try:
            message, version = self._request(action, connection, ids)
        except ProtocolError as error:
            self._logic.refused(action, error, Meaning.FATAL)
            return None
        try:
            response = await connection.call(message, version=version)
        except (KafkaConnectionError, KafkaTimeoutError, ProtocolError) as error:
            self._problem = error
            self._logic.lost(action)
            coordinator.forget(connection.node)
            return backoff_ms
        if isinstance(response, protocol.TxnOffsetCommitResponse):
            self._topics.read(response.topics)
        codes, identity = _codes(response)
        meaning = self._logic.on_response(action, codes, identity)
        if meaning is Meaning.FIND_COORDINATOR:
            coordinator.forget(connection.node)
        if meaning in (Meaning.RETRY, Meaning.FIND_COORDINATOR):
            code = codes if isinstance(codes, int) else next(code for code in codes.values() if code)
            self._problem = self._logic.error_of(action, code, API[type(action)])
            if code == ErrorCode.UNKNOWN_TOPIC_ID:
                self._topics.doubt()
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return min(CONCURRENT_BACKOFF_MS, backoff_ms)
            return backoff_ms
        self._problem = None
        return None

    def _group_coordinator(self, group_id: str) -> Coordinator:
        found = self._groups.get(group_id)
        if found is None:
            found = self._groups[group_id] = Coordinator(self._cluster, group_id)
        return found

    async def _topic_ids(self, action: Action, connection: BrokerConnection) -> Mapping[str, uuid.UUID]:
        """Return the ids by which a request names topics; `BY_NAME` if it uses their names."""
        if not isinstance(action, CommitOffsets) or self._logic.version < TRANSACTION_V2:
            return BY_NAME
        request = protocol.TxnOffsetCommitRequest
        version = connection.version_of(request)
        return await self._topics.ids(action) if version >= request.BY_TOPIC_ID else BY_NAME

    def _request(self, action: Action, connection: BrokerConnection, ids: Mapping[str, uuid.UUID]) -> tuple[Any, int]:
        """Return the request message and its version."""
        second = self._logic.version >= TRANSACTION_V2
        identity = self._logic.identity or logic.NO_PRODUCER
        producer: dict[str, Any] = {
            "transactional_id": self._id,
            "producer_id": identity.producer_id,
            "producer_epoch": identity.epoch,
        }
        message: Any
        if isinstance(action, Initialize):
            current = action.current or logic.NO_PRODUCER
            message = protocol.InitProducerIdRequest(
                transactional_id=self._id,
                transaction_timeout_ms=self._config.transaction_timeout_ms,
                producer_id=current.producer_id,
                producer_epoch=current.epoch,
            )
            if not self._config.transaction_two_phase_commit_enable:
                return message, connection.version_of(protocol.InitProducerIdRequest)
            _check_two_phase(connection)
            message.enable2_pc = True
            return message, protocol.InitProducerIdRequest.TWO_PHASE
        if isinstance(action, AddPartitions):
            request: Any = protocol.AddPartitionsToTxnRequest
            by_topic: dict[str, list[int]] = {}
            for topic, partition in action.partitions:
                by_topic.setdefault(topic, []).append(partition)
            message = request(
                v3_and_below_transactional_id=self._id,
                v3_and_below_producer_id=identity.producer_id,
                v3_and_below_producer_epoch=identity.epoch,
                v3_and_below_topics=[
                    request.AddPartitionsToTxnTopic(name=topic, partitions=numbers)
                    for topic, numbers in by_topic.items()
                ],
            )
            return message, connection.version_of(request, at_most=request.FOR_BROKERS - 1)
        if isinstance(action, AddOffsets):
            message = protocol.AddOffsetsToTxnRequest(group_id=action.group_id, **producer)
            return message, connection.version_of(protocol.AddOffsetsToTxnRequest)
        if isinstance(action, End):
            request = protocol.EndTxnRequest
            message = request(committed=action.committed, **producer)
            at_most = None if second else request.NEW_EPOCH - 1
            return message, _at_least(connection, request, request.NEW_EPOCH if second else 0, at_most)
        request = protocol.TxnOffsetCommitRequest
        topics: dict[str, list[Any]] = {}
        for (topic, partition), value in action.offsets.items():
            assert isinstance(value, OffsetToCommit)
            topics.setdefault(topic, []).append(
                request.TxnOffsetCommitRequestPartition(
                    partition_index=partition,
                    committed_offset=value.offset,
                    committed_leader_epoch=value.leader_epoch,
                    committed_metadata=value.metadata,
                )
            )
        message = request(
            **producer,
            group_id=action.group.group_id,
            generation_id_or_member_epoch=action.group.generation_id,
            member_id=action.group.member_id,
            group_instance_id=action.group.group_instance_id,
            topics=[
                request.TxnOffsetCommitRequestTopic(name=name, topic_id=ids.get(name, NO_TOPIC_ID), partitions=parts)
                for name, parts in topics.items()
            ],
        )
        at_most = None if ids else request.BY_TOPIC_ID - 1 if second else request.ADDS_GROUP - 1
        return message, _at_least(connection, request, request.ADDS_GROUP if second else 0, at_most)


def _at_least(connection: BrokerConnection, request: type[Any], at_least: int, at_most: int | None) -> int:
    version = connection.version_of(request, at_most=at_most)
    if version < at_least:
        raise ProtocolError(
            f"{connection.where} offers version {version} of {request.__name__}, but transactions of version 2 "
            f"(KIP-890) need {at_least}: does the cluster mix broker versions?",
            api=request.__name__,
        )
    return version


def _check_two_phase(connection: BrokerConnection) -> None:
    """Raise `ProtocolError` unless the broker supports transactions without a time-out."""
    request = protocol.InitProducerIdRequest
    _, highest = connection.versions.get(request.api_key, (0, -1))
    if highest < request.TWO_PHASE:
        raise ProtocolError(
            f"{connection.where} does not offer version {request.TWO_PHASE} of InitProducerId: "
            f"{_TWO_PHASE_NEEDS}, or omit the option",
            api=request.__name__,
        )


def _codes(response: Any) -> tuple[dict[tuple[str, int], int] | int, Identity | None]:
    """Return a response's error code, or those of its partitions, and the producer's identity if it has one."""
    if isinstance(response, protocol.AddPartitionsToTxnResponse):
        return {
            (topic.name, result.partition_index): result.partition_error_code
            for topic in response.results_by_topic_v3_and_below
            for result in topic.results_by_partition
        }, None
    if isinstance(response, protocol.TxnOffsetCommitResponse):
        return {
            (topic.name, part.partition_index): part.error_code
            for topic in response.topics
            for part in topic.partitions
        }, None
    producer_id = getattr(response, "producer_id", -1)
    identity = Identity(producer_id, response.producer_epoch) if producer_id >= 0 else None
    return int(response.error_code), identity


def _group(group: Any) -> ConsumerGroupMetadata:
    if isinstance(group, str):
        group = ConsumerGroupMetadata(group)
    if not isinstance(group, ConsumerGroupMetadata) or not isinstance(group.group_id, str) or not group.group_id:
        raise ConfigError(f"the group must be a group id or Consumer.group_metadata()'s result, not {group!r}")
    return group


def _offsets(offsets: Any) -> dict[tuple[str, int], OffsetToCommit]:
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"offsets must map each TopicPartition to the next offset to read, not be {offsets!r}")
    found = {}
    for where, value in offsets.items():
        try:
            topic, partition = where
            commit = OffsetToCommit(*value) if isinstance(value, tuple) else OffsetToCommit(value)
            number, offset = natural(partition), natural(commit.offset)
        except (TypeError, ValueError):
            number = offset = None
        if number is None or offset is None or not isinstance(topic, str):
            raise ConfigError(f"offsets: {where!r}: {value!r}: it must be a TopicPartition and an offset of 0 or more")
        found[topic, number] = commit._replace(offset=offset)
    return found
