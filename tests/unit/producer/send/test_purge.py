"""`producer.send.purge`: purged records, those that may be in the log, and work that continues."""

from __future__ import annotations

import asyncio
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import KafkaError, PurgedError, TransactionAbortableError
from kafwire.records._arrow_rows import RowsReader
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support.pass_clock import PassClock
from tests.support.simulated.producer import Work
from tests.support.simulated.world import World
from tests.support.transactional_producer import Transacting


def purge(work: Work, *, in_flight: bool = False) -> int:
    return work.world.run(work.core.purge(in_flight=in_flight))


def values(world: World) -> list[bytes | None]:
    """The values in the log."""
    (log,) = world.topics["t"].partitions
    return log.values()


async def slow(_: Call) -> None:
    """Stored with a response, but not at once."""
    await asyncio.sleep(2)


def error_of(delivery: Any) -> KafkaError:
    assert delivery.done()
    error = delivery.exception(0)
    assert isinstance(error, PurgedError)
    return error


def test_unsent_records_fail_at_once_and_those_in_flight_go_on() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=5)
        work.send("t", b"before")
        work.flush()
        world.on("Produce", lambda _: NEVER)
        sent = work.send("t", b"sent")
        world.pass_time(1)
        assert len(world.made("Produce")) == 2
        buffered = [work.send("t", b"buffered") for _ in range(3)]
        before = world.loop.time()
        assert purge(work) == 3
        assert world.loop.time() == before
        for delivery in buffered:
            error = error_of(delivery)
            assert not error.in_doubt
            assert "not in the log" in str(error)
        assert not sent.done()
        world.off("Produce")
        after = work.send("t", b"after")
        work.flush()
        assert sent.result(0).offset == 1
        assert after.result(0).offset == 2
        assert values(world) == [b"before", b"sent", b"after"]
        assert work.used == 0
        work.close()


@pytest.mark.parametrize("is_stored", [False, True])
@pytest.mark.parametrize("idempotent", [False, True])
def test_records_in_flight_fail_in_doubt_and_later_ones_are_sent(*, is_stored: bool, idempotent: bool) -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=5, request_timeout_ms=5_000, enable_idempotence=idempotent)
        work.send("t", b"before")
        work.flush()
        if not is_stored:
            world.on("Produce", lambda _: NEVER)
        else:
            world.on("Produce", slow)
        sent = work.send("t", b"sent")
        world.pass_time(0.5)
        buffered = work.send("t", b"buffered")
        assert purge(work, in_flight=True) == 2
        assert error_of(sent).in_doubt
        assert not error_of(buffered).in_doubt
        assert work.used == 0
        work.flush()
        after = [work.send("t", b"after %d" % number) for number in range(3)]
        world.pass_time(1)
        world.off("Produce")
        work.flush()
        assert [values(world)[delivery.result(0).offset] for delivery in after] == [b"after 0", b"after 1", b"after 2"]
        assert values(world) == [b"before", *([b"sent"] if is_stored else []), b"after 0", b"after 1", b"after 2"]
        work.close()


def test_a_record_that_waits_for_a_retry_is_in_doubt_where_its_response_was_lost() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=0, retry_backoff_ms=5_000, retry_backoff_max_ms=5_000)
        work.send("t", b"before")
        work.flush()
        world.on("Produce", lambda _: HANGUP)
        lost = work.send("t", b"lost")
        world.pass_time(0.5)
        world.off("Produce")
        assert purge(work) == 0
        assert not lost.done()
        assert purge(work, in_flight=True) == 1
        assert error_of(lost).in_doubt
        after = work.send("t", b"after")
        work.flush()
        assert after.result(0).offset >= 1
        work.close()


def test_rows_that_a_thread_adds_meanwhile_are_given_up_or_sent_but_never_lost() -> None:
    with World() as world:
        world.create_topic("t")
        clock = PassClock(world.engine.clock)
        world.engine.clock = clock  # type: ignore[assignment]
        work = Work(world, "t", linger_ms=5, batch_size=1_000)
        first = work.send("t", b"first")
        (rows,) = RowsReader(pa.table({"value": [b"row"] * 400}))
        plan = work.accumulator.plan_rows("t", rows, 0, 0)
        assert plan is not None
        parts: list[Any] = []
        with clock.behind_passes(work.accumulator, lambda: purge(work)):
            assert work.accumulator.append_rows(plan, parts), "no room"
        work.flush()
        error_of(first)
        assert sum(count for _, _, count in parts) == 400
        assert all(batch.done for batch, _, _ in parts)
        assert work.used == 0
        work.close()


def test_a_transaction_with_purged_records_cannot_be_committed() -> None:
    with World() as world:
        world.create_topic("t")
        work = Transacting(world, linger_ms=60_000)
        work.begin()
        delivery = work.send("t", b"purged")
        assert purge(work) == 1
        error_of(delivery)
        with pytest.raises(TransactionAbortableError):
            work.commit()
        work.abort()
        work.transact(b"kept")
        assert work.seen == [b"kept"]


def test_a_transaction_ends_after_purged_batches_in_flight_came_back() -> None:
    with World() as world:
        world.create_topic("t")
        work = Transacting(world)
        work.transact(b"before")

        work.begin()
        world.on("Produce", slow)
        delivery = work.send("t", b"purged")
        world.pass_time(0.1)
        assert purge(work, in_flight=True) == 1
        assert error_of(delivery).in_doubt
        began = world.engine.now_ms()
        work.abort()
        assert world.engine.now_ms() - began > 1_500
        world.off("Produce")
        work.transact(b"kept")
        assert work.seen == [b"before", b"kept"]


def test_records_left_of_a_recreated_topic_are_given_up_and_none_of_the_new_one_forgotten() -> None:
    async def slower(_: Call) -> None:
        await asyncio.sleep(6)

    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", batch_size=1)
        world.on("Produce", slower)
        before = [work.send("t", b"before", partition=None, key=b"k%d" % i) for i in range(8)]
        world.pass_time(0.1)
        world.create_topic("t", partitions=2)
        for _ in range(2):
            world.run(work.cluster.refresh())
            world.pass_time(1.5)
        assert purge(work, in_flight=True) == 8
        assert [error_of(delivery).in_doubt for delivery in before] == [True] + [False] * 7
        world.off("Produce")
        after = [work.send("t", b"after", partition=partition) for partition in range(2)]
        work.flush()
        assert [delivery.exception(0) for delivery in after] == [None, None]
        assert [log.values() for log in world.topics["t"].partitions] == [[b"after"], [b"after"]]
        assert work.used == 0


def test_a_purged_partition_that_moved_away_does_not_make_a_slow_broker_look_hung() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        work = Work(world, "t")
        world.on("Produce", slow)
        purged = work.send("t", b"purged", partition=0)
        world.pass_time(0.1)
        assert purge(work, in_flight=True) == 1
        world.pass_time(3)
        world.move_leader("t", 0, 2)
        world.run(work.cluster.refresh())
        delivery = work.send("t", b"slow", partition=2)
        work.flush()
        assert error_of(purged).in_doubt
        assert delivery.result(0).offset == 0
        assert len(world.made("Produce")) == 2
