"""Offsets by time (ListOffsets) and by epoch (OffsetForLeaderEpoch), requested from leaders, with retries.

`ask_leaders` is one attempt, with an outcome for each partition. `list_offsets` repeats it until all are found;
`list_available` continues without the partitions that stay unavailable.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterable, Mapping
from enum import Enum
from typing import Any, TypeVar

from kafwire import protocol
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.partition_names import listed
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.lazy_dataclass import dataclass
from kafwire.protocol.api.list_offsets import ListOffsetsRequest
from kafwire.runtime.log import cluster_log as log


class LogEnd(Enum):
    """An end of a partition's log, or another place in it that ListOffsets has a number for."""

    EARLIEST = -2
    LATEST = -1
    MAX_TIMESTAMP = -3  # the record with the greatest timestamp (KIP-734)
    EARLIEST_LOCAL = -4  # the first offset on the leader's own disk (KIP-405)
    LATEST_TIERED = -5  # the last offset in remote storage (KIP-1005)
    EARLIEST_PENDING_UPLOAD = -6  # the first offset that is not in remote storage yet (KIP-1023)


@dataclass(frozen=True, slots=True)
class Time:
    """Milliseconds since the epoch, 0 or more: no record is earlier. Never an end of the log."""

    ms: int

    def __post_init__(self) -> None:
        if self.ms < 0:
            raise ValueError(f"{self.ms} ms is before 1970")


# A place whose offset ListOffsets finds.
Place = LogEnd | Time
EARLIEST, LATEST = LogEnd.EARLIEST, LogEnd.LATEST

# How long a lookup of several partitions waits for unavailable ones before it continues without them.
PATIENCE_MS = 2_000

Partition = tuple[str, int]
Problem = TypeVar("Problem", bound=BaseException)


async def log_ends(cluster: Cluster, where: Partition) -> tuple[int, int]:
    """Return the high watermark and the last stable offset of a partition, from two simultaneous requests."""
    levels = (0, 1)
    found = await asyncio.gather(
        *(list_offsets(cluster, {where: LATEST}, isolation_level=level, warns=not level) for level in levels)
    )
    high_watermark, stable = (each[where] for each in found)
    return high_watermark, stable


async def list_offsets(
    cluster: Cluster,
    wanted: Mapping[Partition, Place],
    *,
    isolation_level: int = 0,
    timeout_ms: float | None = None,
    on_found: Callable[[Partition, int], object] | None = None,
    warns: bool = True,
) -> dict[Partition, int]:
    """Return, for each partition, the first offset with a timestamp at or after the wanted time; -1: there is none.

    `EARLIEST` and `LATEST` stand for the ends; with `isolation_level` 1 the latest is the last stable offset (KIP-98).
    `on_found` is called at once for each, even if others fail. An unavailable partition is named by a warning after
    `PATIENCE_MS`, unless another lookup of the same partitions `warns`, and by the error at the end.
    """
    found: dict[Partition, int] = {}
    problems: dict[Partition, KafkaError] = {}
    limit_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
    # A missing topic or partition is reported at once; later, a missing leader may be an election in progress.
    for topic, partition in wanted:
        await _check_exists(cluster, topic, [partition], timeout_ms)

    def take(where: Partition, offset: int) -> None:
        found[where] = offset
        if on_found is not None:
            on_found(where, offset)

    def missing() -> dict[Partition, Place]:
        return {where: when for where, when in wanted.items() if where not in found}

    def warn() -> None:
        if not warns:
            return
        where = next(iter(missing()))
        why = problems.get(where) or not_responding(cluster, where, PATIENCE_MS)
        log.warning("no offset yet of %s: %s; retrying for %g s", _names(missing()), why, limit_ms / 1000, reason=why)

    async def attempt() -> None:
        problems.clear()
        problems.update(await ask_leaders(cluster, missing(), isolation_level=isolation_level, on_found=take))
        problem = _worst(list(problems.values()))
        if problem is not None:
            if may_pass(problem):
                await cluster.refresh({topic for topic, _ in missing()})
            raise problem

    warning = asyncio.get_running_loop().call_later(PATIENCE_MS / 1000, warn)
    try:
        await cluster.retrying(attempt, lambda: f"listing offsets of {_names(missing())}", timeout_ms)
    finally:
        warning.cancel()
    return found


