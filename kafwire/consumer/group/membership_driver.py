"""The driver of a membership: it sends requests, runs the timer, and passes on assignments one after the other.

`group/` makes the decisions. Heartbeats do not depend on the user's code; only revocations wait for it.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Protocol

from kafwire.cluster.broker_connection import PARKED
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.coordinator import Coordinator
from kafwire.consumer.group.member import Partition, Topics
from kafwire.consumer.group.membership import (
    NEVER,
    Action,
    Assign,
    Fail,
    LeaveCoordinator,
    Log,
    LookUp,
    LookUpIds,
    Lose,
    Membership,
    Revoke,
    Send,
    State,
)
from kafwire.consumer.group.membership_metrics import MembershipMetrics
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    AuthenticationError,
    BrokerError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from kafwire.runtime.log import consumer_log as log
from kafwire.types import ConsumerGroupMetadata

LEAVE_MS = 5_000  # how long a leaving member waits for the coordinator
KNOWN_TOPICS_WAIT_S = 2.0  # the group's leader waits this long for new metadata if it knows all topics already


class AssignedPartitions(Protocol):
    """The receiver of a membership's assignments."""

    async def take(self, partitions: Sequence[Partition]) -> None:
        """Begin to read these partitions."""

    async def give_up(self, partitions: Sequence[Partition]) -> None:
        """Stop reading these partitions; return after their processed offsets are committed."""

    def lose(self, partitions: Sequence[Partition]) -> None:
        """Drop these partitions, which other members own."""

    def lose_recreated(self, topics: Iterable[str]) -> Sequence[Partition]:
        """Lose the partitions of those `topics` that were recreated; return the partitions to take again."""

    def fail(self, error: KafkaError) -> None:
        """Handle the end of the membership."""


