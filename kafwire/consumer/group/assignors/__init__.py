"""The assignors of classic groups: whoever leads a group says with one of them who reads what.

Pure. Names and bytes are those of Java's clients, as members of both may be in one group. `range` and `roundrobin` give
what Java's give; the sticky ones keep what members had, and are at least as even.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kafwire.consumer.group.assignors import range_assignor, round_robin, sticky, user_data
from kafwire.consumer.group.member import Assignment, GroupMember, Topics
from kafwire.lazy_dataclass import dataclass

__all__ = ["ASSIGNORS", "Assignor"]


@dataclass(frozen=True, slots=True)
class Assignor:
    """One way of assigning, by the name that all members of a group have to know.

    `is_cooperative`: members keep what they own while the group is rebalanced (KIP-429). `user_data`: what goes into a
    member's subscription for this assignor.
    """

    name: str
    assign: Callable[[Topics, Sequence[GroupMember]], Assignment]
    is_cooperative: bool = False
    user_data: Callable[[GroupMember], bytes | None] = lambda _: None


def _sticky(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    return sticky.assign(topics, [user_data.as_sticky_says(member) for member in members])


def _cooperative_sticky(topics: Topics, members: Sequence[GroupMember]) -> Assignment:
    told = [user_data.as_cooperative_sticky_says(member) for member in members]
    return sticky.withhold(sticky.assign(topics, told), told)


ASSIGNORS = {
    assignor.name: assignor
    for assignor in (
        Assignor("range", range_assignor.assign),
        Assignor("roundrobin", round_robin.assign),
        Assignor("sticky", _sticky, user_data=user_data.of_sticky),
        Assignor("cooperative-sticky", _cooperative_sticky, True, user_data.of_cooperative_sticky),
    )
}
