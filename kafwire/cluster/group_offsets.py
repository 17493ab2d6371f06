"""A group's offsets, fetched and committed with or without a membership (OffsetFetch, OffsetCommit).

The coordinator is looked up when needed, and again after it moved. A permanent error is raised at once with
its partitions; all others are retried with backoff until the time is up.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import COORDINATOR_ERRORS, Coordinator
from kafwire.cluster.list_offsets import may_pass
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.cluster.offset_requests import (
    Code,
    Committed,
    OffsetToCommit,
    Partition,
    commit_request,
    commit_results,
    fetch_request,
    fetched,
    fetched_groups,
)
from kafwire.cluster.topic_lookup import UnknownResponses
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    ERROR_CODES,
    BrokerError,
    CommitFailedError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.types import ConsumerGroupMetadata

__all__ = [
    "Committed",
    "CommittingMember",
    "GroupOffsets",
    "OffsetToCommit",
    "came_back",
    "lost_to_others",
    "went_meanwhile",
]

# Codes for a non-member's commit while the group has members; which one depends on the group's protocol.
MEMBERS_ONLY = (
    *(ErrorCode.ILLEGAL_GENERATION, ErrorCode.UNKNOWN_MEMBER_ID, ErrorCode.REBALANCE_IN_PROGRESS),
    *(ErrorCode.FENCED_INSTANCE_ID, ErrorCode.FENCED_MEMBER_EPOCH, ErrorCode.STALE_MEMBER_EPOCH),
)
# Codes for a member that is gone, or its whole group. FENCED_INSTANCE_ID is final: the id has a new member.
GONE = {*MEMBERS_ONLY, ErrorCode.GROUP_ID_NOT_FOUND} - {ErrorCode.FENCED_INSTANCE_ID}
UNKNOWN = (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID)

DOING = {"OffsetFetch": "fetching the offsets", "OffsetCommit": "committing"}


class CommittingMember(Protocol):
    """The group member that commits offsets."""

    def metadata(self) -> ConsumerGroupMetadata:
        """Return its current group metadata."""

    def metadata_of_read(self) -> ConsumerGroupMetadata:
        """Return the metadata for a transaction that commits the records read (see `TransactionMember`)."""

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata) -> None:
        """The coordinator refused a commit of the member `sent_as` with this error code."""


class GroupOffsets:
    """The committed offsets of one group. Runs on the engine."""

    def __init__(self, cluster: Cluster, group_id: str, member: CommittingMember | None = None) -> None:
        """Make the access; `member` commits, None: a client that is not in the group.

        A fetch waits for transactions that are about to change an offset (KIP-447), as in Kafka's own consumer.
        """
        self.group_id = group_id
        self._cluster = cluster
        self.member = member
        self.coordination = Coordinator(cluster, group_id)
        self._committing = asyncio.Lock()
        self._commits = 0  # calls of `commit` that hold the lock or wait for it
        # The latencies of OffsetCommit: their number and sum, and the longest since the last push of metrics.
        self.commit_requests = 0
        self.commit_ms_sum = 0.0
        self.commit_ms_peak = 0.0

    @property
    def coordinator(self) -> int | None:
        """The broker that coordinates the group, if known."""
        return self.coordination.node

    async def fetch(
        self, partitions: Iterable[Partition], *, timeout_ms: float | None = None
    ) -> dict[Partition, Committed | None]:
        """Return the committed offset of each partition, None where there is none.

        Waits for an offset that an open transaction is about to change (UNSTABLE_OFFSET_COMMIT). Retries for
        `timeout_ms` (default: `default_api_timeout_ms`). Raises `BrokerError` for a permanent error,
        `KafkaTimeoutError`, `KafkaConnectionError`.
        """
        wanted = list(dict.fromkeys((topic, partition) for topic, partition in partitions))
        found: dict[Partition, Committed | None] = {}

        async def attempt(connection: BrokerConnection) -> list[Code]:
            missing = [where for where in wanted if where not in found]
            fetched, codes = await self._fetch(connection, missing, {})
            found.update(fetched)
            return codes

        await self._until_done("OffsetFetch", wanted, found, attempt, timeout_ms)
        return {where: found[where] for where in wanted}

    async def fetch_available(
        self, partitions: Iterable[Partition], topic_ids: Mapping[str, uuid.UUID], *, patience_ms: float
    ) -> tuple[dict[Partition, Committed | None], dict[Partition, KafkaError]]:
        """Fetch the committed offset of each partition, or its error.

        An open transaction delays only its own partitions. Retriable errors are retried for `patience_ms` after the
        coordinator's first response. An error of the coordinator concerns all partitions: it is retried for
        `default_api_timeout_ms`, and raised as `fetch` does.
        """
        found: dict[Partition, Committed | None] = {}
        failed: dict[Partition, KafkaError] = {}
        missing = list(dict.fromkeys((topic, partition) for topic, partition in partitions))

        async def once() -> None:
            async def attempt(connection: BrokerConnection) -> list[Code]:
                fetched, codes = await self._fetch(connection, missing, topic_ids)
                found.update(fetched)
                return codes

            connection, codes = await self._ask("OffsetFetch", missing, attempt)
            failed.update({where: self._explained(code, "OffsetFetch", [where], connection) for where, code in codes})
            for where in missing:
                if where not in found and where not in failed:
                    text = f"{connection.where} sent a response without {_names([where])}"
                    failed[where] = ProtocolError(text, api="OffsetFetchResponse")

        cluster, failures, deadline = self._cluster, 0, 0.0
        while missing:
            await cluster.retrying(once, f"{DOING['OffsetFetch']} {self._what(missing)}")
            missing = [where for where in missing if where not in found and may_pass(failed[where])]
            failures += 1
            deadline = deadline or cluster.engine.now_ms() + patience_ms
            wait_ms = cluster.backoff_ms(failures)
            if cluster.engine.now_ms() + wait_ms >= deadline:
                break
            if missing:
                await asyncio.sleep(wait_ms / 1000)
        return found, {where: error for where, error in failed.items() if where not in found}

    async def commit(
        self,
        offsets: Mapping[Partition, OffsetToCommit],
        *,
        topic_ids: Mapping[str, uuid.UUID] | None = None,
        is_owned: Callable[[Partition], bool] = lambda _: True,
        timeout_ms: float | None = None,
    ) -> None:
        """Commit `offsets`; return when the coordinator has them all.

        Partitions that are no longer owned (`is_owned`) when the request is sent, or sent again, fail with
        `CommitFailedError`, once the others are committed.

        `topic_ids` are those of the topics that were read: a topic recreated under the same name has other records, and
        must not get these offsets.

        Commits happen in the order of the calls: a later one is sent once the earlier one is settled, so that a retry
        of the earlier one cannot undo it. (A coordinator that executes a request of a connection long given up can:
        nothing in the protocol forbids it.) After an error, other partitions of the same call may be committed. Retries
        for `timeout_ms` (default: `default_api_timeout_ms`), including the wait for earlier commits. Raises
        `ConfigError` for an impossible offset, `BrokerError` for a permanent error (the group has members;
        the metadata is too long; no permission), `KafkaTimeoutError`, `KafkaConnectionError`.
        """
        wanted = {(topic, partition): OffsetToCommit(*value) for (topic, partition), value in offsets.items()}
        for (topic, partition), value in wanted.items():
            if not 0 <= value.offset < 1 << 63:
                raise ConfigError(f"the offset to commit for {topic}-{partition} is {value.offset}: it must be >= 0")
        done: set[Partition] = set()
        known = {
            topic: info.topic_id for topic in _topics(wanted) if (info := self._cluster.metadata.topics.get(topic))
        } | dict(topic_ids or {})

        async def attempt(connection: BrokerConnection) -> list[Code]:
            missing = {where: value for where, value in wanted.items() if where not in done} if done else wanted
            topics = _topics(missing)
            if connection.version_of(protocol.OffsetCommitRequest) >= protocol.OffsetCommitRequest.BY_TOPIC_ID:
                known.update(await self._topic_ids(topic for topic in topics if topic not in known))
            # From here on, no await before the request is made: the generation in it is that of a member that owns
            # these.
            lost = [where for where in missing if not is_owned(where)]
            if lost == list(missing):
                raise _Final(lost_to_others(lost, self.group_id))
            others = [topic for topic in topics if self._is_another(topic, known)]
            mine = missing
            if lost or others:
                mine = {each: missing[each] for each in missing if each not in lost and each[0] not in others}
            codes = await self._commit(connection, mine, known) if mine else []
            done.update(where for where, code in codes if not code)
            failed = [each for each in codes if each[1]]
            if lost and not failed:
                raise _Final(lost_to_others(lost, self.group_id))
            if others and not failed:
                raise _Final(
                    KafkaError(
                        f"topic {min(others)!r} was deleted and recreated: the offsets to commit for group "
                        f"{self.group_id!r} belong to the old one"
                    )
                )
            return failed

        limit_ms = self._cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self._cluster.engine.now_ms() + limit_ms
        self._commits += 1
        try:
            await self._take_turn(wanted, limit_ms)
            try:
                left_ms = max(1.0, deadline - self._cluster.engine.now_ms())
                await self._until_done("OffsetCommit", wanted, done, attempt, left_ms)
            finally:
                self._committing.release()
        finally:
            self._commits -= 1

    async def _take_turn(self, wanted: Iterable[Partition], limit_ms: float) -> None:
        """Take the lock of commits, after all earlier commits."""
        if self._commits == 1:  # the lock is free: no timer is needed
            await self._committing.acquire()
            return
        try:
            async with asyncio.timeout(limit_ms / 1000):
                await self._committing.acquire()
        except TimeoutError:
            raise KafkaTimeoutError(
                f"committing {self._what(wanted)} did not begin within {limit_ms / 1000:g} s: an earlier commit is "
                "still waiting for the group's coordinator"
            ) from None

    async def _until_done(
        self,
        api: str,
        wanted: Iterable[Partition],
        done: Iterable[Partition],
        attempt: Callable[[BrokerConnection], Awaitable[list[Code]]],
        timeout_ms: float | None,
    ) -> None:
        """Run `attempt`, which returns failed partitions with codes, until all `wanted` are done."""
        wanted = list(wanted)
        if not wanted:
            return
        unknown = UnknownResponses()
        doing = DOING[api]

        async def once() -> None:
            connection, codes = await self._ask(api, wanted, attempt)
            if codes:
                worst = self._worst(codes)
                if worst in UNKNOWN:
                    unknown.count(self._cluster.engine.now_ms())
                    await self._check_exist([where for where, code in codes if code == worst], unknown)
                raise self._explained(worst, api, [where for where, code in codes if code == worst], connection)
            left_out = [where for where in wanted if where not in done]
            if left_out:
                raise ProtocolError(f"{connection.where} sent a response to {doing} without {_names(left_out)}")

        try:
            await self._cluster.retrying(once, lambda: f"{doing} {self._what(wanted)}", timeout_ms)
        except _Final as error:
            raise error.cause from None

    async def _ask(
        self, api: str, wanted: list[Partition], attempt: Callable[[BrokerConnection], Awaitable[list[Code]]]
    ) -> tuple[BrokerConnection, list[Code]]:
        """Run `attempt` once on the coordinator's connection; raise an error that concerns the whole request."""
        connection = await self.coordination.connection()
        try:
            return connection, await attempt(connection)
        except (KafkaConnectionError, KafkaTimeoutError):
            self.coordination.forget(connection.node)
            raise
        except BrokerError as error:
            raise self._explained(error.code, api, wanted, connection) from None

    @staticmethod
    def _worst(codes: list[Code]) -> int:
        """Return the code to report: a permanent error before all others."""
        return min((code for _, code in codes), key=lambda code: code in ERROR_CODES and ERROR_CODES[code].retriable)

    def _explained(self, code: int, api: str, partitions: list[Partition], connection: BrokerConnection) -> BrokerError:
        what = f"{DOING[api]} {self._what(partitions)}"
        if code in COORDINATOR_ERRORS:
            self.coordination.forget(connection.node)
        error = broker_error(code, what, api=api, topic=partitions[0][0], group=self.group_id)
        if code in GONE and self.member is not None:
            # The member loses its partitions, which ends the commit, or the commit names the present member next time.
            return BrokerError(error.code, error.name, True, error.message)
        if code in MEMBERS_ONLY and self.member is None:
            return BrokerError(
                error.code,
                error.name,
                False,
                f"the group has members, and only they may commit for it: stop them, or take another group_id [{what}]",
            )
        if code == ErrorCode.GROUP_ID_NOT_FOUND:
            # A group that does not exist has no offsets, and a commit creates it: a group of another type has this id.
            text = f"a group without offsets has this id: use another group_id [{what}]"
            return BrokerError(error.code, error.name, False, text)
        return error

    async def _check_exist(self, partitions: list[Partition], unknown: UnknownResponses) -> None:
        """Check whether a topic or partition exists that the coordinator does not know: the coordinator may lag."""
        await self._cluster.refresh(_topics(partitions))
        metadata = self._cluster.metadata
        for topic, partition in partitions:
            info = metadata.topics.get(topic)
            gone = info is None or topic in metadata.errors or partition not in info.partitions
            if gone and unknown.are_believed:
                text = f"{topic}-{partition} of group {self.group_id!r}"
                raise _Final(broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))

    def _is_another(self, topic: str, known: Mapping[str, uuid.UUID]) -> bool:
        """True if a topic was recreated, by the current metadata."""
        info = self._cluster.metadata.topics.get(topic)
        return (
            info is not None
            and topic not in self._cluster.metadata.errors
            and info.topic_id != known.get(topic, info.topic_id)
        )

    async def _topic_ids(self, topics: Iterable[str]) -> dict[str, uuid.UUID]:
        ids = {}
        for topic in topics:
            try:
                ids[topic] = (await self._cluster.topic(topic)).topic_id
            except BrokerError as error:
                raise _Final(error) from None  # its retries are over
        return ids

    async def _fetch(
        self, connection: BrokerConnection, partitions: list[Partition], topic_ids: Mapping[str, uuid.UUID]
    ) -> tuple[dict[Partition, Committed | None], list[Code]]:
        request: Any = protocol.OffsetFetchRequest
        version = connection.version_of(request)
        ids: dict[str, uuid.UUID] = {}
        if version >= request.BY_TOPIC_ID:
            ids = {topic: topic_ids[topic] for topic in _topics(partitions) if topic in topic_ids}
            ids |= await self._topic_ids(topic for topic in _topics(partitions) if topic not in ids)
            if NO_TOPIC_ID in ids.values():
                version = connection.version_of(request, at_most=request.BY_TOPIC_ID - 1)
        message = fetch_request({self.group_id: partitions}, version, ids, require_stable=True)
        me = None if self.member is None else self.member.metadata()
        response = await connection.call(message, version=version)
        part = fetched_groups(response, [self.group_id], version).get(self.group_id)
        if part is None:
            text = f"{connection.where} sent a response without group {self.group_id!r}"
            raise ProtocolError(text, api="OffsetFetchResponse", version=version)
        if part.error_code:
            self._fence([part.error_code], me)
            raise broker_error(part.error_code, api="OffsetFetch", group=self.group_id)
        return fetched(part.topics, partitions, ids, version)

    async def _commit(
        self, connection: BrokerConnection, offsets: Mapping[Partition, OffsetToCommit], known: dict[str, uuid.UUID]
    ) -> list[Code]:
        request: Any = protocol.OffsetCommitRequest
        version = connection.version_of(request)
        ids: dict[str, uuid.UUID] = {}
        if version >= request.BY_TOPIC_ID:
            ids = {topic: known[topic] for topic in _topics(offsets)}
            if NO_TOPIC_ID in ids.values():
                version = connection.version_of(request, at_most=request.BY_TOPIC_ID - 1)
        message = commit_request(self.group_id, offsets, ids)
        me = None if self.member is None else self.member.metadata()
        if me is not None:
            message.generation_id_or_member_epoch, message.member_id = me.generation_id, me.member_id
            message.group_instance_id = me.group_instance_id
        begun_ms = self._cluster.engine.now_ms()
        response = await connection.call(message, version=version)
        latency_ms = self._cluster.engine.now_ms() - begun_ms
        self.commit_requests += 1
        self.commit_ms_sum += latency_ms
        self.commit_ms_peak = max(self.commit_ms_peak, latency_ms)
        self._fence([part.error_code for topic in response.topics for part in topic.partitions], me)
        return commit_results(response, offsets, ids, version)

    def _fence(self, codes: Iterable[int], sent_as: ConsumerGroupMetadata | None) -> None:
        """Report a code for a member that is gone to the membership, with the member that sent the request."""
        code = next((code for code in codes if code in GONE), None)
        if code is not None and self.member is not None and sent_as is not None:
            self.member.fenced(code, sent_as)

    def _what(self, partitions: Iterable[Partition]) -> str:
        return f"{_names(partitions)} of group {self.group_id!r}"


