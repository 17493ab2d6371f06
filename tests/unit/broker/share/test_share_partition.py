"""A share partition beside a model of it that knows each record alone, under random steps of members, time and log."""

from __future__ import annotations

import random
from dataclasses import dataclass, field, replace

import pytest

from kafwire.broker.share.acknowledgement import (
    ACCEPT,
    GAP,
    REJECT,
    RELEASE,
    RENEW,
    Acknowledgement,
    acknowledge,
)
from kafwire.broker.share.acquisition import Acquired, Asked, Limits, Span, acquire, without_aborted
from kafwire.broker.share.in_flight import RecordState
from kafwire.broker.share.share_partition import SharePartition
from kafwire.broker.share.share_states import Run, ShareState
from kafwire.broker.topics.config_store import Refusal
from kafwire.errors import ErrorCode
from tests.support import seeds

LOCK_MS = 100
AVAILABLE, ACQUIRED = RecordState.AVAILABLE, RecordState.ACQUIRED
ENDS = {GAP: RecordState.ARCHIVED, ACCEPT: RecordState.ACKNOWLEDGED, REJECT: RecordState.ARCHIVED, RELEASE: AVAILABLE}


@dataclass
class Record:
    """The model's state of one record."""

    state: RecordState = AVAILABLE
    count: int = 0
    member: str = ""
    lock_ends_ms: float | None = None
    written: int = 0  # the count that was written last

    def end(self, state: RecordState, limit: int) -> None:
        is_over = state is AVAILABLE and self.count >= limit
        self.state, self.member, self.lock_ends_ms = RecordState.ARCHIVED if is_over else state, "", None
        self.written = self.count


