"""A group's offsets on a real cluster, asked for from the engine."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping
from typing import Any

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit
from kafwire.config import ClientConfig
from kafwire.runtime.engine import default_engine

Where = tuple[str, int]


class Offsets:
    """`GroupOffsets` with connections of its own, called from this thread."""

    def __init__(self, bootstrap: str, group_id: str, **options: Any) -> None:
        self.engine = default_engine()
        self.cluster = Cluster(self.engine, ClientConfig.build({"bootstrap_servers": bootstrap, **options}))
        self.offsets = GroupOffsets(self.cluster, group_id)

    def fetch(self, *partitions: Where, timeout_ms: float | None = None) -> list[Committed | None]:
        return list(self.engine.run(self.offsets.fetch, partitions, timeout_ms=timeout_ms).values())

    def commit(self, what: Mapping[Where, OffsetToCommit]) -> None:
        self.engine.run(self.offsets.commit, what)


@contextlib.contextmanager
def offsets_of(bootstrap: str, group_id: str, **options: Any) -> Iterator[Offsets]:
    it = Offsets(bootstrap, group_id, **options)
    try:
        yield it
    finally:
        it.engine.run(it.cluster.close)
