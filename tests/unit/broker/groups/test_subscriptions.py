"""The topics that the members of a consumer group want, together."""

from __future__ import annotations

import pytest

from kafwire.broker.groups.consumer_member import ConsumerMember
from kafwire.broker.groups.subscriptions import are_even, subscriptions

MATCHED = {"x": frozenset({"t", "u"}), "y": frozenset({"u"})}


def member(topics: str, pattern: str = "") -> ConsumerMember:
    return ConsumerMember("m", topics=frozenset(topics), pattern=pattern)


@pytest.mark.parametrize(
    ("members", "wanted", "even"),
    [
        ([], {}, True),
        ([member("t"), member("t")], {"t": (2, 0)}, True),
        ([member("t"), member("tu")], {"t": (2, 0), "u": (1, 0)}, False),
        ([member("t"), member("")], {"t": (1, 0)}, False),
        ([member("", "x"), member("", "x")], {"t": (0, 1), "u": (0, 1)}, True),
        ([member("", "x"), member("", "y")], {"t": (0, 1), "u": (0, 2)}, False),
        ([member("", "x"), member("t", "x")], {"t": (1, 1), "u": (0, 1)}, False),
        ([member("", "x"), member("t")], {"t": (1, 1), "u": (0, 1)}, False),
        ([member("", "?")], {}, True),
    ],
)
def test_subscriptions(members: list[ConsumerMember], wanted: dict[str, tuple[int, int]], *, even: bool) -> None:
    named = {str(number): each for number, each in enumerate(members)}
    assert subscriptions(named, MATCHED) == wanted
    assert are_even(named, wanted) is even
