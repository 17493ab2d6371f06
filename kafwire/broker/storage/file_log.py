"""A partition's log on disk, in Kafka's own format: `PartitionLog` over segments. See `log.py`, `segment.py`.

The folder has Kafka's files: segments with indexes, `leader-epoch-checkpoint`, `partition.metadata`. A segment is
flushed before the next one begins, so after a crash only the last one may be broken: it is read, and cut off at the
first broken batch. Only the operating system caches records.
"""

from __future__ import annotations

import base64
import uuid
from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from kafwire.broker.log.batch_header import BatchHeader
from kafwire.broker.log.log import Extent, FileSpan, Records
from kafwire.broker.storage.files import FilePool, read_file, write_file
from kafwire.broker.storage.segment import SUFFIXES, Segment, base_offsets, rebuild, remove, segment_path

_LARGEST = (1 << 31) - 1
_EPOCHS = "leader-epoch-checkpoint"
_METADATA = "partition.metadata"


@dataclass(frozen=True, slots=True)
class LogOptions:
    """Options of a topic, with Kafka's names."""

    segment_bytes: int = 1 << 30
    segment_ms: int = 604_800_000
    index_interval_bytes: int = 4096
    flush_messages: int = (1 << 63) - 1
    flush_ms: int = (1 << 63) - 1


def default_options() -> LogOptions:
    """Return Kafka's defaults."""
    return LogOptions()


