"""`check`: the judgement of a history. docs/operate/reliability.md describes it; comments here state the rules.

The checker reads each partition's log by windows of offsets, so memory does not grow with the log's length. Beyond a
window, it keeps a byte for each record, counters for each transaction, and the last sequence of each producer in a
partition.
"""

from __future__ import annotations

import os
from array import array
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from zlib import crc32

from kafwire.testing.history import columns, entries
from kafwire.testing.history import tokens as marks
from kafwire.testing.history.columns import NOT_READ, SHOWN, WITHHELD, Column, Sweep
from kafwire.testing.history.explain import Draft, explain
from kafwire.testing.history.index import (
    ACKED,
    FAILED,
    OPEN,
    REPORTED,
    SEEN,
    UNREAD,
    Index,
    ProducerState,
    ViewState,
)
from kafwire.testing.history.report import (
    ALTERED,
    DIRTY,
    DISAGREEMENT,
    DUPLICATED,
    KINDS,
    LOST,
    MISORDERED,
    PHANTOM,
    PROMISES,
    REPEATED,
    SKIPPED,
    TORN,
    Report,
)
from kafwire.testing.history.tokens import CHECKED, EMPTY, FOREIGN, SIZE, TOKEN
from kafwire.types import TopicPartition

# Ranges of offsets, first and last, by partition.
Concealed = Mapping[TopicPartition, Sequence[tuple[int, int]]]

_ID_SHIFT = 32
_LOW = (1 << _ID_SHIFT) - 1

# By flags of a record: 1 if it was acknowledged, was not seen, and is in no finding yet.
_MISSING = bytes(flags & (ACKED | SEEN | UNREAD | REPORTED) == ACKED for flags in range(256))


def check(*paths: str | os.PathLike[str], limit: int = 20, concealed: Concealed | None = None) -> Report:
    """Judge the history in these files: nothing lost, duplicated, misordered or torn.

    Torn entries at the end of a file, and views without an end, do not count. The check takes about 1 us for each
    record, 1 us more for each of its observers of another isolation level, and a byte of memory for each record.

    Args:
        paths: the files of one run, which may be of several processes.
        limit: the most findings of each kind in the report; its counts have all.
        concealed: by partition, the first and last offsets of aborted transactions that a broker may leave out of the
            aborted transactions in a Fetch response. Records of aborted transactions that read_committed shows there
            are the broker's fault; they are counted as "concealed".

    Returns:
        The report.

    Raises:
        HistoryError: a file is damaged, or operations contradict each other.

    Example:
        >>> import tempfile
        >>> from pathlib import Path
        >>> from kafwire.testing.history import History, check
        >>> path = Path(tempfile.mkdtemp(), "run.history")
        >>> with History(path) as history:
        ...     writer = history.producer(1, "kafwire")
        ...     (sequence, value), = writer.invoke([7])
        ...     writer.fail([sequence], "refused")
        >>> check(path).counts["failed"]
        1
    """
    index = Index(paths)
    try:
        judge = _Judge(index, limit, concealed or {})
        for where in index.partitions:
            _PartitionJudge(judge, where).judge()
        judge.settle()
        return Report(
            found={kind: judge.found[kind] for kind in KINDS},
            tolerated={kind: judge.tolerated[kind] for kind in PROMISES},
            counts=judge.counts(),
            findings=explain(index, judge.drafts),
        )
    finally:
        index.close()


@dataclass
class _Mismatches:
    """Acknowledged records that are not at their acknowledged offset."""

    partition: TopicPartition
    records: array[int] = field(default_factory=lambda: array("Q"))
    offsets: array[int] = field(default_factory=lambda: array("q"))


