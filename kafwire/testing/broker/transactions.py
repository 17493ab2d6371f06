"""All transactional ids of a cluster, and what leaders check of their producers' batches. See KIP-98, KIP-360, KIP-890.

`transaction_coordinator.py` decides; here its decisions are carried out: markers go to the logs, and offsets to their
groups, some time after a decision.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode
from kafwire.producer.sequencer import Identity
from kafwire.testing.broker.offsets import OffsetStore
from kafwire.testing.broker.transaction_coordinator import Coordinator, State

if TYPE_CHECKING:
    from kafwire.testing.broker.batch_header import BatchHeader
    from kafwire.testing.broker.partition import Partition
    from kafwire.testing.broker.request import Request
    from kafwire.testing.broker.state import ClusterState

Place = tuple[str, int]
BY_LEADER = 12  # the version of Produce from which leaders add partitions to transactions themselves
VERIFIED = 11  # and in which a partition that is not in one is TRANSACTION_ABORTABLE


@dataclass(slots=True)
class Transaction:
    """A transactional id: its coordinator's state, and times."""

    coordinator: Coordinator
    timeout_ms: int = 0
    begun_ms: float = 0.0
    used_ms: float = 0.0


class Transactions:
    """All transactional ids.

    `marker_delay_ms`: between a decision and its markers.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.by_id: dict[str, Transaction] = {}
        self.marker_delay_ms = 1.0
        self.loading: set[str] = set()  # ids whose coordinator has just taken over
        self._producer_ids = itertools.count(1000)
        self._looks = False

    def new_producer_id(self) -> int:
        """A producer id that nobody has."""
        return next(self._producer_ids)

    def refuses(self, request: Request, transactional_id: str) -> int:
        """The error code of a broker that does not coordinate an id, or not yet."""
        if self._state.coordinator(transactional_id) != request.node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if transactional_id in self.loading else 0

    def of(self, transactional_id: str) -> Transaction:
        """A transactional id, which is known from then on."""
        found = self.by_id.get(transactional_id)
        if found is None:
            found = self.by_id[transactional_id] = Transaction(Coordinator(self._state.before_4))
        return found

    def initialize(self, transactional_id: str, current: Identity, timeout_ms: int) -> tuple[int, Identity]:
        """InitProducerId: an error code, and the identity."""
        its = self.of(transactional_id)
        its.timeout_ms = timeout_ms
        its.used_ms = self._state.now_ms
        code, identity = its.coordinator.initialize(current, new_id=self.new_producer_id())
        self._decide(transactional_id)
        return code, identity

    def add(self, transactional_id: str, who: Identity, places: set[Place], groups: set[str]) -> int:
        """Add partitions and groups to a transaction, which begins if none is open. Returns an error code."""
        its = self.of(transactional_id)
        was_open = its.coordinator.state is State.ONGOING
        code = its.coordinator.add(who, places, groups)
        if not code and not was_open:
            its.begun_ms = self._state.now_ms
            self._look_for_timeouts()
        return code

    def end(self, transactional_id: str, who: Identity, *, commit: bool, version: int) -> tuple[int, Identity]:
        """EndTxn: an error code, and the next identity."""
        found = self.of(transactional_id).coordinator.end(who, commit=commit, version=version)
        self._decide(transactional_id)
        return found

    # --- time

    def _look_for_timeouts(self) -> None:
        if not self._looks:
            self._looks = True
            name = "transaction.abort.timed.out.transaction.cleanup.interval.ms"
            self._state.after(self._state.config_int(name), self._end_timed_out)

    def _end_timed_out(self) -> None:
        self._looks = False
        self.expire_transactions()
        if any(its.coordinator.state is State.ONGOING for its in self.by_id.values()):
            self._look_for_timeouts()

    def expire_transactions(self) -> None:
        """Abort those that have been open for too long."""
        for transactional_id, its in self.by_id.items():
            if its.coordinator.state is State.ONGOING and self._state.now_ms >= its.begun_ms + its.timeout_ms:
                self.expire_transaction(transactional_id)

    def expire_transaction(self, transactional_id: str) -> None:
        """A transaction has been open for too long: abort it."""
        self.of(transactional_id).coordinator.fence()
        self._decide(transactional_id)

    def _decide(self, transactional_id: str) -> None:
        its = self.of(transactional_id)
        its.used_ms = self._state.now_ms
        if its.coordinator.preparing:
            self._state.after(self.marker_delay_ms, lambda: self._write_markers(transactional_id))

    def _write_markers(self, transactional_id: str) -> None:
        coordinator = self.of(transactional_id).coordinator
        if not coordinator.preparing:
            return
        # A marker is owed to each partition until its leader has written it.
        leaderless = [self._state.topics.partition(*place) for place in coordinator.partitions]
        if any(partition is not None and partition.leader < 0 for partition in leaderless):
            self._state.after(max(self.marker_delay_ms, 20.0), lambda: self._write_markers(transactional_id))
            return
        decision = coordinator.complete()
        if decision is None:
            return
        committed, places, groups = decision
        for place in sorted(places):
            partition = self._state.topics.partition(*place)
            if partition is not None:  # else deleted meanwhile: no marker is owed to what is not there
                partition.write_marker(
                    coordinator.producer_id, coordinator.epoch, self._state.wall_ms, commit=committed
                )
        if groups:  # all are in the partition that has the marker
            self._state.part(OffsetStore).end_transaction(coordinator.producer_id, commit=committed)

    # --- batches

    def refuses_batch(self, request: Request, partition: Partition, header: BatchHeader) -> int:
        """The error code for a batch that is not in an open transaction of its producer (KIP-890)."""
        if not header.is_transactional:
            return 0
        transactional_id = request.message.transactional_id
        who = Identity(header.producer_id, header.producer_epoch)
        known, _ = partition.producers.remembered(header.producer_id)
        if partition.producers.is_open(header.producer_id) and known == header.producer_epoch:
            return 0  # the leader knows of it
        if header.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        # It lets none begin with a number that lies after one that it has refused, and in version 2 with 0 only.
        from_zero = request.version >= BY_LEADER and known != header.producer_epoch
        partition.producers.verify(header, from_zero=from_zero)
        place = partition.topic.name, partition.index
        if transactional_id is None:
            return ErrorCode.INVALID_TXN_STATE
        if request.version >= BY_LEADER:
            code = self.add(transactional_id, who, {place}, set())
        else:
            coordinator = self.of(transactional_id).coordinator
            code = coordinator.refuses(who)
            if not code and place not in coordinator.partitions:
                abortable = request.version == VERIFIED
                code = ErrorCode.TRANSACTION_ABORTABLE if abortable else ErrorCode.INVALID_TXN_STATE
        return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code


def refuses_batch(state: ClusterState, request: Request, partition: Partition, header: BatchHeader) -> int:
    """See `Transactions.refuses_batch`."""
    transactions: Transactions = state.part(Transactions)
    return transactions.refuses_batch(request, partition, header)
