"""`consumer.group.awaited_partitions`, with the simulated world's brokers."""

from __future__ import annotations

import asyncio

from kafwire.cluster.cluster import Cluster
from kafwire.config import ConsumerConfig
from kafwire.consumer.group.awaited_partitions import AwaitedPartitions
from kafwire.consumer.ownership import PartitionOwnership
from kafwire.types import TopicPartition
from tests.support.simulated.world import World

WHERE = TopicPartition("t", 0)


def test_partitions_that_come_right_after_all_were_given_up_are_looked_up() -> None:
    with World() as world:
        world.create_topic("t")
        cluster = Cluster(world.engine, ConsumerConfig.build({"bootstrap_servers": world.bootstrap}))
        shown: list[PartitionOwnership] = []
        awaited = AwaitedPartitions(cluster, "g", lambda found: shown.extend(found.values()))
        first, second = PartitionOwnership(), PartitionOwnership()

        async def take_twice() -> None:
            awaited.add({WHERE: first})
            await asyncio.sleep(0)
            awaited.clear()
            awaited.add({WHERE: second})

        world.run(take_twice())
        world.pass_time(1)
        assert shown == [second]
        assert not awaited.is_looking
        world.run(cluster.close())
