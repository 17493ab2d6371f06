"""Checks of the arguments about groups. Each raises `ConfigError`. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from kafwire.admin.arguments import names_of, text_of
from kafwire.admin.group_types import GROUP_TYPES, GroupMember
from kafwire.cluster.offset_requests import OffsetToCommit
from kafwire.errors import ConfigError
from kafwire.integers import natural
from kafwire.types import TopicPartition

__all__ = [
    "MemberName",
    "chosen_of",
    "deleted_of",
    "groups_of",
    "members_of",
    "offsets_of",
    "partition_of",
    "partitions_of",
    "reason_of",
    "type_of",
]

MemberName = tuple[str, str | None]  # member id and instance id, of which LeaveGroup needs one

_REASON = "an administrator removed the member"
_LONGEST_REASON = 255
_PARTITION = "write a partition: TopicPartition(topic, 0)"


def chosen_of(what: str, names: Any, known: Sequence[str]) -> list[str]:
    """Return the chosen ones of known names; None: none are chosen."""
    if names is None:
        return []
    if isinstance(names, str) or not isinstance(names, Iterable):
        raise ConfigError(f"{what}={names!r}: write a list: {what}=[{known[0]!r}]")
    chosen = list(dict.fromkeys(names))
    for name in chosen:
        if name not in known:
            raise ConfigError(f"{what}: {name!r} is not one of {', '.join(known)}")
    return chosen


def type_of(value: Any) -> str | None:
    """Return a type of groups, or None."""
    if value is not None and value not in GROUP_TYPES:
        raise ConfigError(f"type={value!r}: it must be one of {', '.join(GROUP_TYPES)}, or None")
    return None if value is None else str(value)


def partition_of(value: Any) -> TopicPartition:
    """Return a partition."""
    if not isinstance(value, tuple) or len(value) != 2 or not isinstance(value[0], str) or not value[0]:
        raise ConfigError(f"{value!r}: {_PARTITION}")
    number = natural(value[1])
    if number is None or number >= 1 << 31:
        raise ConfigError(f"{value!r}: the partition {value[1]!r} is not a whole number from 0")
    return TopicPartition(value[0], number)


def partitions_of(what: str, values: Any) -> list[TopicPartition]:
    """Return a list of partitions without repetitions."""
    if isinstance(values, str | tuple) or not isinstance(values, Iterable):
        raise ConfigError(f"{what}={values!r}: write a list of partitions: [TopicPartition(topic, 0)]")
    return list(dict.fromkeys(partition_of(value) for value in values))


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
    found: dict[str, MemberName] = {}
    for each in members:
        if isinstance(each, GroupMember):
            instance_id = each.instance_id
            found[instance_id or each.member_id] = ("", instance_id) if instance_id else (each.member_id, None)
        else:
            found[text_of("members", each)] = (each, None)
    for name in () if instance_ids is None else names_of("instance_ids", instance_ids, 'instance_ids=["worker-1"]'):
        if found.get(name, ("", name)) != ("", name):
            raise ConfigError(f"{name!r} is both a member id and an instance id: remove them by two calls")
        found[name] = ("", name)
    return found


def reason_of(reason: Any) -> str:
    """Return the reason that the broker logs; None: a text of kafwire's."""
    if reason is None:
        return _REASON
    if len(text_of("reason", reason)) > _LONGEST_REASON:
        raise ConfigError(f"reason has {len(reason)} characters: at most {_LONGEST_REASON} are possible")
    return str(reason)
