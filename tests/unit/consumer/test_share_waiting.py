"""Records that a share consumer has acquired and not handed out yet: their locks, in the simulated world."""

from __future__ import annotations

import asyncio
import itertools
import json
import logging
import math
import uuid
from collections.abc import Iterable
from typing import Any

import pytest

from kafwire.consumer.share.acquired import ACCEPT, RELEASE, AcquiredRange
from kafwire.consumer.share.acquired_decoder import AcquiredDecoder
from kafwire.consumer.share.fetch_turns import TURN_MS
from kafwire.consumer.share.held_batch import HeldBatch
from kafwire.consumer.share.lock_renewal import SILENCE_MS
from kafwire.consumer.share.share_batch import ShareBatch
from kafwire.consumer.share.share_fetcher import FetchedRange, ShareFetcher
from kafwire.consumer.share.waiting_ranges import EARLY_MS, WaitingRanges
from kafwire.errors import CorruptBatchError
from tests.support.share.world import BATCH, BATCHES, TOPIC, ShareWorld

LOCK_S = 30.0  # group.share.record.lock.duration.ms
PATIENCE_S = 60.0
RECORDS = BATCH * BATCHES
NO_RENEWAL: dict[str, Any] = {"share_renew_acknowledge_enable": "false"}
SLOW_S = 0.05  # how much later the responses of a slow broker come


