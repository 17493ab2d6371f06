"""A consumer as a member of its group: choice of protocol, subscription, and handling of its partitions.

The state machine of the membership is in `group/`; `membership_driver.py` runs it. Assigned partitions are read from
their committed offsets. For revoked partitions, processed offsets are committed, within `revocation_timeout_ms`.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import fields
from functools import partial
from typing import Any

from kafwire import protocol
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import DEFAULT_ASSIGNORS, OF_CLASSIC_MEMBERS, ConsumerConfig, no_effect
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.consumer.group.assignment import Assignment
from kafwire.consumer.group.awaited_partitions import AwaitedPartitions
from kafwire.consumer.group.classic_membership import ClassicMembership
from kafwire.consumer.group.consumer_membership import ConsumerMembership
from kafwire.consumer.group.member import Partition, new_member_id
from kafwire.consumer.group.membership import COORDINATOR_MOVED, MemberOptions, Membership, State
from kafwire.consumer.group.membership_driver import LEAVE_MS, MembershipDriver
from kafwire.consumer.group.membership_metrics import MembershipMetrics, protocol_of
from kafwire.consumer.group.poll_interval import PollInterval
from kafwire.consumer.group.rebalance_handlers import Handlers, RebalanceHandlers
from kafwire.consumer.group.revocation import Revocation
from kafwire.consumer.group.subscription import PROTOCOL_TYPE
from kafwire.consumer.group.topic_pattern import TopicPattern
from kafwire.consumer.group.transaction_identity import TransactionIdentity
from kafwire.consumer.offsets.commits import OffsetCommits
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.errors import (
    ERROR_CODES,
    AuthenticationError,
    AuthorizationError,
    KafkaError,
    PollIntervalError,
    broker_error,
)
from kafwire.runtime.log import consumer_log as log
from kafwire.types import ConsumerGroupMetadata, TopicPartition

MISSING_MS = 2_000  # interval of look-ups of topics that do not exist
_MENDABLE = (AuthenticationError, AuthorizationError, PollIntervalError)  # the next call joins again
WINDOW = 0.9  # part of rebalance_timeout_ms that is used if revocation_timeout_ms is not set


class GroupMembership:
    """The membership of one consumer. Lives on the engine, except methods that say otherwise."""

    def __init__(
        self,
        fetcher: Fetcher,
        config: ConsumerConfig,
        assignment: Assignment,
        commits: OffsetCommits,
        handlers: Handlers,
    ) -> None:
        assert config.group_id is not None
        assert commits.group is not None
        self.group_id = config.group_id
        self.handlers = RebalanceHandlers(fetcher.cluster.engine, handlers, self._wake)
        self.revocation = Revocation(fetcher, config, commits, self.handlers, assignment.is_claimed)
        self.subscribed: tuple[str, ...] = ()
        self.stops = False  # set by `stop`: no partition is read any more
        self._fetcher = fetcher
        self._cluster = fetcher.cluster
        self._engine = fetcher.cluster.engine
        self._config = config
        self._assignment = assignment
        self._commits = commits
        self._group = commits.group
        self._driver: MembershipDriver | None = None
        self._metrics = MembershipMetrics()
        self._pattern: TopicPattern | None = None
        self._changing = asyncio.Lock()  # serialises subscribe, unsubscribe, and the expiry of max_poll_interval_ms
        self._is_closed = False
        self._matching: asyncio.Task[None] | None = None
        self._error: KafkaError | None = None
        self._is_raised = False
        self.transactions = TransactionIdentity(self.current_member, self._is_owned, self._topic_id_of)
        self._owned: dict[TopicPartition, PartitionOwnership] = {}  # ownership of each assigned partition
        self._awaited = AwaitedPartitions(self._cluster, self.group_id, self._read)
        self._match_ms: float = config.metadata_max_age_ms  # time to the next listing of topics for a pattern
        self.assigned_since_ms: float | None = None  # when the first assignment came; any thread may read it
        self.first_assigned = asyncio.Event()
        self.poll_interval = PollInterval(self._engine, fetcher.tasks, self, config.max_poll_interval_ms)

    # --- calls of the consumer

    async def subscribe(self, topics: Sequence[str], pattern: str | None = None) -> None:
        """Subscribe to these topics, or to all whose whole name matches a pattern. Manually assigned partitions end.

        After an error nothing has changed.
        """
        async with self._changing:
            matched = None if pattern is None else TopicPattern(self._cluster, pattern)
            if matched is not None:
                found = list((await matched.matching()).values())
            else:
                found = await self._cluster.topics(topics, fresh=True, create=self._config.allow_auto_create_topics)
            await self._need_driver()
            if not self.is_active and self._assignment.partitions:
                await self._assignment.assign([])
            self._pattern, self.subscribed = matched, tuple(sorted({info.name for info in found}))
            self._assignment.know(found, self._cluster.metadata.lacked_ms.get if matched is None else matched.lacked_ms)
            self._join()

    async def unsubscribe(self) -> None:
        """Give up all partitions and leave the group; a later `subscribe` joins again."""
        async with self._changing:
            self.subscribed, self._pattern = (), None
            self.poll_interval.end()
            await self._leave(LEAVE_MS)
            self._cluster.keep_fresh(())
            self._assignment.know((), self._cluster.metadata.lacked_ms.get)
            self._group.member = None
            self._error = None  # reads of manually assigned partitions must not raise it

    async def close(self, timeout_ms: float) -> None:
        """Leave the group for good. The caller has committed processed offsets before."""
        self._is_closed = True
        self.poll_interval.stop()
        try:
            await self._leave(min(timeout_ms, LEAVE_MS))
        finally:
            if self._driver is not None:
                self._driver.stop()

    @property
    def is_active(self) -> bool:
        """True if the group assigns the consumer's partitions."""
        return self._group.member is self

    async def settled(self) -> None:
        """Wait until the member has its current assignment."""
        if self._driver is not None:
            await self._driver.settled()

    async def _need_driver(self) -> None:
        """Choose the protocol, once for the consumer. Raises `KafkaError` if the consumer was closed meanwhile."""
        membership = await self._choose() if self._driver is None else None
        if self._is_closed:
            raise KafkaError("the consumer was closed while it subscribed")
        if membership is not None:
            self._driver = MembershipDriver(self._cluster, self._group.coordination, membership, self, self._metrics)

    def _join(self) -> None:
        assert self._driver is not None
        self._group.member = self
        self._error = None
        self._follow_topics()
        server_pattern = None
        if self._pattern is not None and isinstance(self._driver.membership, ConsumerMembership):
            server_pattern = self._pattern.text
        self._driver.subscribe(() if server_pattern is not None else self.subscribed, server_pattern)
        self.poll_interval.begin()

    async def _leave(self, timeout_ms: float) -> None:
        """Deliver no more records, commit processed offsets, and leave, without waiting for records in hand."""
        self._stop_following()
        self._awaited.clear()
        if self._driver is None:
            return
        cursors = self._assignment.ending(self._assignment.partitions)
        if self._commits.is_automatic and cursors:
            await self._commits.auto_commit(cursors, timeout_ms=timeout_ms)
        self._end(list(self._owned))
        self._assignment.drop(cursors)  # also manually assigned ones
        await self._driver.leave(timeout_ms)

    # --- choice of protocol

    async def _choose(self) -> Membership:
        config = self._config
        options = MemberOptions(
            group_id=self.group_id,
            random=self._engine.random.random,
            new_id=lambda: new_member_id(self._engine.random.getrandbits(128)),
            name_of=self._cluster.metadata.names.get,
            instance_id=config.group_instance_id,
            rack=config.client_rack or None,
            assignors=config.partition_assignment_strategy,
            assignor=config.group_remote_assignor,
            session_timeout_ms=config.session_timeout_ms,
            heartbeat_interval_ms=config.heartbeat_interval_ms,
            rebalance_timeout_ms=config.rebalance_timeout_ms,
            request_timeout_ms=config.request_timeout_ms,
            retry_ms=config.retry_backoff_ms,
            retry_max_ms=config.retry_backoff_max_ms,
        )
        if config.group_protocol == "consumer":
            return ConsumerMembership(options)
        if config.group_protocol == "classic":
            return ClassicMembership(options)
        reason = await self._why_classic()
        name = "consumer" if reason is None else "classic"
        because = "the cluster has it" if reason is None else reason
        log.info(
            "group %r: this member speaks the %s protocol, as %s",
            self.group_id,
            name,
            because,
            group=self.group_id,
            protocol=name,
            reason=because,
        )
        if reason is not None and config.group_remote_assignor is not None:
            log.warning(
                "group %r: group_remote_assignor has no effect in the classic protocol",
                self.group_id,
                group=self.group_id,
                option="group_remote_assignor",
            )
        for option in fields(config) if reason is None else ():
            if option.name in OF_CLASSIC_MEMBERS and getattr(config, option.name) != option.default:
                log.warning(
                    "group %r: %s", self.group_id, no_effect(option.name), group=self.group_id, option=option.name
                )
        return ConsumerMembership(options) if reason is None else ClassicMembership(options)

    async def _why_classic(self) -> str | None:
        """Return the reason for the classic protocol with `group_protocol="auto"`; None: use the consumer protocol."""
        if self._config.partition_assignment_strategy != DEFAULT_ASSIGNORS:
            return "partition_assignment_strategy names assignors of members"
        coordination = self._group.coordination

        async def describe() -> Any:
            connection = await coordination.connection()
            if protocol.ConsumerGroupHeartbeatRequest.api_key not in connection.versions:
                return None
            request = protocol.DescribeGroupsRequest(groups=[self.group_id])
            group = (await connection.call(request)).groups[0]
            if group.error_code in COORDINATOR_MOVED:
                coordination.forget(connection.node)
            if group.error_code in ERROR_CODES and ERROR_CODES[group.error_code].retriable:
                raise broker_error(group.error_code, f"says {connection.where}", api="DescribeGroups")
            return group

        group = await self._cluster.retrying(describe, f"looking at group {self.group_id!r}")
        if group is None or self._cluster.feature("group.version") < 1:
            return "the cluster has no other (group.version)"
        if not group.error_code and group.protocol_type == PROTOCOL_TYPE and group.members:
            return "the group has members that speak it"
        return None

    # --- subscription

    def _follow_topics(self) -> None:
        """Keep the metadata of the topics fresh, to see new partitions and new topics."""
        self._cluster.keep_fresh(self.subscribed)
        self._stop_following()
        self._matching = asyncio.ensure_future(self._follow())

    def _stop_following(self) -> None:
        if self._matching is not None:
            self._matching.cancel()
            self._matching = None

    async def _follow(self) -> None:
        """Look for missing topics every `MISSING_MS`, and for new topics of a pattern every `_match_ms`."""
        looked_ms = self._engine.now_ms()
        while True:
            await asyncio.sleep(min(float(MISSING_MS), self._match_ms) / 1000)
            is_due = self._pattern is not None and self._engine.now_ms() >= looked_ms + self._match_ms
            if is_due or self._misses_topics:
                looked_ms = self._engine.now_ms()
                await self._look_for_topics()

    @property
    def _misses_topics(self) -> bool:
        metadata = self._cluster.metadata
        return any(name not in metadata.topics or name in metadata.errors for name in self.subscribed)

    async def _look_for_topics(self) -> None:
        try:
            if self._pattern is not None:
                await self._match(self._pattern)
            # A listing for a pattern names topics, and leaves the metadata of a recreated one as they were.
            if self._pattern is None or self._misses_topics:
                await self._cluster.refresh(self.subscribed, elsewhere=True)
        except KafkaError as error:
            log.debug(
                "kafwire: the topics of group %r could not be looked up: %s",
                self.group_id,
                error,
                group=self.group_id,
                error=error,
            )

    async def _match(self, pattern: TopicPattern) -> None:
        found = await pattern.matching()
        self._assignment.see(found.values())
        names = tuple(sorted(found))
        # A topic that is gone may be recreated soon: the next listings follow sooner.
        is_gone = not set(self.subscribed) <= set(names)
        self._match_ms = MISSING_MS if is_gone else min(2 * self._match_ms, self._config.metadata_max_age_ms)
        if names == self.subscribed or self._driver is None:
            return
        self.subscribed = names
        self._cluster.keep_fresh(names)
        if isinstance(self._driver.membership, ClassicMembership):
            self._driver.subscribe(names)

    # --- group metadata for commits

    def metadata(self) -> ConsumerGroupMetadata:
        """Return the group metadata that commits name."""
        if self._driver is None:
            return ConsumerGroupMetadata(self.group_id, -1, "", self._config.group_instance_id)
        return self._driver.membership.metadata()

    def metadata_of_read(self) -> ConsumerGroupMetadata:
        """See `CommittingMember`. Any thread."""
        return self.transactions.tell()

    def current_member(self) -> ConsumerGroupMetadata:
        """Return the group metadata as the coordinator knows, or last knew, the member. Any thread.

        While the member joins again, this is the last known metadata, and not one without a member id: brokers accept
        a commit in a transaction without a member id, even for a group that has members.
        """
        return self.metadata() if self._driver is None else self._driver.known_as

    def _end(self, partitions: Iterable[TopicPartition], *, is_lost: bool = False) -> None:
        """Drop these partitions; first end the ownership of those that are still owned.

        No transaction commits them any more. A partition with records in hand is revoked late: its window is over, or
        `on_revocation` is "discard".
        """
        ending = {where: self._owned.pop(where) for where in partitions if where in self._owned}
        for where, ownership in ending.items():
            cursor = self._fetcher.cursors.get(where)
            is_in_hand = cursor is not None and self.revocation.is_in_hand(cursor)
            if cursor is not None and self._may_be_in_transaction(where, cursor):
                offset, is_claimed = self._fetcher.queue.position(cursor.number), self._assignment.has_claim(cursor)
                self.transactions.take_away(where, offset, is_shared=not is_claimed)
            if is_lost:
                ownership.lose()
            elif is_in_hand:
                ownership.revoke_late()
            else:
                ownership.release()
        self._assignment.drop(self._assignment.ending(ending))

    def _may_be_in_transaction(self, where: TopicPartition, cursor: FetchCursor) -> bool:
        if self._fetcher.queue.position(cursor.number) <= cursor.lowest:
            return False  # no record of it was delivered
        return (
            self._commits.ledger.holds(cursor)
            or self._commits.ledger.is_uncommitted(cursor)
            or self.transactions.is_unsent(where)
        )

    def _is_owned(self, where: Partition) -> bool:
        ownership = self._owned.get(TopicPartition(*where))
        return ownership is not None and ownership.is_owned

    def _topic_id_of(self, where: Partition) -> uuid.UUID | None:
        cursor = self._fetcher.cursors.get(TopicPartition(*where))
        return None if cursor is None or cursor.topic_id == NO_TOPIC_ID else cursor.topic_id

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata) -> None:
        """See `CommittingMember`."""
        if self._driver is not None:
            self._driver.fenced(code, sent_as)

    @property
    def counts(self) -> MembershipMetrics:
        """The counters of rebalances."""
        return self._metrics

    def read_ms(self) -> float:
        """Return the time that readers have spent in reads so far."""
        return self.poll_interval.read_ms()

    def metrics(self) -> dict[str, Any]:
        """See `MembershipMetrics.snapshot`."""
        driver = self._driver
        return self._metrics.snapshot(None if driver is None else driver.membership, self._engine.now_ms())

    def __str__(self) -> str:
        driver = self._driver
        if driver is None:
            return f"member of group {self.group_id!r} (not joined)"
        membership = driver.membership
        return f"member of group {self.group_id!r} ({protocol_of(membership)} protocol, {membership.state.value})"

    # --- changes of the assignment (see `AssignedPartitions`)

    async def take(self, partitions: Sequence[Partition]) -> None:
        """Read partitions from their committed offsets, as soon as the metadata shows them.

        The call waits for neither metadata nor offsets, so a partition that cannot be read yet blocks no other one,
        and no rebalance.
        """
        if not self._assignment.partitions:
            self.poll_interval.restart()
        new = {
            where: PartitionOwnership() for each in partitions if (where := TopicPartition(*each)) not in self._owned
        }
        self._owned |= new
        self._awaited.add(new)

    def _read(self, owned: Mapping[TopicPartition, PartitionOwnership]) -> None:
        if self.stops:
            return
        topics = self._cluster.metadata.topics
        pairs = [(topics[where.topic], where.partition) for where in owned]
        added = self._assignment.add(pairs, owned, held=self.handlers.handlers.on_assigned is not None)
        if self.assigned_since_ms is None:
            self.assigned_since_ms = self._engine.now_ms()
            self.first_assigned.set()
        # Records of new partitions are delivered after the handler has run.
        self.handlers.assigned(list(owned), partial(self._assignment.hold_no_more, added))

    async def give_up(self, partitions: Sequence[Partition]) -> None:
        """Stop reading these partitions, and commit their processed offsets."""
        await self._release([TopicPartition(*each) for each in partitions], self.window_ms)

    @property
    def window_ms(self) -> float:
        """How long a revocation waits for records in hand."""
        chosen = self._config.revocation_timeout_ms
        return WINDOW * self._config.rebalance_timeout_ms if chosen is None else chosen

    async def _release(self, partitions: list[TopicPartition], window_ms: float) -> None:
        """Stop delivery of these partitions, finish their records, and drop them."""
        self._awaited.discard(partitions)
        owned = {where: self._owned[where] for where in partitions if where in self._owned}
        await self.revocation.finish(self._assignment.ending(owned), window_ms)
        self._end(_still_owned(owned))

    def lose(self, partitions: Sequence[Partition]) -> None:
        """Drop partitions that other members own already."""
        lost = [TopicPartition(*each) for each in partitions]
        self._end(lost, is_lost=True)
        log.warning(
            "group %r: %d partitions are lost", self.group_id, len(lost), group=self.group_id, partitions=len(lost)
        )
        self.handlers.lost(lost)
        self._wake()

    def lose_recreated(self, topics: Iterable[str]) -> list[Partition]:
        """See `AssignedPartitions`."""
        if self._driver is None or not self.is_active:
            return []
        infos = self._cluster.metadata.topics
        known = {name: infos[name].topic_id for name in topics if name in infos}
        found = [
            (cursor.topic, cursor.partition)
            for cursor in self._fetcher.cursors.values()
            if known.get(cursor.topic, cursor.topic_id) != cursor.topic_id
        ]
        if found:
            self.lose(found)
        # In the consumer protocol, topics are assigned by id: the coordinator assigns the recreated one.
        return found if isinstance(self._driver.membership, ClassicMembership) else []

    def fail(self, error: KafkaError) -> None:
        """End the membership: the next read raises this error."""
        self._error, self._is_raised = error, False
        self.first_assigned.set()  # as no assignment will come
        self._stop_following()
        self._wake()

    # --- reads

    def _wake(self) -> None:
        self._fetcher.queue.wake()
        self._fetcher.notify()
        if self._assignment.feed is not None:
            self._assignment.feed.look()

    @property
    def needs_attention(self) -> bool:
        """True if the reader must first raise an error or run a handler. Any thread."""
        return self._error is not None or self.handlers.are_pending

    def check(self) -> None:
        """Raise the error that ended the membership, if any. Any thread."""
        error = self._error
        if error is not None:
            self._is_raised = True
            raise error

    async def rejoin_after_error(self) -> None:
        """Join again if a read has raised an error that a retry may fix. Reuse the member id unless the member left."""
        async with self._changing:
            error = self._error
            if error is not None and self._is_raised and isinstance(error, _MENDABLE):
                await self._need_driver()
                self._join()

    # --- max_poll_interval_ms (see `PollInterval`)

    def reads(self, reader: object, *, begun: bool) -> None:
        """Note the begin or the end of a user's read by `reader`. Any thread."""
        if begun:
            self.transactions.read_on()
        self.poll_interval.reads(reader, begun=begun)

    async def drop_out(self, why: str, is_due: Callable[[], bool]) -> bool:
        """Leave the group and lose the partitions if joined and `is_due`; return True after leaving."""
        async with self._changing:
            if self._is_closed or not self.is_joined or not is_due():
                return False
            log.warning("%s", why, group=self.group_id)
            owned = self._assignment.partitions
            await self._leave(LEAVE_MS)
            self.handlers.lost(owned)
            return True

    async def come_back(self, is_due: Callable[[], bool]) -> None:
        """Join again if `is_due`."""
        async with self._changing:
            if is_due() and not self._is_closed:
                log.info("the call has returned: this member joins group %r again", self.group_id, group=self.group_id)
                await self._need_driver()
                self._join()

    @property
    def has_partitions(self) -> bool:
        """True if partitions are assigned."""
        return bool(self._assignment.partitions)

    @property
    def is_joined(self) -> bool:
        """True if the consumer is a member, or joins."""
        return self._driver is not None and self._driver.membership.state in (State.JOINING, State.STABLE)


def _still_owned(assigned: Mapping[TopicPartition, PartitionOwnership]) -> dict[TopicPartition, PartitionOwnership]:
    return {where: ownership for where, ownership in assigned.items() if ownership.is_owned}
