"""All transactional ids of a cluster, and leaders' checks of transactional batches. See KIP-98, KIP-360, KIP-890.

`transaction_coordinator.py` decides; this module carries out the decisions: some time later it writes markers to logs
and moves offsets to their groups.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire.broker.expiry import Expiry
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import OFFSETS_TOPIC
from kafwire.broker.topics.placement import has_enough_replicas
from kafwire.broker.transactions.transaction_coordinator import Coordinator, Place, State
from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.state import NO_PRODUCER
from kafwire.protocol import ProduceRequest

if TYPE_CHECKING:
    from kafwire.broker.log.batch_header import BatchHeader
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.request import Request
    from kafwire.broker.state import ClusterState

_BLOCK = 1000  # producer ids
_SURVIVES = ("producer_id", "epoch", "last_epoch", "previous_id", "next_id")
RETRY_MS = 20.0  # time until the retry of a marker that was not written or is not replicated


@dataclass(slots=True)
class Transaction:
    """A transactional id: its coordinator's state, and times of the monotonic clock."""

    coordinator: Coordinator
    timeout_ms: int = 0
    begun_ms: float | None = None  # the start of the last transaction; None: there was none since InitProducerId
    used_ms: float = 0.0
    # Markers that were written and may not be replicated yet: the leader epoch and the offset.
    markers: dict[Place, tuple[int, int]] = field(default_factory=dict)

    def dump(self) -> dict[str, Any]:
        """Return the state that survives a restart, of JSON's types."""
        its = self.coordinator
        numbers = {name: getattr(its, name) for name in _SURVIVES}
        places = sorted([*place] for place in its.partitions)
        return {**numbers, "state": its.state.value, "partitions": places, "timeout_ms": self.timeout_ms}

    @classmethod
    def load(cls, value: dict[str, Any], *, before_4: bool) -> Transaction:
        """Return the transaction of a dump. See `dump`."""
        its = Coordinator(before_4, **{name: value[name] for name in _SURVIVES})
        its.state = State(value["state"])
        its.partitions = {(topic, partition) for topic, partition in value["partitions"]}
        return cls(its, value["timeout_ms"])


