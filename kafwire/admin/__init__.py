"""Administration of a cluster: the values that `kafwire.Admin` takes and returns, loaded when they are first used."""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.admin.group_offsets import GroupOffset
    from kafwire.admin.group_types import (
        GroupDescription,
        GroupListing,
        GroupMember,
        InternalTopic,
        StreamsAssignment,
        StreamsMember,
        StreamsSubtopology,
        StreamsTask,
        StreamsTopology,
        TopologyDescription,
        TopologyNode,
    )
    from kafwire.admin.topics import CreatedTopic, NewTopic

__all__ = [
    "CreatedTopic",
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "GroupOffset",
    "InternalTopic",
    "NewTopic",
    "StreamsAssignment",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTopology",
    "TopologyDescription",
    "TopologyNode",
]

_GROUPS = (
    "GroupDescription",
    "GroupListing",
    "GroupMember",
    "InternalTopic",
    "StreamsAssignment",
    "StreamsMember",
    "StreamsSubtopology",
    "StreamsTask",
    "StreamsTopology",
    "TopologyDescription",
    "TopologyNode",
)
_TOPICS = ("CreatedTopic", "NewTopic")

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        dict.fromkeys(_GROUPS, "kafwire.admin.group_types")
        | {"GroupOffset": "kafwire.admin.group_offsets"}
        | dict.fromkeys(_TOPICS, "kafwire.admin.topics"),
    )
