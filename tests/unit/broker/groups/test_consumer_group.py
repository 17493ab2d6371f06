"""One group of the consumer protocol: joining, reconciliation, leaving, and what time does to its members."""

from __future__ import annotations

import pytest

from kafwire.errors import ErrorCode
from tests.support.group.consumer_members import ConsumerMembers


def test_the_first_member_has_all_partitions_at_once() -> None:
    group = ConsumerMembers()
    first = group.reader("a")
    response = first.enter()
    assert (response.error_code, response.member_id, response.member_epoch) == (0, "a", 2)
    assert response.heartbeat_interval_ms == 5000
    assert first.owned == {("t", index) for index in range(4)}
    assert group.group.state.value == "Stable"


def test_a_heartbeat_without_news_has_no_assignment_unless_all_is_said() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    assert first.quiet().assignment is None
    assert first.beat().assignment is None
    full = first.beat(subscribed_topic_names=["t"], rebalance_timeout_ms=60_000)
    assert group.places(full.assignment) == first.owned
    pattern = first.beat(subscribed_topic_regex="", rebalance_timeout_ms=60_000)
    assert group.places(pattern.assignment) == first.owned


def test_a_member_gives_up_partitions_before_another_has_them() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    second = group.reader("b")
    response = second.enter()
    assert (response.member_epoch, second.owned) == (3, set())
    assert group.group.state.value == "Reconciling"
    kept = first.quiet()  # the request names no partitions: it keeps its epoch, and gets those that it may keep
    assert (kept.member_epoch, len(group.places(kept.assignment))) == (2, 2)
    assert second.beat().assignment is None, "nothing is free yet"
    given_up = group.places(kept.assignment)
    assert first.owned == given_up
    assert first.beat().member_epoch == 3
    second.beat()
    assert second.owned == {("t", index) for index in range(4)} - given_up
    assert group.group.state.value == "Stable"


def test_a_member_that_has_given_up_by_itself_is_taken_at_its_word() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    group.reader("b").enter()
    target = group.group.targets["a"]
    first.owned = {("t", index) for _, index in target}
    assert first.beat().member_epoch == 3


def test_a_member_that_leaves_gives_all_to_the_others() -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    epoch = group.group.epoch
    response = second.leave()
    assert (response.error_code, response.member_id, response.member_epoch, response.assignment) == (0, "b", -1, None)
    assert response.heartbeat_interval_ms == 0
    assert group.group.epoch == epoch + 1
    assert group.group.state.value == "Assigning"
    first.beat()
    assert first.owned == {("t", index) for index in range(4)}
    first.leave()
    assert group.group.state.value == "Empty"
    assert second.enter().member_epoch == group.group.epoch


def test_a_session_ends() -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    group.pass_ms(44_000)
    first.beat()
    group.pass_ms(2_000)
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert group.group.members.keys() == {"a"}
    group.pass_ms(60_000)
    assert group.group.state.value == "Empty"


def test_a_member_that_does_not_give_up_partitions_in_time_is_out() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", rebalance_timeout_ms=10_000)
    second = group.reader("b")
    second.enter()
    first.quiet()
    for _ in range(3):
        group.pass_ms(3_000)
        assert first.quiet().error_code == 0, "it is alive, and goes on to read"
    group.pass_ms(1_000)
    assert first.quiet().error_code == ErrorCode.UNKNOWN_MEMBER_ID
    second.beat()
    assert len(second.owned) == 4


def test_a_member_that_has_given_up_partitions_in_time_stays() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", rebalance_timeout_ms=10_000)
    second = group.reader("b")
    second.enter()
    first.quiet()
    group.settle([first, second])
    group.pass_ms(11_000)
    assert first.beat().error_code == 0


def test_epochs_that_are_not_its_own() -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    ahead = group.beat("a", first.epoch + 1)
    assert (ahead.error_code, "greater" in ahead.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, True)
    behind = group.beat("a", first.epoch - 1)
    assert (behind.error_code, "smaller" in behind.error_message) == (ErrorCode.FENCED_MEMBER_EPOCH, True)
    assert group.group.members["a"].epoch == first.epoch
    assert group.beat("nobody", 1).error_code == ErrorCode.UNKNOWN_MEMBER_ID
    assert second.beat().error_code == 0


def test_a_response_was_lost() -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    third = group.reader("c")
    third.enter()
    late = group.group.members["a"].previous_epoch
    assert late < first.epoch
    assert group.beat("a", late, owned=first.owned).error_code == 0, "it may not have the response"
    assert group.beat("a", late, owned=first.owned | second.owned).error_code == ErrorCode.FENCED_MEMBER_EPOCH
    assert group.beat("a", late).error_code == ErrorCode.FENCED_MEMBER_EPOCH


def test_a_member_rejoins() -> None:
    group = ConsumerMembers()
    first, _ = group.joined("a", "b")
    had, epoch = set(first.owned), group.group.epoch
    assert first.enter().member_epoch == epoch
    assert first.owned == had


