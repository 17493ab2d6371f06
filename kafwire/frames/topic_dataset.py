"""Topics as a data set of pyarrow, which DuckDB and other libraries read with their columns and filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import FSSpecHandler, PyFileSystem

from kafwire.frames.arrow_filter import ArrowFilter
from kafwire.frames.snapshot import ALL_ROWS, ScanArguments, Snapshot
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.row_filter import RowFilter

__all__ = ["TopicDataset", "dataset"]


def dataset(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    engine: Engine | None = None,
    **arguments: Unpack[ScanArguments],
) -> TopicDataset:
    """Make a data set of the records of topics between two bounds.

    The offsets are captured by this call: each query reads the same records. A query decodes only the columns that it
    uses. Its conditions on topic, partition, offset and timestamp bound the read, and Arrow applies every condition
    exactly. A timestamp bounds it from below only, as later records can be older. With a time from above, batches
    outside of the times are skipped by their headers. This needs the package pyarrow.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        engine: the engine to run on; None: the engine of this process.
        arguments: `partitions`, `start`, `end`, `columns`, `layout` and `timestamps`, as of `kafwire.scan`, and fields
            of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

    Returns:
        A `TopicDataset`.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic or an offset does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: the bounds were not known within `default_api_timeout_ms`.

    Example:
        >>> import duckdb
        >>> from kafwire.frames import dataset
        >>> flights = dataset(bootstrap, topic)
        >>> duckdb.sql('SELECT decode(value) FROM flights WHERE "offset" >= 1').fetchall()
        [('JFK-MIA',), ('JFK-BQN',)]
    """
    return TopicDataset(Snapshot.take(bootstrap_servers, topics, engine=engine, **arguments))


class _NoFiles:
    """A file system that cannot be read."""

    protocol = "kafwire"

    def isfile(self, _: str) -> NoReturn:
        """Raise `NotImplementedError`. Arrow calls this before it opens a file."""
        raise NotImplementedError("a data set of topics has no files for this call: use `to_table()` first, or DuckDB")


class TopicDataset(ds.UnionDataset):  # type: ignore[misc]
    """The records of topics as a `pyarrow.dataset.Dataset`. `kafwire.frames.dataset` makes it.

    `to_table`, `to_batches`, `head`, `take` and `count_rows` have pyarrow's arguments, and read the topics each time.
    Arrow's C++ code sees a data set of one file that cannot be opened. So calls that do not go through `scanner`, such
    as `join`, `sort_by` or a union, raise `NotImplementedError`: use a table, or DuckDB.

    Example:
        >>> import pyarrow.compute as pc
        >>> from kafwire.frames import dataset
        >>> dataset(bootstrap, topic).to_table(columns=["value"], filter=pc.field("offset") < 1).to_pylist()
        [{'value': b'EWR-IAH'}]
    """

    def __init__(self, snapshot: Snapshot, *, passing: pc.Expression | None = None) -> None:
        self._snapshot = snapshot
        self._passing = passing
        self._columns = pa.schema(snapshot.split)
        format_ = ds.ParquetFileFormat()  # of no file
        fragment = format_.make_fragment("topic", filesystem=PyFileSystem(FSSpecHandler(_NoFiles())))
        super().__init__(self._columns, [ds.FileSystemDataset([fragment], self._columns, format_)])

    def __repr__(self) -> str:
        ranges = self._snapshot.split.ranges
        topics = ", ".join(dict.fromkeys(each.topic for each in ranges))
        return f"<TopicDataset of {topics}: {sum(each.end - each.start for each in ranges)} offsets>"

    def __reduce__(self) -> NoReturn:
        raise NotImplementedError(
            "a data set of a topic cannot be pickled: pickle the pieces of `kafwire.scan(...).split(n)`"
        )

    @property
    def schema(self) -> pa.Schema:
        """The columns and their types."""
        return self._columns

    @property
    def partition_expression(self) -> pc.Expression:
        """An expression that is true of each record."""
        return pc.scalar(True)

    def scanner(
        self,
        columns: Sequence[str] | Mapping[str, pc.Expression] | None = None,
        filter: pc.Expression | None = None,  # noqa: A002 - pyarrow's name
        **options: Any,
    ) -> ds.Scanner:
        """Start a read.

        Args:
            columns: the columns of the result, or expressions by their names; None: all.
            filter: the condition that each record of the result fulfils; None: none.
            options: other arguments of `pyarrow.dataset.Scanner.from_batches`, for example `batch_size`.

        Returns:
            A `pyarrow.dataset.Scanner`, which can be read once.

        Raises:
            BrokerError: a topic was deleted and recreated, or offsets were deleted.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.
        """
        passing = filter if self._passing is None else self._passing if filter is None else self._passing & filter
        row_filter: RowFilter = ALL_ROWS
        if passing is not None:
            row_filter = ArrowFilter(passing, self._columns, self._snapshot.filtered)
        scan = self._snapshot.scan(self._needed(columns, passing), row_filter)
        chosen = self._columns.names if columns is None else columns
        return ds.Scanner.from_batches(scan.to_reader(), columns=chosen, filter=passing, **options)

    def filter(self, expression: pc.Expression) -> TopicDataset:
        """Return a data set of the records that fulfil a condition.

        Args:
            expression: the condition, in addition to earlier ones.

        Returns:
            A new `TopicDataset` over the same offsets.
        """
        return TopicDataset(self._snapshot, passing=expression if self._passing is None else self._passing & expression)

    def _needed(self, columns: Sequence[str] | Mapping[str, pc.Expression] | None, passing: Any) -> list[str]:
        """Return the columns to decode. Those of an expression are the names that occur in its text, at least."""
        names: list[str] = self._columns.names
        chosen = [] if columns is None or isinstance(columns, Mapping) else columns  # pyarrow refuses unknown ones
        expressions = [*(columns.values() if isinstance(columns, Mapping) else []), passing]
        text = "\n".join(str(each) for each in expressions if each is not None)
        if columns is None or "FieldPath" in text:  # a field by its number, which is one among all columns
            return names
        return [name for name in names if name in chosen or name in text]