async def list_available(
    cluster: Cluster, wanted: Mapping[Partition, Place], *, isolation_level: int = 0
) -> tuple[dict[Partition, int], dict[Partition, KafkaError]]:
    """Return the offsets found within `PATIENCE_MS`, and the last error of each other partition.

    A partition without a leader, or whose leader does not respond, delays the others by no more than that.
    """
    found: dict[Partition, int] = {}
    failed: dict[Partition, KafkaError] = {}
    patience_ms = min(PATIENCE_MS, cluster.config.default_api_timeout_ms)
    if unknown := {topic for topic, _ in wanted if topic not in cluster.metadata.topics}:
        with contextlib.suppress(KafkaConnectionError, KafkaTimeoutError, BrokerError, TimeoutError):
            async with asyncio.timeout(patience_ms / 1000):
                await cluster.refresh(unknown)

    async def pursue(missing: dict[Partition, Place]) -> None:
        failures = 0
        while missing:
            problems = await ask_leaders(cluster, missing, isolation_level=isolation_level, on_found=found.__setitem__)
            failed.update(problems)
            missing = {where: missing[where] for where, problem in problems.items() if may_pass(problem)}
            if missing:
                failures += 1
                await refresh_after(cluster, missing, failures)

    tasks = [asyncio.ensure_future(pursue(group)) for group in _groups(cluster, wanted).values()]
    try:
        if tasks:
            await asyncio.wait(tasks, timeout=patience_ms / 1000)
        for task in tasks:
            if task.done():
                task.result()
    finally:
        for task in tasks:
            task.cancel()
    for where in wanted:
        if where in found:
            failed.pop(where, None)
        elif where not in failed:
            failed[where] = not_responding(cluster, where, patience_ms)
    return found, failed


def not_responding(cluster: Cluster, where: Partition, waited_ms: float) -> KafkaTimeoutError:
    """Return the error of a partition whose leader does not respond."""
    leader, name = cluster.metadata.leader(*where), "{}-{}".format(*where)
    what = f"broker {leader}, the leader of {name}, has not responded" if leader >= 0 else f"{name} has had no leader"
    return KafkaTimeoutError(f"{what} for {waited_ms / 1000:g} s")


def may_pass(problem: BaseException) -> bool:
    """True if a retry may succeed."""
    passes = isinstance(problem, KafkaConnectionError | KafkaTimeoutError)
    return passes or (isinstance(problem, BrokerError) and problem.retriable)


async def refresh_after(cluster: Cluster, partitions: Iterable[Partition], failures: int) -> None:
    """Refresh the metadata of partitions whose lookup failed, and wait for the back-off."""
    with contextlib.suppress(KafkaConnectionError, KafkaTimeoutError, BrokerError):
        await cluster.refresh({topic for topic, _ in partitions})
    await asyncio.sleep(cluster.backoff_ms(failures) / 1000)


def lookup_group(cluster: Cluster, topic: str, partition: int) -> tuple[int, str]:
    """Return the broker to ask for a partition; without a leader, -1 and the topic: absent topics delay no other."""
    leader = cluster.metadata.leader(topic, partition)
    return leader, "" if leader >= 0 else topic


def number_of(place: Place) -> int:
    """Return the timestamp that stands for a place in ListOffsets."""
    return place.ms if isinstance(place, Time) else place.value


def _groups(cluster: Cluster, wanted: Mapping[Partition, Place]) -> dict[tuple[int, str], dict[Partition, Place]]:
    groups: dict[tuple[int, str], dict[Partition, Place]] = {}
    for where, when in wanted.items():
        groups.setdefault(lookup_group(cluster, *where), {})[where] = when
    return groups


async def ask_leaders(
    cluster: Cluster,
    wanted: Mapping[Partition, Place],
    *,
    isolation_level: int,
    on_found: Callable[[Partition, int], object],
) -> dict[Partition, KafkaError]:
    """Send each leader one ListOffsets request; return the error of each partition that `on_found` did not get."""
    failed: dict[Partition, KafkaError] = {}

    async def ask(leader: int, partitions: dict[Partition, Place]) -> None:
        if leader < 0:
            failed.update(await _explain_leaderless(cluster, partitions))
            return
        try:
            request = request_of(cluster, partitions, isolation_level)
            response = await cluster.connection(leader, "control").call(request)
        except KafkaError as error:
            failed.update(dict.fromkeys(partitions, error))
            return
        left = dict(partitions)
        for topic in response.topics:
            for part in topic.partitions:
                where = (topic.name, part.partition_index)
                if left.pop(where, None) is None:
                    continue
                if part.error_code:
                    what = f"offsets of {where[0]}-{where[1]}"
                    failed[where] = broker_error(part.error_code, what, api="ListOffsets", topic=where[0])
                else:
                    on_found(where, part.offset)
        if left:
            text = f"broker {leader} sent a response without {_names(left)}"
            failed.update(dict.fromkeys(left, ProtocolError(text, api="ListOffsetsResponse")))

    await asyncio.gather(*(ask(leader, group) for (leader, _), group in _groups(cluster, wanted).items()))
    return failed


