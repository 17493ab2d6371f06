"""The acknowledgements of a member of a share group, and their form on the wire."""

from __future__ import annotations

import uuid
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafwire.consumer.share.acquired import (
    ACCEPT,
    GAP,
    OPEN,
    REJECT,
    RELEASE,
    RENEW,
    AcquiredRange,
    Outgoing,
    count_final,
)
from kafwire.consumer.share.share_session import ShareSession

TOPIC = uuid.UUID(int=7)
PLACE = (TOPIC, 0)
OTHER = (TOPIC, 1)


def acquired(first: int, last: int, place: tuple[uuid.UUID, int] = PLACE) -> AcquiredRange:
    its = AcquiredRange(place, 1, first, last, 1, 30_000.0)
    its.see_all()
    return its


def test_a_range_with_one_acknowledgement_for_all_is_one_batch_of_one_type() -> None:
    outgoing, its = Outgoing(), acquired(10, 14)
    its.say_rest(ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 14, bytes([ACCEPT]))]}
    assert outgoing.is_empty
    assert outgoing.take() == {}


def test_mixed_kinds_go_offset_by_offset_and_open_offsets_are_left_out() -> None:
    outgoing, its = Outgoing(), acquired(10, 15)
    for offset, kind in ((10, ACCEPT), (11, RELEASE), (14, REJECT)):
        assert its.say(offset, kind)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 11, bytes([ACCEPT, RELEASE])), (14, 14, bytes([REJECT]))]}
    its.say_rest(ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(12, 13, bytes([ACCEPT])), (15, 15, bytes([ACCEPT]))]}


def test_offsets_without_records_are_gaps_and_go_with_the_others() -> None:
    outgoing, its = Outgoing(), acquired(10, 14)
    its.mark_gaps([10, 12, 14])
    outgoing.add(its)
    assert outgoing.is_empty, "a gap alone says nothing"
    its.say_rest(ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 14, bytes([ACCEPT, GAP, ACCEPT, GAP, ACCEPT]))]}


def test_something_final_is_said_once_and_a_renewal_again_and_again() -> None:
    outgoing, its = Outgoing(), acquired(10, 10)
    assert its.say(10, RENEW)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 10, bytes([RENEW]))]}
    assert outgoing.renewed == [its]
    assert its.said == bytes([OPEN])
    assert its.say(10, RENEW)
    assert its.say(10, ACCEPT)
    assert not its.say(10, RELEASE)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 10, bytes([ACCEPT]))]}
    outgoing.add(its)  # the same acknowledgement again
    assert outgoing.take() == {}


def test_forgotten_acknowledgements_are_not_sent() -> None:
    outgoing, one, other = Outgoing(), acquired(1, 2), acquired(1, 2, OTHER)
    for its in (one, other):
        its.say_rest(ACCEPT)
        outgoing.add(its)
    outgoing.forget(PLACE)
    assert outgoing.take() == {OTHER: [(1, 2, bytes([ACCEPT]))]}
    outgoing.add(one)
    outgoing.forget()
    assert outgoing.is_empty


def test_an_acknowledgement_after_a_take_is_noticed() -> None:
    outgoing, its = Outgoing(), acquired(0, 3)
    its.is_noted = its.say(0, ACCEPT)
    outgoing.add(its)
    outgoing.take()
    assert not its.is_noted, "a later acknowledgement notifies the engine again"
    its.is_noted = its.say(1, ACCEPT)
    outgoing.add(its)
    outgoing.forget()
    assert not its.is_noted


def test_a_renewal_goes_beside_final_kinds_and_after_them_where_both_were_given() -> None:
    its = acquired(0, 4)
    assert its.say_rest(RENEW) == 5
    assert its.say(1, ACCEPT)
    assert its.say_rest(REJECT) == 4
    assert its.take() == ([(0, 4, bytes([REJECT, ACCEPT, REJECT, REJECT, REJECT]))], False)
    its = acquired(0, 2)
    its.say_rest(RENEW)
    its.say(1, ACCEPT)
    assert its.take() == ([(0, 2, bytes([RENEW, ACCEPT, RENEW]))], True)
    assert its.take() == ([], False)
    assert its.say_rest(RELEASE) == 2
    assert its.take() == ([(0, 0, bytes([RELEASE])), (2, 2, bytes([RELEASE]))], False)


def test_one_renewed_run_of_several_renews_the_lock() -> None:
    outgoing, its = Outgoing(), acquired(0, 3)
    assert its.say(0, RENEW)
    assert its.say(2, RENEW)
    assert its.say(2, ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(0, 0, bytes([RENEW])), (2, 2, bytes([ACCEPT]))]}
    assert outgoing.renewed == [its], "the run before the last renews it"


def test_undelivered_records_are_not_acknowledged() -> None:
    its = AcquiredRange(PLACE, 1, 10, 15, 1, 30_000.0)
    its.mark_gaps([10, 12, 14])
    its.unseen = 1
    assert its.say(10, ACCEPT)
    assert its.take() == ([(10, 10, bytes([ACCEPT]))], False)
    assert its.held() == [(11, 15, bytes([RENEW]))]
    its.see_all()
    assert its.say_rest(REJECT) == 2
    assert its.take() == ([(11, 15, bytes([GAP, REJECT, GAP, REJECT, GAP]))], False)
    assert its.held() == []


