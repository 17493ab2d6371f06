"""Rules about the batches of idempotent producers.

- sequence numbers go on without a gap in each partition
- at most five batches lie between the oldest unacknowledged and the newest, as brokers remember five (KIP-98)
- no batch overtakes one that waits for a retry, or one whose outcome the client has not looked up
- a sequence number of a batch that may be in the log is given to no other batch
- until the first batch of a producer id is acknowledged it is in flight alone, as a broker accepts any number of a
  producer that it does not know
- after a later epoch than the producer's is known, the producer goes on with another id (KIP-360)
- where no fault lasts, the producer retries a refused batch when its backoff is over (KIP-580)
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from dataclasses import dataclass, field

from kafwire.broker.log.batch_header import BatchHeader
from kafwire.errors import ErrorCode
from kafwire.testing.simulation.conduct.sent import (
    BACKOFF_S,
    LATE_S,
    LONGEST_BACKOFF_S,
    SPREAD,
    FlowKey,
    Notes,
    Place,
    Sent,
)

REMEMBERED = 5  # batches of a producer and partition, by each broker
# The error codes after which a batch is in the log.
_TAKEN = {ErrorCode.NONE, ErrorCode.DUPLICATE_SEQUENCE_NUMBER}
# Error codes after which a search of the log may find the batch.
_LOOKED_FOR = {
    ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER,  # from a broker that may have lost the batches before
    ErrorCode.NOT_LEADER_OR_FOLLOWER,  # the broker may have led when it stored the batch and waited for followers
}
# Error codes after which the log may have the batch, whether or not the client searches.
_UNKNOWN = {ErrorCode.REQUEST_TIMED_OUT, ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND}


@dataclass(slots=True)
class _Batch:
    """A batch that was sent and not acknowledged. `maybe_stored`: the outcome of one of its requests is unknown."""

    ordinal: int  # the number of batches before this one
    crc: int
    sent_s: float  # time of the first request
    in_flight: bool = True
    maybe_stored: bool = False
    is_looked_for: bool = False  # the error code leaves the outcome open, see `_LOOKED_FOR`
    back: int = -1  # the end of its last request, as a number in the order of all events
    refusals: int = 0  # NOT_ENOUGH_REPLICAS in a row
    refused_s: float = -1.0  # time of the last of these; -1: the last outcome was another one

    def may_be_over(self, searched: int, given_up_s: float) -> bool:
        """True if the client may have an outcome without a response: it searched the log, or gave the batch up."""
        may_be_found = (self.maybe_stored or self.is_looked_for) and searched > self.back
        return not self.in_flight and (may_be_found or self.sent_s <= given_up_s)


@dataclass(slots=True)
class Flow:
    """The batches of a producer's epoch to a partition; `open` has those without outcome, by their first numbers."""

    producer_id: int
    epoch: int
    place: Place
    # None before the first batch: after a topic is recreated, its producer goes on with the old numbers.
    next: int | None = None
    sent: int = 0  # batches
    is_known: bool = False  # the broker knows the producer: it acknowledged a batch
    open: dict[int, _Batch] = field(default_factory=dict)