def test_a_group_that_is_not_there() -> None:
    group = ConsumerMembers()
    staying = group.beat("a", 1)
    assert (staying.error_code, staying.error_message) == (
        ErrorCode.GROUP_ID_NOT_FOUND,
        "Consumer group g not found.",
    )
    leaving = group.beat("a", -1)
    assert (leaving.error_code, leaving.error_message) == (ErrorCode.GROUP_ID_NOT_FOUND, "Group g not found.")
    assert not group.coordinator.exists("g")


def test_there_is_no_room() -> None:
    group = ConsumerMembers(group_consumer_max_size=2)
    first, _ = group.joined("a", "b")
    assert group.reader("c").enter().error_code == ErrorCode.GROUP_MAX_SIZE_REACHED
    assert first.enter().error_code == 0


def test_assignments_are_not_made_too_often() -> None:
    group = ConsumerMembers(group_consumer_assignment_interval_ms=1000)
    first, second = group.reader("a"), group.reader("b")
    first.enter()
    group.pass_ms(999)
    response = second.enter()
    assert (response.member_epoch, group.places(response.assignment)) == (2, set())
    assert group.group.state.value == "Assigning"
    group.pass_ms(1)
    assert second.beat().member_epoch == 3


@pytest.mark.parametrize("count", [4, 6])
def test_topics_grow(count: int) -> None:
    group = ConsumerMembers()
    first, second = group.joined("a", "b")
    epoch = group.group.epoch
    group.state.topics.add_partitions(group.state.topics.by_name["t"], count - 4)
    group.settle([first, second])
    assert group.group.epoch == epoch + (count > 4)
    assert first.owned | second.owned == {("t", index) for index in range(count)}


def test_topics_that_appear_and_go() -> None:
    group = ConsumerMembers()
    first = group.reader("a")
    first.enter(["t", "later"])
    assert {name for name, _ in first.owned} == {"t"}
    group.state.topics.create("later", 2)
    assert first.beat().member_epoch == 3
    assert {name for name, _ in first.owned} == {"t", "later"}
    group.state.topics.delete(group.state.topics.by_name["t"])
    first.quiet()
    assert first.beat().member_epoch == 4
    group.settle([first])
    assert first.owned == {("later", 0), ("later", 1)}


def test_a_member_changes_its_subscription() -> None:
    group = ConsumerMembers(topics={"t": 2, "u": 2}, group_consumer_assignment_interval_ms=1000)
    (first,) = group.joined("a", rebalance_timeout_ms=900)
    response = first.beat(subscribed_topic_names=["u"])
    assert group.places(response.assignment) == set(), "it is to give up the others before there is an assignment"
    assert (response.member_epoch, group.group.state.value) == (2, "Assigning")
    assert first.beat().member_epoch == 2
    group.pass_ms(1000)
    first.beat()
    assert (first.epoch, first.owned) == (3, {("u", 0), ("u", 1)})


def test_a_member_without_topics() -> None:
    group = ConsumerMembers()
    first = group.reader("a")
    assert first.enter([]).member_epoch == 1
    assert (first.owned, group.group.state.value) == (set(), "Stable")


def test_members_choose_the_assignor() -> None:
    group = ConsumerMembers(topics={"t": 3})
    assert group.reader("a", server_assignor="range").enter().error_code == 0
    assert group.group.assignor == "range"
    group.reader("b").enter()
    assert group.group.assignor == "range", "a member without a choice does not count"
    for name in ("c", "d"):
        group.reader(name, server_assignor="uniform").enter()
    assert group.group.assignor == "uniform"


def test_of_two_assignors_with_as_many_votes_the_new_one_is_taken() -> None:
    group = ConsumerMembers(topics={"t": 3, "u": 1})
    group.reader("a", server_assignor="uniform").enter(["t", "u"])
    group.reader("b", server_assignor="range").enter()
    assert group.group.targets["b"] == {(group.topic_id("t"), 2)}
    assert group.group.assignor == "uniform", "the name does not follow the computed assignment"


def test_members_that_want_different_topics() -> None:
    group = ConsumerMembers(topics={"t": 2, "u": 2})
    first, second = group.reader("a"), group.reader("b")
    first.enter(["t"])
    second.enter(["t", "u"])
    group.settle([first, second])
    assert (first.owned, second.owned) == ({("t", 0), ("t", 1)}, {("u", 0), ("u", 1)})


def test_another_broker_takes_over() -> None:
    group = ConsumerMembers((1, 2))
    first, second = group.joined("a", "b")
    owner = group.state.coordinator("g")
    group.state.move_coordinator("g", 3 - owner)
    epoch = group.group.epoch
    group.pass_ms(44_000)
    assert first.beat().member_epoch == epoch
    group.pass_ms(1_001)
    assert group.group.members.keys() == {"a"}, "sessions restarted"
    assert second.beat().error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_another_preferred_assignor_asks_for_an_assignment() -> None:
    group = ConsumerMembers(topics={"t": 3, "u": 1})
    member = group.reader("a", server_assignor="uniform")
    epoch = member.enter(["t", "u"]).member_epoch
    assert member.beat(server_assignor="range").member_epoch == epoch + 1
    assert member.beat(server_assignor="range").member_epoch == epoch + 1, "the assignor is the same"


def test_an_empty_group_has_no_older_assignment() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a")
    first.leave()
    assert (group.group.epoch, group.group.assignment_epoch) == (3, 3)
