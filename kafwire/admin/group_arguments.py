"""Checks of the arguments about groups. Each raises `ConfigError`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from kafwire.admin.arguments import names_of, partition_of, partitions_of, text_of
from kafwire.admin.group_types import GROUP_TYPES, GroupMember
from kafwire.cluster.offset_requests import OffsetToCommit
from kafwire.errors import ConfigError
from kafwire.integers import natural
from kafwire.types import TopicPartition

__all__ = [
    "MemberName",
    "deleted_of",
    "groups_of",
    "members_of",
    "offsets_of",
    "reason_of",
    "type_of",
]

MemberName = tuple[str, str | None]  # member id and instance id, of which LeaveGroup needs one

_REASON = "an administrator removed the member"
_LONGEST_REASON = 255


def type_of(value: Any) -> str | None:
    """Return a type of groups, or None."""
    if value is not None and value not in GROUP_TYPES:
        raise ConfigError(f"type={value!r}: it must be one of {', '.join(GROUP_TYPES)}, or None")
    return None if value is None else str(value)


def groups_of(groups: Any) -> dict[str, list[TopicPartition] | None]:
    """Return the partitions of each group; None: all of the group's."""
    if isinstance(groups, Mapping):
        return {
            text_of("group", group): None if its is None else partitions_of(f"partitions of group {group!r}", its)
            for group, its in groups.items()
        }
    return dict.fromkeys(names_of("groups", groups, 'list_group_offsets(["billing"])'))


def offsets_of(offsets: Any) -> dict[TopicPartition, OffsetToCommit]:
    """Return the offset, and perhaps the metadata, for each partition."""
    if not isinstance(offsets, Mapping):
        raise ConfigError(f"offsets={offsets!r}: write a dict: {{TopicPartition(topic, 0): 42}}")
    return {partition_of(where): _offset(where, value) for where, value in offsets.items()}


def _offset(where: Any, value: Any) -> OffsetToCommit:
    offset, metadata = value if isinstance(value, tuple) and len(value) == 2 else (value, "")
    number = natural(offset)
    if number is None or not isinstance(metadata, str):
        raise ConfigError(f"{where}: {value!r} is neither an offset from 0 nor a pair (offset, metadata)")
    return OffsetToCommit(number, metadata=metadata)


def deleted_of(values: Any) -> list[TopicPartition | str]:
    """Return partitions and topics; a topic stands for all its partitions."""
    if isinstance(values, str | tuple) or not isinstance(values, Iterable):
        raise ConfigError(f"partitions={values!r}: write a list of partitions or topics: [TopicPartition(topic, 0)]")
    return list(
        dict.fromkeys(text_of("topic", each) if isinstance(each, str) else partition_of(each) for each in values)
    )


def members_of(members: Any, instance_ids: Any = None) -> dict[str, MemberName]:
    """Return the members to remove, by their ids. A static member of a description goes by its instance id."""
    if isinstance(members, str) or not isinstance(members, Iterable):
        raise ConfigError(f"members={members!r}: write a list of member ids, or of members of describe_groups")
    named: list[MemberName] = []
    for each in members:
        if not isinstance(each, GroupMember):
            named.append((text_of("members", each), None))
        else:
            named.append(("", each.instance_id) if each.instance_id else (each.member_id, None))
    if instance_ids is not None:
        named += [("", name) for name in names_of("instance_ids", instance_ids, 'instance_ids=["worker-1"]')]
    found: dict[str, MemberName] = {}
    for member_id, instance_id in named:
        name = instance_id or member_id
        if found.setdefault(name, (member_id, instance_id)) != (member_id, instance_id):
            raise ConfigError(f"{name!r} is both a member id and an instance id: remove them by two calls")
    return found


def reason_of(reason: Any) -> str:
    """Return the reason that the broker logs; None: a text of kafwire's."""
    if reason is None:
        return _REASON
    if len(text_of("reason", reason)) > _LONGEST_REASON:
        raise ConfigError(f"reason has {len(reason)} characters: at most {_LONGEST_REASON} are possible")
    return str(reason)
