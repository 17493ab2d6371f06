"""The messages about committed offsets (OffsetFetch, OffsetCommit): requests made, responses read. Pure.

`group_offsets` sends them for one group and its member, `kafwire.admin` for the groups that an administrator names.
"""

from __future__ import annotations

import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

from kafwire import protocol
from kafwire.cluster.metadata import NO_TOPIC_ID

Partition = tuple[str, int]
Code = tuple[Partition, int]
TopicIds = Mapping[str, uuid.UUID]

__all__ = [
    "Code",
    "Committed",
    "OffsetToCommit",
    "Partition",
    "by_topic",
    "commit_request",
    "commit_results",
    "fetch_request",
    "fetched",
    "fetched_groups",
]


class OffsetToCommit(NamedTuple):
    """The `offset` of the next record to read; `leader_epoch` of the last one read (-1: unknown, KIP-320)."""

    offset: int
    leader_epoch: int = -1
    metadata: str = ""


class Committed(NamedTuple):
    """A group's committed offset of a partition."""

    offset: int
    leader_epoch: int
    metadata: str


def fetch_request(
    groups: Mapping[str, Iterable[Partition] | None], version: int, topic_ids: TopicIds, *, require_stable: bool
) -> Any:
    """Return an OffsetFetch for partitions of groups; None: for all with a committed offset.

    A version before `GROUPS` takes one group. From `BY_TOPIC_ID` on, `topic_ids` has the ids of all topics.
    """
    request: Any = protocol.OffsetFetchRequest
    if version < request.GROUPS:
        ((group_id, partitions),) = groups.items()
        return request(group_id=group_id, topics=_topics(partitions, {}, version), require_stable=require_stable)
    return request(
        groups=[
            request.OffsetFetchRequestGroup(group_id=group_id, topics=_topics(partitions, topic_ids, version))
            for group_id, partitions in groups.items()
        ],
        require_stable=require_stable,
    )


def _topics(partitions: Iterable[Partition] | None, topic_ids: TopicIds, version: int) -> list[Any] | None:
    if partitions is None:
        return None
    request: Any = protocol.OffsetFetchRequest
    grouped = by_topic(partitions)
    if version < request.GROUPS:
        return [request.OffsetFetchRequestTopic(name=name, partition_indexes=its) for name, its in grouped.items()]
    return [
        request.OffsetFetchRequestTopics(name=name, topic_id=topic_ids.get(name, NO_TOPIC_ID), partition_indexes=its)
        for name, its in grouped.items()
    ]


def fetched_groups(response: Any, group_ids: Collection[str], version: int) -> dict[str, Any]:
    """Return the part of each requested group in an OffsetFetch response: `error_code` and `topics`."""
    if version < protocol.OffsetFetchRequest.GROUPS:
        return dict.fromkeys(group_ids, response)
    return {group.group_id: group for group in response.groups if group.group_id in group_ids}


def fetched(
    topics: Iterable[Any], partitions: Iterable[Partition] | None, topic_ids: TopicIds, version: int
) -> tuple[dict[Partition, Committed | None], list[Code]]:
    """Return the committed offsets in a group's part of an OffsetFetch response, and the failed partitions.

    None as an offset: nothing is committed. `partitions`: the requested ones; None: all.
    """
    by_id = version >= protocol.OffsetFetchRequest.BY_TOPIC_ID
    found: dict[Partition, Committed | None] = {}
    codes: list[Code] = []
    for where, part in _requested(topics, partitions, topic_ids, by_topic_id=by_id):
        if part.error_code:
            codes.append((where, part.error_code))
        elif part.committed_offset < 0:
            found[where] = None
        else:
            found[where] = Committed(part.committed_offset, part.committed_leader_epoch, part.metadata or "")
    return found, codes


def commit_request(group_id: str, offsets: Mapping[Partition, OffsetToCommit], topic_ids: TopicIds) -> Any:
    """Return an OffsetCommit without a member. From `BY_TOPIC_ID` on, `topic_ids` has the ids of all topics."""
    request: Any = protocol.OffsetCommitRequest
    topics = [
        request.OffsetCommitRequestTopic(
            name=topic,
            topic_id=topic_ids.get(topic, NO_TOPIC_ID),
            partitions=[
                request.OffsetCommitRequestPartition(
                    partition_index=number,
                    committed_offset=offsets[topic, number].offset,
                    committed_leader_epoch=offsets[topic, number].leader_epoch,
                    committed_metadata=offsets[topic, number].metadata,
                )
                for number in numbers
            ],
        )
        for topic, numbers in by_topic(offsets).items()
    ]
    return request(group_id=group_id, topics=topics)


def commit_results(response: Any, offsets: Iterable[Partition], topic_ids: TopicIds, version: int) -> list[Code]:
    """Return the error code of each requested partition in an OffsetCommit response; 0: it is committed."""
    by_id = version >= protocol.OffsetCommitRequest.BY_TOPIC_ID
    return [
        (where, part.error_code) for where, part in _requested(response.topics, offsets, topic_ids, by_topic_id=by_id)
    ]


def _requested(
    topics: Iterable[Any], partitions: Iterable[Partition] | None, topic_ids: TopicIds, *, by_topic_id: bool
) -> Iterator[tuple[Partition, Any]]:
    """Yield the requested partitions of a response. A damaged response may name others, which belong to no caller."""
    wanted = None if partitions is None else set(partitions)
    names = {topic_id: topic for topic, topic_id in topic_ids.items()} if by_topic_id else {}
    for topic in topics:
        name = names.get(topic.topic_id, "") if by_topic_id else topic.name
        for part in topic.partitions:
            where = (name, part.partition_index)
            if wanted is None or where in wanted:
                yield where, part


def by_topic(partitions: Iterable[Partition]) -> dict[str, list[int]]:
    """Return partition numbers by topic."""
    grouped: dict[str, list[int]] = {}
    for topic, partition in partitions:
        grouped.setdefault(topic, []).append(partition)
    return grouped
