"""A history's files as one index: what it takes in of each entry, and entries that no writer writes."""

from __future__ import annotations

from array import array
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from kafwire.testing.history import entries, log
from kafwire.testing.history.index import ACKED, FAILED, Index
from kafwire.testing.history.log import HistoryError, LogReader, LogWriter
from kafwire.testing.history.tokens import EMPTY, SIZE
from kafwire.types import TopicPartition

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
PARTITION, PRODUCER, VIEWING = (
    entries.Partition(0, 0, "t"),
    entries.Producer(1, 0, "p"),
    entries.Viewing(0, 0, False, "v"),
)


def numbers(*values: int) -> array[int]:
    return array("I", values)


def read(tmp_path: Path, *written: Any, name: str = "history") -> Index:
    path = tmp_path / name
    writer = LogWriter(path, lambda _: None)
    writer.append((entry.KIND, entry.pack()) for entry in written)
    writer.close()
    return Index([path])


CONTRADICTIONS: dict[str, tuple[tuple[Any, ...], str]] = {
    "a number left out": ((entries.Partition(1, 0, "t"),), "partition number 1, where 0 is next"),
    "a number twice": ((PARTITION, entries.Partition(0, 1, "t")), "partition number 0, where 1 is next"),
    "a view left out": ((entries.Viewing(1, 0, False, "v"),), "view number 1, where 0 is next"),
    "a producer twice": ((PRODUCER, entries.Producer(1, 0, "q")), "a second producer 1"),
    "no producer": ((entries.Invoke(2, 0, 1, 0),), "there is no producer 2"),
    "records left out": ((PRODUCER, entries.Invoke(1, 1, 1, 0)), "invokes 1 records from 1 in transaction 0, after 0"),
    "no transaction to send in": ((PRODUCER, entries.Invoke(1, 0, 1, 1)), "in transaction 1, after 0 records and 0 "),
    "a transaction left out": ((PRODUCER, entries.Begin(1, 2)), "begins transaction 2, where 1 is next"),
    "no transaction": ((PRODUCER, entries.End(1, 1, entries.COMMIT, "")), "producer 1 has no transaction 1"),
    "the transaction that is none": ((PRODUCER, entries.End(1, 0, entries.COMMIT, "")), "has no transaction 0"),
    "offsets of no transaction": ((PARTITION, PRODUCER, entries.Offset(1, 1, 0, 5, "g")), "has no transaction 1"),
    "an acknowledgement of nothing": (
        (PARTITION, PRODUCER, entries.Invoke(1, 0, 2, 0), entries.Ok(1, 0, numbers(1, 2), [5, 6])),
        "producer 1 has an outcome for 2, and invoked 2 records",
    ),
    "a failure of nothing": (
        (PRODUCER, entries.Invoke(1, 0, 2, 0), entries.Outcome(1, True, numbers(2), "why")),
        "producer 1 has an outcome for 2, and invoked 2 records",
    ),
    "two ends": (
        (PRODUCER, entries.Begin(1, 1), entries.End(1, 1, entries.ABORT, ""), entries.End(1, 1, entries.COMMIT, "")),
        "ends twice, differently",
    ),
    "an end that is not known any more": (
        (PRODUCER, entries.Begin(1, 1), entries.End(1, 1, entries.COMMIT, ""), entries.End(1, 1, entries.UNKNOWN, "")),
        "ends twice, differently",
    ),
}


@pytest.mark.parametrize("what", CONTRADICTIONS)
def test_entries_that_no_writer_writes_are_refused(tmp_path: Path, what: str) -> None:
    written, reported = CONTRADICTIONS[what]
    with pytest.raises(HistoryError, match=rf"history, byte \d+: .*{reported}"):
        read(tmp_path, *written)


def test_an_unknown_kind_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    writer = LogWriter(path, lambda _: None)
    writer.append([(99, b"")])
    writer.close()
    with pytest.raises(HistoryError, match=r"an entry of unknown kind 99 at byte 18"):
        Index([path])


EACH = (
    entries.Partition(7, 3, "grün"),
    entries.Producer(7, 5, ""),
    entries.Invoke(1, 2, 3, 4),
    entries.Begin(1, 2),
    entries.Offset(1, 2, 3, 1 << 40, "g"),
    entries.End(1, 2, 3, "why"),
    entries.Viewing(1, 1, True, "v"),
    entries.Moved(1, 2, 1 << 40, True, "gone"),
    entries.Remark(1, 2, 1 << 40, "twice"),
    entries.GroupOffset(1, -1, "g"),
    entries.Outcome(1, False, numbers(1, 2), "lost"),
    entries.Viewed(3, [(0, 0, 5), (1, 2, 3)]),
)


