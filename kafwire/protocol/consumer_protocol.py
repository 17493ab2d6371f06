"""What members of a classic consumer group tell each other, as bytes inside JoinGroup and SyncGroup. See KIP-429.

In those bytes the version comes first, as an int16 that is no part of the message. A reader of a higher version than it
knows takes its own highest and ignores what follows: fields are only ever added at the end.
"""

from kafwire.protocol.spec import Data, Struct, field, int32


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """What a member asks its group's leader for: topics and, from version 1 on, what it owns.

    Version 2 dates the owned partitions by generation (KIP-792), version 3 adds the rack (KIP-881).
    """

    class TopicPartition(Struct):
        topic: str = field("1+")
        partitions: list[int32] = field("1+")

    topics: list[str] = field("0+")
    user_data: bytes | None = field("0+", nullable="0+", default=None)
    owned_partitions: list[TopicPartition] = field("1+", ignorable=True)
    generation_id: int32 = field("2+", default=-1, ignorable=True)
    rack_id: str | None = field("3+", nullable="3+", default=None, ignorable=True)


class ConsumerProtocolAssignment(Data, versions="0-3"):
    """What the leader of the group gives a member. All versions are the same on the wire."""

    class TopicPartition(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    assigned_partitions: list[TopicPartition] = field("0+")
    user_data: bytes | None = field("0+", nullable="0+", default=None)
