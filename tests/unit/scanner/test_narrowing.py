"""The first offsets of a read that a timestamp bounds from below."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafwire.cluster.list_offsets import Time
from kafwire.scanner import narrowing
from kafwire.scanner.narrowing import started_by_time
from kafwire.scanner.ranges import Range
from kafwire.scanner.row_filter import WHOLE, Bounds


def test_a_read_begins_at_its_first_record_that_is_late_enough(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[Any] = []

    async def list_offsets(_: Any, times: Any, *, isolation_level: int) -> Any:
        asked.append((times, isolation_level))
        return {("t", 0): 7, ("t", 1): -1, ("t", 2): 2, ("t", 3): 20}

    monkeypatch.setattr(narrowing, "list_offsets", list_offsets)
    late = Bounds(since=5, with_null=False)
    parts = [(Range("t", partition, 3, 9), late) for partition in range(4)]
    without = [
        (Range("t", 4, 3, 9), Bounds(since=5)),  # records without a timestamp pass
        (Range("t", 5, 3, 9), Bounds(since=-5, with_null=False)),
        (Range("t", 6, 3, 9), WHOLE),
    ]
    cluster: Any = None
    found = asyncio.run(started_by_time(cluster, [*parts, *without], isolation_level=1))
    assert found == [Range("t", 0, 7, 9), Range("t", 2, 3, 9), *(part for part, _ in without)]
    assert asked == [({("t", partition): Time(5) for partition in range(4)}, 1)]
    assert asyncio.run(started_by_time(cluster, without, isolation_level=1)) == [part for part, _ in without]
    assert len(asked) == 1
