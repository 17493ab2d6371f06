"""Combined schedules of groups, and of share groups, a few of each: see `tests/support/group/combinations.py`."""

from __future__ import annotations

import pytest

from tests.support import seeds
from tests.support.group.combinations import played, run
from tests.support.group.plan import THEMES, Plan
from tests.support.share import combinations as share_combinations

SEARCHED = 1_000  # seeds: each theme has one among them


def of_theme(theme: str, first: int) -> int:
    """The first seed from `first` on whose plan has a theme."""
    return next(seed for seed in range(first, first + SEARCHED) if Plan(seed).theme_name == theme)


@seeds.several(1)
@pytest.mark.parametrize("theme", THEMES)
def test_groups_keep_their_promises_under_combined_faults(theme: str, seed: int) -> None:
    assert run(of_theme(theme, seed)) == []


@seeds.several(4)
def test_share_groups_deliver_acquired_records(seed: int) -> None:
    assert share_combinations.run(seed) == []


def test_a_seed_decides_a_schedule() -> None:
    first, second = played(7), played(7)
    assert first == second
    assert first.counts["results"] > 0
