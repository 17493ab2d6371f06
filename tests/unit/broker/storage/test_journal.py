import contextlib
from typing import Any

import pytest

from kafwire.broker.storage.journal import DamagedError, Journal, encode_line, read_journal
from kafwire.testing.simulation.files import CrashError, SimulatedFiles

LINES: list[tuple[str, Any, Any]] = [
    ("topic", "a", {"n": 1}),
    ("offset", ["g", "a", 0], [7]),
    ("topic", "a", {"n": 2}),
    ("topic", "b", 3),
]


def data(lines: Any = LINES) -> Any:
    return b"".join(encode_line(*line) for line in lines)


def test_the_last_line_of_a_key_counts() -> None:
    entries = read_journal(data([*LINES, ("topic", "b", None)]))
    assert list(entries["topic"].values()) == [("a", {"n": 2})]
    assert list(entries["offset"].values()) == [(["g", "a", 0], [7])]


def test_every_cut_of_the_tail_leaves_the_lines_before_it() -> None:
    whole = data()
    ends = [len(data(LINES[:n])) for n in range(len(LINES) + 1)]
    for cut in range(len(whole) + 1):
        kept = max(n for n, end in enumerate(ends) if end <= cut)
        assert read_journal(whole[:cut]) == read_journal(data(LINES[:kept]))


def test_a_flipped_bit_before_the_last_line_is_an_error() -> None:
    whole = data()
    for at in range(len(data(LINES[:-1])) - 1):
        flipped = bytearray(whole)
        flipped[at] ^= 0x04
        with pytest.raises(DamagedError, match="line"):
            read_journal(bytes(flipped))


def test_it_is_rewritten_and_goes_on() -> None:
    files = SimulatedFiles()
    files.mkdir("/data")
    journal = Journal(files, "/data/journal")
    journal.write("topic", "too early", 1)
    journal.begin(LINES[:1])
    journal.write(*LINES[1])
    again = Journal(files, "/data/journal")
    assert again.of("topic") == [("a", {"n": 1})]
    assert again.of("offset") == [(["g", "a", 0], [7])]


@pytest.mark.parametrize("seed", range(40))
def test_lines_that_were_flushed_survive_a_crash(seed: Any) -> None:
    files = SimulatedFiles(seed)
    files.mkdir("/data")
    journal = Journal(files, "/data/journal", syncs=True)
    journal.begin([])
    for number in range(5):
        journal.write("n", "last", number)
    journal.syncs = False
    journal.write("n", "last", 5)
    files.crash()
    ((_, last),) = Journal(files, "/data/journal").of("n")
    assert last in (4, 5)


@pytest.mark.parametrize("seed", range(40))
def test_a_crash_during_the_rewrite_leaves_the_old_or_the_new(seed: Any) -> None:
    files = SimulatedFiles(seed)
    files.mkdir("/data")
    Journal(files, "/data/journal").begin(LINES)
    files.crash_at = files.operations + 1 + seed % 6
    with contextlib.suppress(CrashError):
        Journal(files, "/data/journal").begin(LINES[:1])
    files.crash()
    assert Journal(files, "/data/journal").entries in (read_journal(data()), read_journal(data(LINES[:1])))
