"""Partitions that must not be read: others go on, nothing is asked for meanwhile, and a call asks once more."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthorizationError, KafkaError
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, Rows, fill, write
from tests.support.simulated.world import World


def reported(consuming: Consuming) -> AuthorizationError:
    """The error that a reader raises soon, marked as delivered."""
    consuming.idle(1)
    with pytest.raises(AuthorizationError) as caught:
        consuming.drain()
    consuming.core.denied.note(caught.value)
    return caught.value


def try_again(consuming: Consuming) -> None:
    assert consuming.core.denied.are_due
    consuming.world.run(consuming.core.denied.try_due())
    assert not consuming.core.denied.are_due


def asking_for(consuming: Consuming, topic: str) -> int:
    """How many requests added a partition of the topic."""
    topic_id = consuming.world.topics[topic].topic_id
    return sum(any(each.topic_id == topic_id for each in call.message.topics) for call in consuming.fetches())


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_partition_denied_in_the_middle_is_read_on_from_there(strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t") | fill(world, "u")
        with Consuming(world, topics=["t", "u"], **strategy) as consuming:
            consuming.until_read(rows)
            world.unreadable.add("t")
            rows["t", 0] += write(world, "t")
            rows["u", 0] += write(world, "u")
            error = reported(consuming)
            assert (error.operation, error.resource_type, error.resource_name) == ("Read", "Topic", "t")
            assert consuming.core.metrics()["partitions"]["t-0"]["failed"]
            for _ in range(3):
                before = asking_for(consuming, "t")
                consuming.idle(30)
                assert asking_for(consuming, "t") == before, "asked for without a call"
                try_again(consuming)
                reported(consuming)
                assert asking_for(consuming, "t") <= before + 1
            world.unreadable.clear()
            try_again(consuming)
            consuming.until_read(rows)
            assert not consuming.core.metrics()["partitions"]["t-0"]["failed"]


def test_how_far_it_was_processed_stays() -> None:
    with World() as world:
        rows = fill(world, "t")
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            number = consuming.cursor().number
            consuming.queue.process(number, 5)
            world.unreadable.add("t")
            rows["t", 0] += write(world, "t")
            consuming.idle(1)
            with pytest.raises(AuthorizationError) as caught:
                consuming.reader.read(0)
            consuming.core.denied.note(caught.value)
            try_again(consuming)
            assert consuming.queue.processed(number) == 5


def test_where_it_begins_is_looked_up_once_more() -> None:
    with World() as world:
        rows = fill(world, "t")
        denies = False

        def respond(call: Call) -> Any:
            found = world.serve(call)
            for part in (part for topic in found.topics for part in topic.partitions) if denies else ():
                part.error_code = ErrorCode.TOPIC_AUTHORIZATION_FAILED
            return found

        world.on("ListOffsets", respond)
        with Consuming(world, topics="t", auto_offset_reset="earliest") as consuming:
            consuming.until_read(rows)
            denies, before = True, len(world.made("ListOffsets"))
            consuming.seek(1000)
            for count in range(1, 4):
                error = reported(consuming)
                assert (error.operation, error.resource_name) == ("Describe", "t")
                assert len(world.made("ListOffsets")) == before + count
                try_again(consuming)
            reported(consuming)
            denies = False
            try_again(consuming)
            assert consuming.offsets_now() == [offset for offset, _ in rows["t", 0]]


def test_a_seek_forgets_the_denial() -> None:
    with World() as world:
        fill(world, "t")
        world.unreadable.add("t")
        with Consuming(world, topics="t") as consuming:
            reported(consuming)
            world.unreadable.clear()
            consuming.seek(7)
            try_again(consuming)
            assert consuming.offsets_now() == [7, 8, 9, 10, 11]


def test_another_failure_is_not_tried_again() -> None:
    with World() as world:
        rows: Rows = fill(world, "t")
        with Consuming(world, topics="t", auto_offset_reset="error") as consuming:
            consuming.until_read(rows)
            consuming.seek(1000)
            consuming.idle()
            with pytest.raises(KafkaError) as caught:
                consuming.drain()
            consuming.core.denied.note(caught.value)
            assert not consuming.core.denied.are_due
            before = len(consuming.fetches())
            world.run(consuming.core.denied.try_all())
            consuming.idle(5)
            assert len(consuming.fetches()) <= before + 1
            with pytest.raises(KafkaError, match="OFFSET_OUT_OF_RANGE"):
                consuming.drain()


def test_a_new_reader_retries_denied_partitions() -> None:
    with World() as world:
        rows = fill(world, "t") | fill(world, "u")
        world.unreadable.update({"t", "u"})
        with Consuming(world, topics=["t", "u"]) as consuming:
            consuming.idle(1)
            world.unreadable.clear()
            world.run(consuming.core.denied.try_all(TopicPartition("t", 0)))
            consuming.idle(1)
            assert [consuming.cursor(topic).halted for topic in "tu"] == [False, True]
            world.run(consuming.core.denied.try_all())
            consuming.until_read(rows)


def test_an_unreported_denial_is_raised_before_the_next_call() -> None:
    with World() as world:
        rows = fill(world, "t") | fill(world, "u")
        world.unreadable.update({"t", "u"})
        with Consuming(world, topics=["t", "u"]) as consuming:
            first = reported(consuming)
            world.unreadable.clear()
            try_again(consuming)
            second = reported(consuming)
            assert {first.resource_name, second.resource_name} == {"t", "u"}
            try_again(consuming)
            consuming.until_read(rows)