async def _explain_leaderless(cluster: Cluster, partitions: Iterable[Partition]) -> dict[Partition, KafkaError]:
    """Return why partitions have no leader: an election, or the topic does not exist."""
    failed: dict[Partition, KafkaError] = {}
    topics: dict[str, list[int]] = {}
    for topic, partition in partitions:
        topics.setdefault(topic, []).append(partition)
        what = f"{topic}-{partition} has no leader"
        failed[topic, partition] = broker_error(ErrorCode.LEADER_NOT_AVAILABLE, what, topic=topic)
    for topic, numbers in topics.items():
        try:
            missing = await _missing(cluster, topic, numbers, None)
        except KafkaError as error:
            failed.update({(topic, number): error for number in numbers})
        else:
            failed.update({(topic, number): error for number, error in missing.items()})
    return failed


async def _check_exists(cluster: Cluster, topic: str, partitions: Iterable[int], timeout_ms: float | None) -> None:
    """Raise `ConfigError` for a partition that the topic does not have, `BrokerError` for an unknown topic."""
    for error in (await _missing(cluster, topic, partitions, timeout_ms)).values():
        raise error


async def _missing(
    cluster: Cluster, topic: str, partitions: Iterable[int], timeout_ms: float | None
) -> dict[int, ConfigError]:
    """Return an error for each partition that the topic lacks; raise `BrokerError` for an unknown topic."""
    info = await cluster.topic(topic, timeout_ms=timeout_ms)
    if not info.partitions.keys() >= set(partitions):
        await cluster.refresh([topic], at_once=True)  # once per call, without the back-off that other callers caused
        info = cluster.metadata.topics[topic]
    text = f"topic {topic!r} has partitions 0 to {max(info.partitions)}, not "
    return {number: ConfigError(f"{text}{number!r}") for number in partitions if number not in info.partitions}


def request_of(cluster: Cluster, wanted: Mapping[Partition, Place], isolation_level: int) -> Any:
    """Return one ListOffsets request about these partitions, with the leader epochs of the metadata."""
    request: Any = ListOffsetsRequest
    topics: dict[str, list[Any]] = {}
    for (topic, partition), when in wanted.items():
        asked = request.ListOffsetsPartition(
            partition_index=partition,
            current_leader_epoch=cluster.metadata.leader_epoch(topic, partition),
            timestamp=number_of(when),
        )
        topics.setdefault(topic, []).append(asked)
    named = [request.ListOffsetsTopic(name=topic, partitions=asked) for topic, asked in topics.items()]
    return request(replica_id=-1, isolation_level=isolation_level, topics=named)


def _names(partitions: Iterable[Partition]) -> str:
    return listed([f"{topic}-{partition}" for topic, partition in partitions])


def _worst(problems: list[Problem]) -> Problem | None:
    """Return the problem to report: a permanent error before all others."""
    return min(problems, key=lambda problem: getattr(problem, "retriable", True), default=None)


async def end_of_epoch(
    cluster: Cluster, topic: str, partition: int, epoch: int, *, timeout_ms: float | None = None
) -> tuple[int, int]:
    """Return the greatest leader epoch up to `epoch` and the offset after its last record, from the leader (KIP-320).

    (-1, -1) if the leader does not know the epoch. Raises the errors of `Cluster.retrying`.
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
        for part in (part for topic in response.topics for part in topic.partitions):
            if part.error_code:
                await cluster.refresh([topic])
                what = f"the end of epoch {epoch} of {topic}-{partition}"
                raise broker_error(part.error_code, what, api="OffsetForLeaderEpoch", topic=topic)
            return part.leader_epoch, part.end_offset
        raise ProtocolError(f"the leader's response lacks {topic}-{partition}", api="OffsetForLeaderEpochResponse")

    return await cluster.retrying(attempt, f"finding where {topic}-{partition} was truncated", timeout_ms)
