"""Patterns of topics that members of a consumer group subscribe to."""

from __future__ import annotations

import pytest

from kafwire.broker.request import ANONYMOUS
from kafwire.broker.security.acls import Acl
from kafwire.errors import ErrorCode
from tests.support.group.consumer_members import ConsumerMembers, Reader


def subscribed(group: ConsumerMembers, name: str, pattern: str, **fields: object) -> Reader:
    reader = group.reader(name)
    assert reader.enter(None, subscribed_topic_regex=pattern, **fields).error_code == 0
    group.pass_ms(0)
    return reader


def names(reader: Reader) -> set[str]:
    return {name for name, _ in reader.owned}


def test_topics_that_match_are_had_from_the_next_heartbeat_on() -> None:
    group = ConsumerMembers(topics={"t-1": 1, "t-2": 1, "at-1": 1, "t-10": 1})
    first = subscribed(group, "a", "t-.")
    assert (first.epoch, names(first)) == (1, set())
    assert first.beat().member_epoch == 2
    assert names(first) == {"t-1", "t-2"}, "all of a name has to match"


def test_two_members_have_the_same_pattern() -> None:
    group = ConsumerMembers(topics={"t-1": 2, "t-2": 2})
    first = subscribed(group, "a", "t-.")
    first.beat()
    second = subscribed(group, "b", "t-.")
    assert second.epoch == first.epoch + 1, "the matching topics are known"
    group.settle([first, second])
    assert len(first.owned) == len(second.owned) == 2


def test_another_pattern() -> None:
    group = ConsumerMembers(topics={"t": 1, "u": 1})
    first = subscribed(group, "a", "t")
    first.beat()
    group.pass_ms(10_001)
    response = first.beat(subscribed_topic_regex="u")
    assert group.places(response.assignment) == set(), "a topic that does not match is given up at once"
    group.pass_ms(0)
    group.settle([first])
    assert names(first) == {"u"}
    first.beat(subscribed_topic_regex="")
    group.settle([first])
    assert names(first) == set()


def test_a_pattern_and_names() -> None:
    group = ConsumerMembers(topics={"t": 1, "u": 1, "v": 1})
    first = group.reader("a")
    first.enter(["v"], subscribed_topic_regex="t")
    assert names(first) == {"v"}
    group.pass_ms(0)
    group.settle([first])
    assert names(first) == {"t", "v"}


def test_new_topics_are_looked_for_every_ten_seconds() -> None:
    group = ConsumerMembers(topics={"t-1": 1})
    first = subscribed(group, "a", "t-.")
    first.beat()
    group.state.topics.create("t-2", 1)
    group.pass_ms(10_000)
    first.beat()
    group.pass_ms(0)
    first.beat()
    assert names(first) == {"t-1"}
    group.pass_ms(1)
    first.beat()
    group.pass_ms(0)
    first.beat()
    assert names(first) == {"t-1", "t-2"}


def test_a_topic_that_goes() -> None:
    group = ConsumerMembers(topics={"t-1": 1, "t-2": 1})
    first = subscribed(group, "a", "t-.")
    first.beat()
    group.state.topics.delete(group.state.topics.by_name["t-1"])
    first.quiet()
    group.settle([first])
    assert names(first) == {"t-2"}


@pytest.mark.parametrize("pattern", ["(", "*", "["])
def test_a_text_that_is_no_pattern(pattern: str) -> None:
    group = ConsumerMembers()
    response = group.reader("a").enter(None, subscribed_topic_regex=pattern)
    assert response.error_code == ErrorCode.INVALID_REGULAR_EXPRESSION
    assert response.error_message.startswith(f"SubscribedTopicRegex `{pattern}` is not a valid regular expression: ")
    assert not group.coordinator.exists("g")


def test_the_last_one_takes_a_pattern_along() -> None:
    group = ConsumerMembers(topics={"t": 2})
    first = subscribed(group, "a", "t")
    second = subscribed(group, "b", "t")
    group.settle([first, second])
    first.leave()
    assert ({*group.group.patterns.resolved}, group.group.is_subscribed("t")) == ({"t"}, True)
    second.leave()
    assert ({*group.group.patterns.resolved}, group.group.is_subscribed("t")) == (set(), False)


def test_topics_that_a_member_may_not_know_of_do_not_match() -> None:
    group = ConsumerMembers(topics={"t-1": 1, "t-2": 1})
    group.state.authorizer.is_enabled = True
    read, describe = Acl(ANONYMOUS, "Read", "Group", "g"), Acl(ANONYMOUS, "Describe", "Topic", "t-2")
    group.state.authorizer.add([read, describe])
    first = subscribed(group, "a", "t-.")
    first.beat()
    assert names(first) == {"t-2"}
    assert first.beat(subscribed_topic_names=["t-2"]).error_code == 0
    refused = first.beat(subscribed_topic_names=["t-1", "t-2"])
    assert refused.error_code == ErrorCode.TOPIC_AUTHORIZATION_FAILED


def test_a_pattern_with_many_ways_to_fail_does_not_stop_the_broker() -> None:
    group = ConsumerMembers(topics={"a" * 40 + "-": 1, "a": 1})
    first = subscribed(group, "a", "(a+)+$")
    first.beat()
    assert names(first) == {"a"}
