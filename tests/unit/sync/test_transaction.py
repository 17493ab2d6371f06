"""`with producer.transaction():`, on a producer that only writes down its calls."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.aio.transaction import CANCELLED_S, AsyncTransactionBlock
from kafwire.errors import KafkaError, TransactionAbortableError, TransactionTimeoutError
from kafwire.producer.transactions.state import State
from kafwire.sync.transaction import INTERRUPTED_S, TransactionBlock


class RecordingProducer:
    """Begins, commits and aborts at once; or raises what it is given for that."""

    def __init__(self, **raised: Exception) -> None:
        self.calls: list[tuple[str, float | None]] = []
        self.state = SimpleNamespace(number=0, state=State.READY)
        self._raised = raised

    def _take(self, name: str, timeout: float | None, after: State) -> None:
        self.calls.append((name, timeout))
        if name in self._raised:
            raise self._raised[name]
        self.state.state = after

    def begin_transaction(self, timeout: float | None = None) -> None:
        self.state.number += 1
        self._take("begin", timeout, State.IN_TRANSACTION)

    def commit_transaction(self, timeout: float | None = None) -> None:
        self._take("commit", timeout, State.READY)

    def abort_transaction(self, timeout: float | None = None) -> None:
        self._take("abort", timeout, State.READY)


class Awaited(RecordingProducer):
    """The same of an asynchronous producer."""

    def __getattribute__(self, name: str) -> Any:
        found = super().__getattribute__(name)
        if not name.endswith("_transaction"):
            return found

        async def call(*arguments: Any) -> None:
            found(*arguments)

        return call


@pytest.fixture(params=[RecordingProducer, Awaited], ids=["sync", "async"])
def kind(request: pytest.FixtureRequest) -> type[RecordingProducer]:
    made: type[RecordingProducer] = request.param
    return made


def play(
    producer: RecordingProducer, *, raising: BaseException | None = None, timeout: float | None = 2.0, end: str = ""
) -> None:
    """A block that raises, or ends its transaction by itself, or does nothing."""

    def body() -> None:
        if end:
            producer.calls.append((end, None))
            producer.state.state = State.READY
        if raising is not None:
            raise raising

    async def in_a_loop() -> None:
        made: Any = producer
        async with AsyncTransactionBlock(made, made.state, timeout):
            body()

    if isinstance(producer, Awaited):
        asyncio.run(in_a_loop())
    else:
        made: Any = producer
        with TransactionBlock(made, made.state, timeout):
            body()


def test_a_block_commits(kind: type[RecordingProducer]) -> None:
    producer = kind()
    play(producer)
    assert producer.calls == [("begin", 2.0), ("commit", 2.0)]


def test_an_exception_aborts_and_goes_on(kind: type[RecordingProducer]) -> None:
    producer = kind()
    with pytest.raises(ValueError, match="mine") as caught:
        play(producer, raising=ValueError("mine"))
    assert producer.calls == [("begin", 2.0), ("abort", 2.0)]
    assert not hasattr(caught.value, "__notes__")


def test_an_abort_that_fails_is_noted_with_the_exception(kind: type[RecordingProducer]) -> None:
    producer = kind(abort=KafkaError("no coordinator"))
    with pytest.raises(ValueError, match="mine") as caught:
        play(producer, raising=ValueError("mine"))
    assert caught.value.__notes__ == ["The transaction could not be aborted: no coordinator"]


def test_a_transaction_that_cannot_be_committed_is_aborted(kind: type[RecordingProducer]) -> None:
    producer = kind(commit=TransactionAbortableError("a record failed"), abort=KafkaError("no coordinator"))
    with pytest.raises(TransactionAbortableError) as caught:
        play(producer)
    assert producer.calls == [("begin", 2.0), ("commit", 2.0), ("abort", 2.0)]
    assert caught.value.__notes__ == ["The transaction could not be aborted: no coordinator"]


def test_a_commit_whose_outcome_is_open_is_not_aborted(kind: type[RecordingProducer]) -> None:
    producer = kind(commit=TransactionTimeoutError("not in time"))
    with pytest.raises(TransactionTimeoutError):
        play(producer)
    assert producer.calls == [("begin", 2.0), ("commit", 2.0)]


def test_a_transaction_that_was_ended_in_the_block_is_left_alone(kind: type[RecordingProducer]) -> None:
    producer = kind()
    play(producer, end="ended")
    assert producer.calls == [("begin", 2.0), ("ended", None)]


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
def test_an_interrupted_transaction_does_not_wait_long(interrupt: type[BaseException]) -> None:
    producer = RecordingProducer()
    with pytest.raises(interrupt):
        play(producer, raising=interrupt(), timeout=600.0)
    assert producer.calls == [("begin", 600.0), ("abort", INTERRUPTED_S)]


def test_a_cancelled_transaction_does_not_wait_long() -> None:
    producer = Awaited()
    with pytest.raises(asyncio.CancelledError):
        play(producer, raising=asyncio.CancelledError(), timeout=600.0)
    assert producer.calls == [("begin", 600.0), ("abort", CANCELLED_S)]
