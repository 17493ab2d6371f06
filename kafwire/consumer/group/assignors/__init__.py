"""The assignors of classic groups: with one of them, the group's leader assigns partitions to the members.

Pure. Names and bytes are those of the Java client, as members of both may be in one group. `range` and `roundrobin`
assign as Java's do. The sticky ones keep current assignments, and are at least as even as Java's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafwire.consumer.group.assignors import range_assignor, round_robin, sticky, user_data
from kafwire.consumer.group.member import Assignment, GroupMember, Topics
from kafwire.lazy_dataclass import dataclass

__all__ = ["ASSIGNORS", "Assignor"]


@dataclass(frozen=True, slots=True)
class Assignor:
    """An assignor, with the name that all members of a group share.

    `is_cooperative`: members keep their partitions during a rebalance (KIP-429). `user_data` returns the user data of a
    member's subscription for this assignor.
    """

    name: str
    assign: Callable[[Topics, Sequence[GroupMember]], Assignment]
    is_cooperative: bool = False
    user_data: Callable[[GroupMember], bytes | None] = lambda _: None


def _sticky(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    return sticky.assign(topics, [user_data.as_sticky_says(member) for member in members])


def _cooperative_sticky(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    decoded = [user_data.as_cooperative_sticky_says(member) for member in members]
    return sticky.withhold(sticky.assign(topics, decoded), decoded)


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", range_assignor.assign),
        Assignor("roundrobin", round_robin.assign),
        Assignor("sticky", _sticky, user_data=user_data.of_sticky),
        Assignor("cooperative-sticky", _cooperative_sticky, True, user_data.of_cooperative_sticky),
    )
}
