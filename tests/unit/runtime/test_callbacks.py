"""The callback thread: one call after the other, none dropped, and nothing that ends it but its owner."""

from __future__ import annotations

import sys
import threading
from collections import deque

import pytest

from kafwire.errors import KafkaError
from kafwire.runtime.callbacks import CallbackThread, InlineCallbacks
from kafwire.runtime.engine import NativeEngine
from kafwire.runtime.log import LogLine

SOON_S = 30.0


def test_functions_run_in_their_order_whatever_one_raises() -> None:
    lines: list[LogLine] = []
    callbacks = CallbackThread(lines.append)
    seen: list[int] = []
    callbacks.submit(lambda: seen.append(1))
    callbacks.submit(lambda: sys.exit("in a callback"))
    callbacks.submit(lambda: seen.append(2))
    callbacks.stop(SOON_S)
    assert seen == [1, 2]
    assert [(line.text, line.args) for line in lines] == [("kafwire: a callback raised %s", ("SystemExit",))]


def test_a_callback_that_waits_for_a_lock_holds_up_no_client() -> None:
    engine = NativeEngine()
    lock = threading.Lock()
    entered = threading.Event()
    errors: list[KafkaError] = []

    async def work() -> str:
        return "done"

    def blocked() -> None:
        try:
            engine.run(work)
        except KafkaError as error:
            errors.append(error)
        entered.set()
        with lock:
            pass

    with lock:
        engine.callbacks.submit(blocked)
        assert entered.wait(SOON_S)
        assert engine.run(work) == "done"
    engine.stop()
    assert "a blocking call was made from a delivery callback" in str(errors[0])


def test_inline_callbacks_know_that_they_run() -> None:
    callbacks = InlineCallbacks()
    seen: list[bool] = []
    callbacks.submit(lambda: seen.append(callbacks.is_current))
    assert (seen, callbacks.is_current) == ([True], False)
    with pytest.raises(IndexError):
        callbacks.submit(deque().pop)
    assert not callbacks.is_current
