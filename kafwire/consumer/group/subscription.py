"""The bytes in JoinGroup and SyncGroup: subscriptions and assignments of the protocol type "consumer" (KIP-429).

A version, an int16, comes before the message. The rules are those of Java's `ConsumerProtocol` (as of Kafka 4.0): a
version above the known ones is read as the highest of these, as later versions only add fields at the end; a negative
version and a message that ends early are errors; bytes behind the message are ignored. One rule differs: an assignment
of no bytes, which a coordinator makes for a member that the leader left out, makes Java's member fail. Here, and in
Java's `describeConsumerGroups`, it means no partitions.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import groupby

from kafwire.consumer.group.member import GroupMember, Partition, in_order
from kafwire.protocol import (
    ConsumerProtocolAssignment,
    ConsumerProtocolSubscription,
    decode_versioned,
    encode_versioned,
)

PROTOCOL_TYPE = "consumer"


def subscription(member: GroupMember) -> bytes:
    """Return the subscription bytes of a member's JoinGroup."""
    message = ConsumerProtocolSubscription(
        topics=sorted(member.topics, key=in_order),
        user_data=member.user_data,
        owned_partitions=[
            ConsumerProtocolSubscription.TopicPartition(topic=topic, partitions=partitions)
            for topic, partitions in by_topic(member.owned).items()
        ],
        generation_id=member.generation,
        rack_id=member.rack or None,
    )
    return encode_versioned(message, message.max_version)


def member_of(member_id: str, instance_id: str | None, data: bytes) -> GroupMember:
    """Decode a member's subscription, for the leader. Raises `ProtocolError` for invalid bytes."""
    _, message = decode_versioned(ConsumerProtocolSubscription, data, lenient=True)
    return GroupMember(
        member_id,
        message.topics,
        instance_id,
        tuple((owned.topic, number) for owned in message.owned_partitions for number in owned.partitions),
        message.generation_id,
        message.rack_id or None,
        message.user_data,
    )


def assignment(partitions: Iterable[Partition], user_data: bytes | None = None) -> bytes:
    """Return the assignment bytes of a member, for the leader's SyncGroup."""
    message = ConsumerProtocolAssignment(
        assigned_partitions=[
            ConsumerProtocolAssignment.TopicPartition(topic=topic, partitions=numbers)
            for topic, numbers in by_topic(partitions).items()
        ],
        user_data=user_data,
    )
    return encode_versioned(message, message.max_version)


def assigned(data: bytes) -> list[Partition]:
    """Decode a member's assigned partitions; no bytes mean none. Raises `ProtocolError` for invalid bytes."""
    if not data:
        return []
    _, message = decode_versioned(ConsumerProtocolAssignment, data, lenient=True)
    return [(given.topic, number) for given in message.assigned_partitions for number in given.partitions]


def by_topic(partitions: Iterable[Partition]) -> Mapping[str, list[int]]:
    """Group the numbers of partitions by topic, both in order."""
    ordered = sorted(partitions, key=lambda each: (in_order(each[0]), each[1]))
    return {topic: [number for _, number in of] for topic, of in groupby(ordered, key=lambda each: each[0])}
