"""`consumer.offsets.start_positions`: the first position, by `start`, committed offset and reset policy."""

from __future__ import annotations

import datetime as dt
from typing import Any

import pytest

from kafwire.broker.groups.offsets_topic import Committed as Kept
from kafwire.calls.consumer import layouts, selection_of
from kafwire.cluster.cluster import Cluster
from kafwire.config import ConsumerConfig
from kafwire.consumer.core import ConsumerCore
from kafwire.errors import ConfigError
from kafwire.types import Offset, Tail, TopicPartition
from tests.support.simulated.consumer import Consuming, fill, log_of, timed, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")
# Of tests that count partitions, or log lines about them.
few_partitions = pytest.mark.shapes("as_written", "single_records")

WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize(
    ("start", "first"),
    [
        ("earliest", 2),
        ("latest", 12),
        (Offset(5), 5),
        (Tail(3), 9),
        (Tail(0), 12),
        (Tail(99), 2),
        (dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC), 5),
        (dt.datetime(1970, 1, 1, 0, 1, 39, tzinfo=dt.UTC), 12),
        ({WHERE: Offset(6)}, 6),
        ({WHERE: Tail(1)}, 11),
        ({WHERE: dt.datetime(1970, 1, 1, 0, 0, 5, tzinfo=dt.UTC)}, 5),
        ({WHERE: 6}, 6),
        ({WHERE: "latest"}, 12),
        ({WHERE: "earliest"}, 2),
    ],
    ids=str,
)
def test_starts(start: Any, first: int) -> None:
    with World() as world:
        world.create_topic("t")
        timed(world, *range(0, 10_000, 1000))
        timed(world, 9999, 9999)
        log_of(world).delete_before(2)
        with Consuming(world, topics="t", start=start) as consuming:
            assert world.run(consuming.core.positions.position(WHERE)) == first


@pytest.mark.parametrize("start", [1, -1, True, 1.5, {WHERE: True}, {WHERE: 1.5}], ids=str)
def test_a_number_alone_is_no_start(start: Any) -> None:
    with World() as world:
        world.create_topic("t")
        with pytest.raises(ConfigError, match=r"start.*kafwire\.Tail\("):
            Consuming(world, topics="t", start=start)
        assert not world.made("ListOffsets")


def test_start_where_the_group_is_and_else_by_policy() -> None:
    with World() as world:
        fill(world, "t", partitions=2)
        world.committed["g"] = {("t", 0): Kept(5, 0)}
        both = [("t", 0), ("t", 1)]
        options: dict[str, Any] = {"assign": both, "start": None, "group_id": "g"}
        with Consuming(world, auto_offset_reset="latest", **options) as consuming:
            assert world.run(consuming.core.positions.position(TopicPartition("t", 0))) == 5
            assert world.run(consuming.core.positions.position(TopicPartition("t", 1))) == 12
        with pytest.raises(ConfigError, match="begin with t-1:"):
            Consuming(world, auto_offset_reset="error", **options | {"group_id": "other"} | {"assign": both[1:]})


@few_partitions
def test_partitions_that_are_added_are_read_from_their_beginning() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        options: dict[str, Any] = {"topics": "t", "start": "latest", "metadata_max_age_ms": 10_000}
        with Consuming(world, **options) as consuming:
            world.add_partitions("t", 2)
            rows = {("t", number): write(world, "t", number, batches=3) for number in (2, 3)}
            consuming.until(lambda: consuming.rows == rows, 30)
            rows["t", 3] += write(world, "t", 3)
            consuming.until(lambda: consuming.rows == rows, 30)
            assert len(consuming.core.assignment.partitions) == 4


@few_partitions
@pytest.mark.parametrize("chosen", [{"topics": "t"}, {"assign": [("t", 0)]}], ids=str)
def test_a_start_of_an_unread_partition_begins_nothing(chosen: dict[str, Any]) -> None:
    """A second call of an `AsyncConsumer` after that error raises it again, and nothing is left of the first time."""
    with World() as world:
        fill(world, "t")
        config = ConsumerConfig.build({"bootstrap_servers": world.bootstrap})
        assign = [TopicPartition(*where) for where in chosen["assign"]] if "assign" in chosen else None
        selection = selection_of(chosen.get("topics"), assign, {TopicPartition("t", 9): 5})

        async def make() -> ConsumerCore:
            return ConsumerCore(Cluster(world.engine, config), config, selection, layouts(None, None))

        core = world.run(make())
        for _ in range(2):
            with pytest.raises(ConfigError, match="start names t-9, which this consumer does not read"):
                world.run(core.start_once())
        assert not core.assignment.partitions
        assert not core.cluster._listeners
        world.run(core.close())


@few_partitions
def test_the_first_look_at_a_topic_makes_each_cursor_once() -> None:
    with World() as world:
        fill(world, "t", partitions=3)
        with Consuming(world, topics="t", start={TopicPartition("t", n): 0 for n in range(3)}) as consuming:
            assert [cursor.number for cursor in consuming.fetcher.cursors.values()] == [0, 1, 2]
            assert not world.made("ListOffsets")
