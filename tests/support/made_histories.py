"""Histories made from a seed: correct ones, with every uncertainty that clients have; and one mistake planted in them.

A small world of producers, partitions, transactions and observers is played through; what it did is a list of
operations, what brokers hold are logs of `Sent`. Views are made from the logs when the history is written, so a mistake
is a change of a log, of an acknowledgement, or of what one observer is shown.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kafwire.testing.history import Dress, History, View
from kafwire.testing.history.tokens import SIZE, encode
from kafwire.types import TopicPartition

COMMITTED, UNCOMMITTED = "read_committed", "read_uncommitted"
GROUP = "g"
NO_PLACE = TopicPartition("", -1)


@dataclass(eq=False)
class Transaction:
    producer: int
    number: int
    sent: list[Sent] = field(default_factory=list)
    reported: str | None = None  # commit, abort, unknown; None: the producer said no more
    real: str | None = None
    takes: dict[TopicPartition, int] = field(default_factory=dict)

    @property
    def there(self) -> list[Sent]:
        return [each for each in self.sent if each.offset is not None]


@dataclass(eq=False)
class Sent:
    producer: int
    key: int
    sequence: int
    transaction: Transaction | None = None
    outcome: str = "unknown"  # ok, fail, unknown
    where: TopicPartition = NO_PLACE
    offset: int | None = None  # in the log
    reported_offset: int | None = None  # acknowledged
    raw: bytes | None = None  # a value that is none of ours
    size: int = SIZE
    dress: Dress | None = None
    changed: dict[str, Any] = field(default_factory=dict)  # of the records that are read

    @property
    def value(self) -> bytes:
        if self.raw is not None:
            return self.raw
        number = self.transaction.number if self.transaction else 0
        whole = encode(self.producer, self.key, self.sequence, number, size=self.size, dress=self.dress)
        longer = whole[:SIZE] * (self.size // SIZE + 3)
        return longer[: self.changed.get("size", self.size)]

    def seen_in(self, where: TopicPartition, changed: dict[str, Any]) -> Dress:
        """The fields that a reader finds besides the value."""
        sent = self.dress or Dress()
        time = 1_760_000_000_000 if sent.timestamp_ms is None else sent.timestamp_ms
        found = sent._replace(timestamp_ms=time, partition=where.partition)
        return found._replace(**{name: value for name, value in (self.changed | changed).items() if name != "size"})

    @property
    def is_shown(self) -> bool:
        return self.transaction is None or self.transaction.real == "commit"


@dataclass(eq=False)
class Seen:
    """An observer's reading: `ends` of its ranges; what it is denied, and given besides, by (partition, offset)."""

    name: str
    isolation: str
    ends: dict[TopicPartition, int]
    starts: dict[TopicPartition, int] = field(default_factory=dict)
    hidden: set[tuple[TopicPartition, int]] = field(default_factory=set)
    instead: dict[tuple[TopicPartition, int], Sent] = field(default_factory=dict)
    again: tuple[TopicPartition, int] | None = None
    final: bool = True
    live: bool = False
    closed: bool = True
    # A live one: gaps (start, end) that its errors named, and how it goes on after so many offsets (at, back to).
    gaps: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    returns: dict[TopicPartition, list[tuple[int, int]]] = field(default_factory=dict)
    jumps: set[tuple[TopicPartition, int]] = field(default_factory=set)  # it moves on past these of its own
    changed: dict[tuple[TopicPartition, int], dict[str, Any]] = field(default_factory=dict)

    def covers(self, where: TopicPartition, offset: int) -> bool:
        in_gap = any(first <= offset < end for first, end in self.gaps.get(where, ()))
        return self.starts.get(where, 0) <= offset < self.ends.get(where, 0) and not in_gap


class Unfit(Exception):
    """This history has no place for that mistake."""