class Batches:
    """The batches of all producers."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._flows: dict[FlowKey, Flow] = {}
        # By client: its last search of a log, as a number in the order of all events.
        self._searched: dict[Hashable, int] = {}
        self._owners: dict[int, Hashable] = {}  # the clients of producers without transactions
        self._old_epochs: dict[tuple[int, Place], int] = {}  # by producer id: the epochs below a known later epoch

    def produces(self, sent: Sent, place: Place, header: BatchHeader) -> None:
        """Judge a batch that is sent, for the first time or again."""
        key = header.producer_id, header.producer_epoch, place
        flow = self._flows.get(key)
        if flow is None:
            flow = self._flows[key] = Flow(*key)
        if not header.is_transactional:
            self._owners[header.producer_id] = sent.client
        old = self._old_epochs.get((header.producer_id, place))
        problem = self._late(flow, header.base_sequence)
        problem = problem or _send(flow, header, self._searched.get(sent.client, -1), self._notes)
        if old is not None and header.producer_epoch > old:
            problem = f"epoch {header.producer_epoch} follows, where one after {old} is known: it needs another id"
        if problem:
            self._notes.wrong(sent, f"{place}, producer {header.producer_id}: {problem}")
        sent.batches[place] = key, header.base_sequence

    def produced(self, sent: Sent, place: Place, error_code: int) -> None:
        """Note the outcome of a batch."""
        key, first = sent.batches.pop(place, (None, 0))
        flow = None if key is None else self._flows[key]
        if flow is None or first not in flow.open:
            return
        is_free = sent.message.transactional_id is None
        if error_code in _TAKEN:
            flow.is_known = True
            del flow.open[first]
            return
        its = flow.open[first]
        its.in_flight, its.back = False, self._notes.number()
        its.maybe_stored |= error_code in _UNKNOWN
        its.is_looked_for = error_code in _LOOKED_FOR
        its.refusals += 1
        is_refused = error_code == ErrorCode.NOT_ENOUGH_REPLICAS and is_free and not its.maybe_stored
        its.refused_s = self._notes.clock() if is_refused else -1.0
        if error_code == ErrorCode.INVALID_PRODUCER_EPOCH and is_free:
            where = flow.producer_id, place
            self._old_epochs[where] = max(flow.epoch, self._old_epochs.get(where, -1))

    def lost(self, sent: Sent) -> None:
        """Note that the request ended without a response for the batches that are left."""
        for key, first in sent.batches.values():
            its = self._flows[key].open.get(first)
            if its is not None:
                its.in_flight, its.maybe_stored = False, True
                its.back, its.refused_s = self._notes.number(), -1.0

    def searched(self, client: Hashable) -> None:
        """Note that a client received the state of producers from a leader, or the contents of a log."""
        self._searched[client] = self._notes.number()

    def in_flight_of(self, producer_id: int) -> Iterator[Place]:
        """Yield the partitions to which batches of a producer are in flight."""
        for (number, _, place), flow in self._flows.items():
            if number == producer_id and any(batch.in_flight for batch in flow.open.values()):
                yield place

    def waiting_of(self, client: Hashable) -> Iterator[Place]:
        """Yield the partitions for which a client without transactions has batches to retry."""
        for (producer_id, _, place), flow in self._flows.items():
            is_its = self._owners.get(producer_id) == client
            if is_its and any(not batch.in_flight for batch in flow.open.values()):
                yield place

    def _late(self, flow: Flow, first: int) -> str:
        """Return the fault if a batch goes too late after a refusal by too few in-sync replicas; "" if it does not."""
        its = flow.open.get(first)
        if its is None or its.refused_s < 0 or self._notes.calm_since() >= its.refused_s:
            return ""
        waited_s = self._notes.clock() - its.refused_s
        backoff_s = min(BACKOFF_S * 2 ** (its.refusals - 1), LONGEST_BACKOFF_S) * SPREAD
        if waited_s <= backoff_s + LATE_S or self._is_left_behind(flow):
            return ""
        return f"batch {first} goes again {waited_s:.3f} s after it was refused, where {backoff_s:g} s at most are due"

    def _is_left_behind(self, flow: Flow) -> bool:
        """True if batches wait elsewhere: moved from a deleted topic to its successor, they keep their backoff."""
        others = (
            other for other in self._flows.values() if other.producer_id == flow.producer_id and other is not flow
        )
        return any(not batch.in_flight for other in others for batch in other.open.values())


def _send(flow: Flow, header: BatchHeader, searched: int, notes: Notes) -> str:
    """Note a batch that is sent, for the first time or again. Return the broken rule, or ""."""
    first = header.base_sequence
    known = flow.open.get(first)
    given_up_s = notes.clock() - notes.delivery_s
    earlier = [
        batch for number, batch in flow.open.items() if number < first and not batch.may_be_over(searched, given_up_s)
    ]
    problem = ""
    if known is not None and known.in_flight:
        problem = f"batch {first} is in flight already"
    elif known is not None and known.crc != header.crc and known.maybe_stored:
        problem = f"sequence number {first} is given to another batch, but its first batch may be in the log"
    elif known is None and flow.next not in (None, first):
        problem = f"batch {first} is sent where {flow.next} is due"
    elif any(not batch.in_flight for batch in earlier):
        problem = f"batch {first} overtakes a batch that waits for a retry"
    elif earlier and not flow.is_known:
        problem = f"batch {first} is sent before the first one was acknowledged"
    elif earlier and flow.sent - earlier[0].ordinal >= REMEMBERED and known is None:
        problem = f"batch {first} is sent before the response to the fifth batch before it, or to an earlier one"
    if known is None or known.crc != header.crc:
        # If this is another batch, the batches behind it get other numbers.
        flow.open = {number: batch for number, batch in flow.open.items() if number < first or batch.in_flight}
        flow.next = first + header.count
        flow.sent = flow.sent if known is None else known.ordinal
        flow.open[first] = _Batch(flow.sent, header.crc, notes.clock())
        flow.sent += 1
    else:
        known.in_flight = True
    return problem
