"""The simulated world with a seed of the test's own."""

from __future__ import annotations

from kafwire.testing import simulation
from tests.support import seeds


class World(simulation.World):
    """A simulated cluster. Without `seed` it has the test's; either is printed."""

    def __init__(self, *, brokers: int = 1, topic_ids: bool = True, seed: int | None = None) -> None:
        if seed is None:
            seed = seeds.of_test()
        else:
            print(f"seed={seed}")
        super().__init__(brokers=brokers, topic_ids=topic_ids, seed=seed)
