"""The file under a history: it survives what kills its writer, is gone on with, and is never half believed."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from kafwire.testing.history import History, HistoryError, check
from kafwire.testing.history.log import LogReader
from kafwire.types import TopicPartition
from tests.support.deadlines import ended

T0 = TopicPartition("t", 0)


def small(path: Path) -> None:
    with History(path) as history:
        writer = history.producer(1, "kafwire")
        transaction = writer.begin()
        made = writer.invoke([1, 2, 3], transaction=transaction)
        writer.ok_all([0, 1], "t", 0, [0, 1])
        writer.fail([2], "refused")
        writer.offsets(transaction, "g", {T0: 7})
        writer.end(transaction, "commit")
        seen = history.view("kafwire", "read_committed")
        seen.add("t", 0, [0, 1], [value for _, value in made[:2]])
        seen.close({T0: (0, 3)})
        history.group_offsets("g", {T0: 7})


def ends(path: Path) -> list[int]:
    with LogReader(path) as reader:
        return [placed.end for placed in reader.entries()]


def test_a_torn_entry_is_left_out_and_cut_off(tmp_path: Path) -> None:
    whole = tmp_path / "whole"
    small(whole)
    data = whole.read_bytes()
    known = ends(whole)
    assert known[-1] == len(data)
    torn = tmp_path / "torn"
    for length in range(len(data)):
        torn.write_bytes(data[:length])
        kept = [end for end in known if end <= length]
        assert ends(torn) == kept
        report = check(torn)
        assert not report.found["phantom"]
        with History(torn) as history:
            assert torn.stat().st_size == (kept[-1] if kept else 18)
            writer = history.producer(1, "kafwire")
            ((sequence, _),) = writer.invoke([9])
            assert sequence == (3 if len(kept) > 2 else 0)
            assert writer.begin() == (2 if len(kept) > 1 else 1)
        assert check(torn).counts["invoked"] == sequence + 1


def test_entries_are_read_by_position_too(tmp_path: Path) -> None:
    path = tmp_path / "history"
    small(path)
    with LogReader(path) as reader:
        whole = list(reader.entries())
        assert [placed for placed in reader.entries() if reader.at(whole[3].position) == whole[3]] == whole


def test_a_changed_byte_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "history"
    small(path)
    data = path.read_bytes()
    for place in range(len(data)):
        path.write_bytes(data[:place] + bytes([data[place] ^ 0x40]) + data[place + 1 :])
        with pytest.raises(HistoryError, match=r"damaged|not a history"):
            check(path)
        with pytest.raises(HistoryError, match=r"damaged|not a history"):
            History(path)
        assert path.stat().st_size == len(data)


def test_a_killed_process_leaves_its_intended_sends(tmp_path: Path) -> None:
    path = tmp_path / "history"
    program = f"""
        from kafwire.testing.history import History
        history = History({str(path)!r})
        writer = history.producer(1, "killed")
        while True:
            for sequence, _ in writer.invoke(range(10)):
                writer.ok(sequence, "t", 0, sequence)
            print(writer.next_sequence, flush=True)
    """
    with subprocess.Popen([sys.executable, "-c", textwrap.dedent(program)], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        reported = 0
        while reported < 20_000:
            reported = int(process.stdout.readline())
        process.send_signal(signal.SIGKILL)
        rest = [line for line in process.stdout.read().split(b"\n")[:-1] if line]
        reported = int(rest[-1]) if rest else reported
    counts = check(path).counts
    assert counts["invoked"] >= reported
    assert counts["acked"] >= reported - 4096 - 10
    with History(path) as history:
        assert history.producer(1).next_sequence == counts["invoked"]
        assert history.producer(1).name == "killed"


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with History(path), pytest.raises(HistoryError, match="is being written already"):
        History(path)
    History(path).close()


def test_a_full_disk_leaves_no_half_entry(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "history"
    write = os.pwrite
    room = 5

    def full(fd: int, data: bytes, offset: int) -> int:
        nonlocal room
        if not room:
            raise OSError(errno.ENOSPC, "no space")
        count, room = min(room, len(data)), 0
        return write(fd, data[:count], offset)

    with History(path) as history:
        writer = history.producer(1)
        writer.invoke([1])
        before = path.stat().st_size
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", full)
            with pytest.raises(OSError, match="no space"):
                writer.invoke([1])
        assert path.stat().st_size == before
        assert writer.next_sequence == 1
        writer.invoke([2])
    assert check(path).counts["invoked"] == 2


def test_threads_write_to_one_history(tmp_path: Path) -> None:
    path = tmp_path / "history"
    with History(path) as history:

        def work(number: int) -> None:
            writer = history.producer(number)
            for _ in range(200):
                for sequence, _ in writer.invoke([1] * 10):
                    writer.ok(sequence, "t", number, sequence)

        threads = [threading.Thread(target=work, args=(number,)) for number in range(1, 5)]
        for thread in threads:
            thread.start()
        ended(*threads)
    counts = check(path).counts
    assert (counts["invoked"], counts["acked"], counts["unread"]) == (8000, 8000, 8000)


def test_impossible_histories_are_refused(tmp_path: Path) -> None:
    with History(tmp_path / "history") as history:
        for number in (0, 65535, -1):
            with pytest.raises(HistoryError, match="numbers from 1 to 65534"):
                history.producer(number)
        with pytest.raises(HistoryError, match="promises some of"):
            history.producer(1, promises=["torn"])
        with pytest.raises(HistoryError, match="isolation_level"):
            history.view("x", "serializable")
        writer = history.producer(1)
        writer.invoke([1])
        for sequences in ([1], [-1], []):
            with pytest.raises(HistoryError, match="has invoked the sequences below 1"):
                writer.fail(sequences)
        for transaction in (1, -1):
            with pytest.raises(HistoryError, match="did not begin"):
                writer.invoke([1], transaction=transaction)
        assert writer.next_sequence == 1
        with pytest.raises(HistoryError, match="ends in one of"):
            writer.end(writer.begin(), "maybe")
        with pytest.raises(HistoryError, match="24 bytes at least"):
            writer.invoke([1], size=23)
        for key in (-1, 1 << 32):
            with pytest.raises(HistoryError, match="keys are numbers from 0"):
                writer.invoke([1, key])
        assert writer.next_sequence == 1


def test_contradictions_are_refused(tmp_path: Path) -> None:
    paths = [tmp_path / "a", tmp_path / "b"]
    for path in paths:
        with History(path) as history:
            writer = history.producer(1)
            transaction = writer.begin()
            writer.end(transaction, "unknown")
            writer.end(transaction, "commit")
            writer.end(transaction, "commit")
    assert check(paths[0]).counts["committed"] == 1
    with pytest.raises(HistoryError, match="a second producer 1"):
        check(*paths)
    with History(paths[0]) as history:
        history.producer(1).end(1, "abort")
    with pytest.raises(HistoryError, match="ends twice, differently"):
        check(paths[0])


def test_another_file_is_not_taken_for_a_history(tmp_path: Path) -> None:
    path = tmp_path / "other"
    path.write_bytes(b"something else entirely")
    for opened in (check, History):
        with pytest.raises(HistoryError, match="not a history"):
            opened(path)
    assert path.read_bytes() == b"something else entirely"
