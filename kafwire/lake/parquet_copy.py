"""A topic copied to Parquet files, each record once, whenever the copier is killed.

Each partition has a folder. A file is written under another name, flushed to the disk, and renamed when it is whole.
The next run begins behind the last name. This needs the package pyarrow.
"""

from __future__ import annotations

import os
import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from kafwire.errors import KafkaError
from kafwire.lake.copy_lock import locked
from kafwire.lake.offset_files import OffsetFile, files_of
from kafwire.lake.resume import Copied, check_topic_id, resume_at
from kafwire.sync.client import Client
from kafwire.types import Offset, TopicPartition

UNFINISHED = ".unfinished"
TOPIC_ID = b"kafwire.topic_id"
ROW_GROUP_BYTES = 64 << 20


@dataclass(frozen=True, slots=True)
class WrittenFile:
    """A whole file of a copy."""

    partition: TopicPartition
    file: OffsetFile
    rows: int
    path: Path


@dataclass(frozen=True, slots=True)
class ParquetCopy:
    """The copy of one topic to `folder`, by files of `rows` records or a little more."""

    client: Client
    topic: str
    folder: Path
    rows: int
    skip_lost: bool
    options: Mapping[str, Any]  # of a scan

    def run(self) -> Iterator[WrittenFile]:
        """Copy the records up to the current ends, and yield each file when it is whole."""
        info = self.client.topic(self.topic)
        folder = self.folder / self.topic
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder):
            places = [TopicPartition(self.topic, number) for number in sorted(info.partitions)]
            targets = {place: folder / str(place.partition) for place in places}
            for target in targets.values():
                target.mkdir(exist_ok=True)
            for each in (folder.parent, folder):
                _flush(each)
            level = self.options["isolation_level"]
            lows = self.client.offsets(places, "earliest")
            ends = self.client.offsets(places, "latest", isolation_level=level)
            for place, target in targets.items():
                start = self._start(place, target, lows[place], ends[place], info.topic_id)
                if start < ends[place]:
                    yield from self._copied(place, target, start, ends[place], info.topic_id)

    def _start(self, place: TopicPartition, target: Path, low: int, end: int, topic_id: uuid.UUID) -> int:
        """Return the offset behind the last file, or the beginning of the partition."""
        name = f"{place.topic}-{place.partition}"
        files = files_of(each.name for each in target.iterdir())
        if not files:
            return low
        last = files[-1]
        _check_topic(target / last.name, topic_id, name)
        copied = Copied(last.after, f"the last file {target / last.name}")
        return resume_at(name, copied, low, end, skip_lost=self.skip_lost)

    def _copied(
        self, place: TopicPartition, target: Path, start: int, end: int, topic_id: uuid.UUID
    ) -> Iterator[WrittenFile]:
        first, path = start, target / UNFINISHED
        unfinished: _Unfinished | None = None
        try:
            with self.client.scan(
                place.topic, start={place: Offset(start)}, end={place: Offset(end)}, **self.options
            ) as scan:
                if scan._topic_ids[place.topic] != topic_id:
                    raise KafkaError(f"topic {place.topic!r} was deleted and recreated during the copy: run it again")
                for batch in scan.batches():
                    rows = batch.to_arrow()
                    unfinished = unfinished or _Unfinished(path, topic_id, rows.schema)
                    unfinished.add(rows)
                    if unfinished.rows >= self.rows:
                        after = min(batch.next_offset, end)
                        written = WrittenFile(place, *unfinished.finish(OffsetFile(first, after)))
                        first, unfinished = after, None
                        yield written
            if unfinished is not None:
                yield WrittenFile(place, *unfinished.finish(OffsetFile(first, end)))
        except KafkaError:  # some are of the class OSError
            raise
        except OSError as error:
            error.filename = error.filename or str(path)  # errors of writing have none
            raise
        finally:
            if unfinished is not None:
                unfinished.close()


class _Unfinished:
    """A file that is being written."""

    def __init__(self, path: Path, topic_id: uuid.UUID, schema: pa.Schema) -> None:
        self.rows = 0
        self._path = path
        self._file = path.open("wb")  # over that of a killed copier
        metadata = {TOPIC_ID: str(topic_id).encode()}
        self._writer = pq.ParquetWriter(self._file, schema.with_metadata(metadata), compression="zstd")
        self._waiting: list[pa.RecordBatch] = []
        self._bytes = 0

    def add(self, rows: pa.RecordBatch) -> None:
        self.rows += rows.num_rows
        self._waiting.append(rows)
        self._bytes += rows.nbytes
        if self._bytes >= ROW_GROUP_BYTES:
            self._write()

    def finish(self, file: OffsetFile) -> tuple[OffsetFile, int, Path]:
        """Flush the file to the disk and give it its name."""
        self._write()
        self._writer.close()
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        final = self._path.with_name(file.name)
        self._path.rename(final)
        _flush(final.parent)
        return file, self.rows, final

    def close(self) -> None:
        """Remove the file if it has not got its name: it may have filled the disk."""
        with suppress(OSError):
            self._file.close()
        self._path.unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._waiting:
            return
        rows = pa.Table.from_batches(self._waiting, self._writer.schema)
        self._writer.write_table(rows, row_group_size=max(1, rows.num_rows))
        self._waiting.clear()
        self._bytes = 0


def _flush(folder: Path) -> None:
    """Flush the names in a folder to the disk."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_topic(path: Path, topic_id: uuid.UUID, name: str) -> None:
    """Raise `KafkaError` if a file was copied from an earlier topic of the same name."""
    try:
        with path.open("rb") as file:
            found = (pq.read_schema(file).metadata or {}).get(TOPIC_ID, b"").decode()
    except pa.ArrowInvalid as error:
        raise KafkaError(f"{path} is no whole Parquet file: {error}") from None
    check_topic_id(name, found, topic_id, where=str(path), remedy="copy it to another folder")
