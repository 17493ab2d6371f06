"""Fetch sessions: the request after each kind of response."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kafwire.consumer.fetch.session import LAST_EPOCH, OPEN, Asked, FetchSession, Plan, next_epoch

FIRST = Asked(0, 1 << 20)
LATER = Asked(10, 1 << 20)


def session_with(*keys: str, session_id: int = 7, **options: Any) -> FetchSession[str]:
    """A session that the broker has opened for `keys`."""
    session: FetchSession[str] = FetchSession(**options)
    for key in keys:
        session.want(key, FIRST)
    session.plan()
    assert session.on_response(0, session_id, ())
    return session


def next_plan(session: FetchSession[str], *, session_id: int = 7) -> Plan[str]:
    """The next request, with a response without records."""
    plan = session.plan()
    assert session.on_response(0, session_id, ())
    return plan


def test_first_request_names_all_and_offers_to_open() -> None:
    session: FetchSession[str] = FetchSession()
    session.want("b", FIRST)
    session.want("a", LATER)
    plan = session.plan()
    assert plan.full
    assert plan == (0, 0, [("b", FIRST), ("a", LATER)], [])
    assert session.in_flight


def test_open_session_names_only_changes() -> None:
    session = session_with("a", "b", "c")
    session.want("b", LATER)
    session.drop("c")
    session.want("d", FIRST)
    plan = session.plan()
    assert not plan.full
    assert plan == (7, 1, [("b", LATER), ("d", FIRST)], ["c"])
    assert session.on_response(0, 7, ["b"])
    assert next_plan(session) == (7, 2, [], [])


def test_one_request_at_a_time() -> None:
    session = session_with("a")
    session.plan()
    with pytest.raises(ValueError, match="in flight"):
        session.plan()


def test_response_without_request() -> None:
    with pytest.raises(ValueError, match="no fetch request"):
        session_with("a").on_response(0, 7, ())


def test_lost_without_request_changes_nothing() -> None:
    session = session_with("a")
    session.on_lost()
    assert next_plan(session) == (7, 1, [], [])


@pytest.mark.parametrize("changed_back", [True, False])
def test_changes_while_in_flight_are_in_the_next_request(changed_back: bool) -> None:
    session = session_with("a", "b")
    session.want("a", LATER)
    assert session.plan().add == [("a", LATER)]
    session.want("a", FIRST)
    session.drop("b")
    session.want("c", FIRST)
    if changed_back:
        session.want("a", LATER)
        session.want("b", FIRST)
        session.drop("c")
    assert session.on_response(0, 7, ())
    expected = ([], []) if changed_back else ([("a", FIRST), ("c", FIRST)], ["b"])
    assert session.plan()[2:] == expected


def test_changes_while_the_first_request_is_in_flight() -> None:
    session: FetchSession[str] = FetchSession()
    session.want("a", FIRST)
    session.want("b", FIRST)
    session.plan()
    session.drop("a")
    session.want("b", LATER)
    assert session.on_response(0, 7, ())
    assert session.plan() == (7, 1, [("b", LATER)], ["a"])


def test_dropped_and_wanted_again_is_never_forgotten() -> None:
    """The broker forgets after it has added."""
    session = session_with("a", "b")
    session.drop("a")
    session.want("a", LATER)
    assert session.plan() == (7, 1, [("a", LATER)], [])


def partition_of(key: str) -> str:
    return key[0]


def test_new_key_in_the_place_of_an_old_one_is_not_forgotten_with_it() -> None:
    session: FetchSession[str] = FetchSession(name=partition_of)
    for key in ("a1", "b1", "c1"):
        session.want(key, FIRST)
    session.plan()
    session.drop("a1")
    session.want("a2", FIRST)
    session.drop("b1")
    assert session.on_response(0, 7, ["a2", "c1"]), "the broker means the old key, which the request names"
    assert list(session) == ["a2", "c1"]
    assert session.plan() == (7, 1, [("a2", FIRST)], ["b1"])
    assert session.on_response(0, 7, ())
    session.drop("a2")
    assert session.plan() == (7, 2, [], ["a2"])
    session.want("d1", FIRST)
    assert not session.on_response(0, 7, ["d1"])


def test_a_request_forgets_no_partition_that_the_session_never_had() -> None:
    session = session_with("a")
    session.want("b", FIRST)
    session.drop("b")
    session.drop("never known")
    assert session.plan() == (7, 1, [], [])


def test_forgotten_and_wanted_again() -> None:
    session = session_with("a", "b")
    session.drop("a")
    assert next_plan(session).forget == ["a"]
    session.want("a", FIRST)
    assert session.plan() == (7, 2, [("a", FIRST)], [])


def test_the_cost_of_a_request_is_that_of_its_changes() -> None:
    looked_at = []

    class Watched(str):
        __slots__ = ()

        def __hash__(self) -> int:
            looked_at.append(self)
            return super().__hash__()

    keys = [Watched(number) for number in range(100)]
    session = session_with(*keys)
    session.want(keys[3], LATER)
    looked_at.clear()
    assert next_plan(session).add == [(keys[3], LATER)]
    assert set(map(str, looked_at)) == {"3"}
    looked_at.clear()
    assert next_plan(session).add == []
    assert not looked_at


def test_new_keys_go_out_in_the_order_of_a_full_request() -> None:
    session = session_with("a")
    for key in "bcd":
        session.want(key, FIRST)
    session.drop("b")
    session.want("b", LATER)
    session.want("c", LATER)
    assert list(session) == ["a", "c", "d", "b"]
    assert [key for key, _ in session.plan().add] == ["c", "d", "b"]


def test_served_go_to_the_back_of_a_full_request() -> None:
    session = session_with("a", "b", "c", "d")
    session.plan()
    session.want("a", LATER)
    assert session.on_response(0, 7, ["c", "a"])
    assert list(session) == ["b", "d", "c", "a"]
    session.plan()
    session.on_lost()
    assert [key for key, _ in session.plan().add] == ["b", "d", "c", "a"]


def test_served_and_dropped_meanwhile_stays_dropped() -> None:
    session = session_with("a", "b")
    session.plan()
    session.drop("a")
    assert session.on_response(0, 7, ["a"])
    assert list(session) == ["b"]
    assert session.plan().forget == ["a"]


@pytest.mark.parametrize("full", [True, False])
def test_records_not_asked_for_are_a_session_error(full: bool) -> None:
    session = session_with("a")
    if full:
        session.renew()
    session.plan()
    session.want("b", FIRST)
    assert not session.on_response(0, 7, ["a", "b"])
    assert session.plan() == (7, 0, [("a", FIRST), ("b", FIRST)], [])


def test_response_of_another_session() -> None:
    session = session_with("a")
    session.plan()
    assert not session.on_response(0, 8, ())
    assert session.plan() == (7, 0, [("a", FIRST)], [])


@pytest.mark.parametrize(
    ("error_code", "session_id"),
    [
        pytest.param(70, 0, id="FETCH_SESSION_ID_NOT_FOUND"),
        pytest.param(71, 7, id="INVALID_FETCH_SESSION_EPOCH"),
        pytest.param(106, 7, id="FETCH_SESSION_TOPIC_ID_ERROR"),
        pytest.param(-1, 7, id="UNKNOWN_SERVER_ERROR"),
    ],
)
def test_session_errors_are_followed_by_a_full_request(error_code: int, session_id: int) -> None:
    session = session_with("a", "b")
    session.want("a", LATER)
    session.drop("b")
    session.plan()
    session.want("c", FIRST)
    assert not session.on_response(error_code, 0, ["a"])
    assert not session.in_flight
    assert list(session) == ["a", "c"]
    assert session.plan() == (session_id, 0, [("a", LATER), ("c", FIRST)], [])
    assert session.on_response(0, 8, ())
    assert next_plan(session, session_id=8) == (8, 1, [], [])


def test_error_in_the_response_to_the_first_request() -> None:
    session: FetchSession[str] = FetchSession()
    session.want("a", FIRST)
    session.plan()
    assert not session.on_response(106, 0, ())
    assert session.plan() == (0, 0, [("a", FIRST)], [])


def test_lost_response_closes_the_old_session_and_opens_another() -> None:
    session = session_with("a")
    session.want("a", LATER)
    session.plan()
    session.on_lost()
    assert session.plan() == (7, 0, [("a", LATER)], [])
    assert session.on_response(0, 9, ())
    assert next_plan(session, session_id=9).session_id == 9


def test_session_that_the_broker_ended_because_it_was_empty() -> None:
    session = session_with("a")
    session.drop("a")
    assert session.plan() == (7, 1, [], ["a"])
    session.want("b", FIRST)
    assert session.on_response(0, 0, ())
    assert session.plan() == (0, 0, [("b", FIRST)], [])


def test_epoch_wraps_to_one() -> None:
    assert LAST_EPOCH == 2**31 - 1
    assert [next_epoch(epoch) for epoch in (OPEN, 1, LAST_EPOCH - 1, LAST_EPOCH)] == [1, 2, LAST_EPOCH, 1]
    session = session_with("a", last_epoch=3)
    assert [next_plan(session).epoch for _ in range(5)] == [1, 2, 3, 1, 2]


def test_refused_sessions_are_asked_for_ever_more_rarely() -> None:
    session: FetchSession[str] = FetchSession()
    session.want("a", FIRST)
    offers = []
    for request in range(400):
        plan = session.plan()
        assert plan.add == [("a", FIRST)]
        assert (plan.session_id, plan.forget) == (0, [])
        if plan.epoch == 0:
            offers.append(request)
        if request % 2 and plan.epoch < 0:
            session.on_lost()
        else:
            assert session.on_response(0, 0, ["a"])
    assert offers == [0, 2, 6, 14, 30, 62, 126, 190, 254, 318, 382]


def test_session_after_refusals() -> None:
    session: FetchSession[str] = FetchSession()
    session.want("a", FIRST)
    assert [next_plan(session, session_id=0).epoch for _ in range(2)] == [0, -1]
    assert next_plan(session).epoch == 0
    assert next_plan(session) == (7, 1, [], [])
    session.plan()
    assert not session.on_response(70, 0, ())
    # Refusals are counted from 0 again.
    assert [next_plan(session, session_id=0).epoch for _ in range(5)] == [0, -1, 0, -1, -1]


def test_renewal_refused_ends_the_old_session() -> None:
    session = session_with("a")
    session.renew()
    assert next_plan(session, session_id=0) == (7, 0, [("a", FIRST)], [])
    assert next_plan(session, session_id=0) == (0, -1, [("a", FIRST)], [])
    assert next_plan(session) == (0, 0, [("a", FIRST)], [])


def test_without_sessions_everything_is_in_each_request() -> None:
    session: FetchSession[str] = FetchSession(sessions=False)
    session.want("a", FIRST)
    session.want("b", FIRST)
    for order in (["a", "b"], ["b", "a"], ["a", "b"]):
        plan = session.plan()
        assert plan[:2] == (0, -1)
        assert [key for key, _ in plan.add] == order
        assert session.on_response(0, 0, order[:1])
    session.renew()
    assert session.plan().epoch == -1
    session.on_lost()
    assert session.plan()[:2] == (0, -1)
    assert session.closing() is None


@pytest.mark.parametrize("in_flight", [True, False])
def test_renewal(in_flight: bool) -> None:
    session = session_with("a")
    if in_flight:
        session.plan()
    session.renew()
    if in_flight:
        assert session.on_response(0, 7, ())
    assert session.plan() == (7, 0, [("a", FIRST)], [])
    assert session.on_response(0, 8, ())
    assert next_plan(session, session_id=8) == (8, 1, [], [])


batch_sizes = st.lists(st.integers(1, 40), min_size=0, max_size=12)


@given(st.lists(batch_sizes, min_size=1, max_size=10), st.integers(1, 50))
def test_without_sessions_none_with_data_waits_for_more_responses_than_there_are_keys(
    partitions: list[list[int]], max_bytes: int
) -> None:
    """The broker's side: it goes through the request in order and fills the response to `max_bytes`.

    The first partition that has data gives one batch whatever its size; a later one gives the batches that are whole
    within the rest. A partition without batches is one whose tail is invisible: it stays, and hinders no other.
    """
    left = {number: list(sizes) for number, sizes in enumerate(partitions)}
    session: FetchSession[int] = FetchSession(sessions=False)
    for number in left:
        session.want(number, FIRST)
    waited = dict.fromkeys(left, 0)
    taken = dict.fromkeys(left, 0)
    while any(left.values()):
        served: list[int] = []
        room = max_bytes
        plan = session.plan()
        assert {number for number, _ in plan.add} == set(left)
        for number, _ in plan.add:
            sizes, before = left[number], taken[number]
            while sizes and (sizes[0] <= room or not (served or taken[number] > before)):
                room -= sizes.pop(0)
                taken[number] += 1
            if taken[number] > before:
                served.append(number)
        assert session.on_response(0, 0, served)
        for number in served:
            session.want(number, Asked(taken[number], 1 << 20))
        for number, sizes in left.items():
            waited[number] = 0 if number in served or not sizes else waited[number] + 1
        assert max(waited.values()) < len(left)


def test_closing() -> None:
    session = session_with("a")
    assert session.closing() == (7, -1)
    assert session.closing() is None
    assert next_plan(session, session_id=8) == (0, 0, [("a", FIRST)], [])
    assert next_plan(session, session_id=8) == (8, 1, [], [])


def test_closing_while_a_request_waits_at_the_broker() -> None:
    session = session_with("a")
    session.plan()
    assert session.closing() == (7, -1)
    assert session.on_response(0, 7, ["a"])
    assert session.closing() is None
    assert session.plan()[:2] == (0, 0)


def test_closing_before_the_broker_has_responded_to_the_offer() -> None:
    """The session exists only after that, and is still there to be closed, or replaced."""
    session: FetchSession[str] = FetchSession()
    session.want("a", FIRST)
    session.plan()
    assert session.closing() is None
    assert session.on_response(0, 7, ())
    assert session.plan() == (7, 0, [("a", FIRST)], [])
    assert session.on_response(0, 8, ())
    assert session.closing() == (8, -1)


def test_the_wanted_keys() -> None:
    session = session_with("a", "b")
    session.drop("a")
    assert "a" not in session
    assert "b" in session
    assert len(session) == 1
    assert session.asked("b") == FIRST
    assert session.asked("a") is None


def test_state_in_metrics() -> None:
    session = session_with("a")
    assert (session.session_id, session.epoch) == (7, 1)
    session.renew()
    assert (session.session_id, session.epoch) == (7, 0)
