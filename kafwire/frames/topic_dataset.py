"""Topics as a data set of pyarrow, which DuckDB and other libraries read with their columns and filters."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NoReturn, Unpack

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.config.typed_options import ScanOptions
from kafwire.frames.arrow_filter import ArrowFilter
from kafwire.frames.snapshot import ALL_ROWS, Snapshot
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.row_filter import RowFilter

__all__ = ["TopicDataset", "dataset"]


def dataset(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    partitions: Sequence[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    columns: Sequence[str] | None = None,
    layout: Mapping[str, Any] | None = None,
    timestamps: Timestamps | None = None,
    engine: Engine | None = None,
    **options: Unpack[ScanOptions],
) -> TopicDataset:
    """Make a data set of the records of topics between two bounds.

    The offsets are captured by this call: each query reads the same records. A query decodes only the columns that it
    uses. Its conditions on topic, partition, offset and timestamp bound the read, and Arrow applies every condition
    exactly. A timestamp bounds it from below only, as later records can be older; batches outside of the times are
    skipped by their headers. This needs the package pyarrow.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        partitions: the partition numbers to read; None reads all.
        start: the start bound, as of `kafwire.scan`.
        end: the end bound, as of `kafwire.scan`; exclusive.
        columns: the columns of the data set, out of those of `kafwire.scan`; None: all.
        layout: variations of the schema, as of `kafwire.scan`.
        timestamps: a pair (from, to), as of `kafwire.scan`.
        engine: the engine to run on; None: the engine of this process.
        options: fields of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

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
    return TopicDataset(
        Snapshot.take(
            bootstrap_servers,
            topics,
            partitions=partitions,
            start=start,
            end=end,
            columns=columns,
            layout=layout,
            timestamps=timestamps,
            engine=engine,
            **options,
        )
    )


class TopicDataset(ds.InMemoryDataset):  # type: ignore[misc]
    """The records of topics as a `pyarrow.dataset.Dataset`. `kafwire.frames.dataset` makes it.

    `to_table`, `to_batches`, `head`, `take` and `count_rows` have pyarrow's arguments, and read the topics each time.
    A data set of kafwire has no fragments and joins nothing: use a table, or DuckDB.

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
        super().__init__(self._columns.empty_table())  # which is never read

    def __repr__(self) -> str:
        return f"<TopicDataset of {self._snapshot.description}>"

    def __reduce__(self) -> NoReturn:
        self._refuse("be pickled", "pickle the pieces of `kafwire.scan(...).split(n)`")

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
        if columns is None:
            return list(self._columns.names)
        texts = [str(each) for each in columns.values()] if isinstance(columns, Mapping) else []
        texts += [] if passing is None else [str(passing)]
        chosen = set() if isinstance(columns, Mapping) else set(columns)
        if unknown := chosen - set(self._columns.names):
            chosen -= unknown  # pyarrow names it in its error
        needed = [name for name in self._columns.names if name in chosen or any(name in text for text in texts)]
        return needed or list(self._columns.names[:1])

    def get_fragments(self, filter: pc.Expression | None = None) -> None:  # noqa: A002, ARG002
        """Raise `NotImplementedError`: a topic has no files.

        Args:
            filter: unused.
        """
        self._refuse("be divided into fragments", "use `kafwire.scan(...).split(n)`")

    def replace_schema(self, schema: pa.Schema) -> None:  # noqa: ARG002
        """Raise `NotImplementedError`: Kafka has the types.

        Args:
            schema: unused.
        """
        self._refuse("have another schema", "use the arguments `columns` and `layout`")

    def join(self, *_: Any, **__: Any) -> None:
        """Raise `NotImplementedError`: use `to_table().join(...)`, or DuckDB."""
        self._refuse("be joined", "use `to_table().join(...)`, or DuckDB")

    def join_asof(self, *_: Any, **__: Any) -> None:
        """Raise `NotImplementedError`: use `to_table().join_asof(...)`, or DuckDB."""
        self._refuse("be joined", "use `to_table().join_asof(...)`, or DuckDB")

    def sort_by(self, *_: Any, **__: Any) -> None:
        """Raise `NotImplementedError`: use `to_table().sort_by(...)`, or DuckDB."""
        self._refuse("be sorted", "use `to_table().sort_by(...)`, or DuckDB")

    @staticmethod
    def _refuse(what: str, instead: str) -> NoReturn:
        raise NotImplementedError(f"a data set of a topic cannot {what}: {instead}")
