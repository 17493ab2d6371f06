"""The records of topics between bounds that are captured once, and read as often as queries need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Unpack, cast

from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.config.typed_options import ScanOptions
from kafwire.errors import ConfigError
from kafwire.frames.append_time import ended_by_time
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.row_filter import TRUE, Column, ExpressionFilter, RowFilter
from kafwire.sync.scan import Scan, Split

# Of a scan, in its order.
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
FILTERED = ("topic", "partition", "offset", "timestamp")
ALL_ROWS = ExpressionFilter(TRUE)


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Exact offsets of each partition, and how to read them. Each read opens its own connections, and closes them."""

    split: Split
    names: Mapping[str, str]  # the column of a scan by its name in the frame, in order
    layout: Mapping[str, Any]
    engine: Engine | None

    @classmethod
    def take(
        cls,
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
    ) -> Snapshot:
        """Look up the offsets; arguments and errors are those of `kafwire.scan`."""
        scan = Scan(
            None,
            topics,
            partitions=partitions,
            start=start,
            end=end,
            columns=columns,
            layout=layout,
            timestamps=timestamps,
            engine=engine,
            options={"bootstrap_servers": bootstrap_servers, **options},
        )
        [split] = scan.split(1)
        renamed = (layout or {}).get("names") or {}
        names = {renamed.get(column, column): column for column in (COLUMNS if columns is None else columns)}
        return cls(split, names, dict(layout or {}), engine)

    @property
    def filtered(self) -> Mapping[str, Column]:
        """The columns whose filters bound a read, by their names in the frame."""
        return {name: cast("Column", column) for name, column in self.names.items() if column in FILTERED}

    @property
    def is_typed(self) -> bool:
        """True if keys or values are columns of a format."""
        config = self.split._reading.config
        codecs = (config.key_deserializer, config.value_deserializer)
        return any(codec is not None and codec.column is not None for codec in codecs)

    @property
    def description(self) -> str:
        """The topics and the number of offsets."""
        topics = ", ".join(dict.fromkeys(r.topic for r in self.split.ranges))
        return f"{topics}: {sum(r.end - r.start for r in self.split.ranges)} offsets"

    def scan(self, columns: Sequence[str], row_filter: RowFilter = ALL_ROWS) -> Scan:
        """Read columns of the records that can pass a filter, and perhaps of others."""
        unknown = [name for name in columns if name not in self.names]
        if unknown:
            raise ConfigError(f"there is no column {unknown[0]!r}: the columns are {list(self.names)}")
        chosen = [self.names[name] for name in columns]
        ending = ended_by_time(self.split, row_filter, self.engine)
        return Scan._passing(self.split, chosen, ending, self.engine)
