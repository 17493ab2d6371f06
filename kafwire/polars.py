"""Topics as lazy frames of polars. Importing this needs the package polars."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Unpack

import polars as pl
from polars.io.plugins import register_io_source

from kafwire.frames.polars_filter import expression_of
from kafwire.frames.snapshot import ALL_ROWS, ScanArguments, Snapshot
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.row_filter import ExpressionFilter

__all__ = ["scan_kafka"]


def scan_kafka(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    engine: Engine | None = None,
    **arguments: Unpack[ScanArguments],
) -> pl.LazyFrame:
    """Make a lazy frame of the records of topics between two bounds.

    The offsets are captured by this call: each `collect` reads the same records, a self-join too. A query decodes only
    the columns that it uses. Its conditions on topic, partition, offset and timestamp bound the read, and polars
    applies every condition exactly. A timestamp bounds it from below only, as later records can be older. With a
    time from above, batches outside of the times are skipped by their headers.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        engine: the engine to run on; None: the engine of this process.
        arguments: `partitions`, `start`, `end`, `columns`, `layout` and `timestamps`, as of `kafwire.scan`, and fields
            of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

    Returns:
        A `polars.LazyFrame`. `collect` raises kafwire's errors; before polars 2, polars' own with their
            text.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic or an offset does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: the bounds were not known within `default_api_timeout_ms`.

    Example:
        >>> import polars as pl
        >>> import kafwire.polars
        >>> flights = kafwire.polars.scan_kafka(bootstrap, topic)
        >>> flights.filter(pl.col("offset") >= 1).select("value").collect()["value"].to_list()
        [b'JFK-MIA', b'JFK-BQN']
    """
    snapshot = Snapshot.take(bootstrap_servers, topics, engine=engine, **arguments)
    schema = schema_of(snapshot)

    def read(
        with_columns: list[str] | None,
        predicate: pl.Expr | None,
        n_rows: int | None,
        batch_size: int | None,  # noqa: ARG001 - a batch of kafwire has `chunk_bytes`
    ) -> Iterator[pl.DataFrame]:
        yield from _frames(snapshot, schema, with_columns or list(schema), predicate, n_rows)

    return register_io_source(read, schema=schema, is_pure=True)


def schema_of(snapshot: Snapshot) -> dict[str, pl.DataType]:
    """Return the types of the columns, which need no record."""
    layout = snapshot.layout
    types: dict[str, pl.DataType] = {
        "topic": pl.String(),
        "partition": pl.Int32(),
        "offset": pl.Int64(),
        "timestamp": pl.Datetime(layout.get("timestamp_unit", "ms"), "UTC"),
        "timestamp_type": pl.Int32() if layout.get("timestamp_type") == "int32" else pl.Int8(),
        "key": pl.Binary(),
        "value": pl.Binary(),
        "headers": pl.List(pl.Struct({"key": pl.String(), "value": pl.Binary()})),
    }
    found = {name: types[column] for name, column in snapshot.names.items()}
    if snapshot.is_typed:
        import pyarrow as pa

        found.update(pl.DataFrame(pa.schema(snapshot.split).empty_table()).schema)
    return found


def _frames(
    snapshot: Snapshot,
    schema: Mapping[str, pl.DataType],
    wanted: list[str],
    predicate: pl.Expr | None,
    left: int | None,
) -> Iterator[pl.DataFrame]:
    """Yield a frame for each batch.

    polars cuts the rows at `left` before it filters them. So with both, nothing bounds the read.
    """
    row_filter = ALL_ROWS
    needed = list(wanted)
    if predicate is not None:
        needed += [name for name in predicate.meta.root_names() if name not in wanted]
        if left is None:
            row_filter = ExpressionFilter(expression_of(predicate, snapshot.filtered))
    yield pl.DataFrame(schema={name: schema[name] for name in wanted})  # polars needs a frame, if only an empty one
    if left == 0:
        return
    with snapshot.scan(needed, row_filter) as scan:
        for batch in scan.batches():
            frame = pl.DataFrame(batch)
            if left is not None:
                frame = frame.head(left)
                left -= frame.height
            if predicate is not None:
                frame = frame.filter(predicate)
            yield frame if frame.columns == wanted else frame.select(wanted)
            if left == 0:
                return
