"""A broker's snapshot of the producers of a partition (`.snapshot`): epochs, sequence numbers, open transactions."""

from typing import TYPE_CHECKING

from kafwire.errors import ProtocolError
from kafwire.protocol.framing import decode_versioned
from kafwire.protocol.spec import Data, Struct, field, int16, int32, int64, uint32

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["ProducerSnapshot", "producer_snapshot"]

# Before the entries: an int16 version, and the checksum of all bytes after it.
_CRC_AT = 2
_ENTRIES_AT = 6


class ProducerSnapshot(Data, versions="1"):
    """The producers that a broker remembers for a partition, after an int16 version.

    For a producer's last batch: `last_sequence` and `last_offset` of its last record, `offset_delta` from its first to
    its last record. `current_txn_first_offset` is -1 if no transaction is open.
    """

    class ProducerEntry(Struct):
        producer_id: int64 = field("1")
        epoch: int16 = field("1")
        last_sequence: int32 = field("1")
        last_offset: int64 = field("1")
        offset_delta: int32 = field("1")
        timestamp: int64 = field("1")
        coordinator_epoch: int32 = field("1")
        current_txn_first_offset: int64 = field("1")

    crc: uint32 = field("1")
    producer_entries: list[ProducerEntry] = field("1")


def producer_snapshot(data: "BytesLike") -> ProducerSnapshot:
    """Decode the snapshot in a file.

    Raises:
        ProtocolError: the version is unknown, the checksum is wrong, or the bytes are not exactly one snapshot.
    """
    from kafwire._codec import crc32c_of  # the messages are imported without the codecs

    view = memoryview(data).cast("B")
    version = int.from_bytes(view[:_CRC_AT], "big", signed=True)
    if len(view) >= _CRC_AT and not ProducerSnapshot.min_version <= version <= ProducerSnapshot.max_version:
        known = ProducerSnapshot.max_version
        raise ProtocolError(
            f"a snapshot of version {version}, but only version {known} is supported", api="ProducerSnapshot", offset=0
        )
    snapshot = decode_versioned(ProducerSnapshot, view)[1]
    crc = crc32c_of(view[_ENTRIES_AT:])
    if crc != snapshot.crc:
        raise ProtocolError(
            f"the checksum is {snapshot.crc}, but that of the entries is {crc}: the file is damaged",
            api="ProducerSnapshot",
            offset=_CRC_AT,
        )
    return snapshot
