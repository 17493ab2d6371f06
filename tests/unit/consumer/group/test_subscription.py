"""`consumer.group.subscription`: subscriptions and assignments of a classic group, in bytes."""

from __future__ import annotations

import struct

import pytest

from kafwire.consumer.group.member import GroupMember
from kafwire.consumer.group.subscription import assigned, assignment, member_of, subscription
from kafwire.errors import ProtocolError
from kafwire.protocol import ConsumerProtocolSubscription

WHOLE = GroupMember("m", ["b", "a"], "i", (("t", 3), ("t", 1), ("s", 0)), 7, "east", b"mine")


def test_a_member_comes_back() -> None:
    back = member_of("m", "i", subscription(WHOLE))
    assert back == GroupMember("m", ["a", "b"], "i", (("s", 0), ("t", 1), ("t", 3)), 7, "east", b"mine")


def test_an_older_version_says_less() -> None:
    message = ConsumerProtocolSubscription(topics=["a"], user_data=b"x", generation_id=5, rack_id="east")
    for version, generation, rack in ((0, -1, None), (1, -1, None), (2, 5, None), (3, 5, "east")):
        data = struct.pack(">h", version) + message.encode(version)
        assert member_of("m", None, data) == GroupMember("m", ["a"], None, (), generation, rack, b"x")


def test_a_later_version_is_read_as_the_latest() -> None:
    data = subscription(WHOLE)
    assert member_of("m", "i", struct.pack(">h", 9) + data[2:] + b"more") == member_of("m", "i", data)


def test_an_empty_rack_is_none() -> None:
    message = ConsumerProtocolSubscription(topics=[], rack_id="")
    assert member_of("m", None, struct.pack(">h", 3) + message.encode(3)).rack is None


@pytest.mark.parametrize(
    ("data", "match"),
    [
        (b"", "a version takes 2 bytes, 0 are left"),
        (b"\0", "1 are left"),
        (b"\xff\xff", "-1"),
        (subscription(WHOLE)[:-5], "rack_id|ends|bytes"),
    ],
)
def test_bytes_that_are_no_subscription(data: bytes, match: str) -> None:
    with pytest.raises(ProtocolError, match=match):
        member_of("m", None, data)


def test_an_assignment_comes_back() -> None:
    data = assignment([("t", 3), ("s", 0), ("t", 1)], b"x")
    assert assigned(data) == [("s", 0), ("t", 1), ("t", 3)]
    assert assigned(b"") == []  # as a member gets that the leader left out
    with pytest.raises(ProtocolError, match="-2"):
        assigned(b"\xff\xfe" + data[2:])


@pytest.mark.parametrize("version", range(4))
def test_bytes_behind_a_message_are_left_alone_as_java_does(version: int) -> None:
    data = assignment([("t", 0)], b"x")
    assert assigned(struct.pack(">h", version) + data[2:] + b"\0\1\2") == [("t", 0)]
    assert member_of("m", "i", subscription(WHOLE) + b"\0\1\2") == member_of("m", "i", subscription(WHOLE))
