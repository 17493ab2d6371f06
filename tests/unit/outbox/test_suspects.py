"""The search for a refused row among many."""

from __future__ import annotations

from math import ceil, log2

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.errors import ConfigError
from kafwire.outbox.rows import OutboxRow
from kafwire.outbox.suspects import Refusal, Suspects

REFUSAL = Refusal(ConfigError("refused"), ConfigError("refused"))


def row(number: int, check: int = 0) -> OutboxRow:
    return OutboxRow(number, "orders", None, b"", (), check)


def search(count: int, refused: set[int]) -> tuple[list[int], list[bool], int | None]:
    """Relay rows until a refused one is found: those that were relayed, what became of each attempt, and that row.

    Each refusal is of a whole batch: all rows of the attempt are suspects.
    """
    suspects = Suspects()
    left, relayed, attempts = [row(number) for number in range(count)], list[int](), list[bool]()
    while left:
        part, refusal = suspects.next_part(left)
        if refusal is not None:
            return relayed, attempts, part[0].id
        attempts.append(not refused.intersection(one.id for one in part))
        if attempts[-1]:
            relayed += [one.id for one in part]
            left = left[len(part) :]
            continue
        if len(part) == 1:
            suspects.blame(part[0], REFUSAL)
        else:
            suspects.suspect(part)
    return relayed, attempts, None


@given(st.data())
def test_the_first_refused_row_is_found_and_the_rows_before_it_are_relayed(data: st.DataObject) -> None:
    count = data.draw(st.integers(1, 60))
    refused = data.draw(st.sets(st.integers(0, count - 1), max_size=5))
    relayed, _, found = search(count, refused)
    assert found == (min(refused) if refused else None)
    assert relayed == list(range(count if found is None else found))


@pytest.mark.parametrize("position", [0, 1, 249, 250, 251, 498, 499])
def test_one_of_500_is_found_by_few_transactions(position: int) -> None:
    _, attempts, found = search(500, {position})
    assert found == position
    assert attempts.count(False) <= ceil(log2(500)) + 1
    assert attempts.count(True) <= ceil(log2(500))


def test_a_row_without_a_record_ends_the_rows_before_it() -> None:
    bad = row(3)._replace(problem=ConfigError("no record"))
    suspects = Suspects()
    assert suspects.next_part([row(1), row(2), bad, row(4)]) == ([row(1), row(2)], None)
    part, refusal = suspects.next_part([bad, row(4)])
    assert (part, refusal) == ([bad], Refusal(bad.problem, bad.problem))  # type: ignore[arg-type]  # it has one


def test_a_row_that_was_mended_is_not_blamed() -> None:
    """The mended row has another `check`."""
    suspects = Suspects()
    suspects.blame(row(1), REFUSAL)
    assert suspects.next_part([row(1), row(2)]) == ([row(1)], REFUSAL)
    assert suspects.next_part([row(1, check=7), row(2)]) == ([row(1, check=7), row(2)], None)


def test_all_is_forgotten() -> None:
    suspects = Suspects()
    suspects.suspect([row(1), row(2)])
    suspects.forget()
    assert suspects.next_part([row(1), row(2)]) == ([row(1), row(2)], None)
    suspects.blame(row(1), REFUSAL)
    suspects.forget()
    assert suspects.next_part([row(1)]) == ([row(1)], None)


def test_suspects_that_are_gone_hold_back_nothing() -> None:
    suspects = Suspects()
    suspects.suspect([row(1), row(2)])
    assert suspects.next_part([row(3), row(4)]) == ([row(3), row(4)], None)
    assert suspects.next_part([row(1), row(2)]) == ([row(1), row(2)], None)
