"""The messages between members of a classic consumer group, as bytes inside JoinGroup and SyncGroup. See KIP-429.

The bytes begin with the version, an int16 that is not part of the message. A reader that does not know the version uses
its own highest and ignores the rest: fields are only ever added at the end.
"""

from kafwire.protocol.spec import Data, Struct, field, int32


class ConsumerProtocolSubscription(Data, versions="0-3"):
    """A member's subscription for its group's leader: topics and, from version 1 on, its owned partitions.

    Version 2 adds the generation of the owned partitions (KIP-792), version 3 the rack (KIP-881).
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
    """The assignment from the group's leader to a member. All versions are the same on the wire."""

    class TopicPartition(Struct):
        topic: str = field("0+")
        partitions: list[int32] = field("0+")

    assigned_partitions: list[TopicPartition] = field("0+")
    user_data: bytes | None = field("0+", nullable="0+", default=None)
