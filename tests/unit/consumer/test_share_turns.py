"""The brokers from which a share consumer fetches next, and how much it fetches at once."""

from __future__ import annotations

from typing import Any

from kafwire.config import ShareConsumerConfig
from kafwire.consumer.share.fetch_turns import TURN_MS, FetchTurns

LEADERS = {1, 2, 3}
LOCK_MS = 30_000.0


def turns(**options: Any) -> FetchTurns:
    return FetchTurns(ShareConsumerConfig.build({"bootstrap_servers": "localhost", "group_id": "g", **options}))


def played(its: FetchTurns, *, records: int | None, count: int = 1) -> list[tuple[int, int]]:
    """Play `count` turns of `records` records each; return the brokers, and how long they may wait."""
    found = []
    for _ in range(count):
        (number,) = its.choose(LEADERS, LEADERS, 0.0)
        found.append((number, its.begin(number, LEADERS, 0.0)))
        assert its.choose(LEADERS, LEADERS, 0.0) == set(), "one at a time"
        its.end(number, records)
    return found


def test_all_brokers_fetch_at_once_while_locks_can_be_renewed() -> None:
    its = turns()
    assert its.choose(LEADERS, [], 0.0) == LEADERS
    assert its.begin(1, LEADERS, 0.0) == 500
    assert its.choose(LEADERS, [2], 0.0) == LEADERS
    its.may_renew = False
    its.end(1, 0)
    assert its.choose(LEADERS, LEADERS, 0.0) == {2}
    assert its.choose({2}, [], 0.0) == {2}, "there is one only"


def test_brokers_take_turns_and_wait_only_when_none_has_records() -> None:
    its = turns(share_acquire_mode="record_limit")
    assert played(its, records=5, count=4) == [(1, 0), (2, 0), (3, 0), (1, 0)]
    assert played(its, records=0, count=4) == [(2, 0), (3, 0), (1, 0), (2, 166)]
    assert played(its, records=None, count=2) == [(3, 166), (1, 166)], "a lost request says nothing of records"
    assert played(its, records=1, count=2) == [(2, 166), (3, 0)]


def test_a_turn_ends_in_time_and_busy_brokers_are_passed_over() -> None:
    its = turns(share_acquire_mode="record_limit")
    its.begin(1, LEADERS, 0.0)
    assert its.choose(LEADERS, [2, 3], TURN_MS - 1) == set()
    assert its.choose(LEADERS, [3], TURN_MS) == {3}
    assert its.choose(LEADERS, [], TURN_MS) == set()


def test_after_a_late_hand_out_a_fetch_asks_for_one_record_and_for_more_as_its_user_is_quick() -> None:
    its = turns(max_poll_records=20)
    its.narrow()
    assert its.choose(LEADERS, LEADERS, 0.0) == {1}
    found = []
    for _ in range(6):
        found.append(its.records)
        its.returned(LOCK_MS / 2 - 1, LOCK_MS)
    assert found == [1, 2, 4, 8, 16, 20]
    assert its.choose(LEADERS, LEADERS, 0.0) == LEADERS
    its.narrow()
    its.returned(LOCK_MS / 2, LOCK_MS)
    assert its.records == 1, "half a lock is too long"
