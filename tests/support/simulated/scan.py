"""A scan in the simulated world: its engine side, and a reader in the test's own thread.

with World() as world:
    rows = fill(world, "t")
    assert Scanning(world, ["t"]).all() == rows
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from typing import Any

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.offset_spec import Bound
from kafwire.config import ScanConfig
from kafwire.consumer.delivery._fetch_reader import FetchReader
from kafwire.consumer.fetch.engine import Fetcher
from kafwire.records._arrow import Layout
from kafwire.scanner.plan import ScanBudget, scan_plan
from kafwire.scanner.ranges import Bounds, plan_ranges
from tests.support.simulated.consumer import Rows
from tests.support.simulated.world import World


class Scanning:
    """One scan: planned, fetched, and read in the test's own turn of the loop. `rows` is what was read."""

    def __init__(
        self, world: World, topics: Iterable[str], *, start: Bound = "earliest", end: Bound = "latest", **options: Any
    ) -> None:
        self.world = world
        self.config = ScanConfig.build({"bootstrap_servers": world.bootstrap, **options})
        self.cluster = Cluster(world.engine, self.config)
        level = int(self.config.isolation_level == "read_committed")
        found = world.run(plan_ranges(self.cluster, Bounds(list(topics), None, start, end), isolation_level=level))
        self.ranges = [r for r, _ in found]
        self.fetcher = Fetcher(self.cluster, self.config, scan_plan(self.config), ScanBudget.of(self.config))
        self.cursors = [
            self.fetcher.add(info, r.partition, Layout(r.topic, r.partition), start=r.start, end=r.end)
            for r, info in found
        ]
        self.queue = self.fetcher.queue
        self.reader = FetchReader(
            self.queue,
            Layout(),
            chunk_bytes=1,
            max_decompressed=1 << 20,
            verify_crc=True,
            on_close=None,
        )
        self.rows: Rows = {(r.topic, r.partition): [] for r in self.ranges}

    def take(self) -> bool:
        """Decode one chunk; False at the end. Blocks when nothing is queued, so something must be."""
        batch = next(self.reader, None)
        if batch is None:
            return False
        for record in batch:
            assert record.topic is not None
            assert record.partition is not None
            self.rows[record.topic, record.partition].append((record.offset, record.value))
        return True

    async def until_stopped(self, limit_s: float = 200.0) -> None:
        async with asyncio.timeout(limit_s):
            while not self.fetcher.stopped:  # noqa: ASYNC110 - the fetcher has no event for it, and time costs nothing
                await asyncio.sleep(0.05)

    def all(self) -> Rows:
        """Fetch all, then read all."""
        self.world.loop.call_soon(self.fetcher.start)
        self.world.run(self.until_stopped())
        while self.take():
            pass
        self.close()
        return self.rows

    async def beside(self, seconds: float) -> None:
        """Read while it fetches, a chunk each `seconds`."""
        self.fetcher.start()
        async with asyncio.timeout(200):
            while not self.fetcher.stopped or self.queue.queued_bytes():
                if self.queue.queued_bytes():
                    self.take()
                await asyncio.sleep(seconds)

    def close(self) -> None:
        self.fetcher.stop()
        self.cluster.shut()
