"""The chain: records are read, and written on in a transaction with the offsets, twice; by clients that are killed.

Records in the first topic for readers of committed records are to be in the last one: each record once, with all that
it has, in its partition, in the same order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from kafwire.testing.history.tokens import SIZE, TOKEN

_SHOWN = 5


class Row(NamedTuple):
    """All that a record carries along."""

    value: bytes | None
    key: bytes | None
    headers: tuple[tuple[str, bytes | None], ...]
    timestamp_ms: int | None


def broken(first: Mapping[int, Sequence[Row]], last: Mapping[int, Sequence[Row]]) -> list[str]:
    """The faults of the last topic of a chain, given the first one; both by partition, as they were read."""
    found = []
    for partition in sorted({*first, *last}):
        given, come = list(first.get(partition, ())), list(last.get(partition, ()))
        if given == come:
            continue
        sent, arrived = Counter(given), Counter(come)
        lost = sent - arrived
        more = arrived - sent
        twice = Counter({row: count for row, count in more.items() if row in sent})
        strange = more - twice
        for what, rows in (("lost", lost), ("twice", twice), ("never sent", strange)):
            if rows:
                found.append(f"partition {partition}: {rows.total()} {what}, as {_names(rows)}")
        if not lost and not more:
            place = next(n for n, (one, other) in enumerate(zip(given, come, strict=True)) if one != other)
            found.append(f"partition {partition}: another order from record {place} on, {_names([come[place]])}")
    return found


def _names(rows: Counter[Row] | list[Row]) -> str:
    return ", ".join(_name(row) for row in list(rows)[:_SHOWN])


def _name(row: Row) -> str:
    if row.value is None or len(row.value) < SIZE:
        return repr(row)
    producer, _, _, sequence, transaction, *_ = TOKEN.unpack(row.value[:SIZE])
    return f"p{producer} #{sequence}" + (f" of transaction {transaction}" if transaction else "")
