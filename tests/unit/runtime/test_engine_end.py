"""The end of the engine by an error: nothing waits for it any more, and the next client starts another one."""

from __future__ import annotations

import asyncio
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import kafwire
import kafwire.testing
from kafwire.aio.bridge import on_engine
from kafwire.errors import KafkaError
from kafwire.runtime.engine import NativeEngine, default_engine
from tests.support.deadlines import happened, until
from tests.support.forks import in_child

SOON_S = 30.0


async def nothing() -> str:
    return "alive"


async def for_ever() -> None:
    await asyncio.sleep(3_600)


def break_selector(engine: NativeEngine) -> None:
    """Let the next turn of the loop raise, as a selector does whose descriptor was closed."""

    def fail() -> None:
        def select(timeout: float | None) -> Any:
            raise OSError(9, "Bad file descriptor")

        engine._loop._selector.select = select  # type: ignore[attr-defined]

    engine.start(fail)
    engine._thread.join(SOON_S)
    assert not engine._thread.is_alive()


@pytest.fixture
def own() -> Iterator[NativeEngine]:
    """An engine that the test may break."""
    it = NativeEngine()
    yield it
    it.stop()


@pytest.mark.parametrize(
    "strike", [lambda: sys.exit("no credentials"), lambda: _raise(KeyboardInterrupt())], ids=["exit", "interrupt"]
)
def test_an_exit_on_the_engine_does_not_end_it(own: NativeEngine, strike: Callable[[], object]) -> None:
    own.start(strike)
    assert own.run(nothing) == "alive"


def test_a_stop_from_outside_does_not_end_it(own: NativeEngine) -> None:
    own.start(own._loop.stop)
    assert own.run(nothing) == "alive"


def test_pending_calls_fail_with_the_cause(own: NativeEngine) -> None:
    errors: list[KafkaError] = []
    begun = threading.Event()

    async def waits() -> None:
        begun.set()
        await for_ever()

    def call() -> None:
        try:
            own.run(waits)
        except KafkaError as error:
            errors.append(error)

    async def call_async() -> None:
        with pytest.raises(KafkaError, match="Bad file descriptor") as raised:
            await on_engine(own, waits())
        assert isinstance(raised.value.__cause__, OSError)

    thread = threading.Thread(target=call)
    thread.start()
    assert begun.wait(SOON_S)
    other = threading.Thread(target=asyncio.run, args=(call_async(),))
    other.start()
    until(lambda: len(own._calls) == 2)
    break_selector(own)
    thread.join(SOON_S)
    other.join(SOON_S)
    assert not thread.is_alive()
    assert not other.is_alive()
    assert "this client's engine has ended: make a new client; OSError" in str(errors[0])
    assert isinstance(errors[0].__cause__, OSError)


def test_later_calls_fail_at_once(own: NativeEngine) -> None:
    break_selector(own)
    with pytest.raises(KafkaError, match="make a new client"):
        own.run(nothing)
    assert own.is_over


def test_the_next_client_has_another_engine_and_so_has_a_fork() -> None:
    def check() -> None:
        first = default_engine()
        break_selector(first)
        in_child(lambda: _is_alive(default_engine()))
        assert default_engine() is not first
        _is_alive(default_engine())

    in_child(check)


def test_deliveries_fail_and_waiting_calls_end(own: NativeEngine) -> None:
    with kafwire.testing.EmbeddedKafka() as kafka:
        kafka.create_topic("t", partitions=1)
        producer = kafwire.Producer(kafka.bootstrap, engine=own, linger_ms=60_000)
        sent = producer.send("t", b"1")
        consumer = kafwire.Consumer(kafka.bootstrap, topics="t", start="latest", engine=own)
        found: list[BaseException | None] = []

        def read() -> None:
            try:
                consumer.poll(3_600.0)
            except KafkaError as error:
                found.append(error)

        threads = [
            threading.Thread(target=lambda: found.append(sent.exception(3_600))),
            threading.Thread(target=read),
        ]
        for thread in threads:
            thread.start()
        break_selector(own)
        for thread in threads:
            thread.join(SOON_S)
        assert not any(thread.is_alive() for thread in threads)
        assert len(found) == 2
        assert all(isinstance(error, KafkaError) and "Bad file descriptor" in str(error) for error in found)
        failed = sent.exception()
        assert failed is not None
        assert not failed.in_doubt
        assert isinstance(failed.__cause__, OSError)
        with pytest.raises(KafkaError, match="make a new client"):
            producer.send("t", b"2")
        producer.close()
        consumer.close()


def _is_alive(engine: NativeEngine) -> None:
    assert engine.run(nothing) == "alive"


def _raise(error: BaseException) -> None:
    raise error


def test_callbacks_of_failed_deliveries_run_before_the_interpreter_ends(own: NativeEngine) -> None:
    called: list[int] = []
    producer = kafwire.Producer("127.0.0.1:9", engine=own)

    broken = threading.Event()

    def call() -> None:
        happened(broken)
        called.append(len(called))

    for _ in range(100):
        own.callbacks.submit(call)
    break_selector(own)
    broken.set()
    own.stop()
    assert len(called) == 100
    producer.close()
