"""`consumer.fetch.offset_reset`: offsets that are not there, and where reading goes on by the policy."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import Consuming, fill, log_of, timed, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")

WHERE = TopicPartition("t", 0)
HOUR = 3_600_000


@pytest.mark.parametrize(
    ("policy", "first"), [("earliest", 6), ("latest", 12), ("by_duration:PT1H", 9), ("by_duration:PT100H", 6)]
)
@pytest.mark.parametrize("target", [0, 5, 99])
def test_offset_out_of_range(policy: str, first: int, target: int) -> None:
    with World() as world:
        world.create_topic("t")
        world.engine.clock.wall_s = 10 * HOUR / 1000 - world.loop.time()
        timed(world, *([HOUR] * 9), *([9 * HOUR + 60_000] * 3))
        log_of(world).delete_before(6)
        with Consuming(world, topics="t", start={WHERE: target}, auto_offset_reset=policy) as consuming:
            got = consuming.offsets_now()
            assert got == list(range(first, 12))
            assert world.run(consuming.core.positions.position(WHERE)) == 12
            assert consuming.fetcher.offset_reset.count == 1


def test_a_seek_while_the_reset_looks_for_its_place() -> None:
    with World() as world:
        rows = fill(world, "t")

        async def slow(call: Call) -> Any:
            await asyncio.sleep(1)
            return world.serve(call)

        with Consuming(world, topics="t", start={WHERE: 99}, auto_offset_reset="earliest") as consuming:
            world.on("ListOffsets", slow)
            consuming.seek(99)
            consuming.until(lambda: world.made("ListOffsets"))
            consuming.seek(6)
            consuming.idle(3)
            consuming.until_read({("t", 0): rows["t", 0][6:]})


def test_buffered_records_are_read_although_the_log_has_deleted_more() -> None:
    with World() as world:
        rows = fill(world, "t", batches=20, records=1, size=1000)
        options: dict[str, Any] = {"max_partition_fetch_bytes": 2500, "max_prefetch_batches": 2}
        with Consuming(world, topics="t", auto_offset_reset="earliest", **options) as consuming:
            consuming.idle()
            buffered = consuming.cursor().position
            assert 0 < buffered < 20
            log_of(world).delete_before(15)
            consuming.take()  # room: the next request finds out
            consuming.idle()
            consuming.idle()
            while consuming.drain():
                consuming.idle()
            got = [offset for offset, _ in consuming.rows["t", 0]]
            assert got[:buffered] == list(range(buffered))
            assert got[buffered:] == list(range(15, 20))
            rows["t", 0] += write(world, "t")
            consuming.idle()
            consuming.drain()
            assert consuming.rows["t", 0][-1] == rows["t", 0][-1]
