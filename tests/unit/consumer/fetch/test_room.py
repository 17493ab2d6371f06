"""`consumer/fetch/room.py`: the budget, applied to what is buffered."""

from __future__ import annotations

from typing import Any

from kafwire.consumer.fetch.budget import LEAST_SHARE
from tests.support.simulated.consumer import Consuming, fill
from tests.support.simulated.world import World


def test_free_bytes_follow_the_buffer_and_requests() -> None:
    with World() as world:
        fill(world, "t", batches=4, records=1, size=20_000)
        options: dict[str, Any] = {"max_partition_fetch_bytes": 25_000, "max_prefetch_batches": 1}
        with Consuming(world, topics=["t"], fetch_memory=1 << 20, **options) as consuming:
            consuming.idle()
            room, cursor, queue = consuming.fetcher._room, consuming.cursor(), consuming.queue
            budget, cursors = room.budget, len(consuming.fetcher.cursors)
            assert queue.queued_bytes() > 20_000
            free = room.free
            assert free == budget.limit - budget.reserved - queue.queued_bytes() - 2 * LEAST_SHARE * cursors
            budget.reserved += 5_000
            assert room.free == free - 5_000
            budget.reserved -= 5_000
            assert room.is_full(cursor, free), "it has its one batch"
            most = budget.limit - budget.reserved - queue.queued_bytes()
            assert room.fits(most)
            assert not room.fits(most + 1)
            assert consuming.take() is not None
            consuming.reader.settle()
            assert not room.is_full(cursor, free), "its buffer is empty"
