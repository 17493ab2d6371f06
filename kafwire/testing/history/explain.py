"""The operations behind each finding: a second pass over the files, for the records and transactions involved."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kafwire.testing.history import entries
from kafwire.testing.history.index import Index
from kafwire.testing.history.log import Placed
from kafwire.testing.history.report import Finding, place_of
from kafwire.testing.history.tokens import TOKEN
from kafwire.types import TopicPartition

_SHOWN_OPERATIONS = 16
_KEPT_OPERATIONS = 4 * _SHOWN_OPERATIONS
_ENDS = {entries.COMMIT: "committed", entries.ABORT: "aborted", entries.UNKNOWN: "ended, unknown how"}

Record = tuple[int, int]
Transaction = tuple[int, int]


@dataclass(frozen=True, slots=True)
class Draft:
    """A finding without its operations yet.

    `records` are the records (producer, sequence) involved, and `owners` their transactions (producer, number).
    `transactions` are those that the finding is about; for these, it lists the records that were seen.
    """

    kind: str
    what: str
    partition: TopicPartition | None
    offset: int | None
    amount: int
    records: tuple[Record, ...]
    owners: tuple[Transaction, ...]
    transactions: tuple[Transaction, ...]


def explain(index: Index, drafts: Sequence[Draft]) -> tuple[Finding, ...]:
    """Return the findings of drafts, each with its operations, at most 16."""
    explainer = _Explainer(index, drafts)
    if drafts:
        for reader in index.files():
            explainer.file(reader.entries())
    return tuple(
        Finding(draft.kind, draft.what, draft.partition, draft.offset, draft.amount, explainer.of(draft))
        for draft in drafts
    )


class _Explainer:
    def __init__(self, index: Index, drafts: Iterable[Draft]) -> None:
        self._index = index
        self._records: dict[int, set[int]] = defaultdict(set)
        self._owners: set[Transaction] = set()
        self._transactions: set[Transaction] = set()
        for draft in drafts:
            for producer, sequence in draft.records:
                self._records[producer].add(sequence)
            self._owners.update(draft.owners, draft.transactions)
            self._transactions.update(draft.transactions)
        self._lines: dict[tuple[str, int, int], list[tuple[int, str]]] = defaultdict(list)
        self._order = 0
        self._partitions: list[TopicPartition] = []
        self._views: list[str] = []

    def of(self, draft: Draft) -> tuple[str, ...]:
        """Return the operations of a finding."""
        owners = (*draft.owners, *draft.transactions)
        acts = [("record", *record) for record in draft.records] + [("transaction", *owner) for owner in owners]
        sights = [("seen", *transaction) for transaction in draft.transactions]
        # Operations of producers explain more than reads of observers.
        lines = [
            line for keys in (acts, sights) for line in sorted({line for key in keys for line in self._lines[key]})
        ]
        shown = tuple(line for _, line in sorted(lines[:_SHOWN_OPERATIONS]))
        return shown if len(lines) <= _SHOWN_OPERATIONS else (*shown, "and more")

    def file(self, placed_entries: Iterable[Placed]) -> None:
        """Collect the operations of one file."""
        self._partitions, self._views = [], []
        for placed in placed_entries:
            kind, body = placed.kind, placed.body
            if kind == entries.Partition.KIND:
                partition = entries.Partition.unpack(body)
                self._partitions.append(TopicPartition(partition.topic, partition.partition))
            elif kind == entries.Viewing.KIND:
                self._views.append(entries.label(entries.Viewing.unpack(body)))
            elif kind == entries.Read.KIND:
                self._read(placed, entries.Read.unpack(body))
            elif kind in (entries.Invoke.KIND, entries.Ok.KIND, entries.Outcome.KIND):
                self._record(placed)
            elif kind in (entries.Begin.KIND, entries.Offset.KIND, entries.End.KIND):
                self._transaction(placed)

    def _record(self, placed: Placed) -> None:
        if placed.kind == entries.Invoke.KIND:
            invoke = entries.Invoke.unpack(placed.body)
            inside = f" in transaction {invoke.transaction}" if invoke.transaction else ""
            for sequence in self._records.get(invoke.producer, ()):
                if 0 <= sequence - invoke.first < invoke.count:
                    self._tell_record(placed, invoke.producer, sequence, f"invoked{inside}")
        elif placed.kind == entries.Ok.KIND:
            ok = entries.Ok.unpack(placed.body)
            wanted = self._records.get(ok.producer, set())
            if not wanted.isdisjoint(ok.sequences):
                for sequence, offset in zip(ok.sequences, ok.offsets, strict=True):
                    if sequence in wanted:
                        known = None if offset == entries.NO_OFFSET else offset
                        where = place_of(self._partitions[ok.partition], known)
                        self._tell_record(placed, ok.producer, sequence, f"ok at {where}")
        else:
            outcome = entries.Outcome.unpack(placed.body)
            became = "failed" if outcome.certain else "unknown"
            for sequence in self._records.get(outcome.producer, set()).intersection(outcome.sequences):
                self._tell_record(placed, outcome.producer, sequence, f"{became} {outcome.why}".strip())

    def _transaction(self, placed: Placed) -> None:
        entry: entries.Begin | entries.Offset | entries.End
        if placed.kind == entries.Begin.KIND:
            entry = entries.Begin.unpack(placed.body)
            text = "began"
        elif placed.kind == entries.Offset.KIND:
            entry = entries.Offset.unpack(placed.body)
            text = f"takes group {entry.group} to {place_of(self._partitions[entry.partition], entry.offset)}"
        else:
            entry = entries.End.unpack(placed.body)
            text = f"{_ENDS.get(entry.outcome, 'ended')} {entry.why}".strip()
        if (entry.producer, entry.transaction) in self._owners:
            name = f"{self._name(entry.producer)} transaction {entry.transaction}"
            self._tell(("transaction", entry.producer, entry.transaction), placed, f"{name} {text}")

    def _read(self, placed: Placed, read: entries.Read) -> None:
        records, transactions = self._records, self._transactions
        offsets = (offset for first, count in read.runs for offset in range(first, first + count))
        rows = TOKEN.iter_unpack(read.tokens)
        for offset, (producer, _, _, sequence, transaction, *_) in zip(offsets, rows, strict=True):
            mine = producer in records and sequence in records[producer]
            ours = transaction and (producer, transaction) in transactions
            if not mine and not ours:
                continue
            where = place_of(self._partitions[read.partition], offset)
            line = f"{self._name(producer)} #{sequence} seen by {self._views[read.view]} at {where}"
            if mine:
                self._tell(("record", producer, sequence), placed, line)
            if ours:
                self._tell(("seen", producer, transaction), placed, line)

    def _tell_record(self, placed: Placed, producer: int, sequence: int, text: str) -> None:
        self._tell(("record", producer, sequence), placed, f"{self._name(producer)} #{sequence} {text}")

    def _tell(self, key: tuple[str, int, int], placed: Placed, line: str) -> None:
        lines = self._lines[key]
        if len(lines) < _KEPT_OPERATIONS:
            self._order += 1
            seconds = (placed.time_us - self._index.began_us) / 1e6
            lines.append((self._order, f"{seconds:.6f} s {line}"))

    def _name(self, producer: int) -> str:
        state = self._index.producers.get(producer)
        return state.name if state is not None else f"p{producer}"
