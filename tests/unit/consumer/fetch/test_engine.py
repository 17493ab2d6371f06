"""A consumer reads every record once and in order, with every strategy, from brokers that are well."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support import seeds
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")


@pytest.mark.parametrize("records", [1, 7])
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize(("brokers", "partitions"), [(1, 1), (3, 10)])
def test_everything_once_and_in_order(brokers: int, partitions: int, strategy: dict[str, Any], records: int) -> None:
    with World(brokers=brokers) as world:
        rows = fill(world, "t", partitions=partitions, records=records) | fill(world, "u", batches=1)
        with Consuming(world, topics=["t", "u"], **strategy) as consuming:
            consuming.until_read(rows)
            for number in range(partitions):
                rows["t", number] += write(world, "t", number, batches=3, records=records)
            consuming.until_read(rows)


@pytest.mark.parametrize("strategy", seeds.sampled(STRATEGIES, STRATEGIES[0]), ids=str)
def test_a_thousand_partitions_of_single_records(strategy: dict[str, Any]) -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=1000, batches=2, records=1)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            for number in range(0, 1000, 7):
                rows["t", number] += write(world, "t", number)
            consuming.until_read(rows)


@pytest.mark.parametrize("topic_ids", [True, False])
def test_sizes_of_one_byte(*, topic_ids: bool) -> None:
    """The broker then gives one whole batch at a time (librdkafka 0041, 0082)."""
    with World(topic_ids=topic_ids) as world:
        rows = fill(world, "t", partitions=3, batches=5)
        options: dict[str, Any] = {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 1, "fetch_memory": 1}
        with Consuming(world, topics="t", **options) as consuming:
            consuming.until_read(rows)
