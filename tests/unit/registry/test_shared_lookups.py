"""Lookups are shared by threads, kept, and forgotten."""

from __future__ import annotations

import threading

import pytest

from kafwire.errors import UnknownSchemaError
from kafwire.registry.shared_lookups import MAX_FAILURES, SharedLookups
from tests.support.deadlines import ended, happened


def never(error: BaseException) -> float:
    return 0


def test_a_lookup_that_a_signal_ends_is_taken_over() -> None:
    started, go = threading.Event(), threading.Event()
    outcomes: list[object] = [KeyboardInterrupt(), "schema"]

    def look_up(key: int) -> str:
        started.set()
        happened(go)
        found = outcomes.pop(0)
        if isinstance(found, BaseException):
            raise found
        return str(found)

    lookups = SharedLookups(look_up, never, lambda: 0.0)
    found: list[str] = []

    def first() -> None:
        with pytest.raises(KeyboardInterrupt):
            lookups.get(1)

    threads = [threading.Thread(target=first), threading.Thread(target=lambda: found.append(lookups.get(1)))]
    threads[0].start()
    happened(started)
    threads[1].start()
    go.set()
    ended(*threads)
    assert found == ["schema"]


def test_each_thread_has_an_error_of_its_own() -> None:
    def look_up(key: int) -> str:
        raise UnknownSchemaError(f"schema {key}", status=404, code=40403)

    lookups = SharedLookups(look_up, lambda error: 10.0, lambda: 0.0)
    raised = []
    for _ in range(3):
        with pytest.raises(UnknownSchemaError, match="schema 1") as caught:
            lookups.get(1)
        raised.append(caught.value)
    assert len({id(each) for each in raised}) == 3
    assert {each.code for each in raised} == {40403}


def test_the_failures_that_are_kept_have_a_limit() -> None:
    asked: list[int] = []

    def look_up(key: int) -> str:
        asked.append(key)
        raise UnknownSchemaError(f"schema {key}")

    lookups = SharedLookups(look_up, lambda error: 10.0, lambda: 0.0)
    for key in [*range(MAX_FAILURES + 1), MAX_FAILURES, 0]:
        with pytest.raises(UnknownSchemaError):
            lookups.get(key)
    assert asked == [*range(MAX_FAILURES + 1), 0]
