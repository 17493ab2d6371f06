"""Topics as data sets of Ray Data. Importing this needs the packages ray and pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Unpack

import pyarrow as pa
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.config.typed_options import ScanOptions
from kafwire.frames.snapshot import Snapshot

__all__ = ["read_kafka"]


def read_kafka(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    pieces: int | None = None,
    partitions: Sequence[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    columns: Sequence[str] | None = None,
    layout: Mapping[str, Any] | None = None,
    timestamps: Timestamps | None = None,
    **options: Unpack[ScanOptions],
) -> ray.data.Dataset:
    """Make a data set of Ray of the records of topics between two bounds.

    The offsets are captured by this call, and divided among the read tasks. A task reads its part over its own
    connections, as often as Ray runs it. Workers need kafwire.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        pieces: the most read tasks; None: Ray decides.
        partitions: the partition numbers to read; None reads all.
        start: the start bound, as of `kafwire.scan`.
        end: the end bound, as of `kafwire.scan`; exclusive.
        columns: the columns to decode, out of those of `kafwire.scan`; None: all.
        layout: variations of the schema, as of `kafwire.scan`.
        timestamps: a pair (from, to), as of `kafwire.scan`: only records with a timestamp in [from, to) are read.
        options: fields of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

    Returns:
        A `ray.data.Dataset`. Reading it raises Ray's errors, whose causes are those of `kafwire.Split`.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic or an offset does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: the bounds were not known within `default_api_timeout_ms`.
    """
    snapshot = Snapshot.take(
        bootstrap_servers,
        topics,
        partitions=partitions,
        start=start,
        end=end,
        columns=columns,
        layout=layout,
        timestamps=timestamps,
        **options,
    )
    return ray.data.read_datasource(_Topics(snapshot), override_num_blocks=pieces)


class _Topics(Datasource):  # type: ignore[misc]
    """The read tasks of a snapshot."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__()
        self._snapshot = snapshot

    def get_name(self) -> str:
        """Return the name of the tasks."""
        return "Kafka"

    def estimate_inmemory_data_size(self) -> int | None:
        """Return None: offsets do not tell the size."""
        return None

    def get_read_tasks(self, parallelism: int, *_: Any, **__: Any) -> list[ReadTask]:
        """Return at most `parallelism` tasks."""
        schema = pa.schema(self._snapshot.split)
        unknown = BlockMetadata(num_rows=None, size_bytes=None, input_files=None, exec_stats=None)
        parts = [replace(self._snapshot, split=split) for split in self._snapshot.split.divided(max(1, parallelism))]
        return [ReadTask(partial(_blocks, part), unknown, schema=schema) for part in parts]


def _blocks(part: Snapshot) -> Iterator[pa.Table]:
    """Read a part, a table for each batch."""
    names = list(part.names)
    yield pa.schema(part.split).empty_table()
    with part.scan(names) as scan:
        for batch in scan.to_reader():
            yield pa.Table.from_batches([batch]).select(names)
