"""The scan of one task."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from kafwire.spark import processes
from kafwire.spark.options import read_options
from kafwire.spark.plan import OffsetRange
from kafwire.spark.reader import read_range
from kafwire.spark.schema import full_schema


class EmptyClient:
    """A client whose scans have no batches. `memory` is the `fetch_memory` of the last one."""

    memory = 0

    @contextmanager
    def scan(self, topic: str, **options: Any) -> Iterator[Any]:
        self.memory = int(options["fetch_memory"])
        yield self

    def batches(self) -> Iterator[Any]:
        return iter(())


@pytest.mark.parametrize(("given", "expected"), [({}, 16 << 20), ({"kafka.fetch.memory": "33554432"}, 32 << 20)])
def test_a_task_keeps_few_responses(given: dict[str, str], expected: int, monkeypatch: pytest.MonkeyPatch) -> None:
    client = EmptyClient()

    @contextmanager
    def use(options: Any) -> Iterator[EmptyClient]:
        yield client

    monkeypatch.setattr(processes, "client", use)
    options = read_options({"kafka.bootstrap.servers": "h:1", "subscribe": "t", **given})
    piece = OffsetRange("t", 0, 0, 10)
    assert list(read_range(options, full_schema(include_headers=False), piece)) == []
    assert client.memory == expected
