"""Share consumers and responses above `max_frame_bytes`: an error names partition and option, in time."""

from __future__ import annotations

import asyncio

import pytest

from kafwire.broker.request import Request
from kafwire.errors import RecordTooLargeError
from tests.support.share.world import BATCH, BATCHES, TOPIC, ShareWorld

LIMIT = 64 << 10


@pytest.mark.parametrize("brokers", [1, 2])
def test_a_large_batch_is_an_error_that_names_partition_and_option(brokers: int) -> None:
    with ShareWorld(brokers) as world:
        world.topic.partitions[0].append_values([b"x" * 2 * LIMIT])
        world.changed()

        async def main() -> int:
            count = 0
            async with world.async_consumer(max_frame_bytes=LIMIT) as consumer, asyncio.timeout(30):
                named = rf"{TOPIC}-0 for share group 'g'.*max_frame_bytes \(65536\)"
                with pytest.raises(RecordTooLargeError, match=named):
                    while True:
                        for batch in await consumer.poll(1.0):
                            count += len(batch)
            return count

        assert world.run(main()) >= BATCH * BATCHES


def test_after_one_long_response_all_partitions_are_read() -> None:
    """The partitions are requested alone once, and then together again."""
    with ShareWorld(1) as world:
        world.state.topics.add_partitions(world.topic, 1)
        world.topic.partitions[1].append_values([b"x"] * BATCH)
        too_long = [bytes(2 * LIMIT)]

        def intercept(request: Request) -> None:
            if request.name == "ShareFetch":
                request.edits.append(lambda response: too_long.pop() if too_long else response)

        world.state.interceptors.append(intercept)
        world.changed()
        with world.consumer(max_frame_bytes=LIMIT) as consumer:
            found = {(batch.partition, record.offset) for batch in consumer.batches(10.0) for record in batch}
        assert not too_long
        assert found == {(0, offset) for offset in range(BATCH * BATCHES)} | {(1, offset) for offset in range(BATCH)}


def test_ordinary_records_are_read_with_a_small_frame_limit() -> None:
    with ShareWorld(1) as world:
        for _ in range(50):
            world.topic.partitions[0].append_values([b"x" * 5_000] * BATCH)
        world.changed()

        async def main() -> int:
            count = 0
            async with world.async_consumer(max_frame_bytes=LIMIT) as consumer, asyncio.timeout(60):
                while count < BATCH * (BATCHES + 50):
                    for batch in await consumer.poll(1.0):
                        count += len(batch)
            return count

        assert world.run(main()) == BATCH * (BATCHES + 50)
