"""A log of the simulated world in which a batch is damaged."""

from __future__ import annotations

from tests.support.simulated.consumer import log_of
from tests.support.simulated.world import World

BAD = 4
BASE_OFFSET, LENGTH, MAGIC, CRC, DELTA, PAYLOAD = 0, 8, 16, 17, 23, 61


def damage(world: World, at: int, data: bytes, *, batch: int = BAD, number: int = 0) -> None:
    """Change bytes of a batch in the log."""
    stored = log_of(world, "t", number).batches[batch]
    at %= len(stored.data)
    stored.data = stored.data[:at] + data + stored.data[at + len(data) :]