@dataclass
class Game:
    """A share partition and its model."""

    seed: int
    now_ms: float = 0
    log: list[Span] = field(default_factory=list)
    model: dict[int, Record] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.limit = self.random.choice([2, 3, 5])
        self.locks = self.random.choice([10, 1000])
        self.partition = SharePartition(ShareState(), 0)
        self.start = 0
        self.has_reloaded = False

    @property
    def end(self) -> int:
        return self.log[-1].last + 1 if self.log else 0

    def limits(self) -> Limits:
        return Limits(self.limit, self.locks, self.now_ms + LOCK_MS)

    # --- steps

    def append(self) -> None:
        count = self.random.choice([1, 2, 3, 8])
        self.log.append(Span(self.end, self.end + count - 1))
        self.model |= {offset: Record() for offset in range(self.log[-1].first, self.log[-1].last + 1)}

    def acquire(self) -> None:
        offset = self.partition.next_offset
        if not self.partition.has_room(self.locks):
            return
        spans = [span for span in self.log if span.last >= offset][: self.random.choice([1, 2, 99])]
        is_strict = self.random.random() < 0.3
        member = self.random.choice("abc")
        asked = Asked(member, self.random.choice([1, 3, 100]), self.random.choice([1, 4, 100]), is_strict)
        acquired = acquire(self.partition, asked, self.limits(), offset, spans)
        assert bool(acquired) == bool(spans), "readable records are acquired"
        offsets = [each for run in acquired for each in range(run.first, run.last + 1)]
        assert offsets == sorted(set(offsets))
        assert not is_strict or len(offsets) <= asked.most
        for run in acquired:
            for each in range(run.first, run.last + 1):
                record = self.model[each]
                assert record.state is AVAILABLE, f"{each} is not for {member}"
                record.count += 1
                assert record.count == run.deliveries <= self.limit
                record.state, record.member, record.lock_ends_ms = ACQUIRED, member, self.now_ms + LOCK_MS

    def acknowledge(self) -> None:
        member = self.random.choice("abc")
        held = [offset for offset, record in self.model.items() if record.member == member]
        if held and self.random.random() < 0.8:
            first = self.random.choice(held)
            last = first
            while last + 1 in held and self.random.random() < 0.8:
                last += 1
        else:
            first = self.random.randrange(self.end + 3)
            last = first + self.random.randrange(4)
        kinds = [GAP, ACCEPT, ACCEPT, RELEASE, RELEASE, REJECT, RENEW]
        count = last - first + 1 if self.random.random() < 0.4 else 1
        said = Acknowledgement(first, last, [self.random.choice(kinds) for _ in range(count)])
        meant = range(max(first, self.start), last + 1)
        is_right = all(offset in self.model and self.model[offset].member == member for offset in meant)
        try:
            acknowledge(self.partition, member, [said], limit=self.limit, lock_ends_ms=self.now_ms + LOCK_MS)
        except Refusal as refusal:
            assert not is_right, refusal.message
            assert refusal.code in (ErrorCode.INVALID_RECORD_STATE, ErrorCode.INVALID_REQUEST)
            return self.renewed_before_refusal(said, member)
        assert is_right
        for offset in meant:
            self.say(self.model[offset], said.type_of(offset))
        if meant and set(said.types) != {RENEW}:
            self.move()
        return None

    def renewed_before_refusal(self, said: Acknowledgement, member: str) -> None:
        """Records that were renewed before the wrong one stay renewed, as in Kafka."""
        for offset in range(max(said.first, self.start), said.last + 1):
            record = self.model.get(offset)
            if record is None or record.member != member:
                return
            if said.type_of(offset) == RENEW:
                found = self.found(offset)
                assert found.lock_ends_ms in (record.lock_ends_ms, self.now_ms + LOCK_MS)
                record.lock_ends_ms = found.lock_ends_ms

    def say(self, record: Record, kind: int) -> None:
        if kind == RENEW:
            record.lock_ends_ms = self.now_ms + LOCK_MS
        else:
            record.end(ENDS[kind], self.limit)

    def release(self) -> None:
        """A member goes, and others keep their records, also those of the same batch."""
        member = self.random.choice("abc")
        held = [record for record in self.model.values() if record.member == member]
        if not held:
            return
        self.partition.release(member, self.limit)
        for record in held:
            record.end(AVAILABLE, self.limit)
        self.move()

    def wait(self) -> None:
        self.now_ms += self.random.choice([10, 50, LOCK_MS])
        ended = [
            record
            for record in self.model.values()
            if record.lock_ends_ms is not None and record.lock_ends_ms <= self.now_ms
        ]
        assert self.partition.expire(self.now_ms, self.limit) == bool(ended)
        for record in ended:
            record.end(AVAILABLE, self.limit)
        if ended:
            self.move()

    def move(self) -> None:
        """Where the share partition begins after states were written, and what was written."""
        done = [offset for offset, record in self.model.items() if offset >= self.start and record.state.is_final]
        stored, before = self.partition.stored, self.start - self.partition.stored.start
        assert stored.complete == len(done) + before
        assert before == 0 or (self.has_reloaded and before > 0), "a gap may keep the start, as in Kafka"
        while self.start < self.end and self.model[self.start].state.is_final:
            self.start += 1

    # --- what has to hold

    def found(self, offset: int) -> Record:
        at = self.partition.floor(offset)
        its = self.partition.batches[at].at(offset) if at >= 0 and offset <= self.partition.batches[at].last else None
        return Record() if its is None else Record(its.state, its.count, its.member_id, its.lock_ends_ms)

    def check(self) -> None:
        partition = self.partition
        assert partition.start == self.start or (partition.gap_counts and partition.start < self.start)
        assert not partition.batches or partition.batches[0].last >= partition.start, "finished records are forgotten"
        for offset in range(self.start, self.end):
            assert self.found(offset) == replace(self.model[offset], written=0), offset
        available = [offset for offset in range(self.start, self.end) if self.model[offset].state is AVAILABLE]
        assert partition.next_offset == min(available, default=self.end)
        ends = [record.lock_ends_ms for record in self.model.values() if record.lock_ends_ms is not None]
        assert partition.next_lock_end_ms == min(ends, default=None)

    def leave(self) -> None:
        """All members go, and a leader loads the share partition: locks that were not written down are forgotten."""
        stored = self.partition.stored
        self.partition = SharePartition(stored, max(stored.start, 0))
        self.has_reloaded = True
        for record in self.model.values():
            if record.state is ACQUIRED:
                record.state, record.count, record.member, record.lock_ends_ms = AVAILABLE, record.written, "", None

    def reload(self) -> None:
        """Another leader delivers unfinished records, and nothing else."""
        stored = self.partition.stored
        partition = SharePartition(stored, max(stored.start, 0))
        left = []
        while partition.next_offset < self.end:
            spans = [span for span in self.log if span.last >= partition.next_offset]
            acquired = acquire(partition, Asked("z", 1000, 1000), Limits(99, 10_000, 0), partition.next_offset, spans)
            left += [offset for run in acquired for offset in range(run.first, run.last + 1)]
        assert sorted(left) == [
            offset for offset in range(self.start, self.end) if not self.model[offset].state.is_final
        ]


