"""The entries of a segment's transaction index (`.txnindex`): one for each aborted transaction. See KIP-98."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from kafwire.errors import ProtocolError
from kafwire.protocol.framing import decode_versioned
from kafwire.protocol.spec import Data, field, int64

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

ENTRY_BYTES = 34


class AbortedTxn(Data, versions="0"):
    """An aborted transaction of one partition, after an int16 version; offsets are the log's."""

    producer_id: int64 = field("0+")
    first_offset: int64 = field("0+")
    last_offset: int64 = field("0+")
    last_stable_offset: int64 = field("0+")


def aborted_transactions(data: "BytesLike", start: int = 0) -> Iterator[AbortedTxn]:
    """Yield the entries of an index. Bytes after the last whole entry are ignored: a broker is writing them.

    Args:
        data: a piece of the index that begins with an entry.
        start: the position of the piece in the file, for errors.

    Raises:
        ProtocolError: an entry has a version of unknown size.
    """
    view = memoryview(data).cast("B")
    for position in range(0, len(view) - ENTRY_BYTES + 1, ENTRY_BYTES):
        entry = view[position : position + ENTRY_BYTES]
        version = int.from_bytes(entry[:2], "big", signed=True)
        if version != 0:
            raise ProtocolError(
                f"an entry of version {version}, and only version 0 is known", api="AbortedTxn", offset=start + position
            )
        yield decode_versioned(AbortedTxn, entry)[1]
