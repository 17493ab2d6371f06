"""`producer.outcome.log_search`: which batches are found, where, and whether all of the span was seen."""

import struct

import pytest

from kafwire._codec import crc32c_of
from kafwire.errors import ProtocolError
from kafwire.producer.outcome.log_search import FoundBatch, LogSearch, Numbers
from kafwire.producer.outcome.sequencer import SEQUENCE_LIMIT

PID, EPOCH = 7, 3
APPENDED = 0x08


def batch(
    base: int,
    sequence: int,
    count: int = 1,
    *,
    pid: int = PID,
    epoch: int = EPOCH,
    attributes: int = 0,
    body: bytes = b"r",
) -> bytes:
    """A batch of magic 2, as KIP-98 lays it out."""
    under_crc = struct.pack(">hiqqqhii", attributes, count - 1, 1_000, 1_234, pid, epoch, sequence, count) + body
    return struct.pack(">qiibI", base, 9 + len(under_crc), 0, 2, crc32c_of(under_crc)) + under_crc


def old(base: int) -> bytes:
    """A message of magic 1: it names no producer."""
    return struct.pack(">qiIbbqii", base, 22, 0, 1, 0, 0, -1, -1)


def numbers(sequence: int, count: int = 1, *, pid: int = PID, epoch: int = EPOCH) -> Numbers:
    return Numbers(pid, epoch, sequence, count)


def looked(wanted: dict[str, Numbers], *records: bytes, position: int = 10) -> LogSearch[str]:
    search = LogSearch(wanted, position)
    for part in records:
        search.feed(part)
    return search


def test_what_was_sent_is_found_where_it_is() -> None:
    search = looked({"a": numbers(5, 2), "b": numbers(7)}, batch(10, 5, 2) + batch(12, 7), position=10)
    assert search.found == {"a": FoundBatch(10), "b": FoundBatch(12)}
    assert search.is_over
    assert search.is_whole
    assert search.position == 13


def test_a_missing_batch_is_not_found() -> None:
    search = looked({"a": numbers(5), "b": numbers(6)}, batch(10, 5))
    assert search.found == {"a": FoundBatch(10)}
    assert not search.is_over
    assert looked({}, b"").is_over


@pytest.mark.parametrize(
    "other",
    [(PID + 1, EPOCH), (PID, EPOCH + 1), (PID, EPOCH - 1)],
)
def test_batches_of_others_are_not_meant(other: tuple[int, int]) -> None:
    pid, epoch = other
    assert looked({"a": numbers(5)}, batch(10, 5, pid=pid, epoch=epoch)).found == {}
    both = looked({"a": numbers(5), "b": numbers(5, pid=pid, epoch=epoch)}, batch(10, 5))
    assert both.found == {"a": FoundBatch(10)}


@pytest.mark.parametrize(
    ("sequence", "count", "found"),
    [
        (5, 4, True),
        (5, 3, True),  # the first of it
        (6, 3, True),  # the last of it
        (6, 2, True),
        (6, 4, False),  # longer than the stored batch
        (4, 2, False),  # begins before
        (9, 1, False),
        (8, 1, True),
    ],
)
def test_a_batch_inside_of_a_larger_one(sequence: int, count: int, found: bool) -> None:
    search = looked({"a": numbers(sequence, count)}, batch(10, 5, 4))
    where = FoundBatch(10) if (sequence, count) == (5, 4) else FoundBatch(-1)
    assert search.found == ({"a": where} if found else {})


def test_numbers_wrap() -> None:
    search = looked({"a": numbers(0), "b": numbers(1)}, batch(10, SEQUENCE_LIMIT - 1, 2))
    assert search.found == {"a": FoundBatch(-1)}