class _Judge:
    """The state of the judgement over the whole history."""

    def __init__(self, index: Index, limit: int, concealed: Concealed) -> None:
        self.index = index
        self.concealed = concealed
        self.excused: set[tuple[TopicPartition, int]] = set()  # offsets of `concealed` that a reader saw
        self.found: Counter[str] = Counter()
        self.tolerated: Counter[str] = Counter()
        self.drafts: list[Draft] = []
        self.mismatches: list[_Mismatches] = []
        self.read = 0
        self._limit = limit
        self._kept: Counter[str] = Counter()
        self._unread = 0
        self._offsets = 0
        self._settled = index.settled

    def find(
        self,
        kind: str,
        what: str,
        where: TopicPartition | None,
        offset: int | None,
        *tokens: bytes,
        records: Sequence[tuple[int, int]] = (),
        transactions: Sequence[tuple[int, int]] = (),
        amount: int = 1,
        of: ProducerState | None = None,
    ) -> None:
        """Add a finding. `tokens` and `records` (producer, sequence) are the records involved."""
        if of is not None and kind in PROMISES and kind not in of.promises:
            self.tolerated[kind] += amount
            return
        self.found[kind] += amount
        if self._kept[kind] < self._limit:
            self._kept[kind] += 1
            known = [TOKEN.unpack(token) for token in tokens if token != EMPTY]
            involved = dict.fromkeys((*((token[0], token[3]) for token in known), *records))
            owners = dict.fromkeys((token[0], token[4]) for token in known if token[4])
            self.drafts.append(
                Draft(kind, what, where, offset, amount, tuple(involved), tuple(owners), tuple(transactions))
            )

    def settle(self) -> None:
        """Judge the rules that need the whole log."""
        for view in (*self.index.views, *self.index.live):
            for where, first, last, place in view.returns:
                what = f"{view.name} was given this offset after {last}, though it did not seek"
                self.find(REPEATED, what, where, first, entries.Read.unpack(self.index.body(place)).token_at(first))
        for mismatches in self.mismatches:
            for record, offset in zip(mismatches.records, mismatches.offsets, strict=True):
                self._settle_mismatch(mismatches.partition, record, offset)
        for state in self.index.producers.values():
            self._settle_unplaced(state)
        for state in self.index.producers.values():
            for transaction in range(1, len(state.outcome)):
                self._settle_transaction(state, transaction)
        evident = self._evident()
        for (group, where), (_, offset) in self.index.observed.items():
            self._settle_offset(group, where, offset, evident)

    def _settle_mismatch(self, where: TopicPartition, record: int, offset: int) -> None:
        state = self.index.producers[record >> _ID_SHIFT]
        sequence = record & _LOW
        flags = state.flags[sequence]
        name = _name(state, sequence)
        if flags & SEEN:
            what = f"{name} was acknowledged here, but the log has it elsewhere"
            self.find(DISAGREEMENT, what, where, offset, records=[(state.number, sequence)])
        elif flags & REPORTED:
            return
        elif flags & UNREAD:
            self._unread += 1
            state.unread[state.transaction_of(sequence)] += 1
        else:
            state.lost[state.transaction_of(sequence)] += 1
            what = f"{name} was acknowledged here, and is nowhere"
            self.find(LOST, what, where, offset, records=[(state.number, sequence)], of=state)
        state.flags[sequence] |= REPORTED

    def _settle_unplaced(self, state: ProducerState) -> None:
        """Judge records acknowledged without an offset: absent ones are lost, if all partitions were read since."""
        missing = state.flags.translate(_MISSING)
        sequence = missing.find(1)
        while sequence >= 0:
            if self._settled:
                state.lost[state.transaction_of(sequence)] += 1
                what = f"{_name(state, sequence)} was acknowledged, without an offset, and is nowhere"
                self.find(LOST, what, None, None, records=[(state.number, sequence)], of=state)
            else:
                self._unread += 1
            sequence = missing.find(1, sequence + 1)

    def _settle_transaction(self, state: ProducerState, number: int) -> None:
        """Judge that read_committed sees all records of a transaction, or none (I4).

        A commit promises every record, acknowledged or not; so does any visible record for all others. Absent records
        are known once all partitions were read. Lost records were judged before.
        """
        shown, withheld = state.shown[number], state.withheld[number]
        sent = state.sent[number] - state.failed[number]
        absent = sent - shown - withheld - state.unread[number] - state.lost[number] if self._settled else 0
        outcome = state.outcome[number]
        name = f"transaction {number} of {state.name}"
        mine = [(state.number, number)]
        if outcome == entries.ABORT:
            if shown:
                what = f"{name} was aborted, yet read_committed shows {shown} of its {sent} records"
                self.find(DIRTY, what, None, None, transactions=mine, amount=shown)
        elif shown and withheld + absent > 0:
            what = f"read_committed shows {shown} of the {sent} records of {name}, which {_OUTCOMES[outcome]}"
            self.find(TORN, what, None, None, transactions=mine)
        elif outcome == entries.COMMIT and withheld + absent > 0:
            what = f"{name} was committed, yet {withheld + absent} of its {sent} records are not seen"
            self.find(LOST, what, None, None, transactions=mine, amount=withheld + absent, of=state)

    def _committed(self, producer: int, transaction: int) -> bool | None:
        """Return True if a transaction committed, by its end and its visible records; None if that is unknown."""
        state = self.index.producers[producer]
        outcome = state.outcome[transaction]
        if outcome in (entries.COMMIT, entries.ABORT):
            return outcome == entries.COMMIT
        if state.shown[transaction]:
            return True
        return False if state.withheld[transaction] else None

    def _evident(self) -> set[tuple[int, int]]:
        """Return undecided transactions that alone explain an observed offset: all their offsets must be visible."""
        evident = set()
        for key, (_, offset) in self.index.observed.items():
            taken = self.index.taken.get(key, [])
            certain = max((to for *which, to in taken if self._committed(*which)), default=entries.NO_OFFSET)
            possible = [which for *which, to in taken if to == offset and self._committed(*which) is None]
            if offset > certain and len(possible) == 1:
                evident.add((possible[0][0], possible[0][1]))
        return evident

    def _settle_offset(self, group: str, where: TopicPartition, offset: int, evident: set[tuple[int, int]]) -> None:
        """Judge that a group's offset is the last committed transaction's (I4): the highest, as offsets only rise."""
        self._offsets += 1
        expected = entries.NO_OFFSET
        possible = set()
        last: tuple[int, int] | None = None
        taken = self.index.taken.get((group, where), [])
        for producer, transaction, to in taken:
            committed = True if (producer, transaction) in evident else self._committed(producer, transaction)
            if committed is None:
                possible.add(to)
            elif committed and to > expected:
                expected, last = to, (producer, transaction)
        if offset == expected or (offset > expected and offset in possible):
            return
        it = "none" if offset == entries.NO_OFFSET else str(offset)
        what = f"the offset of group {group} is {it}; "
        if last is not None:
            name = self.index.producers[last[0]].name
            what += f"transaction {last[1]} of {name} was the last to commit one: {expected}"
        else:
            what += "no transaction is known to have committed one"
        involved = [(producer, transaction) for producer, transaction, to in taken if to in {offset, expected}]
        self.find(TORN, what, where, offset, transactions=involved)

    def counts(self) -> dict[str, int]:
        """Return the counts of `Report.counts`."""
        records: Counter[int] = Counter()
        outcomes: Counter[int] = Counter()
        there = unjudged = 0
        for state in self.index.producers.values():
            for flags in range(32):
                records[flags] += state.flags.count(flags)
            for number in range(1, len(state.outcome)):
                outcome = state.outcome[number]
                outcomes[outcome] += 1
                there += outcome in (OPEN, entries.UNKNOWN) and state.shown[number] > 0
                unjudged += state.unread[number] > 0

        def having(bits: int, of: int) -> int:
            return sum(count for flags, count in records.items() if flags & of == bits)

        return {
            "invoked": records.total(),
            "acked": having(ACKED, ACKED),
            "failed": having(FAILED, FAILED),
            "unknown": having(0, ACKED | FAILED),
            "unknown_there": having(SEEN, ACKED | FAILED | SEEN),
            "unread": self._unread,
            "committed": outcomes[entries.COMMIT],
            "aborted": outcomes[entries.ABORT],
            "undecided": outcomes[OPEN] + outcomes[entries.UNKNOWN],
            "undecided_there": there,
            "unjudged": unjudged,
            "views": len(self.index.views),
            "live": len(self.index.live),
            "concealed": len(self.excused),
            "followed": sum(view.records for view in self.index.live),
            "read": self.read,
            "offsets": self._offsets,
        }


