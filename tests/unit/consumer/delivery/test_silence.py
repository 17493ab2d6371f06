"""`consumer.delivery.silence`: silence counts from the first assignment, at most some time after the call."""

import pytest

from kafwire.consumer.delivery.silence import Silence


@pytest.mark.parametrize(
    ("now_ms", "assigned_since_ms", "left_ms"),
    [
        (1_000, 0, 500),  # assigned before the call
        (1_400, 0, 100),
        (1_500, 0, 0),
        (9_000, 0, 0),
        (1_700, None, 500),  # not assigned yet
        (3_000, None, 500),
        (3_400, None, 100),  # a spare member: 2,000 ms after the call
        (3_500, None, 0),
        (2_000, 1_800, 300),  # assigned meanwhile
        (2_300, 1_800, 0),
        (3_400, 3_300, 100),  # assigned later than that
    ],
)
def test_the_time_left_of_a_call(now_ms: float, assigned_since_ms: float | None, left_ms: float) -> None:
    assert Silence(1_000, 500, 2_000).left_ms(now_ms, assigned_since_ms) == left_ms