@pytest.mark.parametrize("seed", seeds.sampled(range(200), *range(40)))
@pytest.mark.parametrize("leaves", [0, 1])
def test_it_behaves_as_its_model(seed: int, leaves: int) -> None:
    game = Game(seed)
    kinds = {"append": 3, "acquire": 5, "acknowledge": 6, "release": 1, "wait": 2, "leave": leaves}
    for _ in range(80):
        (kind,) = game.random.choices([*kinds], [*kinds.values()])
        getattr(game, kind)()
        game.check()
    game.reload()


def test_a_start_that_moves_with_the_log_takes_records_away() -> None:
    partition = SharePartition(ShareState(), 0)
    limits = Limits(5, 1000, LOCK_MS)
    acquire(partition, Asked("a", 100, 100), limits, 0, [Span(0, 9)])
    acknowledge(partition, "a", [Acknowledgement(0, 1, [RELEASE])], limit=5, lock_ends_ms=0)
    partition.move_start(5)
    assert (partition.start, partition.next_offset) == (5, 10), "records available before it are archived"
    partition.expire(LOCK_MS, 5)
    assert partition.next_offset == 5
    assert [each.state for _, each in sorted(partition.batches[0].each.items())][:5] == [RecordState.ARCHIVED] * 5
    partition.move_start(30)
    assert (partition.start, partition.next_offset) == (30, 30)
    partition.move_start(3)
    assert partition.start == 30, "it does not go back"


def test_offsets_that_a_compacted_log_lacks_are_archived() -> None:
    partition = SharePartition(ShareState(), 0)
    limits = Limits(5, 1000, LOCK_MS)
    acquire(partition, Asked("a", 100, 100), limits, 0, [Span(0, 4), Span(5, 9)])
    partition.release("a", 5)
    assert acquire(partition, Asked("a", 100, 100), limits, 0, [Span(5, 9)]) == [Acquired(5, 9, 2)]
    acknowledge(partition, "a", [Acknowledgement(5, 9, [ACCEPT])], limit=5, lock_ends_ms=0)
    assert partition.start == 10


def test_a_new_leader_archives_all_batches_that_a_compacted_log_lacks() -> None:
    stored = ShareState(0, 0, 0, [Run(4, 5, AVAILABLE, 1), Run(8, 9, AVAILABLE, 1)])
    partition = SharePartition(stored, 0)
    acquired = acquire(partition, Asked("a", 100, 100), Limits(5, 1000, LOCK_MS), 0, [Span(20, 21)])
    assert acquired == [Acquired(20, 21, 1)]
    states = [delivery.state for batch in partition.batches for _, _, delivery in batch.runs()]
    assert states == [RecordState.ARCHIVED, RecordState.ARCHIVED, ACQUIRED]


