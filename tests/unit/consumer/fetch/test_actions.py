"""`consumer/fetch/actions.py`: parts of the fetch engine emit them, and it applies them at once."""

from __future__ import annotations

from pathlib import Path

import pytest

from kafwire.consumer.fetch import actions
from kafwire.errors import KafkaError
from tests.support.import_circles import imported
from tests.support.simulated.consumer import Consuming, fill
from tests.support.simulated.world import World

FETCH = Path(actions.__file__).parent
ENGINE = "kafwire.consumer.fetch.engine"


def test_no_part_of_the_engine_imports_it() -> None:
    assert [path.name for path in FETCH.glob("*.py") if [*imported(path.read_text(), {ENGINE})]] == []


def test_the_engine_applies_an_action_before_the_call_returns() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            cursor, other = consuming.cursor(number=0), consuming.cursor(number=1)
            fetcher, error = consuming.fetcher, KafkaError("damaged")
            heard: list[int] = []

            async def act() -> None:
                emit = fetcher.offset_reset._emit
                emit(actions.Halt(cursor, error))
                assert (cursor.halted, cursor.failure) == (True, error)
                emit(actions.Seek(cursor, 3))
                assert (cursor.halted, cursor.position, fetcher.queue.position(0)) == (False, 3, 3)
                emit(actions.Continue(cursor, 5, last_epoch=2))
                assert (cursor.position, cursor.last_epoch, fetcher.queue.position(0)) == (5, 2, 5)
                emit(actions.AwaitPosition(cursor))
                assert (cursor.position, fetcher.queue.position(0)) == (-1, 5)
                emit(actions.Leave(other))
                assert fetcher.brokers.fetcher_of(other) is None
                emit(actions.Move([other]))
                assert fetcher.brokers.unassigned_count == 1
                stop = fetcher.listen(lambda: heard.append(len(heard)))
                emit(actions.ARRIVED)
                stop()
                assert heard == [0]
                emit(actions.Seek(cursor, 12))

            world.run(act())
            consuming.idle()
            assert fetcher.brokers.unassigned_count == 0


def test_a_failed_read_is_stopped_before_the_call_returns() -> None:
    with World() as world:
        fill(world, "t")
        with Consuming(world, topics="t") as consuming:

            async def act() -> None:
                consuming.fetcher.brokers._emit(actions.Fail(KafkaError("the end")))
                assert consuming.fetcher.stopped

            world.run(act())
            with pytest.raises(KafkaError, match="the end"):
                consuming.drain()
                consuming.drain()
