"""The user data of Java's sticky assignors in subscriptions, for groups that have Java members."""

from dataclasses import replace

from kafwire.consumer.group.member import UNKNOWN, GroupMember
from kafwire.consumer.group.subscription import by_topic
from kafwire.errors import ProtocolError
from kafwire.protocol.spec import Data, Struct, field, int32


class StickyUserData(Data, versions="0-1"):
    """The earlier assignment of a `sticky` member, which revokes all before it joins. Version 0 has no generation."""

    class TopicAssignment(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    previous_assignment: list[TopicAssignment] = field("0+")
    generation: int32 = field("1+", default=-1, ignorable=True)


class CooperativeStickyUserData(Data, versions="0"):
    """The generation in which a `cooperative-sticky` member got its partitions."""

    generation: int32 = field("0+")


def of_sticky(member: GroupMember) -> bytes | None:
    """Return the user data with a member's earlier assignment; None before its first assignment."""
    if member.generation < 0:
        return None
    return bytes(
        StickyUserData(
            previous_assignment=[
                StickyUserData.TopicAssignment(topic=topic, partitions=numbers)
                for topic, numbers in by_topic(member.owned).items()
            ],
            generation=member.generation,
        ).encode(1)
    )


def of_cooperative_sticky(member: GroupMember) -> bytes:
    """Return a member's user data, for leaders that do not read the subscription's generation (KIP-792)."""
    return bytes(CooperativeStickyUserData(generation=member.generation).encode(0))


def as_sticky_says(member: GroupMember) -> GroupMember:
    """Return the member with the owned partitions of its user data, or without any if that cannot be decoded."""
    for version in (1, 0):
        try:
            decoded = StickyUserData.decode(member.user_data or b"", version)
        except ProtocolError:
            continue
        owned = tuple((each.topic, number) for each in decoded.previous_assignment for number in each.partitions)
        return replace(member, owned=owned, generation=decoded.generation)
    return replace(member, owned=(), generation=UNKNOWN)


def as_cooperative_sticky_says(member: GroupMember) -> GroupMember:
    """Return the member with the generation of its user data, if its subscription is older than version 2."""
    if member.generation >= 0 or not member.user_data:
        return member
    try:
        decoded = CooperativeStickyUserData.decode(member.user_data, 0)
    except ProtocolError:
        return member
    return replace(member, generation=decoded.generation)
