"""`soak.concealed`: which aborted transactions a broker's index hides from read_committed."""

from __future__ import annotations

import struct
from pathlib import Path

from kafwire.types import TopicPartition
from tests.soak.concealed import concealed


def entry(first: int, last: int, stable: int) -> bytes:
    return struct.pack(">hqqqq", 0, 1001, first, last, stable)


def write(folder: Path, *entries: bytes, base: int = 0) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{base:020}.txnindex").write_bytes(b"".join(entries))


def test_a_leaders_index_conceals_nothing(tmp_path: Path) -> None:
    """A leader appends marker by marker: a transaction that is still open then began before all that end later."""
    write(tmp_path / "t-0", entry(0, 4, 2), entry(2, 6, 7), entry(8, 9, 10))
    assert concealed([tmp_path]) == {}


def test_transactions_behind_one_with_too_high_a_stable_offset_are_concealed(tmp_path: Path) -> None:
    one, other = tmp_path / "1", tmp_path / "2"
    write(one / "a-topic-3", entry(10, 11, 30), entry(12, 14, 15), entry(31, 32, 33))
    write(one / "a-topic-3", entry(20, 25, 26), base=16)
    write(other / "a-topic-3", entry(10, 11, 12), entry(12, 14, 15), entry(40, 42, 50), entry(45, 46, 47))
    write(other / "v-0", entry(1, 2, 4), entry(3, 9, 10))  # hidden from responses that end at its first record
    write(other / "u-0", entry(1, 2, 9), entry(3, 4, 5)[:-1])  # torn: it is written now
    write(other / "gone.1234-delete", entry(1, 2, 9), entry(3, 4, 5))
    assert concealed([one, other]) == {
        TopicPartition("a-topic", 3): [(12, 14), (20, 25), (45, 46)],
        TopicPartition("v", 0): [(3, 9)],
    }
