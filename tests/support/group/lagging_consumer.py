"""A consumer whose engine lags behind the I/O thread."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.support.simulated.consumer import Consuming, fill, write
from tests.support.simulated.world import World

LAG_S = 0.2


class Lagging:
    """A consumer that has read what there was, and waits; the engine lags behind what the I/O thread then receives."""

    def __init__(self, world: World, *, partitions: int = 1, **options: Any) -> None:
        self.world = world
        self.rows = fill(world, "t", partitions=partitions)
        self.consuming = Consuming(world, topics="t", **options)
        self.consuming.until_read(self.rows)
        world.pass_time(0.1)  # into the time that the next request is parked for
        self.cursor = self.consuming.cursor()
        world.engine_lag_s = lambda: LAG_S

    def arrive(self) -> None:
        """Records come, and are queued; the engine has not seen them yet."""
        before = self.cursor.position
        self.rows["t", 0] += write(self.world, "t", records=3)
        self.consuming.until(lambda: self.consuming.queue.queued(0)[0], reads=False)
        assert self.cursor.position == before

    def engine(self, work: Callable[[], object]) -> None:
        self.world.loop.call_soon(work)
        self.world.pass_time(0)
