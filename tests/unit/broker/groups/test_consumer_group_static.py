"""Static members of a consumer group: returning members, replaced ones, and refused ones."""

from __future__ import annotations

import pytest

from kafwire.errors import ErrorCode
from tests.support.group.consumer_members import ConsumerMembers


def test_a_member_that_leaves_for_a_while_has_its_partitions_when_it_returns() -> None:
    group = ConsumerMembers()
    first, second = group.reader("a", instance_id="i"), group.reader("b")
    for each in (first, second):
        each.enter()
    group.settle([first, second])
    had, epoch = set(first.owned), group.group.epoch
    response = first.leave(-2)
    assert (response.error_code, response.member_epoch) == (0, -2)
    assert group.group.members["a"].epoch == -2
    second.beat()
    assert second.owned.isdisjoint(had)
    returned = group.reader("c", instance_id="i")
    assert returned.enter().member_epoch == epoch
    assert (returned.owned, group.group.epoch) == (had, epoch)
    assert group.group.members.keys() == {"b", "c"}
    assert {*group.group.members["c"].assigned.values()} == {0}, "its partitions are as old as it is"


def test_a_member_that_does_not_return_is_forgotten_in_time() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", instance_id="i")
    first.leave(-2)
    group.pass_ms(44_999)
    assert group.group.members.keys() == {"a"}
    group.pass_ms(1)
    assert ({*group.group.members}, group.group.static) == (set(), {})


def test_a_member_that_leaves_for_good() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", instance_id="i")
    assert first.leave(-1).error_code == 0
    assert not group.group.members
    assert group.reader("b", instance_id="i").enter().error_code == 0


def test_an_instance_id_in_use() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", instance_id="i")
    taken = group.reader("b", instance_id="i").enter()
    assert taken.error_code == ErrorCode.UNRELEASED_INSTANCE_ID
    assert "owned by a member" in taken.error_message
    assert first.beat().error_code == 0
    assert first.enter().error_code == ErrorCode.UNRELEASED_INSTANCE_ID, "it has not left either"


@pytest.mark.parametrize("epoch", [-2, -1, 2])
def test_a_replaced_member_is_fenced(epoch: int) -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", instance_id="i")
    first.leave(-2)
    group.reader("b", instance_id="i").enter()
    fenced = group.beat("a", epoch, instance_id="i")
    assert fenced.error_code == ErrorCode.FENCED_INSTANCE_ID
    unnamed = ErrorCode.INVALID_REQUEST if epoch == -2 else ErrorCode.UNKNOWN_MEMBER_ID
    assert group.beat("a", epoch).error_code == unnamed
    assert group.beat("a", epoch, instance_id="j").error_code == ErrorCode.UNKNOWN_MEMBER_ID


def test_a_returned_member_has_its_own_session() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", instance_id="i")
    group.pass_ms(40_000)
    first.leave(-2)
    returned = group.reader("b", instance_id="i")
    returned.enter()
    group.pass_ms(10_000)
    assert returned.beat().error_code == 0
    assert group.group.members.keys() == {"b"}


def test_a_returned_member_may_want_other_topics() -> None:
    group = ConsumerMembers(topics={"t": 2, "u": 2})
    (first,) = group.joined("a", instance_id="i")
    first.leave(-2)
    epoch = group.group.epoch
    returned = group.reader("b", instance_id="i")
    assert returned.enter(["u"]).member_epoch == epoch + 1
    group.settle([returned])
    assert returned.owned == {("u", 0), ("u", 1)}


def test_partitions_that_are_to_be_given_up_are_free_when_their_owner_leaves_for_a_while() -> None:
    group = ConsumerMembers()
    (first,) = group.joined("a", instance_id="i")
    second = group.reader("b")
    second.enter()
    first.quiet()
    assert group.group.members["a"].revoking
    first.leave(-2)
    second.beat()
    assert len(second.owned) == 2
