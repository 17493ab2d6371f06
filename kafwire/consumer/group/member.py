"""`GroupMember`, a member's subscription as the leader of a classic group gets it, and types of assignments."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import field

from kafwire.lazy_dataclass import dataclass

Partition = tuple[str, int]
# For each topic its partitions in order: for each partition the known racks of its replicas.
Topics = Mapping[str, Sequence[frozenset[str]]]
Assignment = dict[str, list[Partition]]

UNKNOWN = -1


@dataclass(frozen=True, slots=True)
class GroupMember:
    """One member, from its subscription.

    `owned` are its partitions of `generation`, which is -1 if the subscription has none. `user_data` belongs to the
    assignor.
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
        """The sort key of members: static ones first, by instance id (KIP-345), then the others by member id."""
        if self.instance_id is not None:
            return 0, in_order(self.instance_id)
        return 1, in_order(self.member_id)


def new_member_id(bits: int) -> str:
    """Return a member id made by the client: 128 random bits, in Kafka's notation of a UUID (KIP-1082)."""
    made = uuid.UUID(int=bits, version=4)
    return base64.urlsafe_b64encode(made.bytes).decode().rstrip("=")


def in_order(text: str) -> bytes:
    """Return a key that sorts text as Java does, by UTF-16 units: the next leader of the group may be a Java client."""
    return text.encode("utf-16-be", "surrogatepass")