def work(world: ShareWorld, batch: ShareBatch, seconds: float) -> None:
    """Process a batch for so long, and renew its lock each 10 s."""
    for _ in range(int(seconds // 10)):
        world.pass_time(10)
        batch.renew()
    batch.accept()


def deliveries(batches: Iterable[ShareBatch]) -> dict[tuple[int | None, int], int]:
    """How often each record was delivered, by partition and offset."""
    return {(batch.partition, record.offset): batch.delivery_count for batch in batches for record in batch}


@pytest.mark.parametrize("mode", ["batch_optimized", "record_limit"])
def test_records_of_a_slow_broker_keep_their_locks_while_they_wait(mode: str) -> None:
    with (
        ShareWorld(brokers=2) as world,
        world.consumer(share_acknowledgement_mode="explicit", share_acquire_mode=mode) as consumer,
    ):
        world.link(2).latency_s = SLOW_S
        found = []
        for batch in consumer.batches(PATIENCE_S):
            found.append(batch)
            assert batch.lock_ms > 1000 * LOCK_S / 2, "most of its lock is left"
            work(world, batch, 40)
        assert deliveries(found) == {(part, offset): 1 for part in (0, 1) for offset in range(RECORDS)}
        assert consumer.metrics()["expired"] == 0
        consumer.commit()
        assert world.left() == {0: [], 1: []}


def test_batches_of_one_response_keep_their_locks_while_they_wait() -> None:
    with (
        ShareWorld() as world,
        world.consumer(max_poll_records=BATCH, share_acknowledgement_mode="explicit") as consumer,
    ):
        (first,) = consumer.poll(PATIENCE_S)
        first.acknowledge([RELEASE] + [ACCEPT] * (BATCH - 1))
        consumer.commit()
        fetches = len(world.made("ShareFetch"))
        found = []
        for batch in itertools.islice(consumer.batches(PATIENCE_S), 2):
            found.append((batch.base_offset, batch.delivery_count))
            work(world, batch, 2 * LOCK_S)
        assert found == [(0, 2), (BATCH, 1)]
        assert len(world.made("ShareFetch")) == fetches + 1, "one response has both"
        consumer.commit()
        metrics = consumer.metrics()
        assert metrics["acknowledged"] == 2 * BATCH + 1
        assert json.loads(json.dumps(metrics, allow_nan=False)) == metrics
        assert consumer.metrics()["expired"] == 0


def test_the_rest_of_a_loop_over_records_keeps_its_lock() -> None:
    with ShareWorld() as world, world.consumer(max_poll_records=RECORDS) as consumer:
        for number, record in enumerate(itertools.islice(consumer, RECORDS)):
            assert record.offset == number
            world.pass_time(2)
        consumer.poll(0)
        consumer.commit()
        assert consumer.metrics()["acknowledged"] == RECORDS, "all within its lock, though the loop took four of them"


def test_records_left_by_a_loop_are_delivered_next_and_never_released() -> None:
    for mode in ("implicit", "explicit"):
        with ShareWorld() as world, world.consumer(share_acknowledgement_mode=mode) as consumer:
            assert [record.offset for record in itertools.islice(consumer, 3)] == [0, 1, 2]
            (rest,) = consumer.poll(PATIENCE_S)
            assert [(record.offset, rest.delivery_count) for record in rest] == [(each, 1) for each in range(3, BATCH)]
            rest.accept()
            consumer.commit()
            reported = world.reported("ShareFetch") + world.reported("ShareAcknowledge")
            assert not any(RELEASE in kinds for _, _, kinds in reported)
            assert sum(last - first + 1 for first, last, _ in reported) == (BATCH if mode == "implicit" else BATCH - 3)


def test_records_left_by_a_loop_keep_their_locks() -> None:
    with ShareWorld() as world, world.consumer(share_acknowledgement_mode="explicit") as consumer:
        (first,) = consumer.poll(PATIENCE_S)
        first.acknowledge([RELEASE] * 2 + [ACCEPT] * (BATCH - 2))
        consumer.commit()
        consumer.acknowledge(next(iter(consumer)), "accept")
        found = []
        for batch in itertools.islice(consumer.batches(PATIENCE_S), 2):
            found.append((batch.base_offset, len(batch), batch.delivery_count))
            work(world, batch, 2 * LOCK_S)
        assert found == [(BATCH, BATCH, 1), (1, 1, 2)]
        consumer.commit()
        assert consumer.metrics()["expired"] == 0


@pytest.mark.parametrize("mode", ["implicit", "explicit"])
def test_a_loop_hands_out_no_records_whose_lock_is_over(mode: str) -> None:
    with (
        ShareWorld(**NO_RENEWAL) as world,
        world.consumer(share_acknowledgement_mode=mode) as consumer,
        world.consumer() as other,
    ):
        loop = iter(consumer)
        assert [next(loop).offset for _ in range(2)] == [0, 1]
        world.pass_time(LOCK_S + 1)
        first = 1 if mode == "implicit" else 0  # the one before it was accepted in time
        again = deliveries(other.poll(PATIENCE_S))
        assert again.items() >= {(0, offset): 2 for offset in range(first, BATCH)}.items()
        assert next(loop).offset >= BATCH
        assert consumer.metrics()["expired"] == BATCH - 2


@pytest.mark.parametrize("lacking", ["group", "brokers"])
def test_without_renewal_brokers_take_turns(lacking: str, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    world = ShareWorld(brokers=2, **(NO_RENEWAL if lacking == "group" else {}))
    for node in world.state.nodes.values() if lacking == "brokers" else ():
        node.versions |= {"ShareFetch": (1, 1), "ShareAcknowledge": (1, 1)}
    with world, world.consumer() as consumer:
        world.link(2).latency_s = SLOW_S
        found = []
        for batch in consumer.batches(PATIENCE_S):
            found.append(batch)
            world.pass_time(0.7 * LOCK_S)
        assert {*deliveries(found)} == {(part, offset) for part in (0, 1) for offset in range(RECORDS)}
        assert consumer.metrics()["expired"] == 0
        late = [batch for batch in found if batch.delivery_count > 1]
        assert [(len(batch), batch.delivery_count) for batch in late] == [(BATCH, 2)], "until a renewal is refused"
        consumer.poll(1.0)
        assert world.left() == {0: [], 1: []}
        turns = world.fetched_from()[2 : 2 * BATCHES]
        assert all(one != other for one, other in itertools.pairwise(turns))
    assert [each.message for each in caplog.records if "renewal" in each.message] == [
        "share group 'g' allows no renewal of locks: records are fetched from one broker at a time"
    ]


def test_a_refusal_after_renewals_says_nothing_of_the_group(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    with ShareWorld(brokers=2) as world, world.consumer() as consumer:
        world.link(2).latency_s = SLOW_S
        found = []
        for batch in consumer.batches(PATIENCE_S):
            found.append(batch)
            enabled = str(len(found) != 3).lower()
            world.state.group_configs["g"]["share.renew.acknowledge.enable"] = enabled
            world.pass_time(0.4 * LOCK_S)
        assert {*deliveries(found)} == {(part, offset) for part in (0, 1) for offset in range(RECORDS)}
        assert world.made("ShareFetch")[-1].max_records == BATCH
    assert not any("allows no renewal" in each.message for each in caplog.records)


def test_locks_that_are_over_are_not_handed_out_and_fewer_records_are_acquired() -> None:
    with ShareWorld(batches=0, **NO_RENEWAL) as world, world.consumer() as consumer:
        assert consumer.poll(7.1) == []
        world.pass_time(1)
        world.topic.partitions[0].append_values([b"x"] * BATCH)
        assert consumer.poll(0.001) == [], "they come after it"
        world.pass_time(LOCK_S + 1)
        found = consumer.poll(PATIENCE_S)
        assert [(batch.delivery_count, len(batch)) for batch in found] == [(2, BATCH)]
        assert consumer.metrics()["expired"] == BATCH
        assert world.made("ShareFetch")[-1].max_records == 1


def test_a_batch_with_little_left_of_its_lock_is_handed_out_and_fewer_records_are_acquired() -> None:
    with ShareWorld(**NO_RENEWAL) as world, world.consumer(max_poll_records=BATCH) as consumer:
        for kind in ("release", "accept"):
            (batch,) = consumer.poll(PATIENCE_S)
            batch.acknowledge([{"release": RELEASE, "accept": ACCEPT}[kind]] + [ACCEPT] * (BATCH - 1))
        counts = []
        for batch in consumer.batches(PATIENCE_S):
            counts.append((len(batch), batch.delivery_count))
            world.pass_time(0.6 * LOCK_S)
        assert counts[:2] == [(1, 2), (BATCH, 1)], "one response with two ranges"
        assert world.made("ShareFetch")[3].max_records == 1
        assert consumer.metrics()["expired"] == 0


def test_a_user_that_hangs_keeps_no_records_from_others() -> None:
    with ShareWorld() as world, world.consumer() as hangs, world.consumer() as other:
        assert next(iter(hangs)).offset == 0
        for batch in other.batches(3 * LOCK_S):
            batch.accept()
        assert world.left() == {0: [*range(1, BATCH)]}, "these wait"
        world.pass_time(SILENCE_MS / 1000)
        assert {*deliveries(other.batches(LOCK_S))} == {(0, offset) for offset in range(1, BATCH)}
        assert world.left() == {0: []}


def test_a_hung_broker_passes_its_turn_on() -> None:
    with ShareWorld(brokers=2) as world, world.consumer(share_acquire_mode="record_limit") as consumer:
        consumer.poll(PATIENCE_S)
        world.link(2).holds_requests = True
        began, found = world.loop.time(), 0
        while found < BATCH * (BATCHES - 1):
            found += sum(len(batch) for batch in consumer.poll(1.0) if batch.partition == 0)
            assert world.loop.time() - began < 3 * TURN_MS / 1000
        world.link(2).heal()


def test_turns_wait_for_records_only_when_no_broker_has_any() -> None:
    with ShareWorld(brokers=2) as world, world.consumer(share_acquire_mode="record_limit") as consumer:
        consumer.poll(PATIENCE_S)
        while consumer.poll(2.0):
            pass
        waits = [message.max_wait_ms for message in world.made("ShareFetch")]
        assert waits[: 2 * BATCHES] == [0] * 2 * BATCHES
        assert waits[-1] == 250


# --- which locks are due


def acquired(lock_ms: float = 20_000.0, node: int = 1, at_ms: float = 0.0) -> AcquiredRange:
    return AcquiredRange((uuid.UUID(int=7), 0), node, 0, 9, 1, at_ms + lock_ms, lock_ms)


def test_the_first_renewal_is_early_and_later_ones_come_each_quarter_of_a_lock() -> None:
    waiting, its = WaitingRanges(), acquired()
    waiting.add(its, 0.0)
    assert waiting.next_ms == EARLY_MS
    assert waiting.take_due(EARLY_MS - 1) == []
    assert waiting.take_due(EARLY_MS) == [its]
    assert waiting.take_due(EARLY_MS) == []
    assert waiting.next_ms == EARLY_MS + 5_000
    waiting.is_proven = True
    waiting.add(its, 1_000.0)
    assert waiting.next_ms == 6_000


def test_seen_expired_or_lost_ranges_are_not_renewed() -> None:
    waiting, seen, lost, over = WaitingRanges(), acquired(), acquired(node=2), acquired(lock_ms=400.0)
    for its in (seen, lost, over):
        waiting.add(its, 0.0)
    seen.see_all()
    waiting.forget(2)
    assert waiting.take_due(300.0) == [over]
    assert waiting.take_due(400.0) == []
    assert len(waiting) == 0
    assert waiting.next_ms == math.inf


def test_an_interrupted_poll_accepts_nothing_and_loses_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        (first,) = consumer.poll(PATIENCE_S)
        first.release(first[0])
        consumer.commit()
        see_all, seen = AcquiredRange.see_all, list[AcquiredRange]()

        def interrupted(acquired: AcquiredRange) -> None:
            seen.append(acquired)
            if len(seen) == 2:
                raise KeyboardInterrupt
            see_all(acquired)

        with monkeypatch.context() as patch:
            patch.setattr(AcquiredRange, "see_all", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(PATIENCE_S)
        found = consumer.poll(PATIENCE_S)
        assert [batch.base_offset for batch in found] == [0, BATCH]
        assert not any(batch.is_acknowledged for batch in found)


def test_records_whose_decoding_is_interrupted_come_with_the_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with ShareWorld() as world, world.consumer() as consumer:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(AcquiredDecoder, "decode", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(PATIENCE_S)
        (batch,) = consumer.poll(PATIENCE_S)
        assert (batch.base_offset, batch.delivery_count) == (0, 1)


def test_an_interrupted_loop_over_records_loses_none(monkeypatch: pytest.MonkeyPatch) -> None:
    with ShareWorld() as world, world.consumer() as consumer:

        def interrupted(*_: object) -> None:
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(HeldBatch, "in_turn", interrupted)
            with pytest.raises(KeyboardInterrupt):
                next(iter(consumer))
        assert next(iter(consumer)).offset == 0


# A failed decoding leaves the records for the next read, and damaged records are rejected: by the error, the first
# offset of the next read.
FAILED_DECODINGS = [
    (MemoryError(), 0),
    (CorruptBatchError("damaged", topic=TOPIC, partition=0, base_offset=0), BATCH),
]


@pytest.mark.parametrize(("error", "first"), FAILED_DECODINGS)
def test_after_a_failed_decoding_the_next_read_has_the_records_unless_damaged(
    error: Exception, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ShareWorld() as world, world.consumer() as consumer:

        def failing(*_: object) -> None:
            raise error

        with monkeypatch.context() as patch:
            patch.setattr(AcquiredDecoder, "decode", failing)
            with pytest.raises(type(error)):
                consumer.poll(PATIENCE_S)
        (batch,) = consumer.poll(PATIENCE_S)
        assert (batch.base_offset, batch.delivery_count) == (first, 1)


@pytest.mark.parametrize(("error", "first"), FAILED_DECODINGS)
def test_after_a_failed_decoding_the_next_async_read_has_the_records_unless_damaged(
    error: Exception, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with ShareWorld() as world:

        async def read() -> list[ShareBatch]:
            async with world.async_consumer() as consumer:

                def failing(*_: object) -> None:
                    raise error

                with monkeypatch.context() as patch:
                    patch.setattr(AcquiredDecoder, "decode", failing)
                    with pytest.raises(type(error)):
                        await consumer.poll(PATIENCE_S)
                return await consumer.poll(PATIENCE_S)

        (batch,) = world.run(read())
        assert (batch.base_offset, batch.delivery_count) == (first, 1)


def test_ranges_that_arrive_as_a_poll_is_cancelled_come_with_the_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    """The engine has handed the ranges out, and the caller stops waiting before it is woken."""
    with ShareWorld() as world:

        async def read() -> list[ShareBatch]:
            async with world.async_consumer() as consumer:
                polling = asyncio.ensure_future(consumer.poll(PATIENCE_S))
                take = ShareFetcher.next

                async def cancelled(*args: Any) -> list[FetchedRange]:
                    found = await take(*args)
                    polling.cancel()
                    return found

                with monkeypatch.context() as patch:
                    patch.setattr(ShareFetcher, "next", cancelled)
                    with pytest.raises(asyncio.CancelledError):
                        await polling
                return await consumer.poll(PATIENCE_S)

        found = world.run(read())
        assert [(batch.base_offset, batch.delivery_count) for batch in found] == [(0, 1)]


def test_ranges_that_arrive_as_a_poll_is_interrupted_come_with_the_next_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with ShareWorld() as world, world.consumer() as consumer:
        run = world.engine.run

        def interrupted(*args: Any) -> None:
            run(*args)
            raise KeyboardInterrupt

        with monkeypatch.context() as patch:
            patch.setattr(world.engine, "run", interrupted)
            with pytest.raises(KeyboardInterrupt):
                consumer.poll(PATIENCE_S)
        found = consumer.poll(PATIENCE_S)
        assert [(batch.base_offset, batch.delivery_count) for batch in found] == [(0, 1)]
