"""`Failures`: carries out the policy's decision for a failed record."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from typing import Any, Protocol, assert_never

from kafwire.errors import (
    AuthorizationError,
    ConfigError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionError,
)
from kafwire.runtime.interfaces import Clock, Random
from kafwire.runtime.log import stream_log as log
from kafwire.stream.dead_letter_limits import DeadLetterWindow
from kafwire.stream.elements import Abandoned, Origin, first_of, records_of
from kafwire.stream.errors import NotNow, StreamError
from kafwire.stream.failed_record import failed, text_of
from kafwire.stream.failure_policy import FailurePolicy, SendDeadLetter, SendLater, Skip, StopStream, TryAgain
from kafwire.stream.interfaces import AnySink, Sink, TransactionalSink
from kafwire.stream.message import Message
from kafwire.stream.summary import Counters
from kafwire.types import TopicPartition

# Errors of a transaction that writes a failed record: beginning a new one helps against all others.
PASSED_ON = (AuthorizationError, ConfigError, RecordTooLargeError, TransactionError)


class LetterWriter(Protocol):
    """The writer of a partition."""

    async def write_to(self, sink: AnySink, value: Any, origin: Origin) -> Awaitable[object] | None:
        """Call a sink, if the partition is still this member's."""
        ...


class FailedPartition(Protocol):
    """The partition of a failed record. `is_torn`: an element was abandoned, and later ones may be stored."""

    where: TopicPartition
    is_torn: bool

    @property
    def writer(self) -> LetterWriter:
        """The writer of the partition."""
        ...

    async def sleep(self, seconds: float) -> None:
        """Wait; raise `Abandoned` if waiting records are left to the next reader."""
        ...


class Failures:
    """Writes failed records to retry topics and dead letters, or schedules another call of the step."""

    def __init__(
        self,
        policy: FailurePolicy,
        letters: Sink | TransactionalSink | None,
        clock: Clock,
        random: Random,
        counters: Counters,
        *,
        in_transactions: bool = False,
        is_committed: bool = False,
    ) -> None:
        """`in_transactions`: letters are written in transactions.

        `is_committed`: the offset of a record is committed before its first step is called.
        """
        self.policy = policy
        self.window = None if policy.limits is None else DeadLetterWindow(policy.limits)
        self._letters = letters
        self._clock = clock
        self._random = random
        self._counters = counters
        self._in_transactions = in_transactions
        self._is_committed = is_committed

    def wall_ms(self) -> int:
        """Milliseconds since the epoch, rounded up, so that a record's due time in milliseconds is reached."""
        return -(-self._clock.time_ns() // 1_000_000)

    async def handle(
        self, owner: FailedPartition, origin: Origin, error: Exception, attempt: int, step: str, tried: int = 0
    ) -> float | None:
        """Handle an error after `attempt` calls.

        Return the seconds until the next call, None if the record is finished.

        A record written to another topic is finished when it is stored there. Raises `StreamError` if the stream must
        end, errors of the transaction unchanged, and `Abandoned` if the next owner of the partition processes the
        record. `tried` is that of `DeadLetterWindow.admit`.
        """
        where = owner.where
        if self._in_transactions and isinstance(error, TransactionError):
            raise error
        decision = self.policy.decide(error, attempt, where.topic, self.wall_ms(), self._random.random())
        match decision:
            case TryAgain():
                self._counters.retries += 1
                return decision.after_s
            case SendLater():
                await self._write(owner, origin, error, attempt, step, decision.topic, decision.due_ms)
                self._counters.delayed += 1
            case SendDeadLetter():
                broken = self._broken_limit(origin, tried)
                if broken is None or self._is_committed:  # a committed record would be lost without its letter
                    await self._write(owner, origin, error, attempt, step, decision.topic, None)
                    self._counters.dead_letters += 1
                if broken is not None:
                    raise _limited(where, origin, error, broken, decision.topic, self._is_committed) from error
            case Skip():
                log.warning("kafwire: %s is skipped", _place(where, origin), exc_info=error, error=error)
                self._counters.skipped += 1
            case StopStream():
                raise _ended(where, origin, error, attempt) from error
            case _:
                assert_never(decision)
        return None

    def _broken_limit(self, origin: Origin, tried: int) -> str | None:
        if self.window is None:
            return None
        records = sum(1 for _ in records_of(origin))
        return self.window.admit(records, max(tried, records), asyncio.get_running_loop().time())

    async def _write(
        self,
        owner: FailedPartition,
        origin: Origin,
        error: Exception,
        attempt: int,
        step: str,
        topic: str,
        due_ms: int | None,
    ) -> None:
        letters = [failed(record, error, attempt, topic, due_ms, step) for record in records_of(origin)]
        stored: list[Awaitable[object] | None] = []
        try:
            for letter in letters:
                stored.append(await self._write_when_ready(letter, owner, origin))  # noqa: PERF401  # `stored` is read below
            for one in stored:
                if one is not None:
                    await one
        except Abandoned:
            owner.is_torn = owner.is_torn or bool(stored)  # the next owner writes these again
            raise
        except Exception as problem:
            place = _place(owner.where, origin)
            log.warning(
                "kafwire: %s failed, and could not be written to %s",
                place,
                topic,
                exc_info=error,
                error=error,
                topic=topic,
            )
            if self._in_transactions and not isinstance(problem, PASSED_ON):
                text = f"{place} failed, and could not be written to {topic}: {text_of(problem)}"
                raise TransactionAbortableError(text) from problem
            problem.add_note(
                f"{place} failed ({type(error).__name__}: {text_of(error)}), and could not be written to {topic}"
            )
            raise

    async def _write_when_ready(
        self, letter: Message, owner: FailedPartition, origin: Origin
    ) -> Awaitable[object] | None:
        assert self._letters is not None
        while True:
            try:
                return await owner.writer.write_to(self._letters, letter, origin)
            except NotNow as later:
                await owner.sleep(later.seconds)


def _place(where: TopicPartition, origin: Origin) -> str:
    return f"the record at offset {_first(origin)} of {where.topic}-{where.partition}"


def _first(origin: Origin) -> int:
    """Return the offset of its first record; a batch on the wire may begin earlier."""
    return next((record.offset for record in records_of(origin)), first_of(origin))


def _limited(
    where: TopicPartition, origin: Origin, error: Exception, broken: str, topic: str, is_committed: bool
) -> StreamError:
    fate = "still written to it, as its offset is committed" if is_committed else "not completed: the next run reads it"
    text = (
        f"the stream stops at {_place(where, origin)}, as the dead letters for {topic} exceed a limit: {broken}. "
        f"The last error is {type(error).__name__}: {text_of(error)}. The record is {fate}. Correct the step or the "
        "records, or raise the limit of dead_letters()"
    )
    return StreamError(text, topic=where.topic, partition=where.partition, offset=_first(origin))


def _ended(where: TopicPartition, origin: Origin, error: Exception, attempt: int) -> StreamError:
    text = (
        f"{_place(where, origin)} could not be processed in {attempt} attempt{'s' if attempt > 1 else ''}: "
        f"{type(error).__name__}: {text_of(error)}. To continue without such records, give the pipeline "
        "dead_letters(topic)"
    )
    return StreamError(text, topic=where.topic, partition=where.partition, offset=_first(origin))
