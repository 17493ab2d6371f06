"""Sequencers against a broker that loses, repeats and refuses batches."""

from __future__ import annotations

import itertools
from collections import deque
from dataclasses import dataclass, field

from hypothesis import strategies as st

from kafwire.errors import ErrorCode
from kafwire.producer.outcome.sequencer import (
    LOST,
    SEQUENCE_LIMIT,
    BatchOutcome,
    Fate,
    Identity,
    Sequencer,
    add,
    conclude,
)


@dataclass(eq=False)
class Batch:
    """A batch as a sequencer needs it, with the records that the test looks at."""

    records: list[int]
    producer: tuple[int, int] | None = None
    sequence: int = -1
    ordinal: int = -1

    @property
    def count(self) -> int:
        return len(self.records)


@dataclass
class Known:
    """The broker's memory of one producer."""

    epoch: int = -1
    recent: deque[tuple[int, int]] = field(default_factory=lambda: deque(maxlen=5))


@dataclass
class Broker:
    """A partition's log and what the broker remembers of producers (KIP-98, KIP-360), which a restart cuts short."""

    log: list[int] = field(default_factory=list)
    producers: dict[int, Known] = field(default_factory=dict)
    limit: int = 100  # records in a batch
    too_large: set[int] = field(default_factory=set)
    invalid: set[int] = field(default_factory=set)
    # producer id and epoch, sequence and records of each batch
    stored: list[tuple[tuple[int, int], int, list[int]]] = field(default_factory=list)

    def append(self, batch: Batch) -> int:
        assert batch.producer is not None
        producer_id, epoch = batch.producer
        known = self.producers.get(producer_id, Known())
        if batch.count > self.limit or self.too_large.intersection(batch.records):
            return ErrorCode.MESSAGE_TOO_LARGE
        if self.invalid.intersection(batch.records):
            return ErrorCode.INVALID_RECORD
        if epoch < known.epoch:
            return ErrorCode.INVALID_PRODUCER_EPOCH
        if epoch > known.epoch:
            if batch.sequence and known.epoch >= 0:  # a producer it does not know may begin with any number
                return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            known = Known(epoch)
        elif (batch.sequence, batch.count) in known.recent:
            return 0
        elif known.recent and batch.sequence != add(*known.recent[-1]):
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
        known.recent.append((batch.sequence, batch.count))
        self.producers[producer_id] = known
        self.stored.append((batch.producer, batch.sequence, batch.records))
        self.log += batch.records
        return 0

    def remembered(self, producer_id: int) -> tuple[int, int] | None:
        """The producer's epoch and last sequence number, as in a DescribeProducers response."""
        known = self.producers.get(producer_id)
        if known is None:
            return None
        return known.epoch, (add(*known.recent[-1]) - 1) % SEQUENCE_LIMIT if known.recent else -1

    def forget(self, kept: int) -> None:
        """A restart: one batch is in the snapshot, up to five are replayed; of a producer that has expired, none."""
        if not kept:
            self.producers.clear()
        for known in self.producers.values():
            known.recent = deque(list(known.recent)[-kept:], maxlen=5)

    def fence(self, current: Identity) -> None:
        """Store a later epoch of the producer."""
        known = self.producers.get(current.producer_id, Known())
        self.producers[current.producer_id] = Known(max(known.epoch, current.epoch) + 1)

    def has(self, batch: Batch) -> bool:
        """True if the log has it, by itself or inside of a larger one."""
        return any(
            producer == batch.producer and sequence <= batch.sequence < sequence + len(records)
            for producer, sequence, records in self.stored
        )

    def lose_last(self) -> list[int]:
        """An unclean election: the new leader has not got the last batch."""
        (known,) = self.producers.values()
        if len(known.recent) < 2:
            return []
        _, count = known.recent.pop()
        lost = self.log[-count:]
        del self.log[-count:]
        self.stored.pop()
        return lost


