"""Errors on their way from another process: their type, text and attributes stay, whatever their constructor takes."""

from __future__ import annotations

import pickle
import sys
import threading
import types

import pytest

from kafwire.errors import BrokerError
from kafwire.stream import NotNow, StreamError
from kafwire.stream.carried_error import CarriedError


class BusyError(ConnectionError):
    """Its constructor takes other arguments than it has."""

    def __init__(self, code: int, what: str) -> None:
        super().__init__(f"{what} ({code})")
        self.code = code


class ReportedError(Exception):
    """Made of its own `args` it would be another one."""

    def __init__(self, what: str) -> None:
        super().__init__(f"reported: {what}")


class KeywordError(ValueError):
    """Its constructor takes nothing by its place."""

    def __init__(self, *, code: int) -> None:
        super().__init__()
        self.code = code

    def __str__(self) -> str:
        return f"code {self.code}"


def carried(error: Exception) -> Exception:
    """The error as the other side restores it."""
    found = pickle.loads(pickle.dumps(CarriedError.of(error)))
    assert isinstance(found, CarriedError)
    return found.restored()


@pytest.mark.parametrize(
    "error",
    [
        ValueError("no"),
        KeyError("price"),
        FileNotFoundError(2, "No such file or directory", "/nowhere"),
        BusyError(503, "the bank is busy"),
        ReportedError("no"),
        KeywordError(code=7),
        NotNow(5.0, "locked"),
        BrokerError(6, "NOT_LEADER_OR_FOLLOWER", True, "moved"),
        StreamError("ended", topic="orders", partition=1, offset=7),
        UnicodeDecodeError("utf-8", b"\xff", 0, 1, "invalid start byte"),
    ],
    ids=lambda error: type(error).__name__,
)
def test_an_error_keeps_its_type_text_and_attributes(error: Exception) -> None:
    found = carried(error)
    assert type(found) is type(error)
    assert (str(found), vars(found)) == (str(error), vars(error))


def test_an_error_that_cannot_be_pickled_whole_keeps_its_other_parts() -> None:
    error = BusyError(503, "busy")
    error.lock = threading.Lock()  # type: ignore[attr-defined]
    found = carried(error)
    assert isinstance(found, BusyError)
    assert (found.code, str(found)) == (503, "busy (503)")
    assert "lock" in found.lock  # type: ignore[attr-defined]


def test_an_error_of_a_class_within_a_function_is_matched_by_its_bases_and_its_name() -> None:
    class LocalError(BusyError):
        """A class that no import finds by its name."""

    found = carried(LocalError(503, "busy"))
    assert isinstance(found, BusyError)
    assert (type(found).__module__, type(found).__qualname__) == (LocalError.__module__, LocalError.__qualname__)
    assert str(found) == "busy (503)"


def test_an_error_of_the_programs_own_module_is_found_by_its_name_here(monkeypatch: pytest.MonkeyPatch) -> None:
    """A spawned process has the program as `__mp_main__`, which does not exist in its parent."""
    main = types.ModuleType("__main__")
    theirs = type("MineError", (ConnectionError,), {"__module__": "__mp_main__"})
    ours = type("MineError", (ConnectionError,), {"__module__": "__main__"})
    main.MineError = ours  # type: ignore[attr-defined]
    child = types.ModuleType("__mp_main__")
    child.MineError = theirs  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "__mp_main__", child)
    sent = pickle.dumps(CarriedError.of(theirs("away")))
    monkeypatch.delitem(sys.modules, "__mp_main__")
    monkeypatch.setitem(sys.modules, "__main__", main)
    found = pickle.loads(sent).restored()
    assert type(found) is ours
    assert str(found) == "away"


def test_an_error_whose_text_raises_is_carried_too() -> None:
    class Mute(ValueError):
        """An error without a text."""

        def __str__(self) -> str:
            raise TypeError("no text")

    found = carried(Mute(1))
    assert isinstance(found, ValueError)
    assert str(found) == "(its str() failed)"


def test_a_retry_policy_by_type_is_followed_from_another_process() -> None:
    """See `test_invocation.py` for processes; here the decision alone."""
    from kafwire.stream.failure_policy import FailurePolicy, TryAgain

    policy = FailurePolicy(attempts=3, on=(ConnectionError,))
    assert isinstance(policy.decide(carried(BusyError(503, "busy")), 1, "orders", 0, 0.5), TryAgain)