def test_undelivered_records_become_a_range_of_their_own() -> None:
    its = AcquiredRange(PLACE, 1, 10, 14, 3, 30_000.0, 10_000.0)
    its.unseen = 2
    assert its.say(10, ACCEPT)
    rest = its.cut()
    assert rest is not None
    assert (its.first, its.last, bytes(its.said)) == (10, 11, bytes([ACCEPT, OPEN]))
    assert (rest.first, rest.last, rest.delivery_count, rest.until_ms, rest.lock_ms) == (12, 14, 3, 30_000.0, 10_000.0)
    assert rest.waits
    assert not its.waits
    assert its.cut() is None
    assert its.say(11, REJECT)
    assert its.take() == ([(10, 11, bytes([ACCEPT, REJECT]))], False)


def test_a_column_acknowledges_all_records_of_an_open_range() -> None:
    its = acquired(0, 3)
    for wrong in (b"\1\1\1", b"\1\1\1\1\1", bytes([ACCEPT, ACCEPT, ACCEPT, RENEW]), b"\1\1\1\xff"):
        assert not its.say_all(wrong)
        assert its.take() == ([], False)
    assert its.say_all(bytes([ACCEPT, 0, RELEASE, REJECT]))
    assert its.said[1] == OPEN
    assert not its.say_all(bytes([0, ACCEPT, 0, 0])), "not all is open"
    assert its.take() == ([(0, 0, bytes([ACCEPT])), (2, 3, bytes([RELEASE, REJECT]))], False)


def test_records_are_counted_without_gaps_and_renewals() -> None:
    assert count_final((5, 9, bytes([ACCEPT]))) == 5
    assert count_final((5, 9, bytes([RENEW]))) == 0
    assert count_final((5, 9, bytes([ACCEPT, GAP, RENEW, REJECT, RELEASE]))) == 3


Step = tuple[str, int, int]
STEPS = st.lists(
    st.tuples(
        st.sampled_from(["say", "say", "rest", "all", "send"]),
        st.integers(0, 9),
        st.sampled_from([ACCEPT, RELEASE, REJECT, RENEW]),
    ),
    max_size=40,
)


@given(STEPS)
def test_each_offset_is_acknowledged_once_in_any_order_of_calls(steps: list[Step]) -> None:
    outgoing, its = Outgoing(), acquired(0, 9)
    reported: Counter[tuple[int, int]] = Counter()
    expected: dict[int, int] = {}
    renewing: set[int] = set()

    def send() -> None:
        renewed = set()
        for first, last, kinds in outgoing.take().get(PLACE, []):
            assert len(kinds) in (1, last - first + 1)
            for index, offset in enumerate(range(first, last + 1)):
                kind = kinds[index if len(kinds) > 1 else 0]
                if kind == RENEW:
                    renewed.add(offset)
                else:
                    reported[offset, kind] += 1
        assert reported == Counter(expected.items())
        assert renewed == renewing - expected.keys()
        assert outgoing.renewed == ([its] if renewed else [])
        renewing.clear()

    for what, offset, kind in [*steps, ("send", 0, 0)]:
        open_ones = set(range(10)) - expected.keys()
        if what == "send":
            send()
            continue
        if what == "say":
            meant = {offset} & open_ones
            assert its.say(offset, kind) == bool(meant)
        elif what == "rest":
            meant = open_ones
            assert its.say_rest(kind) == len(meant)
        else:
            meant = set(range(offset)) if len(open_ones) == 10 and (kind != RENEW or not offset) else set()
            assert its.say_all(bytes([kind] * offset + [0] * (10 - offset))) == (
                len(open_ones) == 10 and (kind != RENEW or not offset)
            )
        if kind == RENEW:
            renewing |= meant
        else:
            expected |= dict.fromkeys(meant, kind)
        outgoing.add(its)


def test_a_session_opens_with_all_partitions_and_then_names_changes() -> None:
    session = ShareSession()
    first = session.fetch([PLACE, OTHER], {PLACE: [(1, 2, bytes([ACCEPT]))]})
    assert (first.epoch, first.topics, first.forgotten) == (0, {TOPIC: {0: [], 1: []}}, {}), "it acknowledges nothing"
    session.on_response()
    assert session.fetch([PLACE, OTHER], {}).topics == {}
    session.on_response()
    later = session.fetch([OTHER], {PLACE: [(1, 2, bytes([ACCEPT]))]})
    assert (later.epoch, later.topics, later.forgotten) == (2, {TOPIC: {0: [(1, 2, bytes([ACCEPT]))]}}, {TOPIC: [0]})
    session.on_response()
    said = session.acknowledge({OTHER: [(5, 5, bytes([RELEASE]))]})
    assert (said.epoch, said.topics) == (3, {TOPIC: {1: [(5, 5, bytes([RELEASE]))]}})
    session.on_response()
    assert session.acknowledge({}, closes=True).epoch == -1


def test_a_session_that_is_lost_opens_again_with_all() -> None:
    session = ShareSession()
    session.fetch([PLACE], {})
    session.on_response()
    session.reset()
    again = session.fetch([PLACE], {})
    assert (again.epoch, again.topics) == (0, {TOPIC: {0: []}})


def test_epochs_begin_again_after_the_last() -> None:
    session = ShareSession()
    session.fetch([PLACE], {})
    session.on_response()
    session.epoch = 2**31 - 1
    session.on_response()
    assert session.epoch == 1
