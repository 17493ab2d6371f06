"""One segment of a log on disk: a file of batches and its two indexes, named after its base offset, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafwire.broker.log.batch_header import HEADER_SIZE, BatchHeader, is_intact, read_header
from kafwire.broker.storage.files import FilePool, OpenFile
from kafwire.broker.storage.indexes import OffsetIndex, TimeIndex
from kafwire.errors import ProtocolError

SUFFIXES = (".log", ".index", ".timeindex")
_CHUNK = 16 << 10  # bytes read at once for headers
_COPIED = 1 << 20
_LARGEST = (1 << 31) - 1  # the largest relative offset of a record


class Lease:
    """A reference to a span of a segment's file: while it exists, the file stays open and its bytes unchanged."""

    __slots__ = ("_file", "_segment")

    def __init__(self, segment: Segment, opened: OpenFile) -> None:
        self._segment = segment
        self._file = opened
        segment.leases += 1

    def __del__(self) -> None:
        self._segment.leases -= 1


def segment_path(folder: str, base_offset: int, suffix: str) -> str:
    """Return the path of a segment's file."""
    return f"{folder}/{base_offset:020}{suffix}"


class Segment:
    """A segment; missing files are created. Offsets and timestamps are known after `load` or `recover`."""

    def __init__(self, pool: FilePool, folder: str, base_offset: int) -> None:
        self.base_offset = base_offset
        self.folder = folder
        self.leases = 0
        self.path = segment_path(folder, base_offset, ".log")
        self._pool = pool
        self.index = OffsetIndex(pool, segment_path(folder, base_offset, ".index"), base_offset)
        self.times = TimeIndex(pool, segment_path(folder, base_offset, ".timeindex"), base_offset)
        self.size = pool.files.size(pool.get(self.path).descriptor)
        self.next_offset = base_offset
        self.first_timestamp: int | None = None
        self._largest = self.times.last
        self._since_entry = 0  # bytes appended after the last index entry
        self.cut_off = 0  # bytes that `recover` has cut off

    # --- opening

    def load(self) -> bool:
        """Read the batches from the last index entry on. Returns False if the files do not match."""
        if not (self.index.is_sane and self.times.is_sane) or self.index.last_position > self.size:
            return False
        position = self.index.last_position
        try:
            for at, header in self.walk(position, self.size):
                if at + header.size > self.size:
                    return False
                self._learn(header)
                position = at + header.size
        except ProtocolError:
            return False
        return position == self.size

    def recover(self, index_interval: int) -> None:
        """Read all batches, cut off the first broken one and the rest, and rebuild the indexes."""
        self.index.cut(0)
        self.times.cut(0)
        self._forget()
        position = 0
        try:
            for at, header in self.walk(0, self.size):
                belongs = self.next_offset <= header.base_offset <= header.last_offset <= self.base_offset + _LARGEST
                if not belongs or not self._is_whole(at, header):
                    break
                self._enter(header, at, index_interval)
                position = at + header.size
        except ProtocolError:
            pass
        self.cut_off = self.size - position
        if self.cut_off:
            self._pool.files.truncate(self._file.descriptor, position)
            self.size = position
        self.end_times()

    def _is_whole(self, position: int, header: BatchHeader) -> bool:
        if position + header.size > self.size:
            return False
        data = self._pool.files.pread(self._file.descriptor, header.size, position)
        if len(data) < header.size:
            return False
        if header.magic >= 2:
            return is_intact(data, 0, header)
        from zlib import crc32

        return crc32(memoryview(data)[16:]) == header.crc

    def _forget(self) -> None:
        self.next_offset = self.base_offset
        self.first_timestamp = None
        self._largest = -1, self.base_offset
        self._since_entry = 0

    def _learn(self, header: BatchHeader) -> None:
        self.next_offset = header.next_offset
        if header.max_timestamp > self._largest[0]:
            self._largest = header.max_timestamp, header.last_offset
        self._since_entry += header.size

    @property
    def _file(self) -> OpenFile:
        return self._pool.get(self.path)

    # --- writing

    def append(self, data: bytes, headers: Sequence[BatchHeader], index_interval: int) -> None:
        """Write batches after the last one. Raises `OSError`; then none is stored."""
        opened, files = self._file, self._pool.files
        counts = self.index.count, self.times.count
        known = self.next_offset, self.first_timestamp, self._largest, self._since_entry
        try:
            files.pwrite(opened.descriptor, data, self.size)
            position = self.size
            for header in headers:
                self._enter(header, position, index_interval)
                position += header.size
        except OSError:
            self.next_offset, self.first_timestamp, self._largest, self._since_entry = known
            self.index.count, self.times.count = counts
            files.truncate(opened.descriptor, self.size)
            raise
        self.size = position

    def _enter(self, header: BatchHeader, position: int, index_interval: int) -> None:
        """Update timestamps, offsets and indexes for a batch, as Kafka's `LogSegment.append`."""
        if self.first_timestamp is None and header.max_timestamp >= 0:
            self.first_timestamp = header.max_timestamp
        if header.max_timestamp > self._largest[0]:
            self._largest = header.max_timestamp, header.last_offset
        if self._since_entry > index_interval:
            self.index.append(header.last_offset, position)
            self.times.append(*self._largest)
            self._since_entry = 0
        self._since_entry += header.size
        self.next_offset = header.next_offset

    def end_times(self) -> None:
        """Write the largest timestamp to the time index, when no append follows for now."""
        if self._largest[0] >= 0:
            self.times.append(*self._largest)

    def begins(self) -> int | None:
        """Return the timestamp of the first batch."""
        if self.first_timestamp is None and self.size:
            _, header = next(self.walk(0, self.size))
            self.first_timestamp = header.max_timestamp if header.max_timestamp >= 0 else None
        return self.first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of a record; -1 if there is none."""
        return self._largest[0]

    def flush(self, *, indexes: bool) -> None:
        """Flush the file, so that it survives a crash of the machine."""
        self._pool.files.fsync(self._file.descriptor)
        if indexes:
            self.index.flush()
            self.times.flush()

    # --- reading

    def walk(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Yield the position and header of each batch from `position` to `end`; the last one may be incomplete.

        Raises `ProtocolError` where the bytes are no batch.
        """
        files, chunk, begin = self._pool.files, b"", position
        while position < end:
            if position - begin + HEADER_SIZE > len(chunk) or position < begin:
                chunk, begin = files.pread(self._file.descriptor, _CHUNK, position), position
                if not chunk:
                    return
            header = read_header(chunk, position - begin)
            yield position, header
            position += header.size

    def find(self, offset: int) -> tuple[int, BatchHeader | None]:
        """Return the position and header of the batch with `offset`, or of the next one; None: there is none."""
        if offset >= self.next_offset:
            return self.size, None
        for position, header in self.walk(self.index.position(offset), self.size):
            if header.next_offset > offset:
                return position, header
        return self.size, None

    def position_of_end(self, end: int) -> int:
        """Return the position of the first batch whose base offset is `end` or greater."""
        if end >= self.next_offset:
            return self.size
        for position, header in self.walk(self.index.position(end), self.size):
            if header.base_offset >= end:
                return position
        return self.size

    def read(self, position: int, size: int) -> bytes:
        """Return bytes of the file."""
        return self._pool.files.pread(self._file.descriptor, size, position)

    def lease(self) -> tuple[int, Lease]:
        """Return a descriptor, and the lease that keeps it open."""
        opened = self._file
        return opened.descriptor, Lease(self, opened)

    # --- removing

    def truncate(self, offset: int) -> None:
        """Remove the batches with records at `offset` or after it."""
        position, _ = self.find(offset)
        if position >= self.size:
            return
        if self.leases:
            # A span is being sent: it goes on with the old file, and this segment uses a copy.
            self._copy(position)
        else:
            self._pool.files.truncate(self._file.descriptor, position)
        self.size = position
        self.index.truncate(position)
        self._forget()
        last = self.index.last_position
        self.times.truncate(offset)
        self._largest = self.times.last
        for _, header in self.walk(last, position):
            self._learn(header)

    def _copy(self, size: int) -> None:
        files = self._pool.files
        new = self.path + ".tmp"
        copy = OpenFile(files, new)
        files.truncate(copy.descriptor, 0)
        for position in range(0, size, _COPIED):
            data = self.read(position, min(_COPIED, size - position))
            files.pwrite(copy.descriptor, data, position)
        files.fsync(copy.descriptor)
        self._pool.forget(self.path)
        files.rename(new, self.path)
        files.sync_folder(self.folder)

    def close(self) -> None:
        """Close the segment's files; a read opens them again."""
        for suffix in SUFFIXES:
            self._pool.forget(segment_path(self.folder, self.base_offset, suffix))

    def delete(self) -> None:
        """Remove the segment's files. Spans that are being sent stay readable."""
        self.close()
        for suffix in SUFFIXES:
            path = segment_path(self.folder, self.base_offset, suffix)
            if self._pool.files.exists(path):
                self._pool.files.unlink(path)


def rebuild(pool: FilePool, folder: str, base_offset: int, index_interval: int) -> Segment:
    """Return a segment whose indexes were missing or broken, after `recover`."""
    segment = Segment(pool, folder, base_offset)
    segment.recover(index_interval)
    return segment


def base_offsets(names: Sequence[str]) -> list[int]:
    """Return the base offsets of a folder's segments, sorted."""
    found = [name.removesuffix(".log") for name in names if name.endswith(".log")]
    return sorted(int(name) for name in found if len(name) == 20 and name.isdigit())


def remove(pool: FilePool, folder: str) -> None:
    """Remove a log's folder. It is renamed first, so that a crash does not leave half a log."""
    files, gone = pool.files, folder if folder.endswith("-delete") else f"{folder}-delete"
    if gone != folder:
        files.rename(folder, gone)
    for name in files.listdir(gone):
        files.unlink(f"{gone}/{name}")
    files.rmdir(gone)