@pytest.mark.parametrize("entry", EACH, ids=lambda entry: type(entry).__name__)
def test_each_entry_comes_back_as_it_was(entry: Any) -> None:
    assert type(entry).unpack(entry.pack()) == entry


@pytest.mark.parametrize("offsets", [[5, 6, 7], [5, 7, 6], [5, 6, 8], [-1, -1, -1], [-1, 5, 6], [5, -1, 6]])
def test_an_acknowledgement_comes_back_with_its_offsets(offsets: list[int]) -> None:
    entry = entries.Ok(1, 2, numbers(8, 9, 10), offsets)
    again = entries.Ok.unpack(entry.pack())
    assert (again.producer, again.partition, again.sequences, list(again.offsets)) == (1, 2, entry.sequences, offsets)


def test_read_records_come_back_with_their_tokens() -> None:
    tokens = [bytes([n]) * SIZE for n in range(1, 6)]
    entry = entries.Read.of(1, 2, [(10, 2), (20, 3)], b"".join(tokens))
    again = entries.Read.unpack(entry.pack())
    assert (again.view, again.partition, list(again.runs)) == (1, 2, [(10, 2), (20, 3)])
    assert [again.token_at(offset) for offset in (10, 11, 20, 21, 22)] == tokens
    assert {again.token_at(offset) for offset in (9, 12, 19, 23)} == {EMPTY}
    twice = entries.Read.of(1, 2, [(10, 2), (11, 1)], b"".join(tokens[:3]))
    assert twice.token_at(11) == tokens[2]
    assert entries.Read.of(1, 2, [], b"").tokens == b""


def test_records_and_transactions_are_counted(tmp_path: Path) -> None:
    index = read(
        tmp_path,
        PARTITION,
        entries.Partition(1, 1, "t"),
        entries.Producer(1, 3, ""),
        entries.Invoke(1, 0, 2, 0),
        entries.Begin(1, 1),
        entries.Invoke(1, 2, 3, 1),
        entries.Invoke(1, 5, 1, 1),
        entries.Invoke(1, 6, 1, 0),
        entries.Ok(1, 0, numbers(0, 2), [9, 4]),
        entries.Ok(1, 1, numbers(1), [-1]),
        entries.Outcome(1, True, numbers(3, 6), "refused"),
        entries.Outcome(1, True, numbers(3), "reported again"),
        entries.Outcome(1, False, numbers(4), "lost"),
        entries.Offset(1, 1, 1, 7, "g"),
        entries.End(1, 1, entries.UNKNOWN, ""),
        entries.End(1, 1, entries.COMMIT, ""),
    )
    state = index.producers[1]
    assert (state.name, len(state.promises)) == ("p1", 2)
    assert [n for n, flags in enumerate(state.flags) if flags & ACKED] == [0, 1, 2]
    assert [n for n, flags in enumerate(state.flags) if flags & FAILED] == [3, 6]
    assert [state.transaction_of(n) for n in range(7)] == [0, 0, 1, 1, 1, 1, 0]
    assert (list(state.sent), list(state.failed), list(state.outcome)) == ([3, 4], [1, 1], [0, entries.COMMIT])
    assert list(index.acks) == [T0], "without an offset it says nothing of a place"
    assert (list(index.acks[T0].low), list(index.acks[T0].high)) == ([4], [9])
    assert entries.Ok.unpack(index.body(index.acks[T0].place[0])).sequences == numbers(0, 2)
    assert index.taken == {("g", T1): [(1, 1, 7)]}
    index.close()


def test_views_know_their_range(tmp_path: Path) -> None:
    index = read(
        tmp_path,
        PARTITION,
        entries.Partition(1, 1, "t"),
        VIEWING,
        entries.Viewing(1, entries.COMMITTED, True, "live"),
        entries.Viewing(2, 0, False, "killed"),
        entries.Read.of(0, 0, [(10, 2), (20, 3)], b""),
        entries.Read.of(0, 0, [(22, 1), (30, 1)], b""),
        entries.Viewed(0, [(0, 12, 15), (1, 5, 5)]),
        entries.Moved(1, 0, 3, False, "start"),
        entries.Read.of(1, 0, [(3, 2)], b""),
        entries.Moved(1, 0, 9, True, "gone"),
        entries.Moved(1, 0, 4, False, "back"),
        entries.Read.of(1, 0, [(4, 1)], b""),
        entries.Moved(1, 0, 4, True, "nothing is gone"),
        entries.Moved(1, 1, 8, True, "none before"),
        entries.Remark(1, 0, 4, "odd"),
        entries.GroupOffset(0, 5, "g"),
    )
    [whole] = index.views
    [live] = index.live
    assert (whole.complete, whole.live, whole.records) == (True, False, 7)
    assert whole.ranges == {T0: (10, 31), T1: (5, 5)}
    assert [(where, offset, before) for where, offset, before, _ in whole.returns] == [(T0, 22, 22)]
    assert (live.isolation, live.complete, live.records) == (entries.COMMITTED, True, 3)
    assert live.excused == {T0: [(5, 9)]}
    assert live.ranges == {T0: (3, 9), T1: (8, 8)}
    assert not live.returns, "it said that it goes back"
    assert index.remarks == {(T0, 4): "odd"}
    assert [offset for _, offset in index.observed.values()] == [5]
    assert index.partitions == [T0, T1]
    assert len(list(index.files())) == 1
    index.close()


