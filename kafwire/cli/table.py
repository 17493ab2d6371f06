"""Lines as an Arrow table. Importing this module needs the package pyarrow."""

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from kafwire.cli.record_text import Form

__all__ = ["longest", "table_of"]

_HEADERS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))

# (row, rows) to the line numbers of these rows, from 0.
Numbers = Callable[[int, int], list[int]]


def table_of(
    data: bytes, delimiter: bytes, form: Form, *, with_empty: bool, most: int | None
) -> tuple[pa.Table, Numbers | None]:
    """Return the first `most` lines of `data` as a table for `send_batch`, and Numbers if lines were skipped."""
    lines = pc.split_pattern(pa.array([data], pa.binary()), pattern=delimiter)[0].values
    numbers: Numbers | None = None
    if not with_empty:
        full = pc.greater(pc.binary_length(lines), 0)
        if not pc.all(full, min_count=0).as_py():
            found = pc.indices_nonzero(full)
            lines = lines.filter(full)

            def numbers(row: int, rows: int) -> list[int]:
                listed: list[int] = found[row : row + rows].to_pylist()
                return listed

    if most is not None:
        lines = lines[:most]
    columns: dict[str, Any] = {"value": lines}
    if form.key is not None:
        columns["key"] = pa.repeat(pa.scalar(form.key, pa.binary()), len(lines))
    if form.headers:
        headers = [{"key": name, "value": value} for name, value in form.headers]
        columns["headers"] = pa.repeat(pa.scalar(headers, _HEADERS), len(lines))
    return pa.table(columns), numbers


def longest(table: pa.Table) -> int:
    """Return the size of the longest value in bytes."""
    return pc.max(pc.binary_length(table["value"])).as_py() or 0
