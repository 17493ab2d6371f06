"""Topics as data sets of Ray Data. Importing this needs the packages ray and pyarrow."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from typing import Any, Unpack

import pyarrow as pa
import ray.data
from ray.data.block import BlockMetadata
from ray.data.datasource import Datasource, ReadTask

from kafwire.frames.snapshot import ScanArguments, Snapshot

__all__ = ["read_kafka"]


def read_kafka(
    bootstrap_servers: str | Iterable[str],
    topics: str | Sequence[str],
    *,
    pieces: int | None = None,
    **arguments: Unpack[ScanArguments],
) -> ray.data.Dataset:
    """Make a data set of Ray of the records of topics between two bounds.

    The offsets are captured by this call, and divided among the read tasks. A task reads its part over its own
    connections, as often as Ray runs it. Workers need kafwire.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        topics: one topic or several.
        pieces: the most read tasks; None: Ray decides.
        arguments: `partitions`, `start`, `end`, `columns`, `layout` and `timestamps`, as of `kafwire.scan`, and fields
            of `kafwire.config.ScanConfig`, for example `isolation_level="read_committed"`.

    Returns:
        A `ray.data.Dataset`. Reading it raises Ray's errors, whose causes are those of `kafwire.Split`.

    Raises:
        ConfigError: an argument or an option has a bad value.
        BrokerError: a topic or an offset does not exist.
        KafkaConnectionError: no broker could be reached.
        KafkaTimeoutError: the bounds were not known within `default_api_timeout_ms`.
    """
    snapshot = Snapshot.take(bootstrap_servers, topics, **arguments)
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
        parts = self._snapshot.divided(max(1, parallelism))
        return [ReadTask(partial(_blocks, part), unknown, schema=schema) for part in parts]


def _blocks(part: Snapshot) -> Iterator[pa.Table]:
    """Read a part, a table for each batch."""
    names = list(part.names)
    yield pa.schema(part.split).empty_table()
    with part.scan(names) as scan:
        for batch in scan.to_reader():
            yield pa.Table.from_batches([batch]).select(names)