def test_only_a_whole_view_from_after_the_end_settles_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    now = [1_000_000_000]
    monkeypatch.setattr(log, "time", SimpleNamespace(time_ns=lambda: now[0]))

    def settled(name: str, *, isolation: int, covers: list[tuple[int, int, int]], late: bool, complete: bool) -> bool:
        path = tmp_path / name
        writer = LogWriter(path, lambda _: None)

        def write(*written: Any) -> None:
            writer.append((entry.KIND, entry.pack()) for entry in written)

        write(PARTITION, entries.Partition(1, 1, "t"), PRODUCER, entries.Invoke(1, 0, 2, 0))
        view = entries.Viewing(0, isolation, False, "v")
        if not late:
            write(view)
            now[0] += 1_000_000
        write(entries.Ok(1, 0, numbers(0), [0]), entries.Ok(1, 1, numbers(1), [0]))
        now[0] += 1_000_000
        if late:
            write(view)
        write(entries.Viewing(1, entries.COMMITTED, False, "w"), entries.Viewed(1, [(0, 0, 1), (1, 0, 1)]))
        if complete:
            write(entries.Viewed(0, covers))
        writer.close()
        index = Index([path])
        index.close()
        return index.settled

    both = [(0, 0, 1), (1, 0, 1)]
    assert settled("good", isolation=0, covers=both, late=True, complete=True)
    assert not settled("committed", isolation=1, covers=both, late=True, complete=True)
    assert not settled("half", isolation=0, covers=both[:1], late=True, complete=True)
    assert not settled("late start", isolation=0, covers=[(0, 0, 1), (1, 1, 1)], late=True, complete=True)
    assert not settled("early", isolation=0, covers=both, late=False, complete=True)
    assert not settled("killed", isolation=0, covers=both, late=True, complete=False)


def test_a_clock_that_is_set_back_turns_nothing_round(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    times = iter([5_000_000, 9_000_000, 2_000_000, 3_000_000])
    monkeypatch.setattr(log, "time", SimpleNamespace(time_ns=lambda: next(times)))
    path = tmp_path / "history"
    writer = LogWriter(path, lambda _: None)
    for entry in (PRODUCER, entries.Invoke(1, 0, 1, 0), VIEWING, PARTITION):
        writer.append([(entry.KIND, entry.pack())])
    writer.close()
    index = Index([path])
    assert (index.began_us, index.last_operation_us) == (5_000, 9_000)
    index.close()


def test_files_are_one_history_with_numbers_of_their_own(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for number, path in enumerate(paths, 1):
        writer = LogWriter(path, lambda _: None)
        written = (
            entries.Partition(0, number, "t"),
            entries.Producer(number, 0, f"of {path.name}"),
            entries.Invoke(number, 0, 1, 0),
            entries.Ok(number, 0, numbers(0), [number]),
        )
        writer.append((entry.KIND, entry.pack()) for entry in written)
        writer.close()
    index = Index(paths)
    assert {n: state.name for n, state in index.producers.items()} == {1: "of a", 2: "of b"}
    assert index.partitions == [T1, TopicPartition("t", 2)]
    for number, spans in enumerate(index.acks.values(), 1):
        assert entries.Ok.unpack(index.body(spans.place[0])).producer == number
    index.close()


def test_an_entry_that_is_cut_off_meanwhile_is_missed(tmp_path: Path) -> None:
    index = read(tmp_path, PARTITION, PRODUCER, entries.Invoke(1, 0, 1, 0), entries.Ok(1, 0, numbers(0), [0]))
    place = index.acks[T0].place[0]
    path = tmp_path / "history"
    with path.open("r+b") as file:
        file.truncate(place)
    with pytest.raises(HistoryError, match=f"the entry at byte {place} is gone"):
        index.body(place)
    index.close()
    with LogReader(path) as reader:
        assert [placed.kind for placed in reader.entries()] == [1, 2, 3]
