"""Transaction indexes of segments: entries as Kafka writes them, torn and of an unknown version."""

import struct

import pytest

from kafwire.errors import ProtocolError
from kafwire.protocol import AbortedTxn
from kafwire.protocol.transaction_index import ENTRY_BYTES, aborted_transactions

ENTRIES = [
    AbortedTxn(producer_id=1000, first_offset=3, last_offset=9, last_stable_offset=10),
    AbortedTxn(producer_id=7, first_offset=12, last_offset=(1 << 63) - 1, last_stable_offset=12),
]
INDEX = b"".join(
    struct.pack(">hqqqq", 0, each.producer_id, each.first_offset, each.last_offset, each.last_stable_offset)
    for each in ENTRIES
)


def test_each_entry_is_read() -> None:
    assert len(INDEX) == 2 * ENTRY_BYTES
    assert list(aborted_transactions(INDEX)) == ENTRIES
    assert list(aborted_transactions(b"")) == []


@pytest.mark.parametrize("cut", [1, ENTRY_BYTES - 1])
def test_a_torn_entry_is_left_alone(cut: int) -> None:
    assert list(aborted_transactions(memoryview(INDEX)[:-cut])) == ENTRIES[:1]


@pytest.mark.parametrize("version", [1, -1])
def test_an_unknown_version_is_an_error_with_its_place(version: int) -> None:
    damaged = INDEX[:ENTRY_BYTES] + struct.pack(">h", version) + INDEX[ENTRY_BYTES + 2 :]
    found = aborted_transactions(damaged, start=340)
    assert next(found) == ENTRIES[0]
    with pytest.raises(ProtocolError, match=f"an entry of version {version}") as caught:
        next(found)
    assert caught.value.offset == 340 + ENTRY_BYTES
