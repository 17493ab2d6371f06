"""Log lines and metric snapshots: they leave by one thread, which nothing waits for."""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.runtime.engine import NativeEngine
from kafwire.runtime.log import log
from kafwire.runtime.reports import LIMIT

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
        "kafwire: 50 log lines and metric snapshots were dropped: a handler of a logger, or a metrics hook, takes long"
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