class World:
    """One partition, one connection at a time; `step` takes one event of a schedule."""

    def __init__(self, batches: list[Batch], limit: int = 5, *, may_move: bool = True) -> None:
        self.sequencer: Sequencer[Batch] = Sequencer(idempotent=True, limit=limit, may_move=may_move)
        self.identity = Identity(7, 0)
        self.fresh: deque[Batch] = deque(batches)
        self.wire: deque[Batch] = deque()
        self.broker = Broker()
        self.delivered: list[int] = []
        self.failed: list[int] = []
        self.in_doubt: list[int] = []
        self.connection = object()
        self.may_read = True
        self.is_readable = True
        self.searches = 0
        self.codes: list[int] = []  # from the broker's responses
        self.taken: set[tuple[object, tuple[int, int] | None]] = (
            set()
        )  # the producer of each accepted batch, and the connection

    def ask(self) -> bool:
        """Settle the batches in doubt; False where no batch is."""
        doubts = self.sequencer.doubts
        producer_id = self.identity.producer_id
        if doubts:
            assert doubts[0].producer is not None
            producer_id = doubts[0].producer[0]
        remembered = self.broker.remembered(producer_id)
        for batch, said in self.sequencer.consult(remembered, self.connection, asked=self.may_read):
            fate = said
            if said is not Fate.ABSENT:
                self.searches += 1
                fate = conclude(said, self.broker.has(batch) if self.is_readable and self.may_read else None)
            self.reported(self.sequencer.settle(batch, fate), batch)
        return bool(doubts)

    def send(self) -> bool:
        if self.sequencer.wants_epoch(self.identity):
            following = Identity(self.identity.producer_id + 1, 0)
            if not self.sequencer.needs_id:
                assert self.identity.next_epoch is not None
                following = self.identity.next_epoch
            self.identity = following
        batch = self.sequencer.send(self.fresh, self.identity, self.connection)
        if batch is None:
            return self.ask() and self.send()
        self.wire.append(batch)
        assert len(self.wire) <= 5
        is_known = (self.connection, batch.producer) in self.taken
        assert is_known or len(self.wire) == 1, "two fly to a broker that may take the second without the first"
        return True

    def settle(self, batch: Batch, code: int, *, retriable: bool) -> None:
        bad = self.broker.invalid if code == ErrorCode.INVALID_RECORD else set()
        good = [record for record in batch.records if record not in bad]
        divisible = 0 < len(good) < batch.count or (code == ErrorCode.MESSAGE_TOO_LARGE and batch.count > 1)
        verdict = self.sequencer.outcome(batch, code, retriable=retriable, divisible=divisible)
        if verdict is BatchOutcome.DIVIDE:
            self.failed += [record for record in batch.records if record in bad]
            middle = (len(good) + 1) // 2
            parts = [Batch(part) for part in (good[:middle], good[middle:]) if part]
            self.sequencer.replace(batch, parts)
        else:
            self.reported(verdict, batch)

    def reported(self, verdict: BatchOutcome, batch: Batch) -> None:
        if verdict is BatchOutcome.DELIVERED:
            self.delivered += batch.records
        elif verdict is BatchOutcome.FAILED:
            self.failed += batch.records
        elif verdict is BatchOutcome.DOUBTFUL:
            self.in_doubt += batch.records

    def respond(self) -> None:
        batch = self.wire.popleft()
        code = self.broker.append(batch)
        self.codes.append(code)
        if not code:
            self.taken.add((self.connection, batch.producer))
        self.settle(batch, code, retriable=False)

    def refuse(self, code: int = ErrorCode.NOT_LEADER_OR_FOLLOWER) -> None:
        self.settle(self.wire.popleft(), code, retriable=True)

    def store_and_refuse(self, code: int = ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND) -> None:
        """Respond as a leader that stored a batch, and then lost its followers or its leadership."""
        self.broker.append(self.wire[0])
        self.refuse(code)

    def die(self, processed: int) -> None:
        """The connection dies; the broker got the first `processed` requests, and no response came back."""
        lost = list(self.wire)
        self.wire.clear()
        for batch in lost[:processed]:
            self.broker.append(batch)
        for batch in lost:
            self.settle(batch, LOST, retriable=True)
        self.connection = object()

    def restart(self, processed: int, kept: int) -> None:
        """The broker comes back, and remembers the last `kept` batches."""
        self.die(processed)
        self.broker.forget(kept)

    def expire(self) -> None:
        if self.sequencer.retries:
            batch = self.sequencer.retries[0]
            self.reported(self.sequencer.give_up(batch), batch)

    def finish(self) -> None:
        for _ in range(10_000):
            while self.send():
                pass
            if not self.wire:
                return
            self.respond()
        raise AssertionError("the sequencer does not come to an end")

    def step(self, event: str, number: int) -> None:
        if event == "send":
            self.send()
        elif event == "respond" and self.wire:
            self.respond()
        elif event == "refuse" and self.wire:
            self.refuse()
        elif event == "replicas" and self.wire:
            self.refuse(ErrorCode.NOT_ENOUGH_REPLICAS)
        elif event == "after append" and self.wire:
            self.store_and_refuse(number)
        elif event == "die":
            self.die(number)
        elif event == "restart":
            self.restart(number % 6, 1 + number // 6)
        elif event == "forget":
            self.restart(number, 0)
        elif event == "ask":
            self.ask()
        elif event == "expire":
            self.expire()
        elif event == "limit":
            self.broker.limit = number
        elif event == "fence":
            self.broker.fence(self.identity)

    def judge(self, records: int) -> None:
        """Each record has an outcome, and the log is what the outcomes say."""
        log = self.broker.log
        assert len(log) == len(set(log)), "a record is in the log twice"
        assert log == sorted(log), "the log is out of order"
        assert set(self.delivered) <= set(log), "an acknowledged record is not in the log"
        assert not set(self.failed) & set(log), "a failed record is in the log"
        assert sorted([*self.delivered, *self.failed, *self.in_doubt]) == list(range(records))


def batches(*counts: int) -> list[Batch]:
    """Batches of so many records each, which are numbered through."""
    numbers = itertools.count()
    return [Batch(list(itertools.islice(numbers, count))) for count in counts]


EVENTS = st.one_of(
    st.just(("send", 0)),
    st.just(("send", 0)),
    st.just(("respond", 0)),
    st.just(("refuse", 0)),
    st.just(("replicas", 0)),
    st.tuples(
        st.just("after append"),
        st.sampled_from([ErrorCode.NOT_ENOUGH_REPLICAS_AFTER_APPEND, ErrorCode.NOT_LEADER_OR_FOLLOWER]),
    ),
    st.tuples(st.just("die"), st.integers(0, 5)),
    st.tuples(st.just("restart"), st.integers(0, 29)),
    st.tuples(st.just("forget"), st.integers(0, 5)),
    st.just(("ask", 0)),
    st.just(("ask", 0)),
    st.just(("expire", 0)),
    st.tuples(st.just("limit"), st.integers(1, 4)),
    st.just(("fence", 0)),
)