class World:
    def __init__(self, seed: int, *, steps: int = 60) -> None:
        self.chance = random.Random(seed)
        chance = self.chance
        topics = ["t", "u"][: chance.randint(1, 2)]
        self.partitions = [TopicPartition(topic, n) for topic in topics for n in range(chance.randint(1, 3))]
        self.inputs = [TopicPartition("in", n) for n in range(chance.randint(0, 2))]
        self.logs: dict[TopicPartition, list[Sent | None]] = {where: [] for where in self.partitions}
        self.producers = list(range(1, chance.randint(1, 4) + 1))
        # Some promise nothing, and keep to that.
        self.careless = {p for p in self.producers if chance.random() < 0.15}
        self.keys = chance.choice([1, 3, 20])
        self.next_sequence = dict.fromkeys(self.producers, 0)
        self.sent: list[Sent] = []
        self.transactions: list[Transaction] = []
        self.open: dict[int, Transaction] = {}
        self.operations: list[tuple[Any, ...]] = []
        self.pending: list[Sent] = []
        self.taken: dict[TopicPartition, int] = {}
        self.group: dict[TopicPartition, int | None] = dict.fromkeys(self.inputs)
        self.views: list[Seen] = []
        self.lives: list[Seen] = []
        self.looks = chance.random() < 0.8  # readers do, at keys and all
        self.appended_in: dict[Transaction, dict[TopicPartition, int]] = {}
        self.play(steps)

    # -- playing

    def play(self, steps: int) -> None:
        chance = self.chance
        transactional = {p for p in self.producers if p not in self.careless and chance.random() < 0.6}
        for _ in range(steps):
            producer = chance.choice(self.producers)
            what = chance.random()
            if what < 0.05:
                self.observe_now()
            elif what < 0.2:
                self.acknowledge()
            elif producer in transactional and producer not in self.open:
                if what < 0.75:
                    self.begin(producer)
                else:
                    self.send(producer, None)
            elif producer in self.open and what < 0.4:
                self.end(self.open.pop(producer))
            else:
                self.send(producer, self.open.get(producer))
        for transaction in self.open.values():
            self.end(transaction, ended=chance.random() < 0.7)
        self.open.clear()
        self.acknowledge(everything=chance.random() < 0.8)
        for record in self.pending:  # no producer got the outcome
            record.outcome, record.reported_offset = "unknown", None
        names = ["kafwire", "confluent-kafka", "third"]
        kinds = chance.choice([(1, 0), (0, 1), (1, 1), (2, 1), (1, 2), (2, 2), (3, 3), (0, 2)])
        finals = []
        for isolation, count in zip((UNCOMMITTED, COMMITTED), kinds, strict=True):
            finals += [Seen(name, isolation, self.ends()) for name in names[:count]]
        if chance.random() < 0.3 and len(self.views) + len(finals) > 1:
            where = chance.choice(self.partitions)  # one observer came late, where another did not
            late = chance.choice(finals)
            if sum(each.isolation == late.isolation for each in finals) > 1:
                late.starts[where] = chance.randint(0, len(self.logs[where]))
        chance.shuffle(finals)
        for number in range(chance.randint(0, 3)):
            self.lives.append(self.live(f"live {number}"))
            self.operations.append(("view", self.lives[-1]))
        for view in finals:
            self.views.append(view)
            self.operations.append(("view", view))

    def live(self, name: str) -> Seen:
        """A reader that was there all the time; it comes to the end, or is killed before."""
        chance = self.chance
        view = Seen(name, chance.choice([COMMITTED, UNCOMMITTED]), self.ends(), final=False, live=True)
        view.closed = chance.random() < 0.7
        for where in self.partitions:
            if not view.closed:
                view.ends[where] = chance.randint(0, view.ends[where])
            end = view.ends[where]
            view.starts[where] = chance.choice([0, 0, 0, chance.randint(0, end)])
            start = view.starts[where]
            if end - start > 2 and chance.random() < 0.3:
                first = chance.randint(start + 1, end - 1)
                view.gaps[where] = [(first, chance.randint(first + 1, end))]
            if end - start > 2 and where not in view.gaps:
                for _ in range(chance.randint(0, 2)):
                    at = chance.randint(start + 1, end)
                    view.returns.setdefault(where, []).append((at, chance.randint(start, at)))
        return view

    def ends(self) -> dict[TopicPartition, int]:
        return {where: len(log) for where, log in self.logs.items()}

    def observe_now(self) -> None:
        """A reading while the others go on. Transactions that are open end what read_committed sees."""
        isolation = self.chance.choice([COMMITTED, UNCOMMITTED])
        ends = self.ends()
        if isolation == COMMITTED:
            for transaction in self.open.values():
                for where, first in self.appended_in.get(transaction, {}).items():
                    ends[where] = min(ends[where], first)
        view = Seen(self.chance.choice(["kafwire", "early"]), isolation, ends, final=False)
        self.views.append(view)
        self.operations.append(("view", view))

    def begin(self, producer: int) -> None:
        number = sum(each.producer == producer for each in self.transactions) + 1
        transaction = Transaction(producer, number)
        self.transactions.append(transaction)
        self.open[producer] = transaction
        self.operations.append(("begin", transaction))

    def send(self, producer: int, transaction: Transaction | None) -> None:
        chance = self.chance
        records = []
        for _ in range(chance.randint(1, 4)):
            sequence = self.next_sequence[producer]
            self.next_sequence[producer] += 1
            record = Sent(producer, chance.randrange(self.keys), sequence, transaction)
            record.where = self.partitions[(record.key * 7 + producer) % len(self.partitions)]
            records.append(record)
        size, dressed = chance.choice([SIZE, SIZE, SIZE + 1, 100]), chance.random() < 0.7
        for record in records:
            record.size = size
            if dressed:
                record.dress = self.dress(record)
        self.operations.append(("invoke", producer, records, transaction))
        self.sent += records
        careless = producer in self.careless
        for record in records:
            fate = chance.choices(["ok", "unplaced", "there", "gone", "fail"], [80, 4, 6, 5, 5])[0]
            # The records of a transaction that may yet commit are there, or failed.
            if transaction is not None and fate == "gone":
                fate = "fail"
            record.outcome = {"ok": "ok", "unplaced": "ok", "fail": "fail"}.get(fate, "unknown")
            if transaction is not None:
                transaction.sent.append(record)
            if fate in ("ok", "unplaced", "there"):
                self.append(record)
                record.reported_offset = record.offset if fate == "ok" else None
                if careless and chance.random() < 0.1:
                    self.be_careless(record)
            if record.outcome != "unknown" or chance.random() < 0.5:
                self.pending.append(record)

    def dress(self, record: Sent) -> Dress:
        chance = self.chance
        headers: list[tuple[str, bytes | None]] = [("a", b"1"), ("a", None), ("ü", b"")]
        return Dress(
            chance.choice([None, b"", b"%d" % record.key]),
            tuple(headers[: chance.randint(0, 3)]),
            chance.choice([None, 1_700_000_000_000 + record.sequence]),
            chance.choice([None, record.where.partition]),
        )

    def be_careless(self, record: Sent) -> None:
        """A producer that promises nothing loses a record, or has it twice."""
        log = self.logs[record.where]
        if self.chance.random() < 0.5:
            log.pop()
            record.offset = None
        else:
            log.append(record)

    def append(self, record: Sent) -> None:
        log = self.logs[record.where]
        while self.chance.random() < 0.03:
            log.append(None)
        if record.transaction is not None:
            self.appended_in.setdefault(record.transaction, {}).setdefault(record.where, len(log))
        record.offset = len(log)
        log.append(record)

    def acknowledge(self, *, everything: bool = False) -> None:
        chance = self.chance
        now = [r for r in self.pending if everything or chance.random() < 0.7]
        self.pending = [r for r in self.pending if r not in now]
        chance.shuffle(now)
        self.operations += [("outcome", record) for record in now]

    def end(self, transaction: Transaction, *, ended: bool = True) -> None:
        chance = self.chance
        mine = [w for w in self.inputs if all(w not in t.takes for t in self.open.values() if t is not transaction)]
        if mine and chance.random() < 0.7:
            for where in chance.sample(mine, chance.randint(1, len(mine))):
                transaction.takes[where] = (self.group[where] or 0) + chance.randint(1, 5)
            self.operations.append(("offsets", transaction))
        reported = chance.choices(["commit", "abort", "unknown"], [60, 20, 20])[0] if ended else None
        transaction.reported = reported
        transaction.real = reported if reported in ("commit", "abort") else chance.choice(["commit", "abort"])
        for where in self.appended_in.get(transaction, ()):
            self.logs[where].append(None)  # the control record
        if transaction.real == "commit":
            self.group.update(transaction.takes)
        elif reported is None or reported == "unknown":
            # It was cut off, maybe before all of it was there.
            for record in list(transaction.there):
                if record.outcome == "unknown" and record not in self.pending and chance.random() < 0.5:
                    assert record.offset is not None
                    self.logs[record.where][record.offset] = None
                    record.offset = None
        failed = [r for r in self.pending if r.transaction is transaction and r.outcome == "fail"]
        self.pending = [r for r in self.pending if r not in failed]
        self.operations += [("outcome", record) for record in failed]
        if reported is not None:
            self.operations.append(("end", transaction))

    # -- writing

    def rows(self, view: Seen, where: TopicPartition) -> list[tuple[int, bytes, Dress]]:
        found: list[tuple[int, bytes, Dress]] = []
        for offset in range(view.starts.get(where, 0), view.ends.get(where, 0)):
            record = self.logs[where][offset]
            shown = record is not None and (view.isolation == UNCOMMITTED or record.is_shown)
            if (where, offset) in view.hidden:
                shown = False
            if (where, offset) in view.instead:
                record, shown = view.instead[where, offset], True
            if any(first <= offset < end for first, end in view.gaps.get(where, ())):
                shown = False
            if shown:
                assert record is not None
                changed = view.changed.get((where, offset), {})
                value = record.value[: changed.get("size", len(record.value))]
                found.append((offset, value, record.seen_in(where, changed)))
        if view.again is not None and view.again[0] == where:
            found.append(next(row for row in found if row[0] == view.again[1]))
        return found

    def write(self, path: Path) -> None:
        chance = random.Random(0)
        with History(path) as history:
            writers = {
                p: history.producer(
                    p, f"p{p}", promises=() if p in self.careless else ("lost", "duplicated", "misordered")
                )
                for p in self.producers
            }
            for name, *rest in self.operations:
                if name == "invoke":
                    producer, records, transaction = rest
                    number = transaction.number if transaction else 0
                    dresses = [r.dress for r in records] if records[0].dress else None
                    keys = [r.key for r in records]
                    writers[producer].invoke(keys, transaction=number, size=records[0].size, dresses=dresses)
                elif name == "outcome":
                    (record,) = rest
                    writer = writers[record.producer]
                    if record.outcome == "ok":
                        writer.ok(record.sequence, record.where.topic, record.where.partition, record.reported_offset)
                    elif record.outcome == "fail":
                        writer.fail([record.sequence], "refused")
                    else:
                        writer.unknown([record.sequence], "timed out")
                elif name == "view":
                    (view,) = rest
                    self.write_view(history, view, chance)
                else:
                    (transaction,) = rest
                    writer = writers[transaction.producer]
                    if name == "begin":
                        assert writer.begin() == transaction.number
                    elif name == "offsets":
                        writer.offsets(transaction.number, GROUP, transaction.takes)
                    else:
                        writer.end(transaction.number, transaction.reported)
            history.group_offsets(GROUP, self.group)

    def write_view(self, history: History, view: Seen, chance: random.Random) -> None:
        seen = history.view(view.name, view.isolation, live=view.live)
        for where in self.partitions:
            rows = self.rows(view, where)
            if view.live:
                self.follow(seen, view, where, rows)
                continue
            while rows:
                count = chance.randint(1, 40)
                self.give(seen, where, rows[:count])
                rows = rows[count:]
        if not view.closed:
            seen.flush()
            return
        seen.close({where: (view.starts.get(where, 0), end) for where, end in view.ends.items()})

    def give(self, seen: View, where: TopicPartition, rows: list[tuple[int, bytes, Dress]]) -> None:
        dresses = [dress for _, _, dress in rows] if self.looks else None
        seen.add(*where, [offset for offset, _, _ in rows], [value for _, value, _ in rows], dresses)

    def follow(self, seen: View, view: Seen, where: TopicPartition, rows: list[tuple[int, bytes, Dress]]) -> None:
        """Read on and on: back where it was before, past the records that its errors named as gone, and past others."""
        at = view.starts.get(where, 0)
        seen.move(*where, at)
        again = [row for row in rows if view.again == (where, row[0])]
        rows = rows[:-1] if again and len(again) > 1 else rows
        turns = [(upto, back, False) for upto, back in view.returns.get(where, ())]
        turns += [(first, end, True) for first, end in view.gaps.get(where, ())]
        turns += [(offset, offset + 1, False) for place, offset in view.jumps if place == where]
        for upto, to, reported in turns:
            self.give(seen, where, [row for row in rows if at <= row[0] < upto])
            seen.move(*where, to, "reported" if reported else "", reported=reported)
            at = to
        self.give(seen, where, [row for row in rows if at <= row[0]])
        if len(again) > 1:
            self.give(seen, where, again[:1])

    # -- looking for a place for a mistake

    @property
    def finals(self) -> list[Seen]:
        return [view for view in self.views if view.final]

    def following(self, isolation: str) -> list[Seen]:
        return [view for view in self.lives if view.isolation == isolation]

    def of(self, isolation: str) -> list[Seen]:
        return [view for view in self.views if view.isolation == isolation]

    @property
    def whole(self) -> bool:
        """True if an observer reads all of the log, aborted records too."""
        return any(view.isolation == UNCOMMITTED for view in self.finals)

    def pick(self, fits: Callable[[Sent], bool]) -> Sent:
        found = [r for r in self.sent if r.producer not in self.careless and fits(r)]
        if not found:
            raise Unfit
        return self.chance.choice(found)

    def grow(self, record: Sent, where: TopicPartition) -> int:
        """Put a record at the end of a log, where all final readings see it."""
        offset = len(self.logs[where])
        self.logs[where].append(record)
        for view in self.finals:
            view.ends[where] = offset + 1
        return offset
