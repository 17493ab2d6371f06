"""Log lines and metric snapshots: they leave by one thread, which nothing waits for."""

from __future__ import annotations

import asyncio
import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.runtime.engine import NativeEngine, default_engine
from kafwire.runtime.log import log, muted
from kafwire.runtime.reports import LIMIT
from tests.support.deadlines import ended
from tests.support.forks import in_child

SOON_S = 30.0


class Locked(logging.Handler):
    """A handler whose lock the test holds, as a thread does that sends to Kafka within `emit`."""

    def __init__(self) -> None:
        super().__init__()
        self.records: list[logging.LogRecord] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.records.append(record)


@pytest.fixture
def engine() -> Iterator[NativeEngine]:
    it = NativeEngine()
    yield it
    it.stop()


@pytest.fixture
def handler() -> Iterator[Locked]:
    it = Locked()
    logger = logging.getLogger("kafwire")
    logger.addHandler(it)
    yield it
    logger.removeHandler(it)


async def say(text: str, *args: Any) -> str:
    log.warning(text, *args)
    return "said"


def test_the_engine_waits_for_no_handler(engine: NativeEngine, handler: Locked) -> None:
    assert handler.lock is not None
    with handler.lock:
        assert engine.run(say, "the broker %s is gone", "b1") == "said"
        assert engine.run(say, "more") == "said"
    assert engine.reports.settle(SOON_S)
    first = handler.records[0]
    assert [record.getMessage() for record in handler.records] == ["the broker b1 is gone", "more"]
    assert (first.threadName, first.funcName, first.levelname) == ("kafwire-engine", "say", "WARNING")


def test_the_engine_waits_for_no_lock_of_the_module_logging(engine: NativeEngine, handler: Locked) -> None:
    """`dictConfig` and `shutdown` close handlers under it, and a handler's producer logs as it closes."""
    logging.getLogger("kafwire").setLevel(logging.DEBUG)  # forgets which levels are enabled
    try:
        with logging._lock:  # type: ignore[attr-defined]
            assert engine.run(say, "closed in a transaction") == "said"
        assert engine.reports.settle(SOON_S)
        assert [record.getMessage() for record in handler.records] == ["closed in a transaction"]
    finally:
        logging.getLogger("kafwire").setLevel(logging.NOTSET)


def test_a_coroutine_of_the_user_keeps_the_engine_out_of_the_module_logging(engine: NativeEngine) -> None:
    """asyncio reports its loop at DEBUG: the loop for coroutines is made in their thread."""
    found: list[asyncio.Future[Any]] = []
    is_alive = threading.Event()

    async def token() -> str:
        return "token"

    async def end() -> Any:
        return await found[0]

    logging.getLogger("asyncio").setLevel(logging.DEBUG)  # forgets which levels are enabled
    try:
        with logging._lock:  # type: ignore[attr-defined]
            engine.start(lambda: found.append(engine.in_loop(token)))
            engine.start(is_alive.set)
            assert is_alive.wait(SOON_S)
        assert engine.run(end) == ("token", None)
    finally:
        logging.getLogger("asyncio").setLevel(logging.NOTSET)


def test_a_handler_that_makes_a_client_does_not_wait_for_the_first_client() -> None:
    """The root logger is at DEBUG, and asyncio reports the loop of the first engine."""

    class Lazy(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            default_engine()

    def first() -> None:
        logger = logging.getLogger("asyncio")
        logger.setLevel(logging.DEBUG)
        logger.addHandler(Lazy())
        default_engine().stop()

    in_child(first)


def test_a_child_of_the_callback_thread_logs_in_place(engine: NativeEngine, handler: Locked) -> None:
    ends: list[object] = []

    def child() -> None:
        log.warning("in the child")
        assert [record.getMessage() for record in handler.records] == ["in the child"]

    def fork() -> None:
        try:
            in_child(child)
            ends.append(None)
        except BaseException as error:
            ends.append(error)

    engine.callbacks.submit(fork)
    engine.callbacks.stop(SOON_S)
    assert ends == [None]


def test_a_muted_logger_drops_lines_of_the_current_thread_alone(caplog: pytest.LogCaptureFixture) -> None:
    other = threading.Thread(target=logging.getLogger("asyncio").warning, args=("another thread",))
    with muted("asyncio"):
        logging.getLogger("asyncio").warning("this thread")
        other.start()
        ended(other)
    logging.getLogger("asyncio").warning("later")
    assert caplog.messages == ["another thread", "later"]


def test_lines_without_room_are_counted_and_one_line_says_so(engine: NativeEngine, handler: Locked) -> None:
    async def say_often() -> None:
        for number in range(LIMIT + 50):
            log.warning("line %d", number)

    held = threading.Event()
    entered = threading.Event()

    def hold() -> None:
        entered.set()
        held.wait(SOON_S)

    engine.reports.submit(hold)
    assert entered.wait(SOON_S)
    engine.run(say_often)
    held.set()
    assert engine.reports.settle(SOON_S)
    assert engine.reports.settle(SOON_S)
    texts = [record.getMessage() for record in handler.records]
    assert len([text for text in texts if text.startswith("line")]) == LIMIT
    assert [text for text in texts if "dropped" in text] == [
        "kafwire: 50 log lines and metric snapshots were dropped: a log handler, or a metrics hook, is too slow"
    ]


@pytest.mark.parametrize("error", [SystemExit, RuntimeError])
def test_a_handler_that_raises_ends_no_thread(
    engine: NativeEngine, capsys: pytest.CaptureFixture[str], error: type[BaseException]
) -> None:
    class Raising(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            raise error("a defect of the user's")

    raising = Raising()
    logger = logging.getLogger("kafwire")
    logger.addHandler(raising)
    try:
        engine.run(say, "one")
        engine.run(say, "two")
        assert engine.reports.settle(SOON_S)
    finally:
        logger.removeHandler(raising)
    assert capsys.readouterr().err.count("a defect of the user's") >= 2
    assert engine.run(say, "three") == "said"


def test_other_threads_log_in_place(handler: Locked) -> None:
    log.warning("at once")
    assert [(record.getMessage(), record.funcName) for record in handler.records] == [
        ("at once", "test_other_threads_log_in_place")
    ]
