"""Items that a thread makes ahead: their order, errors, and an end before theirs."""

from __future__ import annotations

import threading
from collections.abc import Generator

import pytest

from kafwire.spark.run_ahead import run_ahead


class Source:
    """Numbers, with an event for each that was begun; `gates` have it wait for the test before a number."""

    def __init__(self, count: int, gates: tuple[int, ...] = (), fails_at: int = -1) -> None:
        self.begun = [threading.Event() for _ in range(count)]
        self.gates = {number: threading.Event() for number in gates}
        self.fails_at = fails_at
        self.is_closed = False

    def items(self) -> Generator[int, None, None]:
        try:
            for number, begun in enumerate(self.begun):
                begun.set()
                if number in self.gates:
                    assert self.gates[number].wait(30)
                if number == self.fails_at:
                    raise ValueError(f"number {number}")
                yield number
        finally:
            self.is_closed = True


def test_all_items_come_in_order() -> None:
    source = Source(100)
    assert list(run_ahead(source.items())) == list(range(100))
    assert source.is_closed
    assert list(run_ahead(Source(0).items())) == []


def test_the_next_item_is_made_while_the_caller_has_the_last_one() -> None:
    source = Source(3)
    items = run_ahead(source.items())
    assert next(items) == 0
    assert source.begun[1].wait(30)
    assert not source.begun[2].is_set()  # one ahead, not more
    assert list(items) == [1, 2]


def test_an_error_is_raised_in_its_turn() -> None:
    source = Source(3, fails_at=1)
    items = run_ahead(source.items())
    assert next(items) == 0
    with pytest.raises(ValueError, match="number 1"):
        next(items)
    assert source.is_closed


def test_an_early_end_closes_the_source_behind_the_item_that_is_made() -> None:
    source = Source(3, gates=(1,))
    items = run_ahead(source.items())
    assert next(items) == 0
    assert source.begun[1].wait(30)
    threading.Timer(0.01, source.gates[1].set).start()
    items.close()
    assert source.is_closed
    assert not source.begun[2].is_set()
    assert not any(thread.name.startswith("kafwire-spark") for thread in threading.enumerate())
