"""Offsets by time (ListOffsets) and by epoch (OffsetForLeaderEpoch), asked of leaders, again while they move."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, ConfigError, ProtocolError, broker_error

LATEST = -1
EARLIEST = -2


Partition = tuple[str, int]
Problem = TypeVar("Problem", bound=BaseException)


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, int],
    *,
    isolation_level: int = 0,
    timeout_ms: float | None = None,
    on_found: Callable[[Partition, int], object] | None = None,
) -> dict[Partition, int]:
    """For each partition, the first offset whose timestamp is at or after the wanted one (ms), -1 when there is none.

    `EARLIEST` and `LATEST` ask for the ends; with `isolation_level` 1 the latest is the last stable offset (KIP-98).
    `on_found` is told of each at once, whatever becomes of the others.
    """
    found: dict[Partition, int] = {}
    # What does not exist is told at once; further down, a missing leader may just be an election that goes on.
    for topic, partition in wanted:
        info = await cluster.topic(topic, timeout_ms=timeout_ms)
        if partition not in info.partitions:
            await cluster.refresh([topic])
            info = cluster.metadata.topics[topic]
        if partition not in info.partitions:
            raise ConfigError(f"topic {topic!r} has partitions 0 to {max(info.partitions)}, not {partition!r}")

    async def ask(node: int, partitions: list[Partition]) -> BrokerError | None:
        by_topic: dict[str, list[int]] = {}
        for topic, partition in partitions:
            by_topic.setdefault(topic, []).append(partition)
        request_type: Any = protocol.ListOffsetsRequest
        topic_type = request_type.ListOffsetsTopic
        partition_type = request_type.ListOffsetsPartition
        request = request_type(
            replica_id=-1,
            isolation_level=isolation_level,
            topics=[
                topic_type(
                    name=topic,
                    partitions=[
                        partition_type(
                            partition_index=p,
                            current_leader_epoch=cluster.metadata.leader_epoch(topic, p),
                            timestamp=wanted[topic, p],
                        )
                        for p in numbers
                    ],
                )
                for topic, numbers in by_topic.items()
            ],
        )
        response = await cluster.connection(node, "control").call(request)
        problems: list[BrokerError] = []
        for topic_answer in response.topics:
            for answer in topic_answer.partitions:
                where = (topic_answer.name, answer.partition_index)
                if answer.error_code:
                    what = f"offsets of {where[0]}-{where[1]}"
                    problems.append(broker_error(answer.error_code, what, api="ListOffsets", topic=where[0]))
                else:
                    found[where] = answer.offset
                    if on_found is not None:
                        on_found(where, answer.offset)
        return _worst(problems)

    async def attempt() -> None:
        missing = [partition for partition in wanted if partition not in found]
        groups: dict[int, list[Partition]] = {}
        leaderless: list[BaseException] = []
        for topic, partition in missing:
            leader = cluster.metadata.leader(topic, partition)
            if leader < 0:
                leaderless.append(broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader"))
            else:
                groups.setdefault(leader, []).append((topic, partition))
        outcomes = await asyncio.gather(
            *(ask(node, partitions) for node, partitions in groups.items()), return_exceptions=True
        )
        problem = _worst([*(outcome for outcome in outcomes if outcome is not None), *leaderless])
        if problem is not None:
            if getattr(problem, "retriable", True):
                await cluster.refresh({topic for topic, _ in missing})
            raise problem
        left_out = [f"{topic}-{partition}" for topic, partition in missing if (topic, partition) not in found]
        if left_out:
            raise ProtocolError(f"the brokers answered, but not for {', '.join(left_out)}", api="ListOffsetsResponse")

    await cluster.retrying(attempt, "listing offsets", timeout_ms)
    return found


def _worst(problems: list[Problem]) -> Problem | None:
    """The one to report: what no retry mends before all others."""
    return min(problems, key=lambda problem: getattr(problem, "retriable", True), default=None)


async def end_of_epoch(
    cluster: Cluster, topic: str, partition: int, epoch: int, *, timeout_ms: float | None = None
) -> tuple[int, int]:
    """The greatest leader epoch up to `epoch` and the offset after its last record, as the leader knows (KIP-320).

    (-1, -1) where it does not know the epoch. Raises what `Cluster.retrying` does.
    """
    request: Any = protocol.OffsetForLeaderEpochRequest(replica_id=-1)

    async def attempt() -> tuple[int, int]:
        connection = cluster.connection(await cluster.leader(topic, partition), "control")
        asked = request.OffsetForLeaderPartition(
            partition=partition,
            current_leader_epoch=cluster.metadata.leader_epoch(topic, partition),
            leader_epoch=epoch,
        )
        request.topics = [request.OffsetForLeaderTopic(topic=topic, partitions=[asked])]
        response = await connection.call(request)
        for part in (part for answer in response.topics for part in answer.partitions):
            if part.error_code:
                await cluster.refresh([topic])
                what = f"the end of epoch {epoch} of {topic}-{partition}"
                raise broker_error(part.error_code, what, api="OffsetForLeaderEpoch", topic=topic)
            return part.leader_epoch, part.end_offset
        raise ProtocolError(f"the leader answered, but not for {topic}-{partition}", api="OffsetForLeaderEpochResponse")

    return await cluster.retrying(attempt, f"finding where {topic}-{partition} was cut", timeout_ms)
