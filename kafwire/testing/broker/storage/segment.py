"""One segment of a log on disk: a file of batches and its two indexes, named after its base offset, as in Kafka."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from kafwire.errors import ProtocolError
from kafwire.testing.broker.log.batch_header import HEADER_SIZE, BatchHeader, is_intact, read_header
from kafwire.testing.broker.storage.files import FilePool, OpenFile
from kafwire.testing.broker.storage.indexes import OffsetIndex, TimeIndex

SUFFIXES = (".log", ".index", ".timeindex")
_CHUNK = 16 << 10  # bytes that are read for headers at a time
_COPIED = 1 << 20
_LARGEST = (1 << 31) - 1  # offset of a record, counted from the base offset


class Lease:
    """Whoever has this has a span of a segment's file: the file stays open, and as it is."""

    __slots__ = ("_file", "_segment")

    def __init__(self, segment: Segment, opened: OpenFile) -> None:
        self._segment = segment
        self._file = opened
        segment.leases += 1

    def __del__(self) -> None:
        self._segment.leases -= 1


def segment_path(folder: str, base_offset: int, suffix: str) -> str:
    """A segment's file."""
    return f"{folder}/{base_offset:020}{suffix}"


class Segment:
    """A segment whose files are there, or are made now. What is in them is known after `load` or `recover`."""

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
        self._since_entry = 0  # bytes that were appended after the last index entry
        self.cut_off = 0  # bytes that `recover` has taken away

    # --- opening

    def load(self) -> bool:
        """Look at what lies behind the last index entry. Returns False where the files do not fit each other."""
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
        """Read all, cut off from the first batch that is not whole and right, and make the indexes anew."""
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
        """Write batches behind the last one. Raises `OSError`, and then has none of them."""
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
        """Note a batch, as Kafka's `LogSegment.append`."""
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
        """Nothing more is appended, or not for now: the largest timestamp is in the time index."""
        if self._largest[0] >= 0:
            self.times.append(*self._largest)

    def begins(self) -> int | None:
        """The timestamp of the first batch."""
        if self.first_timestamp is None and self.size:
            _, header = next(self.walk(0, self.size))
            self.first_timestamp = header.max_timestamp if header.max_timestamp >= 0 else None
        return self.first_timestamp

    @property
    def largest_timestamp(self) -> int:
        """The largest timestamp of a record; -1: there is none."""
        return self._largest[0]

    def flush(self, *, indexes: bool) -> None:
        """Have it survive a crash of the machine."""
        self._pool.files.fsync(self._file.descriptor)
        if indexes:
            self.index.flush()
            self.times.flush()

    # --- reading

    def walk(self, position: int, end: int) -> Iterator[tuple[int, BatchHeader]]:
        """Where each batch begins from `position` on, and its header; what lies behind `end` may not be there.

        Raises `ProtocolError` where there is no batch.
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
        """Where the batch begins that holds `offset`, or the next one behind it; None: there is none."""
        if offset >= self.next_offset:
            return self.size, None
        for position, header in self.walk(self.index.position(offset), self.size):
            if header.next_offset > offset:
                return position, header
        return self.size, None

    def position_of_end(self, end: int) -> int:
        """Where the first batch begins whose base offset is `end` or behind."""
        if end >= self.next_offset:
            return self.size
        for position, header in self.walk(self.index.position(end), self.size):
            if header.base_offset >= end:
                return position
        return self.size

    def read(self, position: int, size: int) -> bytes:
        """Some of its bytes."""
        return self._pool.files.pread(self._file.descriptor, size, position)

    def lease(self) -> tuple[int, Lease]:
        """A descriptor, and what keeps it open."""
        opened = self._file
        return opened.descriptor, Lease(self, opened)

    # --- taking away

    def truncate(self, offset: int) -> None:
        """Take away batches with records at `offset` or after."""
        position, _ = self.find(offset)
        if position >= self.size:
            return
        if self.leases:
            # A span of it is being sent: that goes on with the file as it was, and this segment has a copy.
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
        """Let go of its files; it may be read again."""
        for suffix in SUFFIXES:
            self._pool.forget(segment_path(self.folder, self.base_offset, suffix))

    def delete(self) -> None:
        """Remove its files. Spans that are being sent are not hurt."""
        self.close()
        for suffix in SUFFIXES:
            path = segment_path(self.folder, self.base_offset, suffix)
            if self._pool.files.exists(path):
                self._pool.files.unlink(path)


def rebuild(pool: FilePool, folder: str, base_offset: int, index_interval: int) -> Segment:
    """A segment whose indexes may be missing or broken."""
    segment = Segment(pool, folder, base_offset)
    segment.recover(index_interval)
    return segment


def base_offsets(names: Sequence[str]) -> list[int]:
    """The segments that are in a folder."""
    found = [name.removesuffix(".log") for name in names if name.endswith(".log")]
    return sorted(int(name) for name in found if len(name) == 20 and name.isdigit())


def remove(pool: FilePool, folder: str) -> None:
    """Remove the folder of a log and all that is in it, which nobody finds any more when it begins."""
    files, gone = pool.files, folder if folder.endswith("-delete") else f"{folder}-delete"
    if gone != folder:
        files.rename(folder, gone)
    for name in files.listdir(gone):
        files.unlink(f"{gone}/{name}")
    files.rmdir(gone)