def lost_to_others(partitions: Sequence[Partition], group_id: str) -> CommitFailedError:
    """Return the error of a commit for partitions that the member no longer owns, or never owned."""
    return CommitFailedError(
        f"{_names(partitions)} of group {group_id!r} is not assigned to this member now: another member will process "
        "the records that were not committed",
        partitions=tuple(partitions),
    )


def came_back(partition: Partition, group_id: str) -> CommitFailedError:
    """Return the error of a commit for records read before the partition was revoked and assigned again."""
    return CommitFailedError(
        f"{_names([partition])} of group {group_id!r} was another member's after this batch was read: this consumer "
        "reads the records after its last commit again",
        partitions=(partition,),
    )


def went_meanwhile(partitions: Sequence[Partition], group_id: str) -> CommitFailedError:
    """Return the error of a transaction that may hold records of partitions revoked after the records were read."""
    return CommitFailedError(
        f"{_names(partitions)} of group {group_id!r} went to another member since this transaction began: it may hold "
        "records that the other member processes again",
        partitions=tuple(partitions),
    )


class _Final(KafkaError):
    """Ends the retries with `cause`."""

    def __init__(self, cause: KafkaError) -> None:
        super().__init__(str(cause))
        self.cause = cause


def _topics(partitions: Iterable[Partition]) -> list[str]:
    return list({topic: None for topic, _ in partitions})


def _names(partitions: Iterable[Partition]) -> str:
    """List partitions for errors: all of a few, else the first four and the number of others."""
    names = [f"{topic}-{partition}" for topic, partition in partitions]
    return ", ".join(names) if len(names) <= 5 else f"{', '.join(names[:4])} and {len(names) - 4} more"