class Transactions:
    """All transactional ids.

    `marker_delay_ms`: time between a decision and its markers.
    """

    def __init__(self, state: ClusterState) -> None:
        self._state = state
        self.by_id: dict[str, Transaction] = {}
        self.marker_delay_ms = 1.0
        self.loading: set[str] = set()  # ids whose coordinator is loading
        self._producer_ids = itertools.count(1000)
        self._reserved = 0  # the first producer id that must be saved before it may be used
        self._looks = False
        self._offsets: OffsetStore = state.part(OffsetStore)
        expiry: Expiry = state.part(Expiry)
        self._watch = expiry.add("transaction.remove.expired.transaction.cleanup.interval.ms", self._expire_ids)

    def new_producer_id(self) -> int:
        """Return an unused producer id."""
        found = next(self._producer_ids)
        if found >= self._reserved:
            # As Kafka, reserve a block at a time; ids left unused are lost when the broker stops.
            self._reserved = found + _BLOCK
            self._state.journal.write("producer-ids", "next", self._reserved)
        return found

    def refuses(self, request: Request, transactional_id: str) -> int:
        """Return the error code if this broker does not coordinate the id, or is still loading it; otherwise 0."""
        if not transactional_id:
            return ErrorCode.INVALID_REQUEST
        if self._state.coordinator(transactional_id) != request.node:
            return ErrorCode.NOT_COORDINATOR
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if transactional_id in self.loading else 0

    def unavailable(self, transactional_id: str) -> int:
        """Return the error code that a leader gets if the id's coordinator is down or still loading; otherwise 0."""
        node = self._state.nodes.get(self._state.coordinator(transactional_id))
        if node is None or not node.is_up:
            return ErrorCode.COORDINATOR_NOT_AVAILABLE
        return ErrorCode.COORDINATOR_LOAD_IN_PROGRESS if transactional_id in self.loading else 0

    # --- requests

    def initialize(self, transactional_id: str, current: Identity, timeout_ms: int) -> tuple[int, Identity]:
        """Handle InitProducerId: returns an error code and the identity."""
        its = self.by_id.get(transactional_id)
        if its is None:
            its = self.by_id[transactional_id] = Transaction(Coordinator(self._state.before_4))
            self._watch()
        code, identity = its.coordinator.initialize(current, new_id=self.new_producer_id)
        if not code:
            its.timeout_ms = timeout_ms
            its.begun_ms = None
        self._decide(transactional_id, its)
        return code, identity

    def add(self, transactional_id: str, producer: Identity, places: set[Place]) -> int:
        """Add partitions to a transaction, and begin one if none is open. Returns an error code."""
        its = self.by_id.get(transactional_id)
        if its is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING
        was_open = its.coordinator.state is State.ONGOING
        code = its.coordinator.add(producer, places)
        if not code:
            its.used_ms = self._state.now_ms
            if not was_open:
                its.begun_ms = self._state.now_ms
                self._look_for_timeouts()
            self._note(transactional_id, its)
        return code

    def verify(self, transactional_id: str, producer: Identity, place: Place) -> int:
        """Return the error code of a write to a partition, which must be in the transaction."""
        its = self.by_id.get(transactional_id)
        return ErrorCode.INVALID_PRODUCER_ID_MAPPING if its is None else its.coordinator.verify(producer, place)

    def end(self, transactional_id: str, producer: Identity, *, commit: bool, version: int) -> tuple[int, Identity]:
        """Handle EndTxn: returns an error code and the next identity."""
        its = self.by_id.get(transactional_id)
        if its is None:
            return ErrorCode.INVALID_PRODUCER_ID_MAPPING, NO_PRODUCER
        was_open = its.coordinator.state is State.ONGOING
        code, identity = its.coordinator.end(producer, commit=commit, version=version, new_id=self.new_producer_id)
        if its.coordinator.preparing and not was_open and not code:
            its.begun_ms = self._state.now_ms  # an empty transaction begins and ends at once
        self._decide(transactional_id, its)
        return code, identity

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
        """Abort transactions that have been open for too long."""
        for transactional_id, its in self.by_id.items():
            begun_ms = its.begun_ms
            if begun_ms is not None and self._state.now_ms > begun_ms + its.timeout_ms:
                self.expire_transaction(transactional_id)

    def expire_transaction(self, transactional_id: str) -> None:
        """Abort a transaction that has been open for too long."""
        its = self.by_id[transactional_id]
        if its.coordinator.state is State.ONGOING and not self.unavailable(transactional_id):
            its.coordinator.fence(self.new_producer_id)
            self._decide(transactional_id, its)

    def _expire_ids(self) -> bool:
        """Remove expired ids. Returns True if any are left."""
        before_ms = self._state.now_ms - self._state.config_int("transactional.id.expiration.ms")
        for transactional_id, its in list(self.by_id.items()):
            is_over = its.coordinator.state is not State.ONGOING and not its.coordinator.preparing
            if is_over and its.used_ms <= before_ms:
                del self.by_id[transactional_id]
                self._state.journal.write("transaction", transactional_id, None)
        return bool(self.by_id)

    # --- markers

    def _decide(self, transactional_id: str, its: Transaction) -> None:
        its.used_ms = self._state.now_ms
        self._note(transactional_id, its)
        if its.coordinator.preparing:
            self._state.after(self.marker_delay_ms, lambda: self._write_markers(transactional_id))

    def _write_markers(self, transactional_id: str) -> None:
        """Write the missing markers; a marker is missing until the partition's in-sync replicas have it."""
        its = self.by_id.get(transactional_id)
        if its is None or not its.coordinator.preparing:
            return
        coordinator = its.coordinator
        if not self.unavailable(transactional_id):
            for place in sorted(coordinator.partitions):
                if self._write_marker(its, place):
                    coordinator.partitions.discard(place)
                    its.markers.pop(place, None)
            if not coordinator.partitions:
                coordinator.complete()
                its.used_ms = self._state.now_ms
                self._note(transactional_id, its)
                return
        self._state.after(max(self.marker_delay_ms, RETRY_MS), lambda: self._write_markers(transactional_id))

    def _write_marker(self, its: Transaction, place: Place) -> bool:
        coordinator = its.coordinator
        commit = coordinator.state is State.PREPARE_COMMIT
        if place[0] == OFFSETS_TOPIC:
            self._offsets.end_transaction(coordinator.producer_id, place[1], commit=commit, epoch=coordinator.epoch)
            return True
        partition = self._state.topics.partition(*place)
        if partition is None:
            return True  # deleted meanwhile: it needs no marker
        if partition.leader < 0 or partition.error:
            return False
        epoch, offset = its.markers.get(place, (-1, -1))
        if epoch != partition.leader_epoch:
            # The new leader may not have the old leader's marker: write it again.
            if not has_enough_replicas(self._state, partition):
                return False
            offset = partition.write_marker(
                coordinator.producer_id, coordinator.epoch, self._state.wall_ms, commit=commit
            )
            its.markers[place] = partition.leader_epoch, offset
        return partition.high_watermark > offset

    # --- the journal, see `stored_parts.py`

    def _note(self, transactional_id: str, its: Transaction) -> None:
        self._state.journal.write("transaction", transactional_id, its.dump())

    def dump(self) -> Iterator[tuple[str, str, Any]]:
        """Yield the journal's entries of all ids."""
        if self._reserved:
            yield "producer-ids", "next", self._reserved
        for transactional_id, its in self.by_id.items():
            yield "transaction", transactional_id, its.dump()

    def restore_ids(self, following: int) -> None:
        """Start producer ids at `following`."""
        self._producer_ids, self._reserved = itertools.count(following), following

    def restore(self, transactional_id: str, value: dict[str, Any]) -> None:
        """Restore a transactional id; its missing markers will be written."""
        its = self.by_id[transactional_id] = Transaction.load(value, before_4=self._state.before_4)
        its.used_ms = self._state.now_ms
        if its.coordinator.state is State.ONGOING:
            its.begun_ms = self._state.now_ms
            self._look_for_timeouts()
        self._watch()
        if its.coordinator.preparing:
            self._state.after(self.marker_delay_ms, lambda: self._write_markers(transactional_id))

    # --- batches

    def refuses_batch(self, request: Request, partition: Partition, header: BatchHeader) -> int:
        """Return the error code of a batch that is outside its producer's open transaction (KIP-890)."""
        if not header.is_transactional:
            return 0
        transactional_id = request.message.transactional_id
        if transactional_id is None:
            return ErrorCode.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
        producer = Identity(header.producer_id, header.producer_epoch)
        known, _ = partition.producers.remembered(header.producer_id)
        if partition.producers.is_open(header.producer_id) and known == header.producer_epoch:
            return 0  # the leader has verified the transaction
        if header.producer_epoch < known:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        # A transaction may not begin with a sequence number above a refused one; in version 2 a new epoch begins with
        # 0.
        from_zero = request.version >= ProduceRequest.ADDS_PARTITIONS and known != header.producer_epoch
        partition.producers.verify(header, from_zero=from_zero)
        return self._ask_coordinator(
            request.version, transactional_id, producer, (partition.topic.name, partition.index)
        )

    def _ask_coordinator(self, version: int, transactional_id: str, producer: Identity, place: Place) -> int:
        """Return the leader's error code for a coordinator's: older clients do not retry after some of its errors."""
        if self.unavailable(transactional_id):
            return ErrorCode.NOT_ENOUGH_REPLICAS
        if version >= ProduceRequest.ADDS_PARTITIONS:
            code = self.add(transactional_id, producer, {place})
        else:
            code = self.verify(transactional_id, producer, place)
            if code == ErrorCode.CONCURRENT_TRANSACTIONS:
                return ErrorCode.NOT_ENOUGH_REPLICAS
            if code == ErrorCode.TRANSACTION_ABORTABLE and version < ProduceRequest.ABORTABLE:
                return ErrorCode.INVALID_TXN_STATE
        return ErrorCode.INVALID_PRODUCER_EPOCH if code == ErrorCode.PRODUCER_FENCED else code


def refuses_batch(state: ClusterState, request: Request, partition: Partition, header: BatchHeader) -> int:
    """See `Transactions.refuses_batch`."""
    transactions: Transactions = state.part(Transactions)
    return transactions.refuses_batch(request, partition, header)
