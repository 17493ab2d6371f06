"""A topic copied to an Iceberg table, each record once, whenever the copier is killed.

A commit adds one snapshot with the records and, in its summary, the offsets behind them. A commit is refused unless it
continues the progress that the copier knows, so two copiers of one name cannot both add the same records. This needs
the package pyiceberg.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyiceberg.exceptions import CommitFailedException, ValidationException
from pyiceberg.table import CommitTableResponse, Table
from pyiceberg.table.update import AssertCurrentSchemaId

from kafwire.errors import KafkaError
from kafwire.lake.copy_progress import Progress
from kafwire.lake.snapshot_offsets import newest, property_of
from kafwire.lake.table_errors import TableGoneError, columns_error, commit_error, explained
from kafwire.lake.unread_records import UnreadRecords
from kafwire.sync.client import Client

COMMIT_BYTES = 256 << 20  # of Arrow's columns: they are in memory until the commit
ATTEMPTS = 5  # of a commit, besides those of pyiceberg


@dataclass(frozen=True, slots=True)
class Committed:
    """A snapshot that a copy added."""

    rows: int
    snapshot_id: int


@dataclass(frozen=True, slots=True)
class IcebergCopy:
    """The copy of one topic to a table, by snapshots of `rows` records or a little more."""

    client: Client
    topic: str
    table: Any  # pyiceberg.table.Table
    name: str  # of the copy: other names have their own progress in the table
    rows: int
    skip_lost: bool
    offsets: Mapping[int, int]  # where a copy begins that the table does not know yet; empty: at the beginning
    options: Mapping[str, Any]  # of a scan

    def run(self) -> Iterator[Committed]:
        """Copy the records up to the current ends, and yield each snapshot when it is committed."""
        info = self.client.topic(self.topic)
        commits = _Commits(self.table, self.name)
        self._check(commits, info.topic_id, set(info.partitions))
        known, where = self.offsets, "--offsets"
        if commits.progress is not None:
            known, where = commits.progress.offsets, commits.where
        unread = UnreadRecords(self.client, info, known, where, skip_lost=self.skip_lost, options=self.options)
        chunk = _Chunk()
        for batch in unread.batches():
            chunk.add(batch.to_arrow())
            if chunk.rows >= self.rows or chunk.bytes >= COMMIT_BYTES:
                yield commits.add(chunk.table(), unread.progress)
                chunk = _Chunk()
        if chunk.rows:
            yield commits.add(chunk.table(), unread.progress)

    def _check(self, commits: _Commits, topic_id: uuid.UUID, partitions: set[int]) -> None:
        """Raise `KafkaError` if the progress of the table is of another topic, or missing, or beside `offsets`."""
        progress = commits.progress
        if progress is not None:
            if self.offsets:
                raise KafkaError(f"{commits.where} has offsets already ({progress.text}): run it without --offsets")
            progress.check(self.topic, topic_id, commits.where)
        elif self.offsets and set(self.offsets) != partitions:
            raise KafkaError(f"--offsets must name the partitions of {self.topic}: {sorted(partitions)}")
        elif commits.expired and not self.offsets:
            raise KafkaError(
                f"{commits.where} has no offsets in the snapshots that are left; older snapshots were expired. Read "
                'the next offset of each partition from the rows of the table (max("offset") + 1; 0 without rows), '
                "and give them by --offsets"
            )


class _Chunk:
    """The records of the next commit."""

    def __init__(self) -> None:
        self.rows = 0
        self.bytes = 0
        self._batches: list[pa.RecordBatch] = []

    def add(self, batch: pa.RecordBatch) -> None:
        self.rows += batch.num_rows
        self.bytes += batch.nbytes
        self._batches.append(batch)

    def table(self) -> pa.Table:
        return pa.Table.from_batches(self._batches)


class _Commits:
    """The commits of one copy to a table. It stands between pyiceberg's table and its catalog.

    A transaction asserts that the table's branch is where its metadata says. When another writer was faster, pyiceberg
    loads the metadata and repeats the commit by itself. So each attempt is checked here, against the metadata that the
    attempt asserts. It also asserts the columns, as the data files have those of the time when they were written.
    """

    def __init__(self, table: Any, name: str) -> None:
        self.where = f"the copy {name!r} in the table {'.'.join(table.name())}"
        self._catalog = table.catalog
        self._name = name
        self._table = Table(
            identifier=table.name(),
            metadata=table.metadata,
            metadata_location=table.metadata_location,
            io=table.io,
            catalog=self,  # type: ignore[arg-type, unused-ignore] # what a table uses of it
            config=table.config,
        )
        self.progress, self.expired = newest(table.metadata, name)
        self._adding = self.progress
        self._schema_id = 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._catalog, name)

    def load_table(self, identifier: Any) -> Any:
        """Load the table, as `pyiceberg.catalog.Catalog.load_table`, unless another one has its name now."""
        found = self._catalog.load_table(identifier)
        if found.metadata.table_uuid != self._table.metadata.table_uuid:
            raise TableGoneError(
                f"{self.where}: the table was replaced by another one during the copy; the records of the last step "
                "are in neither: run the copy again"
            )
        return found

    def commit_table(self, table: Any, requirements: Any, updates: Any) -> Any:
        """Commit, as `pyiceberg.catalog.Catalog.commit_table`, if the table has this copy's progress."""
        if table.metadata.current_schema_id != self._schema_id:
            raise ValidationException("the columns changed")  # it makes pyiceberg delete the data files
        if newest(table.metadata, self._name).progress != self.progress:
            raise KafkaError(
                f"{self.where} was continued or rolled back since this copier began: another copier of the same name "
                "runs; end it, and run this one again. The records that this one read are not in the table"
            )
        requirements = (*requirements, AssertCurrentSchemaId.model_validate({"current-schema-id": self._schema_id}))
        try:
            return self._catalog.commit_table(table, requirements, updates)
        except Exception as error:
            if (landed := self._landed()) is not None:
                return landed
            if isinstance(error, CommitFailedException):
                raise
            raise commit_error(error, self.where) from error

    def _landed(self) -> CommitTableResponse | None:
        """Return the table if it has the snapshot: an error can come after the commit, if a response was lost.

        pyiceberg would delete the data files of the snapshot after the last `CommitFailedException`.
        """
        with suppress(Exception):  # the first error is the cause
            found = self.load_table(self._table.name())
            if newest(found.metadata, self._name).progress == self._adding:
                return CommitTableResponse(metadata=found.metadata, **{"metadata-location": found.metadata_location})
        return None

    def add(self, rows: pa.Table, progress: Progress) -> Committed:
        """Commit one snapshot with the records, and the progress behind them. Raises `TableError`."""
        with explained(self.where):
            for left in reversed(range(ATTEMPTS)):
                try:
                    self._adding, self._schema_id = progress, self._table.metadata.current_schema_id
                    with self._table.transaction() as transaction:
                        self._append(transaction, rows, progress)
                    break
                except (CommitFailedException, ValidationException):
                    if not left:
                        raise
                    self._table.refresh()
        self.progress = progress
        snapshot = self._table.current_snapshot()
        return Committed(rows.num_rows, snapshot.snapshot_id if snapshot else 0)

    def _append(self, transaction: Any, rows: pa.Table, progress: Progress) -> None:
        try:
            transaction.append(rows, snapshot_properties={property_of(self._name): progress.text})
        except ValueError as error:
            raise columns_error(error, self.where) from error
