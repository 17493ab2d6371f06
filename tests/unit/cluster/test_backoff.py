"""`cluster.backoff`: grows, is bounded, and is spread."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.cluster.backoff import delay_ms


@pytest.mark.parametrize(("failures", "expected"), [(1, 100), (2, 200), (3, 400), (4, 800), (5, 1_000), (10**6, 1_000)])
def test_the_wait_doubles_up_to_its_limit(failures: int, expected: float) -> None:
    assert delay_ms(failures, 100, 1_000, 0.5) == pytest.approx(expected)


@given(st.integers(1, 10**9), st.integers(0, 10**6), st.integers(0, 10**6), st.floats(0, 1, exclude_max=True))
def test_chance_moves_it_by_a_fifth_at_most(failures: int, base: int, limit: int, chance: float) -> None:
    middle = delay_ms(failures, base, limit, 0.5)
    assert 0.8 * middle * (1 - 1e-9) <= delay_ms(failures, base, limit, chance) <= 1.2 * middle * (1 + 1e-9)
    assert middle <= limit * (1 + 1e-9)
    assert delay_ms(failures + 1, base, limit, chance) >= delay_ms(failures, base, limit, chance)


def test_chance_is_used() -> None:
    assert delay_ms(1, 100, 1_000, 0.0) == pytest.approx(80)
    assert delay_ms(1, 100, 1_000, 0.999999) == pytest.approx(120, rel=1e-4)
