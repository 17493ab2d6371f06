"""The offsets of groups of all types: list, alter and delete them.

Share groups have start offsets, with requests of their own; groups of other types have committed offsets. The requests
about committed offsets find nothing for a share group, which is the sign to look for one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from kafwire import protocol
from kafwire.admin.arguments import text_of, timeout_ms_of
from kafwire.admin.asking import error_of
from kafwire.admin.group_arguments import deleted_of, groups_of, offsets_of, type_of
from kafwire.admin.group_types import SHARE
from kafwire.admin.groups import OTHER_TYPE
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.requests import AdminRequests
from kafwire.admin.retried_codes import AT_COORDINATOR
from kafwire.admin.routes import Coordinators
from kafwire.cluster.coordinator import GROUP
from kafwire.cluster.group_offsets import MEMBERS_ONLY
from kafwire.cluster.offset_requests import (
    OffsetToCommit,
    Partition,
    by_topic,
    commit_request,
    commit_results,
    fetch_request,
    fetched,
    fetched_groups,
)
from kafwire.cluster.requirements import needs
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, ConfigError, KafkaError, ProtocolError, broker_error
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Work
from kafwire.types import TopicPartition

__all__ = ["GroupOffset", "GroupOffsetCalls"]


@dataclass(frozen=True, slots=True)
class GroupOffset:
    """The offset of a group in a partition.

    Args:
        offset: the committed offset, which is that of the next record to read; of a share group, the start offset:
            all records before it are processed.
        leader_epoch: the leader epoch of the record before it; None if it is unknown (KIP-320).
        metadata: the text that was committed with it.
        lag: the number of records that a share group has not processed; None if the broker does not know it, and for
            groups of other types, whose lag is the end offset minus `offset`.

    Example:
        >>> from kafwire.admin import GroupOffset
        >>> GroupOffset(5, metadata="checked").offset
        5
    """

    __module__ = "kafwire.admin"
    offset: int
    leader_epoch: int | None = None
    metadata: str = ""
    lag: int | None = None


Offsets = dict[TopicPartition, GroupOffset | None]

# An open transaction may change the offset. Java's listing leaves out partitions with any error.
RETRIED = AT_COORDINATOR | {ErrorCode.UNSTABLE_OFFSET_COMMIT}


class GroupOffsetCalls(AdminRequests):
    """The calls about the offsets of groups."""

    def list_group_offsets(
        self,
        groups: Mapping[str, Iterable[Partition] | None] | Iterable[str],
        *,
        require_stable: bool,
        timeout: float | None,
    ) -> Work[Outcomes[str, Offsets]]:
        """List the offsets of groups of any type."""
        wanted = groups_of(groups)
        stable = bool(require_stable)

        async def send(broker: int, asked: list[str]) -> Mapping[str, Offsets | KafkaError]:
            found = await _committed(route, broker, {group: wanted[group] for group in asked}, stable)
            nothing = [group for group, its in found.items() if isinstance(its, dict) and not any(its.values())]
            share = await _share_groups(route, broker, nothing)
            if share:
                found |= await _start_offsets(route, broker, {group: wanted[group] for group in share})
            return found

        route: Coordinators[str] = self._coordinators(GROUP, also=RETRIED)
        return self._work(wanted, route, send, "listing the offsets of groups", timeout_ms_of(timeout))

    def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | tuple[int, str]],
        *,
        type: str | None,  # noqa: A002  # Kafka's word
        timeout: float | None,
    ) -> Work[Outcomes[TopicPartition, None]]:
        """Set the offsets of a group without members."""
        text_of("group", group)
        wanted, kind = offsets_of(offsets), type_of(type)

        async def send(broker: int, asked: list[TopicPartition]) -> Mapping[TopicPartition, KafkaError | None]:
            mine = {where: wanted[where] for where in asked}
            if kind == SHARE:
                return await _move_start(route, broker, group, mine)
            found = await _commit(route, broker, group, mine)
            if kind is None and _is_missing(found.values()) and await _share_groups(route, broker, [group]):
                return await _move_start(route, broker, group, mine)
            return found

        route: Coordinators[TopicPartition] = self._coordinators(GROUP, lambda _: group)
        return self._work(wanted, route, send, f"setting the offsets of group {group}", timeout_ms_of(timeout))

    def delete_group_offsets(
        self, group: str, partitions: Iterable[Partition | str], *, timeout: float | None
    ) -> Work[Outcomes[TopicPartition | str, None]]:
        """Delete offsets of a group, of partitions or of whole topics."""
        text_of("group", group)
        wanted = deleted_of(partitions)

        async def send(
            broker: int, asked: list[TopicPartition | str]
        ) -> Mapping[TopicPartition | str, KafkaError | None]:
            topics = [each for each in asked if isinstance(each, str)]
            places = [each for each in asked if not isinstance(each, str)]
            if topics and await _share_groups(route, broker, [group]):
                return {**_not_by_partition(group, places), **await _forget_topics(route, broker, group, topics)}
            found: dict[TopicPartition | str, KafkaError | None] = {}
            if topics:
                found |= await _forget_all_of(route, broker, group, topics)
            if places:
                found |= await _forget(route, broker, group, places)
            if not topics and _is_missing(found.values()) and await _share_groups(route, broker, [group]):
                return _not_by_partition(group, places)
            return found

        route: Coordinators[TopicPartition | str] = self._coordinators(GROUP, lambda _: group)
        return self._work(wanted, route, send, f"deleting offsets of group {group}", timeout_ms_of(timeout))


# -- committed offsets


async def _committed(
    route: Coordinators[Any], broker: int, groups: Mapping[str, Collection[TopicPartition] | None], stable: bool
) -> dict[str, Offsets | KafkaError]:
    """Fetch the committed offsets of groups by one OffsetFetch; brokers before Kafka 3.0 take a request for each."""
    request: Any = protocol.OffsetFetchRequest
    version = await _version(route, broker, request)

    async def ask(some: Mapping[str, Collection[TopicPartition] | None]) -> dict[str, Offsets | KafkaError]:
        message = fetch_request(some, version, {}, require_stable=stable)
        response = await route.call(broker, message, version)
        parts = fetched_groups(response, some, version)
        return {group: _offsets_in(part, group, some[group], version) for group, part in parts.items()}

    if version >= request.GROUPS:
        return await ask(groups)
    found = await asyncio.gather(*(ask({group: its}) for group, its in groups.items()))
    return {group: its for each in found for group, its in each.items()}


def _offsets_in(
    part: Any, group: str, partitions: Collection[TopicPartition] | None, version: int
) -> Offsets | KafkaError:
    """Return the offsets of one group in an OffsetFetch response."""
    api, what = "OffsetFetch", f"listing the offsets of group {group}"
    error = error_of(part, what, api, group=group)
    if error is not None:
        return error
    found, codes = fetched(part.topics, partitions, {}, version)
    offsets: Offsets = {
        TopicPartition(*where): None
        if its is None
        else GroupOffset(its.offset, its.leader_epoch if its.leader_epoch >= 0 else None, its.metadata)
        for where, its in found.items()
    }
    errors: dict[TopicPartition, KafkaError] = {
        TopicPartition(*where): broker_error(code, f"{what}: {_text(where)}", api=api, topic=where[0], group=group)
        for where, code in codes
    }
    return _complete(what, partitions, offsets, errors)


def _complete(
    what: str,
    partitions: Collection[TopicPartition] | None,
    offsets: Offsets,
    errors: dict[TopicPartition, KafkaError],
) -> Offsets | KafkaError:
    """Return the offsets, or the error of a group with partitions that failed, or that the response lacks."""
    if partitions is not None:
        missing = [where for where in partitions if where not in offsets and where not in errors]
        errors |= {where: ProtocolError(f"{what}: the response lacks {_text(where)}") for where in missing}
        offsets = {where: offsets[where] for where in partitions if where in offsets}
    if not errors:
        return offsets
    final = [each for each in errors.values() if not (isinstance(each, BrokerError) and each.code in RETRIED)]
    return Outcomes(offsets, errors).error() if final else next(iter(errors.values()))


def _text(where: Partition) -> str:
    return f"{where[0]}-{where[1]}"


async def _version(route: Coordinators[Any], broker: int, request: Any) -> int:
    """Return the version for a request that names topics; newer ones have their ids."""
    version = await route.offered(broker, request, request.BY_TOPIC_ID - 1)
    if version is None:
        raise ProtocolError(f"broker {broker} does not offer {request.__name__}", api=request.__name__)
    return version


async def _commit(
    route: Coordinators[Any], broker: int, group: str, offsets: Mapping[TopicPartition, OffsetToCommit]
) -> dict[TopicPartition, KafkaError | None]:
    """Set committed offsets by one OffsetCommit without a member."""
    request: Any = protocol.OffsetCommitRequest
    version = await _version(route, broker, request)
    response = await route.call(
        broker, commit_request(group, {(topic, number): its for (topic, number), its in offsets.items()}, {}), version
    )
    results = commit_results(response, offsets, {}, version)
    return {TopicPartition(*where): _commit_error(code, group, where) for where, code in results}


def _commit_error(code: int, group: str, where: Partition) -> KafkaError | None:
    if not code:
        return None
    what = f"committing {where[0]}-{where[1]} for group {group}"
    error = broker_error(code, what, api="OffsetCommit", topic=where[0], group=group)
    if code in MEMBERS_ONLY:
        text = f"the group has members, and only they may commit for it: stop them [{what}]"
        return BrokerError(error.code, error.name, False, text)
    return error


async def _forget(
    route: Coordinators[Any], broker: int, group: str, partitions: Iterable[TopicPartition]
) -> dict[TopicPartition | str, KafkaError | None]:
    """Delete committed offsets by one OffsetDelete."""
    request: Any = protocol.OffsetDeleteRequest
    places = list(partitions)
    topics = [
        request.OffsetDeleteRequestTopic(
            name=topic,
            partitions=[request.OffsetDeleteRequestPartition(partition_index=number) for number in numbers],
        )
        for topic, numbers in by_topic(places).items()
    ]
    with needs(request, "delete_group_offsets", "2.4"):
        response = await route.call(broker, request(group_id=group, topics=topics))
    what = f"deleting offsets of group {group}"
    error = error_of(response, what, "OffsetDelete", group=group)
    if error is not None:
        return dict.fromkeys(places, error)
    return {
        TopicPartition(topic.name, part.partition_index): error_of(
            part, f"{what}: {topic.name}-{part.partition_index}", "OffsetDelete", topic=topic.name, group=group
        )
        for topic in response.topics
        for part in topic.partitions
    }


async def _forget_all_of(
    route: Coordinators[Any], broker: int, group: str, topics: Collection[str]
) -> dict[TopicPartition | str, KafkaError | None]:
    """Delete the committed offsets of all partitions of topics. The error of a topic is that of a partition."""
    committed = (await _committed(route, broker, {group: None}, stable=False)).get(group)
    if committed is None:
        return {}
    if isinstance(committed, KafkaError):
        return dict.fromkeys(topics, committed)
    # The response for a topic without offsets tells whether topic and group exist.
    places = {
        topic: [where for where in committed if where.topic == topic] or [TopicPartition(topic, 0)] for topic in topics
    }
    found = await _forget(route, broker, group, [where for its in places.values() for where in its])
    return {
        topic: next((error for where in its if (error := found[where]) is not None), None)
        for topic, its in places.items()
        if all(where in found for where in its)
    }


# -- share groups


async def _share_groups(route: Coordinators[Any], broker: int, groups: Collection[str]) -> list[str]:
    """Return those of the groups that are share groups. A broker that has none is not asked."""
    request: Any = protocol.ShareGroupDescribeRequest
    if not groups or await route.offered(broker, request) is None:
        return []
    response = await route.call(broker, request(group_ids=list(groups)))
    for each in response.groups:
        error = error_of(each, f"describing group {each.group_id}", "ShareGroupDescribe", group=each.group_id)
        if isinstance(error, BrokerError) and error.retriable:
            raise error
    return [each.group_id for each in response.groups if each.group_id in groups and each.error_code not in OTHER_TYPE]


def _is_missing(errors: Iterable[KafkaError | None]) -> bool:
    """True if the coordinator knows no group of another type than share groups."""
    return any(isinstance(each, BrokerError) and each.code == ErrorCode.GROUP_ID_NOT_FOUND for each in errors)


async def _start_offsets(
    route: Coordinators[Any], broker: int, groups: Mapping[str, Collection[TopicPartition] | None]
) -> dict[str, Offsets | KafkaError]:
    """Fetch the start offsets and lags of share groups."""
    request: Any = protocol.DescribeShareGroupOffsetsRequest
    asked = []
    for group, partitions in groups.items():
        topics = None
        if partitions is not None:
            topics = [
                request.DescribeShareGroupOffsetsRequestTopic(topic_name=name, partitions=numbers)
                for name, numbers in by_topic(partitions).items()
            ]
        asked.append(request.DescribeShareGroupOffsetsRequestGroup(group_id=group, topics=topics))
    response = await route.call(broker, request(groups=asked))
    return {
        each.group_id: _start_offsets_in(each, each.group_id, groups[each.group_id])
        for each in response.groups
        if each.group_id in groups
    }


def _start_offsets_in(part: Any, group: str, partitions: Collection[TopicPartition] | None) -> Offsets | KafkaError:
    api, what = "DescribeShareGroupOffsets", f"listing the offsets of group {group}"
    error = error_of(part, what, api, group=group)
    if error is not None:
        return error
    found: Offsets = {}
    errors: dict[TopicPartition, KafkaError] = {}
    for topic in part.topics:
        for each in topic.partitions:
            where = TopicPartition(topic.topic_name, each.partition_index)
            error = error_of(each, f"{what}: {_text(where)}", api, topic=where.topic, group=group)
            if error is not None:
                errors[where] = error
                continue
            epoch = each.leader_epoch if each.leader_epoch >= 0 else None
            lag = each.lag if each.lag >= 0 else None
            found[where] = GroupOffset(each.start_offset, epoch, lag=lag) if each.start_offset >= 0 else None
    return _complete(what, partitions, found, errors)


async def _move_start(
    route: Coordinators[Any], broker: int, group: str, offsets: Mapping[TopicPartition, OffsetToCommit]
) -> dict[TopicPartition, KafkaError | None]:
    """Set start offsets by one AlterShareGroupOffsets, which creates the group if there is none."""
    for where, its in offsets.items():
        if its.metadata:
            text = f"{where.topic}-{where.partition}: share group {group} stores no metadata: give the offset alone"
            raise ConfigError(text)
    request: Any = protocol.AlterShareGroupOffsetsRequest
    topics = [
        request.AlterShareGroupOffsetsRequestTopic(
            topic_name=name,
            partitions=[
                request.AlterShareGroupOffsetsRequestPartition(
                    partition_index=number, start_offset=offsets[TopicPartition(name, number)].offset
                )
                for number in numbers
            ],
        )
        for name, numbers in by_topic(offsets).items()
    ]
    with needs(request, "setting the offsets of a share group", "4.1"):
        response = await route.call(broker, request(group_id=group, topics=topics))
    api, what = "AlterShareGroupOffsets", f"setting the start offsets of group {group}"
    error = error_of(response, what, api, group=group)
    if error is not None:
        raise error
    return {
        TopicPartition(topic.topic_name, part.partition_index): error_of(
            part, f"{what}: {topic.topic_name}-{part.partition_index}", api, topic=topic.topic_name, group=group
        )
        for topic in response.responses
        for part in topic.partitions
    }


async def _forget_topics(
    route: Coordinators[Any], broker: int, group: str, topics: Iterable[str]
) -> dict[TopicPartition | str, KafkaError | None]:
    """Delete the start offsets of topics by one DeleteShareGroupOffsets."""
    request: Any = protocol.DeleteShareGroupOffsetsRequest
    names = list(topics)
    named = [request.DeleteShareGroupOffsetsRequestTopic(topic_name=name) for name in names]
    with needs(request, "deleting offsets of a share group", "4.1"):
        response = await route.call(broker, request(group_id=group, topics=named))
    api, what = "DeleteShareGroupOffsets", f"deleting offsets of group {group}"
    error = error_of(response, what, api, group=group)
    if error is not None:
        raise error
    found: dict[TopicPartition | str, KafkaError | None] = {
        each.topic_name: error_of(each, f"{what}: {each.topic_name}", api, topic=each.topic_name, group=group)
        for each in response.responses
    }
    # The response for a group without any state names no topic.
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    for topic in names:
        if topic not in found:
            found[topic] = broker_error(missing, f"{what}: no state of {topic}", api=api, topic=topic, group=group)
    return found


def _not_by_partition(group: str, partitions: Iterable[TopicPartition]) -> dict[TopicPartition | str, KafkaError]:
    """Return the errors of partitions of a share group."""
    return {
        where: ConfigError(
            f"{where.topic}-{where.partition}: Kafka deletes the offsets of share group {group} by topic only: "
            f"write {where.topic!r} for all partitions of the topic"
        )
        for where in partitions
    }
