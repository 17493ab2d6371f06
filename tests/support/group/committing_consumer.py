"""A consumer of a group in the simulated world, and what it has committed."""

from __future__ import annotations

from typing import Any

from tests.support.simulated.consumer import Consuming
from tests.support.simulated.world import World


def group(world: World, partitions: int = 1, **options: Any) -> Consuming:
    assign = [("t", number) for number in range(partitions)]
    return Consuming(world, assign=assign, group_id="g", **options)


def committed(world: World) -> dict[int, int]:
    return {number: kept.offset for (_, number), kept in world.committed.get("g", {}).items()}
