"""What a member of a share group says of its records, and what goes on the wire of it."""

from __future__ import annotations

import uuid
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from kafwire.consumer.share.acquired import ACCEPT, GAP, OPEN, REJECT, RELEASE, RENEW, AcquiredRange, Outgoing
from kafwire.consumer.share.share_session import ShareSession

TOPIC = uuid.UUID(int=7)
PLACE = (TOPIC, 0)
OTHER = (TOPIC, 1)


def acquired(first: int, last: int, place: tuple[uuid.UUID, int] = PLACE) -> AcquiredRange:
    return AcquiredRange(place, 1, first, last, 1, 30_000.0)


def test_a_range_of_which_all_is_said_alike_is_one_batch_of_one_type() -> None:
    outgoing, its = Outgoing(), acquired(10, 14)
    its.say_rest(ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 14, (ACCEPT,))]}
    assert outgoing.is_empty
    assert outgoing.take() == {}


def test_what_differs_is_said_offset_by_offset_and_what_is_open_is_left_out() -> None:
    outgoing, its = Outgoing(), acquired(10, 15)
    for offset, kind in ((10, ACCEPT), (11, RELEASE), (14, REJECT)):
        assert its.say(offset, kind)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 11, (ACCEPT, RELEASE)), (14, 14, (REJECT,))]}
    its.say_rest(ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(12, 13, (ACCEPT,)), (15, 15, (ACCEPT,))]}


def test_offsets_without_records_are_gaps_and_go_with_the_others() -> None:
    outgoing, its = Outgoing(), acquired(10, 14)
    its.mark_gaps([10, 12, 14])
    outgoing.add(its)
    assert outgoing.is_empty, "a gap alone says nothing"
    its.say_rest(ACCEPT)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 14, (ACCEPT, GAP, ACCEPT, GAP, ACCEPT))]}


def test_something_final_is_said_once_and_a_renewal_again_and_again() -> None:
    outgoing, its = Outgoing(), acquired(10, 10)
    assert its.say(10, RENEW)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 10, (RENEW,))]}
    assert outgoing.renewed == [its]
    assert its.said == [OPEN]
    assert its.say(10, RENEW)
    assert its.say(10, ACCEPT)
    assert not its.say(10, RELEASE)
    outgoing.add(its)
    assert outgoing.take() == {PLACE: [(10, 10, (ACCEPT,))]}
    outgoing.add(its)  # somebody says the same again
    assert outgoing.take() == {}


def test_what_is_forgotten_is_not_said() -> None:
    outgoing, one, other = Outgoing(), acquired(1, 2), acquired(1, 2, OTHER)
    for its in (one, other):
        its.say_rest(ACCEPT)
        outgoing.add(its)
    outgoing.forget(PLACE)
    assert outgoing.take() == {OTHER: [(1, 2, (ACCEPT,))]}
    outgoing.add(one)
    outgoing.forget()
    assert outgoing.is_empty


@given(st.lists(st.tuples(st.integers(0, 9), st.sampled_from([ACCEPT, RELEASE, REJECT])), max_size=30), st.data())
def test_each_offset_is_told_once_whatever_is_said_when(said: list[tuple[int, int]], data: st.DataObject) -> None:
    outgoing, its = Outgoing(), acquired(0, 9)
    told: Counter[tuple[int, int]] = Counter()
    expected: dict[int, int] = {}

    def send() -> None:
        for first, last, kinds in outgoing.take().get(PLACE, []):
            for index, offset in enumerate(range(first, last + 1)):
                told[offset, kinds[index if len(kinds) > 1 else 0]] += 1

    for offset, kind in said:
        if its.say(offset, kind):
            expected[offset] = kind
        outgoing.add(its)
        if data.draw(st.booleans()):
            send()
    send()
    assert told == Counter(expected.items())


def test_a_session_opens_with_all_and_then_says_what_changes() -> None:
    session = ShareSession()
    first = session.fetch([PLACE, OTHER], {PLACE: [(1, 2, (ACCEPT,))]})
    assert (first.epoch, first.topics, first.forgotten) == (0, {TOPIC: {0: [], 1: []}}, {}), "it acknowledges nothing"
    session.answered()
    assert session.fetch([PLACE, OTHER], {}).topics == {}
    session.answered()
    later = session.fetch([OTHER], {PLACE: [(1, 2, (ACCEPT,))]})
    assert (later.epoch, later.topics, later.forgotten) == (2, {TOPIC: {0: [(1, 2, (ACCEPT,))]}}, {TOPIC: [0]})
    session.answered()
    said = session.acknowledge({OTHER: [(5, 5, (RELEASE,))]})
    assert (said.epoch, said.topics) == (3, {TOPIC: {1: [(5, 5, (RELEASE,))]}})
    session.answered()
    assert session.acknowledge({}, closes=True).epoch == -1


def test_a_session_that_is_lost_opens_again_with_all() -> None:
    session = ShareSession()
    session.fetch([PLACE], {})
    session.answered()
    session.reset()
    again = session.fetch([PLACE], {})
    assert (again.epoch, again.topics) == (0, {TOPIC: {0: []}})


def test_epochs_begin_again_after_the_last() -> None:
    session = ShareSession()
    session.fetch([PLACE], {})
    session.answered()
    session.epoch = 2**31 - 1
    session.answered()
    assert session.epoch == 1