def test_aborted_batches_are_archived_and_not_delivered() -> None:
    partition = SharePartition(ShareState(), 0)
    spans = [Span(0, 2), Span(3, 5), Span(6, 6), Span(7, 9)]
    acquired = acquire(partition, Asked("a", 100, 100), Limits(5, 1000, LOCK_MS), 0, spans)
    assert acquired == [Acquired(0, 9, 1)]
    assert without_aborted(partition, acquired, [spans[1], spans[2]]) == [Acquired(0, 2, 1), Acquired(7, 9, 1)]
    with pytest.raises(Refusal, match="not acquired"):
        acknowledge(partition, "a", [Acknowledgement(0, 5, [ACCEPT])], limit=5, lock_ends_ms=0)
    said = [Acknowledgement(0, 2, [ACCEPT]), Acknowledgement(7, 9, [ACCEPT])]
    acknowledge(partition, "a", said, limit=5, lock_ends_ms=0)
    assert partition.start == 10


def test_records_that_have_failed_often_come_in_smaller_parts_and_at_last_alone() -> None:
    partition = SharePartition(ShareState(), 0)
    limits = Limits(5, 1000, LOCK_MS)
    sizes = []
    for _ in range(14):
        offset = partition.next_offset
        acquired = acquire(partition, Asked("a", 100, 100), limits, offset, [Span(0, 7)])
        sizes.append(sum(run.last - run.first + 1 for run in acquired))
        for run in acquired:
            acknowledge(partition, "a", [Acknowledgement(run.first, run.last, [RELEASE])], limit=5, lock_ends_ms=0)
    assert sizes[:3] == [8, 8, 8]
    assert sizes[3:] == [4, 1, 1, 1, 1, 4, 1, 1, 1, 1, 0]
    assert (partition.start, partition.next_offset) == (8, 8), "all of them are archived"


def test_a_new_leader_reads_locked_records_before_known_ones() -> None:
    stored = ShareState(0, 0, 0, [Run(4, 5, RecordState.ACKNOWLEDGED, 1), Run(8, 9, AVAILABLE, 2)])
    partition = SharePartition(stored, 0)
    limits, spans = Limits(5, 1000, LOCK_MS), [Span(0, 3), Span(4, 11)]
    assert partition.next_offset == 0
    acquired = acquire(partition, Asked("a", 100, 100), limits, 0, spans)
    assert acquired == [Acquired(0, 3, 1), Acquired(6, 7, 1), Acquired(8, 9, 3), Acquired(10, 11, 1)]


def test_a_new_leader_does_not_read_a_gap_twice() -> None:
    stored = ShareState(0, 0, 0, [Run(4, 5, AVAILABLE, 1)])
    partition, limits = SharePartition(stored, 0), Limits(5, 1000, LOCK_MS)
    assert acquire(partition, Asked("a", 100, 100), limits, 0, [Span(0, 1)]) == [Acquired(0, 1, 1)]
    assert partition.next_offset == 2
    assert acquire(partition, Asked("a", 100, 100), limits, 2, [Span(2, 3)]) == [Acquired(2, 3, 1)]
    assert partition.next_offset == 4
    acknowledge(partition, "a", [Acknowledgement(0, 3, [ACCEPT])], limit=5, lock_ends_ms=0)
    assert partition.start == 4


def test_offsets_before_the_start_do_not_count_as_done() -> None:
    partition, limits = SharePartition(ShareState(), 0), Limits(5, 1000, LOCK_MS)
    for span in (Span(0, 4), Span(5, 9), Span(10, 12)):
        acquire(partition, Asked("a", 100, 100), limits, span.first, [span])
    acknowledge(partition, "a", [Acknowledgement(5, 9, [ACCEPT])], limit=5, lock_ends_ms=0)
    assert (partition.stored.start, partition.stored.complete) == (0, 5)
    partition.move_start(7)
    acknowledge(partition, "a", [Acknowledgement(10, 12, [RELEASE])], limit=5, lock_ends_ms=0)
    assert (partition.stored.start, partition.stored.complete) == (7, 3)
    assert partition.start == 7, "as in Kafka, locks before it hold it up"
    partition.expire(LOCK_MS, 5)
    assert partition.start == 10


