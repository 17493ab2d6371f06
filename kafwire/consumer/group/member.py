"""`GroupMember`: what a member of a classic group tells the leader; and partitions as assignments name them."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field

from kafwire.lazy_dataclass import dataclass

Partition = tuple[str, int]
# Of each topic its partitions in order: of each the racks of its replicas, as far as they are known.
Topics = Mapping[str, Sequence[frozenset[str]]]
Assignment = dict[str, list[Partition]]

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member, as its subscription describes it.

    `owned` are the partitions that it had in `generation`, -1 where it does not say. `user_data` is its assignor's.
    """

    member_id: str
    topics: Sequence[str]
    instance_id: str | None = None
    owned: Sequence[Partition] = field(default_factory=tuple)
    generation: int = UNKNOWN
    rack: str | None = None
    user_data: bytes | None = None

    @property
    def place(self) -> tuple[int, bytes]:
        """What members are sorted by: static ones first, by their instance ids (KIP-345)."""
        if self.instance_id is not None:
            return 0, in_order(self.instance_id)
        return 1, in_order(self.member_id)


def new_member_id(bits: int) -> str:
    """The id that a member gives itself, of 128 random bits, written as Kafka writes a UUID (KIP-1082)."""
    made = uuid.UUID(int=bits, version=4)
    return base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")


def in_order(text: str) -> bytes:
    """A key that sorts text as Java does, by units of UTF-16: leaders of one group may be Java's, and change."""
    return text.encode("utf-16-be", "surrogatepass")
