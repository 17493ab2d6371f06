"""The entries of a segment's indexes: positions by offset (`.index`), offsets by timestamp (`.timeindex`).

A broker adds an entry every `index.interval.bytes` of the segment. Offsets in an entry are relative to the base offset
of the segment, which is in the file's name. The file of an open segment is preallocated: zeros follow its entries.
"""

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

from kafwire.errors import ProtocolError

if TYPE_CHECKING:
    from typing_extensions import Buffer as BytesLike

__all__ = ["OFFSET_INDEX", "TIME_INDEX", "IndexEntry", "IndexFormat", "base_offset", "index_entries"]

_NAME = re.compile(r"(\d{20})(?:[-.]\w+)*")


class IndexEntry(NamedTuple):
    """One entry: the offset of a record, and the position of its batch or a timestamp in ms."""

    at: int  # the position of the entry in the file
    offset: int
    value: int


@dataclass(frozen=True, slots=True)
class IndexFormat:
    """The layout of an index; `value` is Kafka's name of the number after the offset."""

    entry: struct.Struct
    offset_first: bool
    value: str


OFFSET_INDEX = IndexFormat(struct.Struct(">ii"), offset_first=True, value="position")
TIME_INDEX = IndexFormat(struct.Struct(">qi"), offset_first=False, value="timestamp")


def base_offset(name: str) -> int | None:
    """Return the base offset in the name of a segment's file, or None.

    >>> base_offset("00000000000000000042.timeindex")
    42
    """
    found = _NAME.fullmatch(name)
    return int(found[1]) if found else None


def index_entries(data: "BytesLike", form: IndexFormat, base: int) -> Iterator[IndexEntry]:
    """Yield the entries of an index; zeros after them are space that the broker has not used yet.

    Args:
        data: the file.
        form: `OFFSET_INDEX` or `TIME_INDEX`.
        base: the base offset of the segment.

    Raises:
        ProtocolError: an entry does not come after the one before it, or the last one is incomplete. `offset` is its
            position in the file.
    """
    view = memoryview(data).cast("B")
    used = _used_bytes(view, form)
    size = form.entry.size
    last_offset, last_value = base, 0
    for at in range(0, used - size + 1, size):
        first, second = form.entry.unpack_from(view, at)
        relative, value = (first, second) if form.offset_first else (second, first)
        offset = base + relative
        if offset < last_offset or value < last_value:
            raise ProtocolError(
                f"offset {offset} with {form.value} {value} comes after offset {last_offset} with {form.value} "
                f"{last_value}: this is not an index, or it is damaged",
                offset=at,
            )
        last_offset, last_value = offset, value
        yield IndexEntry(at, offset, value)
    if used % size:
        raise ProtocolError(f"the last {used % size} bytes are an incomplete entry", offset=used - used % size)


def _used_bytes(view: memoryview, form: IndexFormat) -> int:
    """Return the bytes of the entries, including an incomplete one after them.

    Only the first entry of a time index can be all zeros: positions are above 0, and offsets grow.
    """
    size, written = form.entry.size, len(bytes(view).rstrip(b"\0"))
    used = min(len(view), -(-written // size) * size)
    if not written and form is TIME_INDEX and len(view) == size:
        return size  # timestamp 0 at the base offset, in a file that a broker has trimmed
    return used