class MembershipDriver:
    """One member's requests, timers and assignments. Lives on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        coordinator: Coordinator,
        membership: Membership,
        assigned: AssignedPartitions,
        metrics: MembershipMetrics,
    ) -> None:
        self.membership = membership
        self.known_as = membership.metadata()  # as the coordinator knows, or last knew, the member
        self._metrics = metrics
        self._cluster = cluster
        self._engine = cluster.engine
        self._coordinator = coordinator
        self._assigned = assigned
        self._timer: asyncio.TimerHandle | None = None
        self._parked = 0  # requests without a response on the connection for parked requests
        self._tasks: set[asyncio.Task[None]] = set()
        self._changes: deque[Assign | Revoke] = deque()
        self._changing: asyncio.Task[None] | None = None
        self._revoking: Revoke | None = None  # the revocation that the membership waits for
        self._settled = asyncio.Event()
        self._stop_listening: Callable[[], None] = cluster.on_change(self._on_metadata)

    # --- calls of the owner

    def subscribe(self, topics: Iterable[str], pattern: str | None = None) -> None:
        """Subscribe to these topics, and join if needed."""
        self._do(self.membership.subscribe(sorted(topics), self._engine.now_ms(), pattern=pattern))

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata) -> None:
        """Report a refused commit, and the member that sent it, to the membership."""
        self._do(self.membership.fenced(code, sent_as, self._engine.now_ms()))

    async def settled(self) -> None:
        """Wait until the member has its assignment, or has failed."""
        while not self._is_settled:
            self._settled.clear()
            await self._settled.wait()

    @property
    def _is_settled(self) -> bool:
        state = self.membership.state
        busy = self.membership.is_rebalancing or self._changes or self._changing is not None
        return state in (State.FAILED, State.OUT) or (state is State.STABLE and not busy)

    async def leave(self, timeout_ms: float) -> None:
        """Leave the group, and wait at most `timeout_ms` for the coordinator's response."""
        self._changes.clear()
        self._revoking = None
        self._do(self.membership.leave(self._engine.now_ms()))
        try:
            async with asyncio.timeout(timeout_ms / 1000):
                while self.membership.state is State.LEAVING:
                    self._settled.clear()
                    await self._settled.wait()
        except TimeoutError:
            log.debug(
                "kafwire: the coordinator did not respond in time to a leaving member: its session will expire",
                group=self._coordinator.key,
            )

    def stop(self) -> None:
        """Stop the timer and all tasks."""
        self._stop_listening()
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks):
            task.cancel()

    # --- actions

    def _do(self, actions: list[Action]) -> None:
        for action in actions:
            self._carry_out(action)
        metadata = self.membership.metadata()
        if metadata.generation_id >= 0:
            self.known_as = metadata
        self._set_timer()
        self._look()

    def _look(self) -> None:
        """Update the metrics, and wake the callers that wait in `settled` or `leave`."""
        self._metrics.look(self.membership.state, self._engine.now_ms(), is_settled=self._is_settled)
        self._settled.set()

    def _carry_out(self, action: Action) -> None:
        match action:
            case Send():
                self._begin(self._send(action))
            case Assign() | Revoke():
                self._changes.append(action)
                if isinstance(action, Revoke):
                    self._revoking = action
                if self._changing is None:
                    self._changing = self._begin(self._change())
            case Lose(partitions):
                self._metrics.lost_partitions += len(partitions)
                self._revoking = None
                self._assigned.lose(partitions)
            case LookUp(topics):
                self._begin(self._look_up(topics))
            case LookUpIds(topic_ids):
                self._begin(self._look_up_ids(topic_ids))
            case LeaveCoordinator():
                if self._coordinator.node is not None:
                    self._coordinator.forget(self._coordinator.node)
            case Fail(error):
                self._assigned.fail(error)
            case Log(text, is_warning):
                log.log(logging.WARNING if is_warning else logging.INFO, "%s", text, group=self._coordinator.key)

    def _begin(self, coroutine: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.ensure_future(coroutine)
        self._tasks.add(task)
        task.add_done_callback(self._on_done)
        return task

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled() and (error := task.exception()) is not None:
            self._assigned.fail(
                error if isinstance(error, KafkaError) else KafkaError(f"a membership failed: {error!r}")
            )
            log.error("kafwire: a membership failed", exc_info=error, group=self._coordinator.key, error=error)

    def _set_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        wake_ms = self.membership.wake_ms
        if wake_ms != NEVER:
            wait = max(0.0, wake_ms - self._engine.now_ms())
            self._timer = asyncio.get_running_loop().call_later(wait / 1000, self._on_time)

    def _on_time(self) -> None:
        self._timer = None
        self._do(self.membership.tick(self._engine.now_ms()))

    async def _send(self, action: Send) -> None:
        try:
            connection = await self._coordinator.connection()
            if action.apart:
                if self._parked:  # the membership gave up that request: a SyncGroup of a removed member has no response
                    self._cluster.release(connection.node, PARKED)
                connection = self._cluster.connection(connection.node, PARKED)
                await connection.open()
            self._parked += action.apart
            try:
                response = await connection.call(action.message, timeout_ms=action.timeout_ms)
            finally:
                self._parked -= action.apart
        except (KafkaConnectionError, KafkaTimeoutError):
            error: KafkaError = KafkaConnectionError("the coordinator did not respond")
        except (AuthenticationError, BrokerError, ProtocolError) as refusal:
            log.debug(
                "kafwire: %s could not be sent: %s",
                type(action.message).__name__,
                refusal,
                request=type(action.message).__name__,
                error=refusal,
            )
            error = refusal
        else:
            self._metrics.on_response(action.message)
            self._do(self.membership.on_response(action.message, response, self._engine.now_ms()))
            return
        self._do(self.membership.failed(action.message, error, self._engine.now_ms()))

    # --- assignments, one after the other

    async def _change(self) -> None:
        try:
            while self._changes:
                change = self._changes.popleft()
                if isinstance(change, Assign):
                    owned = set(self.membership.owned)  # without partitions that were lost or given up since
                    await self._assigned.take([each for each in change.partitions if each in owned])
                    continue
                await self._assigned.give_up(change.partitions)
                # After a loss the membership does not wait for this revocation, and may already wait for another one:
                # `released` would then report partitions as free that this member still reads.
                if self._revoking is change:
                    self._revoking = None
                    self._do(self.membership.released(self._engine.now_ms()))
        finally:
            self._changing = None
            self._look()

    # --- topics

    async def _look_up(self, topics: Sequence[str]) -> None:
        """Look up the topics' partitions. A topic that does not exist has no partitions to assign.

        If each topic is known, slow metadata do not delay the group's rebalance: the leader assigns the known
        partitions, and starts another rebalance when later metadata show others.
        """
        is_known = len(self.known(topics)) == len(set(topics))
        refresh = self._begin(self._refresh(topics))
        await asyncio.wait([refresh], timeout=KNOWN_TOPICS_WAIT_S if is_known else None)
        if not refresh.done():
            log.debug(
                "kafwire: metadata are slow: the group's leader assigns the partitions that are known",
                group=self._coordinator.key,
            )
        self._do(self.membership.found(self.known(topics), self._engine.now_ms()))

    async def _refresh(self, topics: Sequence[str]) -> None:
        try:
            await self._cluster.refresh(topics, at_once=True)
        except KafkaError as error:
            log.debug("kafwire: metadata could not be refreshed: %s", error, error=error)

    async def _look_up_ids(self, topic_ids: Sequence[Any]) -> None:
        try:
            await self._cluster.look_up_ids(topic_ids)
        except KafkaError as error:
            log.debug("kafwire: topics could not be looked up by their ids: %s", error, error=error)
        self._do(self.membership.named(self._engine.now_ms()))

    def known(self, topics: Iterable[str]) -> Topics:
        """Return the racks of each partition's replicas, for those `topics` that exist."""
        metadata = self._cluster.metadata
        found: dict[str, list[frozenset[str]]] = {}
        for name in topics:
            info = metadata.topics.get(name)
            if info is None or name in metadata.errors:
                continue
            found[name] = [
                frozenset(
                    rack
                    for node in (info.partitions[number].replicas if number in info.partitions else ())
                    if node in metadata.brokers and (rack := metadata.brokers[node].rack)
                )
                for number in range(max(info.partitions, default=-1) + 1)
            ]
        return found

    def _on_metadata(self, changed: set[str]) -> None:
        metadata = self._cluster.metadata
        gone = [name for name in changed if metadata.errors.get(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
        taken_again = self._assigned.lose_recreated(changed)
        if taken_again:
            self._carry_out(Assign(tuple(taken_again)))
        found: dict[str, Sequence[frozenset[str]]] = dict.fromkeys(gone, ())
        found.update(self.known(changed))
        self._do(self.membership.changed(found, self._engine.now_ms()))
