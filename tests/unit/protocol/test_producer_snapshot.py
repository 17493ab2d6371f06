"""A broker's snapshot of producers: its checksum, and bytes that are none."""

from __future__ import annotations

import pytest

from kafwire._codec import crc32c_of
from kafwire.errors import ProtocolError
from kafwire.protocol import encode_versioned
from kafwire.protocol.producer_snapshot import ProducerSnapshot, producer_snapshot

ENTRY = ProducerSnapshot.ProducerEntry(producer_id=1000, epoch=3, last_offset=9, current_txn_first_offset=-1)


def snapshot() -> bytes:
    data = encode_versioned(ProducerSnapshot(crc=0, producer_entries=[ENTRY, ENTRY]), 1)
    return data[:2] + crc32c_of(data[6:]).to_bytes(4, "big") + data[6:]


def test_a_snapshot_is_read() -> None:
    assert producer_snapshot(snapshot()).producer_entries == [ENTRY, ENTRY]


@pytest.mark.parametrize("at", range(2, len(snapshot())))
def test_damage_is_found_by_the_checksum(at: int) -> None:
    data = bytearray(snapshot())
    data[at] ^= 1
    with pytest.raises(ProtocolError):
        producer_snapshot(data)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"\0\2" + bytes(8), "a snapshot of version 2, but only version 1 is supported"),
        (b"", "a version takes 2 bytes"),
        (b"\0\1\0", "crc"),
        (snapshot()[:-1], "producer_entries"),
    ],
)
def test_bytes_that_are_no_snapshot(data: bytes, text: str) -> None:
    with pytest.raises(ProtocolError, match=text):
        producer_snapshot(data)