def test_runs_are_of_about_the_size_that_is_asked_for_and_of_whole_batches() -> None:
    spans = [Span(0, 2), Span(3, 5), Span(6, 8), Span(9, 9)]
    limits = Limits(5, 1000, LOCK_MS)
    acquired = acquire(SharePartition(ShareState(), 0), Asked("a", 100, 4), limits, 0, spans)
    assert acquired == [Acquired(0, 5, 1), Acquired(6, 9, 1)]
    acquired = acquire(SharePartition(ShareState(), 0), Asked("a", 100, 0), limits, 0, spans)
    assert acquired == [Acquired(*span, 1) for span in spans]


def test_records_that_failed_often_are_delivered_alone() -> None:
    partition, limits = SharePartition(ShareState(), 0), Limits(3, 1000, LOCK_MS)
    asked = Asked("a", 100, 100)
    acquire(partition, asked, limits, 0, [Span(0, 3)])
    acquire(partition, asked, limits, 4, [Span(4, 7)])
    for _ in range(2):
        acknowledge(partition, "a", [Acknowledgement(4, 7, [RELEASE])], limit=3, lock_ends_ms=0)
        acquire(partition, asked, limits, 4, [Span(4, 7)])
    partition.release("a", 3)
    spans = [Span(0, 3), Span(4, 7)]
    assert acquire(partition, asked, limits, 0, spans) == [Acquired(0, 3, 2)]
    acknowledge(partition, "a", [Acknowledgement(0, 0, [RELEASE])], limit=3, lock_ends_ms=0)
    assert acquire(partition, asked, limits, 0, spans) == [Acquired(0, 0, 3)], "it is the last try"


def test_records_on_their_last_try_wait_for_those_before_them() -> None:
    partition, limits = SharePartition(ShareState(), 0), Limits(5, 1000, LOCK_MS)
    asked = Asked("a", 100, 100)
    acquire(partition, asked, limits, 0, [Span(0, 1)])
    for _ in range(3):
        acknowledge(partition, "a", [Acknowledgement(1, 1, [RELEASE])], limit=5, lock_ends_ms=0)
        acquire(partition, asked, limits, 1, [Span(0, 1)])
    acknowledge(partition, "a", [Acknowledgement(0, 1, [RELEASE])], limit=5, lock_ends_ms=0)
    assert acquire(partition, asked, limits, 0, [Span(0, 1)]) == [Acquired(0, 0, 2)]
    assert acquire(partition, asked, limits, 1, [Span(0, 1)]) == [Acquired(1, 1, 5)]


def test_states_of_higher_rank_are_kept_and_neighbours_are_joined() -> None:
    stored = ShareState()
    stored.write(0, 0, [Run(0, 9, AVAILABLE, 2)])
    stored.write(0, 3, [Run(3, 5, RecordState.ACKNOWLEDGED, 2), Run(7, 7, AVAILABLE, 1)])
    assert stored.runs == [Run(0, 2, AVAILABLE, 2), Run(3, 5, RecordState.ACKNOWLEDGED, 2), Run(6, 9, AVAILABLE, 2)]
    stored.write(4, 2, [Run(10, 12, AVAILABLE, 2)])
    assert stored.runs == [Run(4, 5, RecordState.ACKNOWLEDGED, 2), Run(6, 12, AVAILABLE, 2)]


def test_at_the_lock_limit_only_records_in_flight_are_acquired_again() -> None:
    partition, limits = SharePartition(ShareState(), 0), Limits(5, 10, LOCK_MS)
    spans = [Span(0, 9), Span(10, 19)]
    asked = Asked("a", 100, 100)
    assert acquire(partition, asked, limits, 0, spans) == [Acquired(0, 9, 1)]
    acknowledge(partition, "a", [Acknowledgement(0, 4, [RELEASE])], limit=5, lock_ends_ms=0)
    assert acquire(partition, asked, limits, 0, spans) == [Acquired(0, 4, 2)]
    assert partition.next_offset == 10
    assert not partition.has_room(limits.locks)


