"""`consumer.group.assignment`: new partitions are read, others go on, and a failed change has no effect."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, BrokerError
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, write
from tests.support.simulated.world import World

in_all_shapes = pytest.mark.usefixtures("shape")


def test_a_partition_that_comes_back_by_metadata_is_read() -> None:
    """The partition was dropped; when its topic is subscribed to again, a lagging broker does not know it yet."""
    with World() as world:
        rows = fill(world, "t", partitions=3)
        fill(world, "u")
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            world.run(consuming.core.assignment.subscribe(["u"]))

            def lags(call: Call) -> Any:
                response = world.serve(call)
                for topic in response.topics:
                    topic.partitions = [part for part in topic.partitions if part.partition_index < 2]
                return response

            world.on("Metadata", lags)
            consuming.rows.clear()
            world.run(consuming.core.assignment.subscribe(["t"]))
            world.off("Metadata")
            world.run(consuming.cluster.refresh())
            rows["t", 2] += write(world, "t", 2)
            consuming.until_read(rows)


def test_a_subscription_that_fails_changes_nothing() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2) | fill(world, "u")
        with Consuming(world, assign=[("u", 0), ("t", 0)], default_api_timeout_ms=3_000) as consuming:
            consuming.until_read({where: rows[where] for where in (("u", 0), ("t", 0))})
            with pytest.raises(BrokerError, match="'v' does not exist"):
                world.run(consuming.core.assignment.subscribe(["t", "v"]))

            def refuse(call: Call) -> Any:
                response = world.serve(call)
                response.topics[0].partitions[0].error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
                return response

            world.on("ListOffsets", refuse)
            with pytest.raises(AuthorizationError):
                world.run(consuming.core.assignment.subscribe(["t"]))
            world.off("ListOffsets")
            assert set(consuming.core.assignment.partitions) == {TopicPartition("u", 0), TopicPartition("t", 0)}
            assert consuming.core.assignment.topics == set()
            world.add_partitions("t", 1)
            world.run(consuming.cluster.refresh())
            rows["u", 0] += write(world, "u")
            rows["t", 0] += write(world, "t")
            rows["t", 1] += write(world, "t", 1)
            consuming.until_read({where: rows[where] for where in (("u", 0), ("t", 0))})


def test_partitions_that_are_added_while_a_subscription_begins() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=1) | fill(world, "u")
        with Consuming(world, topics="u") as consuming:
            consuming.until_read({("u", 0): rows["u", 0]})

            def grow(_: Call) -> None:
                world.off("ListOffsets")
                world.add_partitions("t", 1)
                rows["t", 1] = write(world, "t", 1)
                world.engine.start(consuming.cluster._refresher.begin)

            world.on("ListOffsets", grow)
            world.run(consuming.core.assignment.subscribe(["t", "u"]))
            consuming.until_read(rows)


@pytest.mark.parametrize("wanted", [True, False])
def test_a_topic_is_created_for_a_subscription_if_that_is_wanted(*, wanted: bool) -> None:
    with World() as world:
        rows = fill(world, "u")
        world.allow_auto_create()
        with Consuming(world, topics="u", allow_auto_create_topics=wanted) as consuming:
            consuming.until_read(rows)
            if not wanted:
                with pytest.raises(BrokerError, match="'t' does not exist"):
                    world.run(consuming.core.assignment.subscribe(["t", "u"]))
                return
            world.run(consuming.core.assignment.subscribe(["t", "u"]))
            rows["t", 0] = write(world, "t")
            consuming.until(lambda: consuming.rows.get(("t", 0)) == rows["t", 0])


@in_all_shapes
def test_partitions_that_are_added_while_it_starts() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2)

        def grow(_: Call) -> None:
            world.off("ListOffsets")
            world.add_partitions("t", 1)
            rows["t", 2] = write(world, "t", 2)
            world.move_leader("t", 0, 2)  # so it looks again

        world.on("ListOffsets", grow)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)


@in_all_shapes
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_assignments_that_change(strategy: dict[str, Any]) -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=4)
        with Consuming(world, assign=[("t", 0), ("t", 1)], **strategy) as consuming:
            consuming.until_read({where: rows[where] for where in (("t", 0), ("t", 1))})
            world.run(consuming.core.assignment.assign([TopicPartition("t", n) for n in (1, 2)]))
            rows["t", 0] += write(world, "t", 0)
            rows["t", 1] += write(world, "t", 1)
            consuming.until(lambda: consuming.rows.get(("t", 2)) == rows["t", 2])
            consuming.until(lambda: consuming.rows["t", 1] == rows["t", 1])
            assert consuming.rows["t", 0] == rows["t", 0][:-1]
            consuming.rows.pop(("t", 0))
            world.run(consuming.core.assignment.assign([TopicPartition("t", n) for n in range(4)]))
            consuming.until_read(rows)  # a new assignment begins where `start` says
