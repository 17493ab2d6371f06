"""The records of topics between bounds that are captured once, and read as often as queries need them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Unpack, cast

from kafwire.cluster.offset_spec import Bound, Timestamps
from kafwire.config.typed_options import ScanOptions
from kafwire.errors import ConfigError
from kafwire.frames.append_time import ended_by_time
from kafwire.runtime.interfaces import Engine
from kafwire.scanner.narrowing import narrowed
from kafwire.scanner.row_filter import TRUE, Column, ExpressionFilter, RowFilter
from kafwire.sync.scan import Scan, Split, scan

# Of a scan, in its order.
COLUMNS = ("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
FILTERED = ("topic", "partition", "offset", "timestamp")
ALL_ROWS = ExpressionFilter(TRUE)


class ScanArguments(ScanOptions, total=False):
    """The keyword arguments of `kafwire.scan` that a snapshot takes: the bounds, the columns and the options."""

    partitions: Sequence[int] | None
    start: Bound
    end: Bound
    columns: Sequence[str] | None
    layout: Mapping[str, Any] | None
    timestamps: Timestamps | None


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Exact offsets of each partition, and how to read them. Each read opens its own connections, and closes them."""

    split: Split
    engine: Engine | None = None

    @classmethod
    def take(
        cls,
        bootstrap_servers: str | Iterable[str],
        topics: str | Sequence[str],
        *,
        engine: Engine | None = None,
        **arguments: Unpack[ScanArguments],
    ) -> Snapshot:
        """Look up the offsets; arguments and errors are those of `kafwire.scan`."""
        # The constant refuses a bar, which would not be shown.
        [split] = scan(bootstrap_servers, topics, progress=False, engine=engine, **arguments).split(1)
        snapshot = cls(split, engine)
        if len(snapshot.names) < len(snapshot.columns):
            raise ConfigError(f"layout: two columns have the same name: {snapshot.layout['names']}")
        return snapshot

    def divided(self, pieces: int) -> list[Snapshot]:
        """Divide the offsets, as `Split.divided` does."""
        return [replace(self, split=split) for split in self.split.divided(pieces)]

    @property
    def layout(self) -> Mapping[str, Any]:
        """The variations of the schema."""
        return self.split._reading.layout

    @property
    def columns(self) -> Sequence[str]:
        """The columns of the scan, in order."""
        columns = self.split._reading.columns
        return COLUMNS if columns is None else columns

    @property
    def names(self) -> Mapping[str, str]:
        """The column of a scan by its name in the frame, in order."""
        renamed = self.layout.get("names") or {}
        return {renamed.get(column, column): column for column in self.columns}

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

    def scan(self, columns: Sequence[str], row_filter: RowFilter = ALL_ROWS) -> Scan:
        """Read columns of the records that can pass a filter, and perhaps of others."""
        names = self.names
        unknown = [name for name in columns if name not in names]
        if unknown:
            raise ConfigError(f"there is no column {unknown[0]!r}: the columns are {list(names)}")
        chosen = [names[name] for name in columns]
        parts = ended_by_time(self.split, narrowed(self.split.ranges, row_filter), self.engine)
        return Scan._passing(self.split, chosen, parts, row_filter.bounds().window, self.engine)
