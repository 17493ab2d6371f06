"""`consumer.offsets.positions`: seeks at any moment, offsets that are not there, positions and lag."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire.cluster.list_offsets import EARLIEST, LATEST
from kafwire.cluster.offset_spec import place_of
from kafwire.consumer.offsets.hand import Hand, rests_of
from kafwire.errors import BrokerError, KafkaError
from kafwire.records import Batch, encode_batch
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, log_of, timed, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")
# Of tests that count partitions, or log lines about them.
few_partitions = pytest.mark.shapes("as_written", "single_records")
# Of tests that count batches of several records.
by_batches = pytest.mark.shapes("as_written", "many_partitions")

WHERE = TopicPartition("t", 0)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("delay_ms", [0, 1, 2, 3, 5, 20, 200, 600])
def test_seek_at_any_moment(delay_ms: int, strategy: dict[str, Any]) -> None:
    """Before, while and after requests are on their way or parked: nothing of the old position comes."""
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=10, records=3)
        with Consuming(world, topics="t", max_partition_fetch_bytes=300, **strategy) as consuming:
            for target in (20, 3, 3, 29, 0, 30, 14):
                consuming.idle(delay_ms / 1000)
                consuming.seek(target)
                consuming.rows.pop(("t", 0), None)
                if target < 30:
                    consuming.until(lambda: ("t", 0) in consuming.rows)
                    got = consuming.rows["t", 0]
                    assert got == rows["t", 0][target : target + len(got)]
            consuming.until_read({("t", 0): rows["t", 0][14:], ("t", 1): rows["t", 1]})


@pytest.mark.thousand
def test_seek_of_one_does_not_spoil_the_next_ones_response() -> None:
    """Only the first partition of a response is sure to give a whole batch: if that is of no use, others have none."""
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=3, records=1, size=1000)
        parts = [True] * 3

        async def respond(call: Call) -> Any:
            response = await world.response_to(call)
            given = [part for topic in response.responses for part in topic.partitions if part.records]
            if len(given) == 2 and parts:
                parts.pop()
                given[1].records = bytes(given[1].records)[:500]
            return response

        world.on("Fetch", respond)
        with Consuming(world, topics="t", asks=False) as consuming:
            consuming.idle()
            world.run(consuming.core.assignment.ask())
            consuming.until(consuming.fetches)
            consuming.seek(1)
            consuming.until_read({("t", 0): rows["t", 0][1:], ("t", 1): rows["t", 1]})
            assert len(parts) < 3


@few_partitions
def test_seek_by_time_and_to_ends() -> None:
    with World() as world:
        world.create_topic("t")
        timed(world, *range(0, 10_000, 1000))
        with Consuming(world, topics="t") as consuming:
            for when, offset in ((3500, 4), ("earliest", 0), ("latest", 10), (99_999, 10)):
                found = world.run(consuming.core.positions.seek_to(place_of(when), None))
                assert found == {WHERE: offset}
                assert world.run(consuming.core.positions.position(WHERE)) == offset
                assert consuming.offsets_now() == list(range(offset, 10))


def test_a_seek_mends_a_partition_that_failed() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t", auto_offset_reset="error") as consuming:
            consuming.until_read(rows)
            consuming.seek(99)
            consuming.idle()
            for _ in range(2):  # again and again, other partitions in between
                with pytest.raises(BrokerError, match=r"t-0 has no offset 99.*seek"):
                    consuming.take()
            rows["t", 1] += write(world, "t", 1)
            consuming.idle()
            seen = []
            for _ in range(4):
                try:
                    batch = consuming.take()
                    seen.append(None if batch is None else batch.partition)
                except BrokerError:
                    seen.append(-1)
            assert 1 in seen
            consuming.seek(0)
            consuming.rows.clear()
            consuming.until_read({("t", 0): rows["t", 0]})


@by_batches
def test_positions_are_those_of_the_reader() -> None:
    with World() as world:
        fill(world, "t", batches=5, records=3)
        with Consuming(world, topics="t") as consuming:
            consuming.idle()
            assert consuming.cursor().position == 15
            for expected in (0, 3, 6, 9):
                assert world.run(consuming.core.positions.position(WHERE)) == expected
                consuming.take()


@pytest.mark.shapes("as_written")
def test_a_batch_that_was_handed_out_record_by_record_does_not_hold_the_position() -> None:
    """Markers may follow its last record, which come later and bring no batch."""
    with World() as world:
        fill(world, "t", batches=1, records=3)
        with Consuming(world, topics="t") as consuming:
            consuming.idle()
            batch = consuming.take()
            assert batch is not None
            hand = Hand(consuming.core.fetcher, iter([batch]))
            assert hand.next() is None
            for offset in (1, 2):
                next(hand.records)
                assert hand.next() == (WHERE, offset)
                assert consuming.core.positions.lag(WHERE, hand.next()) == 3 - offset
            next(hand.records)
            assert hand.next() is None
            log = log_of(world)
            marker = encode_batch(
                [(b"\0\0\0\1", bytes(6))], control=True, transactional=True, producer_id=7, producer_epoch=0
            )
            for _ in range(2):
                log.append(marker)
            consuming.until(lambda: consuming.queue.position(0) == 5)
            assert world.run(consuming.core.positions.position(WHERE)) == 5
            assert hand.next() is None
            assert consuming.core.positions.lag(WHERE, hand.next()) == 0


@pytest.mark.shapes("as_written")
def test_lag_costs_no_request() -> None:
    with World() as world:
        fill(world, "t", batches=5, records=3)
        with Consuming(world, topics="t", asks=False) as consuming:
            assert consuming.core.positions.lag(WHERE) is None
            world.run(consuming.core.assignment.ask())
            consuming.idle()
            before = len(world.calls)
            assert consuming.core.positions.lag(WHERE) == 15
            consuming.take()
            assert consuming.core.positions.lag(WHERE) == 12
            consuming.drain()
            assert consuming.core.positions.lag(WHERE) == 0
            assert len(world.calls) == before
            assert world.run(consuming.core.positions.ends(None, EARLIEST)) == {WHERE: 0}
            assert world.run(consuming.core.positions.ends(None, LATEST)) == {WHERE: 15}


@pytest.mark.parametrize("level", ["read_uncommitted", "read_committed"])
@by_batches
def test_lag_is_known_as_soon_as_records_are(level: str) -> None:
    """Records are in hand before the engine has looked at their response: the lag must not be 0 too early."""
    with World() as world:
        fill(world, "t", batches=2, records=3)
        with Consuming(world, topics="t", isolation_level=level, fetch_max_bytes=1) as consuming:
            consuming.until(lambda: consuming.batches == 2)
            assert consuming.core.positions.lag(WHERE) == 0
            world.engine_lag_s = lambda: 5.0
            write(world, "t", batches=4, records=3)
            consuming.until(lambda: consuming.batches == 3, 2.0)
            assert consuming.cursor().high_watermark < 18, "the engine has not looked"
            assert consuming.core.positions.lag(WHERE) == 9
            world.engine_lag_s = lambda: 0.0
            consuming.until(lambda: consuming.batches == 6)
            assert consuming.core.positions.lag(WHERE) == 0
            consuming.idle()


@pytest.mark.parametrize("paused", [False, True])
def test_a_stream_whose_partition_is_dropped_says_so(*, paused: bool) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, assign=[("t", 0), ("t", 1)], asks=False) as consuming:
            reader = consuming.stream(0)
            if paused:
                consuming.pause(0)
            world.run(consuming.core.assignment.assign([TopicPartition("t", 1)]))
            with pytest.raises(KafkaError, match="t-0 is not read by this consumer any more"):
                reader.read(1000)
            world.run(consuming.core.assignment.ask())
            consuming.until_read({("t", 1): rows["t", 1]})


@by_batches
def test_batches_that_are_put_back_are_not_processed() -> None:
    """A call took two batches and delivered neither. The second read counted the first batch as processed."""
    with World() as world:
        rows = fill(world, "t", batches=3, records=2)
        with Consuming(world, topics="t") as consuming:
            taken: list[Batch] = []
            while len(taken) < 2:
                consuming.idle(0.01)
                if (batch := consuming.take()) is not None:
                    taken.append(batch)
            number = consuming.cursor().number
            assert consuming.queue.processed(number) == taken[1].base_offset
            (rest,) = rests_of(taken)

            async def put_back() -> None:
                consuming.core.positions.put_back(rest)

            world.run(put_back())
            assert consuming.queue.processed(number) == 0
            consuming.rows.clear()
            consuming.until_read(rows)
