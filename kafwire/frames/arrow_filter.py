"""Filters of pyarrow as filters of a scan.

A `pyarrow.compute.Expression` cannot be looked into. But Arrow decides for fragments of a data set whether a filter can
be true of any of their rows, given a guarantee of these, as it does for the row groups of Parquet files. So this module
asks it about slices of offsets and times. The numbers and times in the filter's text say where a cut may matter; a cut
too many or too few is never wrong.
"""

from __future__ import annotations

import datetime as dt
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
from pyarrow.fs import LocalFileSystem

from kafwire.scanner.row_filter import END, LOWEST, NOTHING, Bounds, Column

MOST_CUTS = 128
_NUMBER = re.compile(r"(?<!\d)\d{1,19}(?!\d)")  # an offset, which has no sign
_TIME = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?")
_EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
_MILLISECOND = dt.timedelta(milliseconds=1)

# [low, high), and the guarantee that a row lies there.
Slice = tuple[int, int, Any]


class ArrowFilter:
    """A `RowFilter` of an expression over the columns of `schema`."""

    def __init__(self, expression: pc.Expression, schema: pa.Schema, names: Mapping[str, Column]) -> None:
        """`names` has the columns of a scan by their names in the schema."""
        self._expression = expression
        self._schema = schema
        fields = {column: (name, schema.field(name).type) for name, column in names.items()}
        self._topic, self._partition = fields.get("topic"), fields.get("partition")
        text = str(expression)
        self._offsets: list[Slice] = []
        self._times: list[Slice] = []
        self._no_time: list[Any] = []
        if "offset" in fields:
            name, kind = fields["offset"]
            cuts = _cuts((int(found) for found in _NUMBER.findall(text)), least=0)
            self._offsets = _slices(name, 0, cuts, lambda offset: pa.scalar(offset, kind))
        if "timestamp" in fields:
            name, kind = fields["timestamp"]
            cuts = _cuts(_milliseconds(_TIME.findall(text)), least=LOWEST)
            milliseconds = pa.timestamp("ms", kind.tz)
            self._times = _slices(name, LOWEST, cuts, lambda ms: pa.scalar(ms, milliseconds).cast(kind))
            self._no_time = [pc.field(name).is_null()]

    def bounds(self, topic: str | None = None, partition: int | None = None) -> Bounds:
        """Return the part of a partition that can pass; None stands for any topic or partition."""
        known = [
            pc.field(field[0]) == pa.scalar(value, field[1])
            for field, value in ((self._topic, topic), (self._partition, partition))
            if field is not None and value is not None
        ]
        guarantees = [each for *_, each in (*self._offsets, *self._times)] + self._no_time
        possible = self._possible(guarantees or [pc.scalar(True)], known)
        offsets = [each for number, each in enumerate(self._offsets) if number in possible]
        times = [each for number, each in enumerate(self._times, len(self._offsets)) if number in possible]
        with_null = not self._no_time or len(guarantees) - 1 in possible
        if not possible or (self._offsets and not offsets) or not (times or with_null):
            return NOTHING
        first, stop = (offsets[0][0], offsets[-1][1]) if offsets else (0, END)
        since, until = (times[0][0], times[-1][1]) if times else (0, 0)
        return Bounds(first, stop, since, until, with_null) if self._times else Bounds(first, stop)

    def _possible(self, guarantees: Sequence[Any], known: Sequence[Any]) -> set[int]:
        """Return the indexes of the guarantees under which the filter can be true, given the known values."""
        files, format_ = LocalFileSystem(), ds.ParquetFileFormat()  # no file is opened
        fragments = []
        for number, guarantee in enumerate(guarantees):
            for each in known:
                guarantee = guarantee & each  # noqa: PLW2901
            fragments.append(format_.make_fragment(str(number), filesystem=files, partition_expression=guarantee))
        rows = ds.FileSystemDataset(fragments, self._schema, format_)
        try:
            return {int(fragment.path) for fragment in rows.get_fragments(filter=self._expression)}
        except pa.ArrowException:  # of a cast of a bound, such as the last offset to a double, which no row may have
            return set(range(len(guarantees)))


def _cuts(values: Iterable[int], *, least: int) -> list[int]:
    """Return the edges before and after each value, in order; some, if they are many."""
    edges = sorted({edge for value in values for edge in (value, value + 1) if least < edge < END})
    return edges[:: -(-len(edges) // MOST_CUTS)] if edges else []


def _slices(name: str, least: int, cuts: Sequence[int], scalar: Callable[[int], Any]) -> list[Slice]:
    """Return the slices between the cuts; the outer ones are open."""
    field = pc.field(name)
    if not cuts:
        return [(least, END, field.is_valid())]
    inner = [
        # Arrow knows of no whole numbers: between 5 and 6 may be a value above 5.
        (low, high, field == scalar(low) if low + 1 == high else (field >= scalar(low)) & (field < scalar(high)))
        for low, high in pairwise(cuts)
    ]
    return [(least, cuts[0], field < scalar(cuts[0])), *inner, (cuts[-1], END, field >= scalar(cuts[-1]))]


def _milliseconds(texts: Iterable[str]) -> Iterator[int]:
    for text in texts:
        with suppress(ValueError):  # a text that only looks like a time
            yield (dt.datetime.fromisoformat(text).replace(tzinfo=dt.UTC) - _EPOCH) // _MILLISECOND
