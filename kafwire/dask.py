"""Topics as frames of Dask. Importing this needs the packages dask and pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Unpack

import dask.dataframe as dd
import pandas as pd
import pyarrow as pa

from kafwire.frames.snapshot import ScanArguments, Snapshot

__all__ = ["read_kafka"]


def read_kafka(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    pieces: int | None = None,
    **arguments: Unpack[ScanArguments],
) -> dd.DataFrame:
    """Make a Dask frame of the records of topics between two bounds.

    The offsets are captured by this call, and divided among the frame's partitions. A worker reads its part over its
    own connections, as often as Dask computes it, and decodes only the columns that the query uses.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        pieces: the most partitions of the frame; None: as many as there are partitions to read.
        arguments: `partitions`, `start`, `end`, `columns`, `layout` and `timestamps`, as of `kafwire.scan`, and fields
            of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

    Returns:
        A `dask.dataframe.DataFrame` with columns of Arrow's types. Computing it raises the errors of `kafwire.Split`.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic or an offset does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: the bounds were not known within `default_api_timeout_ms`.

    Example:
        >>> import kafwire.dask
        >>> len(kafwire.dask.read_kafka(bootstrap, topic, pieces=2))
        3
    """
    snapshot = Snapshot.take(bootstrap_servers, topics, **arguments)
    parts = snapshot.divided(max(1, len(snapshot.split.ranges)) if pieces is None else pieces)
    return dd.from_map(_read, parts, meta=_empty(snapshot), label="kafka")


def _read(part: Snapshot, columns: Sequence[str] | None = None) -> pd.DataFrame:
    """Read a part; Dask gives the columns that a query needs."""
    chosen = list(part.names if columns is None else columns)
    return _frame(pa.table(part.scan(chosen)).select(chosen))


def _empty(snapshot: Snapshot) -> pd.DataFrame:
    return _frame(pa.schema(snapshot.split).empty_table())


def _frame(table: pa.Table) -> pd.DataFrame:
    """Convert a table, with Arrow's types: Dask makes texts of objects, and of bytes with them."""
    return table.to_pandas(types_mapper=pd.ArrowDtype)