class FileLog:
    """See `PartitionLog`.

    Args:
        pool: open files, shared by all logs of a broker.
        folder: the partition's folder; created if missing.
        options: returns the topic's options; called before each append, since they may change.
        is_clean: the log was closed cleanly; otherwise its last segment is checked.
        topic_id: the topic's id, written to `partition.metadata`.
        start_offset: the log's first offset, which may be inside a segment after DeleteRecords.
    """

    def __init__(
        self,
        pool: FilePool,
        folder: str,
        options: Callable[[], LogOptions] = default_options,
        *,
        is_clean: bool = True,
        topic_id: uuid.UUID | None = None,
        start_offset: int = 0,
    ) -> None:
        self.folder = folder
        self.cut_off = 0  # bytes that a recovery has cut off
        self.epochs: list[tuple[int, int]] = []
        self.unflushed = 0  # offsets
        self._pool = pool
        self._options = options
        self._segments: list[Segment] = []
        self._is_open = True
        self._failure: OSError | None = None
        files = pool.files
        is_new = not files.exists(folder)
        files.mkdir(folder)
        if topic_id is not None and not files.exists(f"{folder}/{_METADATA}"):
            text = base64.urlsafe_b64encode(topic_id.bytes).decode().rstrip("=")
            write_file(files, f"{folder}/{_METADATA}", f"version: 0\ntopic_id: {text}\n".encode(), sync=is_new)
        self._load(is_clean=is_clean, start_offset=start_offset)
        self.start_offset = max(start_offset, self._segments[0].base_offset)
        self.end_offset = max(self._segments[-1].next_offset, self.start_offset)
        if self._segments[-1].next_offset < self.start_offset:
            self._restart(self.start_offset)
        self._load_epochs(is_clean=is_clean)

    # --- opening

    def _load(self, *, is_clean: bool, start_offset: int) -> None:
        pool, folder, interval = self._pool, self.folder, self._options().index_interval_bytes
        self._finish_swaps()
        bases = base_offsets(pool.files.listdir(folder))
        for base in bases:
            is_last = base == bases[-1]
            if is_last and not is_clean:
                segment = rebuild(pool, folder, base, interval)
                self.cut_off += segment.cut_off
            else:
                segment = Segment(pool, folder, base)
                if not segment.load():
                    segment.recover(interval)
                    self.cut_off += segment.cut_off
                    if segment.cut_off and not is_last:
                        # Later segments would leave a hole in the log.
                        self._segments.append(segment)
                        for each in bases[bases.index(base) + 1 :]:
                            Segment(pool, folder, each).delete()
                        break
            self._segments.append(segment)
            if not is_last:
                segment.close()
        if not self._segments:
            self._segments.append(Segment(pool, folder, start_offset))
            pool.files.sync_folder(folder)

    def _finish_swaps(self) -> None:
        """Finish compactions that a crash interrupted after the rename to `.swap`; remove files of the others."""
        files, folder = self._pool.files, self.folder
        for name in files.listdir(folder):
            if name.endswith((".cleaned", ".tmp")):
                files.unlink(f"{folder}/{name}")
            elif name.endswith(".swap"):
                self._swap(name)

    def _load_epochs(self, *, is_clean: bool) -> None:
        path = f"{self.folder}/{_EPOCHS}"
        files = self._pool.files
        if files.exists(path):
            try:
                lines = read_file(files, path).decode().splitlines()
                pairs = [tuple(map(int, line.split())) for line in lines[2:]]
                self.epochs = [(epoch, first) for epoch, first in pairs if first < self.end_offset]
                whole = lines[0] == "0" and len(pairs) == int(lines[1])
            except (ValueError, IndexError):
                whole = False
            if whole and (not self.epochs or self.epochs[-1][0] >= 0):
                if not is_clean:
                    self._learn_epochs(self.epochs[-1][1] if self.epochs else self.start_offset)
                return
        self.epochs = []
        self._learn_epochs(self.start_offset)

    def _learn_epochs(self, offset: int) -> None:
        """Add the epochs that the checkpoint may lack, from batch headers: it is not flushed with each batch."""
        known = len(self.epochs)
        for header in self.headers(max(offset, self._segments[-1].base_offset) if known else offset):
            self._note_epoch(header)
        if len(self.epochs) != known:
            self._write_epochs()

    def _note_epoch(self, header: BatchHeader) -> bool:
        if header.leader_epoch >= 0 and (not self.epochs or header.leader_epoch > self.epochs[-1][0]):
            self.epochs.append((header.leader_epoch, header.base_offset))
            return True
        return False

    def _write_epochs(self, *, sync: bool = True) -> None:
        lines = "".join(f"{epoch} {first}\n" for epoch, first in self.epochs)
        text = f"0\n{len(self.epochs)}\n{lines}"
        write_file(self._pool.files, f"{self.folder}/{_EPOCHS}", text.encode(), sync=sync)

    # --- reading

    @property
    def size(self) -> int:
        """See `PartitionLog`."""
        return sum(segment.size for segment in self._segments)

    @property
    def segments(self) -> Sequence[Segment]:
        """The log's segments, in order."""
        return self._segments

    def _at(self, offset: int) -> int:
        """Return the number of the segment that may hold an offset."""
        return max(0, bisect_right(self._segments, offset, key=lambda segment: segment.base_offset) - 1)

    def headers(self, offset: int, end: int | None = None) -> Iterator[BatchHeader]:
        """See `PartitionLog`."""
        for segment in self._segments[self._at(offset) :]:
            position, _ = segment.find(offset)
            for _, header in segment.walk(position, segment.size):
                if end is not None and header.base_offset >= end:
                    return
                yield header

    def available(self, offset: int, end: int) -> tuple[int, int]:
        """See `PartitionLog`."""
        first = size = 0
        for number in range(self._at(offset), len(self._segments)):
            segment = self._segments[number]
            if segment.base_offset >= end:
                break
            position, header = segment.find(offset) if offset > segment.base_offset else (0, None)
            if position >= segment.size:
                continue
            if not first:
                if header is None:
                    _, header = next(segment.walk(position, segment.size))
                if header.base_offset >= end:
                    break
                first = header.size
            size += segment.position_of_end(end) - position
        return first, size

    def read(self, offset: int, size: int) -> Records:
        """See `PartitionLog`; a `FileSpan` where all bytes are in one file."""
        found: list[bytes] = []
        for segment in self._segments[self._at(offset) :]:
            position, _ = segment.find(offset) if offset > segment.base_offset else (0, None)
            here = min(size, segment.size - position)
            if here <= 0:
                continue
            if not found and here == size and self._pool.files.has_descriptors:
                descriptor, lease = segment.lease()
                return FileSpan(descriptor, position, here, lease)
            found.append(segment.read(position, here))
            size -= here
            if not size:
                break
        return found[0] if len(found) == 1 else b"".join(found)

    def extents(self, offset: int, segment_bytes: int, segment_ms: int) -> list[Extent]:
        """See `PartitionLog`: the actual segments, whatever the options are now."""
        del segment_bytes, segment_ms
        return [
            Extent(each.base_offset, each.size, _known(each.begins()), each.largest_timestamp)
            for each in self._segments[self._at(offset) :]
        ]

    def index_offset(self, end: int) -> int:
        """See `PartitionLog`."""
        number = self._at(end)
        found = self._segments[number].index.offset_from(end)
        if found is not None:
            return found
        return self._segments[number + 1].base_offset if number + 1 < len(self._segments) else self.end_offset

    # --- writing

    def append(self, data: bytes, headers: Sequence[BatchHeader], *, next_offset: int | None = None) -> None:
        """See `PartitionLog`. Raises `OSError`; then nothing is stored."""
        self._check()
        options = self._options()
        if self._is_full(len(data), headers, options):
            self._roll(headers[0].base_offset)
        self._segments[-1].append(data, headers, options.index_interval_bytes)
        end = headers[-1].next_offset
        self.unflushed += end - self.end_offset
        self.end_offset = end if next_offset is None else next_offset
        if sum(self._note_epoch(header) for header in headers):
            self._write_epochs(sync=False)
        if self.unflushed >= options.flush_messages:
            self.flush()

    def _check(self) -> None:
        if self._failure is not None:
            raise OSError(self._failure.errno, f"the log {self.folder} could not be flushed before") from self._failure

    def _is_full(self, size: int, headers: Sequence[BatchHeader], options: LogOptions) -> bool:
        active = self._segments[-1]
        if not active.size:
            return headers[-1].last_offset - active.base_offset > _LARGEST
        if active.size > min(options.segment_bytes, _LARGEST) - size:
            return True
        if headers[-1].last_offset - active.base_offset > _LARGEST:
            return True
        begun = active.begins()
        return begun is not None and headers[-1].max_timestamp - begun > options.segment_ms

    def _roll(self, base_offset: int) -> None:
        """Start a new segment after a flush of the last one."""
        active = self._segments[-1]
        if active.size:
            active.end_times()
        self._flush(active, indexes=True)
        if not active.size:
            self._segments.pop().delete()
        else:
            active.close()
        self._segments.append(Segment(self._pool, self.folder, base_offset))
        self._pool.files.sync_folder(self.folder)

    def _flush(self, segment: Segment, *, indexes: bool) -> None:
        try:
            segment.flush(indexes=indexes)
        except OSError as error:
            # The operating system may have lost the bytes: only a recovery finds out.
            self._failure = error
            raise

    def flush(self) -> None:
        """See `PartitionLog`. Raises `OSError`; then the log refuses appends until it is opened again."""
        self._check()
        self._flush(self._segments[-1], indexes=False)
        self.unflushed = 0

    # --- removing

    def truncate(self, offset: int) -> None:
        """See `PartitionLog`."""
        if offset >= self.end_offset:
            return
        while len(self._segments) > 1 and self._segments[-1].base_offset >= offset:
            self._segments.pop().delete()
        if self._segments[-1].base_offset > offset:
            self._restart(offset)
        else:
            self._segments[-1].truncate(offset)
        self.end_offset = min(self.end_offset, offset)
        kept = [each for each in self.epochs if each[1] < self.end_offset]
        if kept != self.epochs:
            self.epochs = kept
            self._write_epochs()

    def _restart(self, offset: int) -> None:
        new = Segment(self._pool, self.folder, offset)
        for segment in self._segments:
            segment.delete()
        self._segments[:] = [new]
        self._pool.files.sync_folder(self.folder)

    def delete_before(self, offset: int) -> None:
        """See `PartitionLog`: removes whole segments. If all go, a new segment starts."""
        self.start_offset = max(self.start_offset, offset)
        self.end_offset = max(self.end_offset, self.start_offset)
        if self._segments[-1].next_offset <= self.start_offset:
            if self._segments[-1].base_offset < self.end_offset:
                self._restart(self.end_offset)
            return
        while len(self._segments) > 1 and self._segments[1].base_offset <= self.start_offset:
            self._segments.pop(0).delete()

    def replace(self, data: bytes, headers: Sequence[BatchHeader], end: int) -> None:
        """See `PartitionLog`. Does nothing if the new segment would be too large."""
        del headers  # they are read again for the indexes
        covered = [segment for segment in self._segments if segment.base_offset < end]
        if not covered:
            return
        last = covered[-1]
        position = last.position_of_end(end)
        if len(data) + last.size - position > _LARGEST or last.next_offset - covered[0].base_offset > _LARGEST:
            return
        files, base = self._pool.files, covered[0].base_offset
        swap = f"{base:020}-{last.base_offset:020}.swap"
        kept = last.read(position, last.size - position)
        write_file(files, f"{self.folder}/{base:020}.cleaned", data + kept)
        files.rename(f"{self.folder}/{base:020}.cleaned", f"{self.folder}/{swap}")
        files.sync_folder(self.folder)
        for segment in covered:
            segment.close()
        try:
            self._swap(swap)
            new = rebuild(self._pool, self.folder, base, self._options().index_interval_bytes)
        except OSError as error:
            self._failure = error  # completed when the log is opened again
            raise
        new.next_offset = max(new.next_offset, min(last.next_offset, self.end_offset))
        self._segments[: len(covered)] = [new]

    def _swap(self, name: str) -> None:
        """Replace the segments from base offset `base` up to `last` by a compacted one."""
        files, folder = self._pool.files, self.folder
        base, last = map(int, name.removesuffix(".swap").split("-"))
        for each in base_offsets(files.listdir(folder)):
            if base <= each <= last:
                for suffix in SUFFIXES:
                    path = segment_path(folder, each, suffix)
                    # The rename below replaces the records of the first segment.
                    if files.exists(path) and not (each == base and suffix == ".log"):
                        files.unlink(path)
        files.rename(f"{folder}/{name}", segment_path(folder, base, ".log"))
        files.sync_folder(folder)

    # --- closing

    def close(self) -> None:
        """See `PartitionLog`: flushes everything, so that the next start need not read records."""
        if not self._is_open:
            return
        self._is_open = False
        if self._failure is None:
            self._segments[-1].end_times()
            self._flush(self._segments[-1], indexes=True)
        for segment in self._segments:
            segment.close()

    def delete(self) -> None:
        """See `PartitionLog`."""
        self._is_open = False
        for segment in self._segments:
            segment.close()
        self._pool.forget(f"{self.folder}/{_EPOCHS}")
        remove(self._pool, self.folder)


def _known(timestamp: int | None) -> int:
    return -1 if timestamp is None else timestamp