@pytest.mark.parametrize(
    ("records", "own"),
    [(batch(10, 5, 4) + batch(14, 6), 14), (batch(10, 6) + batch(11, 5, 4), 10)],
    ids=["larger first", "own first"],
)
def test_its_own_place_is_better_than_one_inside_of_a_larger(records: bytes, own: int) -> None:
    assert looked({"a": numbers(6)}, records).found == {"a": FoundBatch(own)}


def test_when_it_was_appended_if_the_topic_says() -> None:
    search = looked(
        {"a": numbers(5), "b": numbers(7)}, batch(10, 5, attributes=APPENDED) + batch(11, 6, 2, attributes=0x01)
    )
    assert search.found == {"a": FoundBatch(10, 1_234), "b": FoundBatch(-1, -1)}
    assert looked({"a": numbers(6)}, batch(10, 5, 2, attributes=APPENDED)).found == {"a": FoundBatch(-1, 1_234)}


def test_what_lies_before_the_position_does_not_count() -> None:
    search = looked({"a": numbers(5)}, batch(8, 5, 2), position=10)
    assert (search.found, search.position, search.is_whole) == ({}, 10, True)
    search = looked({"a": numbers(5, 3)}, batch(8, 5, 3), position=10)  # its last record is the first to be seen
    assert (search.found, search.position, search.is_whole) == ({"a": FoundBatch(8)}, 11, True)


def test_a_gap_makes_it_incomplete_for_good() -> None:
    assert looked({}, batch(10, 0) + batch(11, 1)).is_whole
    search = looked({}, batch(11, 0))
    assert (search.is_whole, search.position) == (False, 12)
    search.feed(batch(12, 1))
    assert not search.is_whole
    assert not looked({}, old(10)).is_whole
    assert looked({}, old(9)).is_whole


def test_old_messages_are_passed_over() -> None:
    search = looked({"a": numbers(5)}, old(10) + batch(11, 5))
    assert search.found == {"a": FoundBatch(11)}
    assert search.position == 12


def test_a_batch_that_is_cut_off_waits_for_the_next_response() -> None:
    whole = batch(10, 5) + batch(11, 6)
    for end in range(len(batch(10, 5)), len(whole)):
        search = LogSearch({"a": numbers(6)}, 10)
        assert search.feed(whole[:end])
        assert (search.found, search.position) == ({}, 11)
        assert search.feed(batch(11, 6))
        assert search.found == {"a": FoundBatch(11)}
    search = LogSearch({"a": numbers(5)}, 10)
    assert not search.feed(whole[:20])
    assert not search.feed(b"")
    assert not search.feed(batch(9, 5))


def test_a_batch_of_the_least_size_is_read() -> None:
    assert looked({"a": numbers(5)}, batch(10, 5, body=b"")).found == {"a": FoundBatch(10)}


@pytest.mark.parametrize(
    "damaged",
    [
        struct.pack(">qiib", 10, 48, 0, 2),  # shorter than its header
        struct.pack(">qiib", 10, 0, 0, 1),
        struct.pack(">qiib", 10, -5, 0, 0),
        struct.pack(">qiib", 10, -5, 0, 2) + bytes(100),
    ],
)
def test_lengths_that_cannot_be_are_damage(damaged: bytes) -> None:
    with pytest.raises(ProtocolError, match="shorter than its header"):
        looked({}, damaged)
    with pytest.raises(ProtocolError):
        looked({}, batch(10, 5) + damaged)
    assert looked({}, struct.pack(">qiib", 10, 100, 0, 1)).position == 10  # cut off, but not impossible
    assert looked({}, struct.pack(">qiib", 10, 1, 0, 1)).position == 11


def test_a_wrong_checksum_is_damage() -> None:
    good = batch(10, 5)
    for at in range(21, len(good)):
        bad = bytearray(good)
        bad[at] ^= 1
        with pytest.raises(ProtocolError, match="checksum"):
            looked({}, bytes(bad))
    assert looked({}, good[:12] + b"\1\1\1\1" + good[16:]).position == 11  # the leader epoch is not under it