def test_a_member_that_goes_gives_back_records_behind_those_of_others() -> None:
    partition, limits = SharePartition(ShareState(), 0), Limits(5, 1000, LOCK_MS)
    acquire(partition, Asked("a", 2, 100, is_strict=True), limits, 0, [Span(0, 5)])
    acquire(partition, Asked("b", 100, 100), limits, 2, [Span(0, 5)])
    partition.release("b", 5)
    assert partition.next_offset == 2
    assert acquire(partition, Asked("c", 100, 100), limits, 2, [Span(0, 5)]) == [Acquired(2, 5, 2)]


def test_a_start_within_a_batch_of_the_log_never_goes_back() -> None:
    stored, limits, spans = ShareState(), Limits(5, 1000, LOCK_MS), [Span(0, 29)]
    partition = SharePartition(stored, 0)
    acquire(partition, Asked("a", 500, 500), limits, 0, spans)
    acknowledge(partition, "a", [Acknowledgement(0, 29, [ACCEPT] + 29 * [RELEASE])], limit=5, lock_ends_ms=0)
    partition = SharePartition(stored, stored.start)
    assert acquire(partition, Asked("b", 500, 500), limits, 1, spans) == [Acquired(1, 29, 2)]
    said = Acknowledgement(1, 29, 10 * [ACCEPT] + 19 * [RELEASE])
    acknowledge(partition, "b", [said], limit=5, lock_ends_ms=0)
    assert (partition.start, partition.next_offset) == (11, 11)
    assert acquire(partition, Asked("b", 500, 500), limits, 11, spans) == [Acquired(11, 29, 3)]
    assert partition.start == 11
    acknowledge(partition, "b", [Acknowledgement(11, 29, [ACCEPT])], limit=5, lock_ends_ms=0)
    assert partition.start == 30


def test_the_start_stays_before_a_batch_in_which_a_gap_begins() -> None:
    """As in Kafka: the gap begins with the batch's last record, which was read and not acquired."""
    partition = SharePartition(ShareState(0, 0, 0, [Run(4, 5, AVAILABLE, 1)]), 0)
    asked, spans = Asked("a", 3, 100, is_strict=True), [Span(0, 3), Span(4, 5)]
    assert acquire(partition, asked, Limits(5, 1000, LOCK_MS), 0, spans) == [Acquired(0, 2, 1)]
    acknowledge(partition, "a", [Acknowledgement(0, 2, [ACCEPT])], limit=5, lock_ends_ms=0)
    assert (partition.start, partition.next_offset) == (0, 3)


def test_the_start_passes_a_gap_when_no_record_is_left() -> None:
    stored = ShareState(0, 0, 0, [Run(4, 4, RecordState.ACKNOWLEDGED, 1)])
    partition = SharePartition(stored, 0)
    acquire(partition, Asked("a", 100, 100), Limits(5, 1000, LOCK_MS), 0, [Span(0, 3), Span(4, 4)])
    acknowledge(partition, "a", [Acknowledgement(0, 3, [ACCEPT])], limit=5, lock_ends_ms=0)
    assert partition.start == 5


def test_records_that_are_done_with_do_not_hold_up_those_behind_them() -> None:
    runs = [Run(0, 0, AVAILABLE, 1), Run(1, 1, RecordState.ARCHIVED, 2), Run(2, 2, AVAILABLE, 1)]
    partition = SharePartition(ShareState(0, 1, 0, runs), 0)
    acquired = acquire(partition, Asked("a", 100, 100), Limits(2, 1000, LOCK_MS), 0, [Span(0, 2)])
    assert acquired == [Acquired(0, 0, 2), Acquired(2, 2, 2)]


def test_a_run_does_not_join_a_neighbor_that_comes_out_of_an_overlap() -> None:
    stored = ShareState(0, 0, 0, [Run(0, 0, AVAILABLE, 2), Run(1, 1, AVAILABLE, 1)])
    stored.write(0, 0, [Run(1, 1, AVAILABLE, 2)])
    assert stored.runs == [Run(0, 0, AVAILABLE, 2), Run(1, 1, AVAILABLE, 2)], "as in Kafka"
    stored.write(0, 0, [Run(2, 2, AVAILABLE, 2)])
    assert stored.runs == [Run(0, 2, AVAILABLE, 2)]
