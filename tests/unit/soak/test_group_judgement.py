"""The judgement of a group: nothing where it is right, and each planted mistake as what it is."""

from __future__ import annotations

import struct

import pytest

from tests.soak.group_judgement import Commit, GroupProgress, findings, not_once
from tests.soak.group_log import commit_of

LINES = ["R 10 0 0 5", "R 20 0 5 8", "R 15 1 0 3", "A 16 3 0,1", "C 21 ok 0 8", "L 30"]
ENDS = {0: 8, 1: 3}
COMMITS = [Commit(0, 5, 11), Commit(1, 3, 15), Commit(0, 8, 25), Commit(0, 8, 26)]


def progress_of(lines: list[str]) -> GroupProgress:
    progress = GroupProgress()
    for line in lines:
        progress.take(line)
    return progress


def test_a_group_that_did_everything_right() -> None:
    progress = progress_of(LINES)
    assert findings(progress, ENDS, COMMITS) == []
    assert (progress.records, progress.repeated, progress.assignments) == (11, 0, 1)
    assert progress.commits == {"ok": 1}


def test_records_processed_again_are_counted_and_no_mistake() -> None:
    progress = progress_of([*LINES, "R 40 0 2 8"])
    assert findings(progress, ENDS, COMMITS) == []
    assert progress.repeated == 6


@pytest.mark.parametrize(
    ("lines", "ends", "commits", "finding"),
    [
        (["R 10 0 0 5", "R 20 0 6 8"], {0: 8}, [], "record 5 was skipped"),
        (["R 10 0 0 5"], {0: 8}, [], "record 5 was skipped"),
        ([], {0: 1}, [], "record 0 was skipped"),
        (["R 10 0 0 5"], {0: 5}, [Commit(0, 6, 20)], "beyond the processed records"),
        (["R 10 0 0 5"], {0: 5}, [Commit(0, 5, 9)], "beyond the processed records"),
        (["R 20 0 0 1", "R 10 0 1 5"], {0: 5}, [Commit(0, 5, 15)], "beyond the processed records"),
        ([], {}, [Commit(3, 1, 9)], "beyond the processed records"),
        (["R 10 0 0 5"], {0: 5}, [Commit(0, 5, 20), Commit(0, 4, 21)], "committed back"),
    ],
)
def test_each_mistake_is_found(lines: list[str], ends: dict[int, int], commits: list[Commit], finding: str) -> None:
    (found,) = findings(progress_of(lines), ends, commits)
    assert finding in found


def test_a_sink_that_has_each_input_once() -> None:
    assert not_once({0: 2, 1: 1}, [b"0/1", b"1/0", b"0/0"]) == []


@pytest.mark.parametrize(
    ("outputs", "finding"),
    [
        ([b"0/0"], "1 lost, as 0/1"),
        ([b"0/0", b"0/1", b"0/1"], "1 twice, as 0/1"),
        ([b"0/0", b"0/1", b"0/2"], "1 never sent, as 0/2"),
    ],
)
def test_each_mistake_of_a_sink_is_found(outputs: list[bytes], finding: str) -> None:
    assert not_once({0: 2}, outputs) == [finding]


def text(value: str) -> bytes:
    return struct.pack(">h", len(value)) + value.encode()


KEY = struct.pack(">h", 1) + text("g") + text("t") + struct.pack(">i", 4)
HEAD = struct.pack(">qi", 77, 3)


@pytest.mark.parametrize(
    "value",
    [
        struct.pack(">h", 3) + HEAD + text("") + struct.pack(">q", 1_000),
        struct.pack(">h", 3) + HEAD + text("note") + struct.pack(">q", 1_000),
        struct.pack(">h", 4) + HEAD + b"\1" + struct.pack(">q", 1_000) + b"\0",
        struct.pack(">h", 4) + HEAD + b"\5note" + struct.pack(">q", 1_000) + b"\0",
    ],
)
def test_a_commit_of_the_log_is_read(value: bytes) -> None:
    assert commit_of("g", KEY, value) == Commit(4, 77, 1_000)
    assert commit_of("h", KEY, value) is None


def test_records_of_another_kind_are_no_commits() -> None:
    assert commit_of("g", struct.pack(">h", 2) + text("g"), b"") is None
