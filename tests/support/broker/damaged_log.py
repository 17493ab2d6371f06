"""A log of the simulated world in which a batch is damaged."""

from __future__ import annotations

from tests.support.simulated.consumer import log_of
from tests.support.simulated.world import World

BAD = 4
BASE_OFFSET, LENGTH, MAGIC, CRC, DELTA, PAYLOAD = 0, 8, 16, 17, 23, 61


def damage(world: World, at: int, data: bytes, *, batch: int = BAD, number: int = 0) -> None:
    """Change bytes of a batch in the log."""
    log = log_of(world, "t", number)
    old = log.batches[batch].data
    at %= len(old)
    log.replace(batch, old[:at] + data + old[at + len(data) :])