class _PartitionJudge:
    """The judgement of one partition's log."""

    def __init__(self, judge: _Judge, where: TopicPartition) -> None:
        self._judge = judge
        self._index = judge.index
        self._where = where
        self._acks = self._index.acks.get(where)
        self._views = [view for view in self._index.views if where in view.ranges]
        self._live = [view for view in self._index.live if where in view.ranges]
        self._ranges = {id(view): view.ranges[where] for view in (*self._views, *self._live)}
        for isolation in (entries.UNCOMMITTED, entries.COMMITTED):
            # A log does not become shorter: the last view must see all that earlier views saw.
            views = sorted((v for v in self._views if v.isolation == isolation), key=lambda view: view.began_us)
            if views:
                spans = [v.spans[where] for v in self._live if v.isolation == isolation and where in v.spans]
                began = views[-1].began_us
                seen = (high + 1 for s in spans for high, at in zip(s.high, s.time_us, strict=True) if at <= began)
                end = max(*(view.ranges[where][1] for view in views), 0, *seen)
                self._ranges[id(views[-1])] = (views[-1].ranges[where][0], end)
        self._mismatches = _Mismatches(where)
        judge.mismatches.append(self._mismatches)
        self._last: dict[int, int] = {}
        # A record acknowledged before a whole view began, at an offset behind its end, was cut off. Without such a
        # view, every record was acknowledged too late for it.
        whole = [view for view in self._views if view.isolation == entries.UNCOMMITTED]
        self._end = max((view.ranges[where][1] for view in whole), default=0)
        self._began_us = max((view.began_us for view in whole), default=0)
        self._late: set[int] = set()

    def judge(self) -> None:
        """Find the faults of this partition."""
        acks = Sweep(self._acks) if self._acks is not None else None
        views = [view for view in (*self._views, *self._live) if self._where in view.spans]
        sweeps = {id(view): Sweep(view.spans[self._where]) for view in views}
        every = [sweep for sweep in (acks, *sweeps.values()) if sweep is not None]
        top = max((sweep.top for sweep in every), default=0)
        base = 0
        while starts := [start for sweep in every if (start := sweep.upcoming(base)) is not None]:
            base = min(starts)
            end = min(base + columns.WINDOW, top)
            expected, rivals = self._expected(acks, base, end)
            log, states, known = self._log(sweeps, expected, base, end)
            for record, slot in rivals:
                token = log[slot * SIZE : slot * SIZE + SIZE]
                if token == EMPTY:
                    self._absent(record, base + slot, states[slot], known[slot])
                elif _record(token) != record:
                    self._mismatch(record, base + slot)
            self._judge_window(log, expected, states, known, base)
            for view in self._live:
                self._judge_live(view, sweeps.get(id(view)), log, states, known, base, end)
            base = end

    def _expected(self, acks: Sweep | None, base: int, end: int) -> tuple[array[int], list[tuple[int, int]]]:
        """Return for each slot the record acknowledged there: producer << 32 | sequence, 0 for none.

        Also return the (record, slot) of records acknowledged at an offset where another record was acknowledged.
        """
        self._late.clear()
        expected = array("Q", bytes(8 * (end - base)))
        rivals: list[tuple[int, int]] = []
        if acks is None or self._acks is None:
            return expected, rivals
        for number in acks.take(end):
            ok = entries.Ok.unpack(self._index.body(self._acks.place[number]))
            producer = ok.producer << _ID_SHIFT
            for sequence, offset in zip(ok.sequences, ok.offsets, strict=True):
                if base <= offset < end:
                    record = producer | sequence
                    if not expected[offset - base]:
                        expected[offset - base] = record
                    else:
                        rivals.append((record, offset - base))
            if self._acks.high[number] >= self._end and self._acks.time_us[number] > self._began_us:
                self._late.update(producer | sequence for sequence in ok.sequences)
        return expected, rivals

    def _log(
        self, sweeps: dict[int, Sweep], expected: array[int], base: int, end: int
    ) -> tuple[bytearray, bytearray, bytearray]:
        """Return a window's log as all observers saw it together, the read_committed states, and the known slots."""
        size = end - base
        found: dict[int, list[Column]] = {entries.UNCOMMITTED: [], entries.COMMITTED: []}
        for view in self._views:
            start, stop = self._ranges[id(view)]
            low, high = max(start, base) - base, min(stop, end) - base
            sweep = sweeps.get(id(view))
            if low < high:
                column = Column(view.name, bytearray(size * SIZE), low, high)
                if sweep is not None:
                    self._fill(column, view, sweep, base, end)
                found[view.isolation].append(column)

        def prefer(slot: int, first: bytes, second: bytes) -> bytes:
            right = expected[slot]
            return second if first == EMPTY or (right and _record(second) == right) else first

        def disagree(slot: int, reader: str, saw: bytes, other: str, other_saw: bytes) -> None:
            what = f"{reader} saw {_described(saw)}; {other} saw {_described(other_saw)}"
            self._judge.find(DISAGREEMENT, what, self._where, base + slot, saw, other_saw)

        log, known = columns.merge(found[entries.UNCOMMITTED], size, prefer, disagree)
        shown, covered = columns.merge(found[entries.COMMITTED], size, prefer, disagree)

        def differ(slot: int) -> None:
            place = slice(slot * SIZE, slot * SIZE + SIZE)
            disagree(slot, "read_committed", bytes(shown[place]), "read_uncommitted", bytes(log[place]))

        if not found[entries.COMMITTED]:
            return log, bytearray(size), known
        states = columns.reconcile(log, known, shown, covered, prefer, differ)
        return log, states, known

    def _judge_live(
        self,
        view: ViewState,
        sweep: Sweep | None,
        log: bytearray,
        states: bytearray,
        known: bytearray,
        base: int,
        end: int,
    ) -> None:
        """Judge that a live reader saw the final log: no record less, no other record."""
        start, stop = self._ranges[id(view)]
        low, high = max(start, base) - base, min(stop, end) - base
        if low >= high:
            return
        column = Column(view.name, bytearray((end - base) * SIZE), low, high)
        if sweep is not None:
            self._fill(column, view, sweep, base, end)
        excused = view.excused.get(self._where, ())
        committed = view.isolation == entries.COMMITTED
        for slot, there in columns.differences(column, log, known, states if committed else None):
            place = slice(slot * SIZE, slot * SIZE + SIZE)
            saw = bytes(column.data[place])
            offset = base + slot
            if saw == EMPTY:
                if not any(first <= offset < last for first, last in excused):
                    what = f"{view.name} passed over {_described(there)}"
                    self._judge.find(SKIPPED, what, self._where, offset, there)
            elif there == EMPTY and log[place] == saw:
                if not TOKEN.unpack(saw)[4]:
                    continue  # in no transaction: reported above, as read_committed does not see it
                what = f"{view.name} was shown {_described(saw)}, which read_committed does not see"
                self._judge.find(DIRTY, what, self._where, offset, saw)
            elif there != EMPTY and _is_altered(saw) and _record(saw) == _record(there):
                self._altered(saw, offset, f", as shown to {view.name}")
            else:
                what = f"{view.name} saw {_described(saw)}; the log has {_described(there)}"
                self._judge.find(DISAGREEMENT, what, self._where, offset, saw, there)

    def _altered(self, token: bytes, offset: int, shown: str = "") -> None:
        said = self._index.remarks.get((self._where, offset), "of which no more is known")
        what = f"{_described(token)} differs from the sent record{shown}: {said}"
        self._judge.find(ALTERED, what, self._where, offset, token)

    def _fill(self, column: Column, view: ViewState, sweep: Sweep, base: int, end: int) -> None:
        def disagree(slot: int, before: bytes, now: bytes) -> None:
            what = f"{view.name} saw {_described(before)}, and later {_described(now)}"
            self._judge.find(DISAGREEMENT, what, self._where, base + slot, before, now)

        for number in sweep.take(end):
            read = entries.Read.unpack(self._index.body(view.spans[self._where].place[number]))
            columns.fill(column.data, read, base, end, disagree)
        if view.isolation == entries.COMMITTED:
            self._excuse(column.data, base, end)

    def _excuse(self, data: bytearray, base: int, end: int) -> None:
        """Clear records of aborted transactions at offsets in `concealed`."""
        for first, last in self._judge.concealed.get(self._where, ()):
            for slot in range(max(first, base) - base, min(last + 1, end) - base):
                place = slice(slot * SIZE, slot * SIZE + SIZE)
                number, _, _, _, transaction, *_ = TOKEN.unpack(data[place])
                state = self._index.producers.get(number)
                outcomes = state.outcome if state is not None else ()
                if 0 < transaction < len(outcomes) and outcomes[transaction] == entries.ABORT:
                    data[place] = EMPTY
                    self._judge.excused.add((self._where, base + slot))

    def _judge_window(
        self, log: bytearray, expected: array[int], states: bytearray, known: bytearray, base: int
    ) -> None:
        producers = self._index.producers
        last = self._last
        read = 0
        rows = zip(TOKEN.iter_unpack(log), CHECKED.iter_unpack(log), expected, strict=True)
        for slot, ((number, mark, _, sequence, transaction, _, check_sum), (body,), acked) in enumerate(rows):
            if not number:
                if acked:
                    self._absent(acked, base + slot, states[slot], known[slot])
                continue
            read += 1
            if acked and acked != number << _ID_SHIFT | sequence:
                self._mismatch(acked, base + slot)
            state = producers.get(number)
            token = bytes(log[slot * SIZE : slot * SIZE + SIZE])
            is_sound = crc32(body) == check_sum
            if state is None or sequence >= len(state.flags) or not is_sound:
                self._phantom(token, base + slot, is_sound=is_sound)
                continue
            flags = state.flags[sequence]
            if flags & SEEN:
                what = f"{_name(state, sequence)} is in the log more than once"
                self._judge.find(DUPLICATED, what, self._where, base + slot, token, of=state)
                continue
            state.flags[sequence] = flags | SEEN
            if flags & FAILED:
                what = f"{_name(state, sequence)} failed for certain, and is in the log"
                self._judge.find(PHANTOM, what, self._where, base + slot, token)
                continue
            if mark & marks.ALTERED:
                self._altered(token, base + slot)
            before = last.get(number, -1)
            if sequence > before:
                last[number] = sequence
            else:
                what = f"{_name(state, sequence)} comes after #{before}"
                others = [(number, before)]
                self._judge.find(MISORDERED, what, self._where, base + slot, token, records=others, of=state)
            if transaction:
                sight = states[slot]
                counter = state.shown if sight == SHOWN else state.withheld if sight == WITHHELD else state.unread
                counter[transaction] += 1
            elif states[slot] == WITHHELD:
                what = f"read_committed does not see {_name(state, sequence)}, which is in no transaction"
                self._judge.find(DISAGREEMENT, what, self._where, base + slot, token)
        self._judge.read += read

    def _absent(self, record: int, offset: int, sight: int, known: int) -> None:
        """Judge the empty slot of an acknowledged record. It means a fault only if an observer read there."""
        cut_off = offset >= self._end and record not in self._late
        if not known and not cut_off:
            state = self._index.producers[record >> _ID_SHIFT]
            transaction = state.transaction_of(record & _LOW)
            if sight == NOT_READ:
                state.flags[record & _LOW] |= UNREAD
            elif transaction:
                # Only read_committed read there. The record may have been aborted; its transaction decides.
                state.flags[record & _LOW] |= UNREAD
                state.withheld[transaction] += 1
                return
        self._mismatch(record, offset)

    def _mismatch(self, record: int, offset: int) -> None:
        self._mismatches.records.append(record)
        self._mismatches.offsets.append(offset)

    def _phantom(self, token: bytes, offset: int, *, is_sound: bool) -> None:
        number, _, key, sequence, *_ = TOKEN.unpack(token)
        if not is_sound:
            what = f"a damaged value: {token.hex()}"
        elif number == FOREIGN:
            size = f"of {key - 1} bytes" if key else "that is null"
            what = f"a value {size} that no producer of this history made"
        else:
            what = f"record #{sequence} of producer {number}, which never sent it"
        self._judge.find(PHANTOM, what, self._where, offset, token)


_OUTCOMES = {OPEN: "has no end", entries.UNKNOWN: "has an unknown end", entries.COMMIT: "was committed"}


def _record(token: bytes | bytearray) -> int:
    number, _, _, sequence, *_ = TOKEN.unpack(token)
    return int(number << _ID_SHIFT | sequence)


def _is_altered(token: bytes) -> bool:
    return bool(TOKEN.unpack(token)[1] & marks.ALTERED)


def _name(state: ProducerState, sequence: int) -> str:
    return f"{state.name} #{sequence}"


def _described(token: bytes) -> str:
    if token == EMPTY:
        return "nothing"
    number, _, key, sequence, transaction, *_ = TOKEN.unpack(token)
    if number == FOREIGN:
        return "a value that no producer made"
    inside = f" in transaction {transaction}" if transaction else ""
    return f"p{number} #{sequence} of key {key}{inside}"
