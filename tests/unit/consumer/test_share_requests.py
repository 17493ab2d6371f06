"""Which requests a share consumer makes of its brokers, and when, in the simulated world."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from kafwire.consumer.share import records_in_hand
from kafwire.consumer.share.acquired import ACCEPT, REJECT, RELEASE
from kafwire.consumer.share.share_batch import ShareBatch
from kafwire.consumer.share.share_core import ShareCore
from kafwire.consumer.share.share_fetcher import SAID_LINGER_MS
from kafwire.errors import ConfigError, KafkaError
from tests.support.share.world import BATCH, BATCHES, ShareWorld

EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}
LINGER_S = SAID_LINGER_MS / 1000
SOON_S = 2 * LINGER_S
PATIENCE_S = 30.0


@pytest.fixture
def world() -> Iterator[ShareWorld]:
    with ShareWorld() as world:
        yield world


def accepted(batches: int) -> list[tuple[int, int, list[int]]]:
    """The acknowledgements of so many batches."""
    return [(number * BATCH, number * BATCH + BATCH - 1, [ACCEPT]) for number in range(batches)]


def test_the_next_fetch_carries_accepted_records(world: ShareWorld) -> None:
    with world.consumer() as consumer:
        taken = list(itertools.islice(consumer.batches(PATIENCE_S), BATCHES))
        assert [batch.base_offset for batch in taken] == list(range(0, BATCH * BATCHES, BATCH))
        assert len(world.made("ShareFetch")) == BATCHES
        assert world.reported("ShareFetch") == accepted(BATCHES - 1)
        assert world.made("ShareAcknowledge") == []


def test_the_next_fetch_carries_a_column(world: ShareWorld) -> None:
    kinds = [ACCEPT] * (BATCH - 1) + [REJECT]
    with world.consumer(**EXPLICIT) as consumer:
        for batch in itertools.islice(consumer.batches(PATIENCE_S), 3):
            batch.acknowledge(np.array(kinds, np.int8))
        (batch,) = consumer.poll(PATIENCE_S)
        assert world.reported("ShareFetch") == [(first, last, kinds) for first, last, _ in accepted(3)]
        assert world.made("ShareAcknowledge") == []


def test_accepted_records_are_acknowledged_soon_without_another_poll(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        batch.accept()
        world.pass_time(LINGER_S / 2)
        assert world.made("ShareAcknowledge") == []
        world.pass_time(SOON_S)
        assert world.reported("ShareAcknowledge") == accepted(1)
        assert len(world.made("ShareFetch")) == 1, "it is not read ahead"


def test_a_commit_waits_for_no_fetch(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        began = world.loop.time()
        batch.accept()
        consumer.commit()
        assert world.loop.time() - began < LINGER_S
        assert world.reported("ShareAcknowledge") == accepted(1)
        assert consumer.metrics()["acknowledged"] == BATCH


def test_records_accepted_one_by_one_are_acknowledged_together(world: ShareWorld) -> None:
    with world.consumer() as consumer:
        for number, _ in enumerate(consumer):
            if number == 2 * BATCH + 3:
                break
        assert world.reported("ShareFetch") == accepted(2)
        assert world.made("ShareAcknowledge") == []
    assert world.reported("ShareAcknowledge") == [(2 * BATCH, 2 * BATCH + 2, [ACCEPT])], "the one in hand is released"


def test_a_slow_record_does_not_delay_the_acknowledgements_before_it(world: ShareWorld) -> None:
    with world.consumer() as consumer:
        for number, _ in enumerate(consumer):
            if number in {3, 7}:
                world.pass_time(SOON_S)
            if number == BATCH:
                break
        assert world.reported("ShareAcknowledge") == [(0, 2, [ACCEPT]), (3, 6, [ACCEPT])]
        assert world.reported("ShareFetch") == [(7, 9, [ACCEPT])]


def test_a_batch_acknowledged_in_parts_is_acknowledged_whole(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        for record in batch:
            batch.accept(record)
            world.pass_time(LINGER_S / 4)
        consumer.commit()
        assert consumer.metrics()["acknowledged"] == BATCH
    offsets = [offset for first, last, _ in world.reported("ShareAcknowledge") for offset in range(first, last + 1)]
    assert offsets == list(range(BATCH))


def test_records_accepted_one_by_one_are_acknowledged_at_most_once_in_a_while(world: ShareWorld) -> None:
    with world.consumer(max_poll_records=BATCH * BATCHES, **EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        for record in batch:
            batch.accept(record)
            world.pass_time(LINGER_S / 20)
        consumer.commit()
        assert consumer.metrics()["acknowledged"] == len(batch) == BATCH * BATCHES
    assert len(world.made("ShareAcknowledge")) <= 2 + len(batch) // 20


def test_the_engine_gets_a_range_once_until_it_sends_acknowledgements(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        engine, started = world.engine, []
        start = engine.start

        def count(function: Any, *arguments: Any) -> Any:
            started.append(function.__name__)
            return start(function, *arguments)

        monkeypatch.setattr(engine, "start", count)
        for record in itertools.islice(batch, 3):
            batch.accept(record)
        assert started == ["say"]
        world.pass_time(SOON_S)
        batch.accept()
        assert started == ["say"] * 2


def test_the_wait_for_a_fetch_restarts_after_each(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        batch.accept()
        (batch,) = consumer.poll(PATIENCE_S)
        world.pass_time(0.8 * LINGER_S)
        batch.accept()
        world.pass_time(0.4 * LINGER_S)
        assert consumer.poll(PATIENCE_S)
        assert world.reported("ShareFetch") == accepted(2)
        assert world.made("ShareAcknowledge") == []


def test_brokers_are_asked_at_once() -> None:
    with ShareWorld(brokers=3) as three, three.consumer() as consumer:
        got = sum(len(batch) for batch in itertools.islice(consumer.batches(PATIENCE_S), 3 * BATCHES))
        assert got == 3 * BATCH * BATCHES
        began = [(at, request.node) for at, request in three.asked if request.name == "ShareFetch"][:3]
        assert {node for _, node in began} == {1, 2, 3}
        assert began[-1][0] - began[0][0] < LINGER_S


def test_the_last_acknowledgement_is_sent_on_close_and_nothing_after(world: ShareWorld) -> None:
    consumer = world.consumer(**EXPLICIT)
    (batch,) = consumer.poll(PATIENCE_S)
    batch.accept(batch[0])
    consumer.close()
    made = len(world.asked)
    batch.accept()
    world.pass_time(SOON_S)
    assert len(world.asked) == made
    assert world.reported("ShareAcknowledge") == [(0, 0, [ACCEPT])]


def test_the_last_request_renews_no_lock(world: ShareWorld) -> None:
    """A broker refuses renewals in a request that is not marked, and all acknowledgements of the partition with it."""
    consumer = world.consumer(**EXPLICIT)
    (batch,) = consumer.poll(PATIENCE_S)
    batch.accept(batch[0])
    batch.renew(batch[1])
    consumer.close()
    assert world.reported("ShareAcknowledge") == [(0, 0, [ACCEPT])]
    assert consumer._core.fetcher.acknowledged == 1


def test_records_of_a_loop_are_acknowledged_one_by_one(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        for record in consumer:
            consumer.acknowledge(record, "reject" if record.offset == BATCH + 1 else "accept")
            if record.offset == 2 * BATCH - 1:
                break
        consumer.commit()
        reported = world.reported("ShareFetch") + world.reported("ShareAcknowledge")
    assert reported == [(0, BATCH - 1, [ACCEPT]), (BATCH, 2 * BATCH - 1, [ACCEPT, REJECT, *[ACCEPT] * (BATCH - 2)])]


def test_a_record_of_a_batch_is_acknowledged_in_any_order_and_once(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (first,), (second,) = consumer.poll(PATIENCE_S), consumer.poll(PATIENCE_S)
        consumer.acknowledge(second[3])
        consumer.acknowledge(first[0], RELEASE)
        with pytest.raises(KafkaError, match=r"t-0, offset 13: it is acknowledged already"):
            consumer.acknowledge(second[3], "release")
        with pytest.raises(ConfigError, match="'perhaps'"):
            consumer.acknowledge(second[4], "perhaps")
        consumer.commit()
        reported = world.reported("ShareFetch") + world.reported("ShareAcknowledge")
    assert (13, 13, [ACCEPT]) in reported
    assert (0, 0, [RELEASE]) in reported


def test_in_implicit_mode_the_others_are_accepted(world: ShareWorld) -> None:
    with world.consumer() as consumer:
        for record in consumer:
            if record.offset == 3:
                consumer.acknowledge(record, "reject")
            if record.offset == BATCH:
                break
        consumer.commit()
        reported = world.reported("ShareFetch") + world.reported("ShareAcknowledge")
    assert reported == [(0, BATCH - 1, [ACCEPT] * 3 + [REJECT] + [ACCEPT] * (BATCH - 4))]


def test_a_record_that_was_delivered_again_is_acknowledged_in_its_newest_batch(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer:
        (batch,) = consumer.poll(PATIENCE_S)
        consumer.acknowledge(batch[0], "release")
        consumer.commit()
        again = next(each for each in iter(lambda: consumer.poll(PATIENCE_S)[0], None) if each.delivery_count == 2)
        assert again[0].offset == batch[0].offset
        consumer.acknowledge(batch[0], "accept")
        consumer.commit()
        assert again.is_acknowledged


def test_a_record_that_is_not_in_hand_is_not_acknowledged(world: ShareWorld) -> None:
    with world.consumer(**EXPLICIT) as consumer, world.consumer(**EXPLICIT) as other:
        (first,), (others,) = consumer.poll(PATIENCE_S), other.poll(PATIENCE_S)
        with pytest.raises(
            KafkaError, match=rf"t-0, offset {others.base_offset}: this consumer does not hold the record"
        ):
            consumer.acknowledge(others[0])
        first.accept()
        consumer.poll(PATIENCE_S)
        with pytest.raises(KafkaError, match=r"t-0, offset 0: this consumer does not hold the record"):
            consumer.acknowledge(first[0])


@pytest.mark.parametrize("timeout", ["soon", -1, None])
def test_a_close_with_a_wrong_timeout_leaves_the_consumer_open(world: ShareWorld, timeout: Any) -> None:
    consumer = world.consumer()
    with pytest.raises(ConfigError, match="seconds"):
        consumer.close(timeout)
    assert consumer.poll(PATIENCE_S)
    consumer.close()
    assert world.made("ShareGroupHeartbeat")[-1].member_epoch == -1, "it has left"


def interrupt(*_: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.parametrize("call", ["batches", "poll"])
def test_records_of_an_interrupted_call_are_delivered(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch, call: str
) -> None:
    """The call returned no batch, so the next one must not accept them."""
    with world.consumer(max_poll_records=3 * BATCH) as consumer:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(records_in_hand, "ShareBatch", interrupt)
            list(getattr(consumer, call)(PATIENCE_S))
        found: list[ShareBatch] = list(consumer.batches(PATIENCE_S))
        assert {record.offset for batch in found for record in batch} == {*range(BATCH * BATCHES)}


def test_records_whose_decoding_was_interrupted_are_delivered(
    world: ShareWorld, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their locks are renewed as long as they wait, so no other member would get them."""
    with world.consumer(max_poll_records=3 * BATCH) as consumer:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(ShareCore, "batch_of", interrupt)
            consumer.poll(PATIENCE_S)
        found: list[ShareBatch] = list(consumer.batches(PATIENCE_S))
        offsets = [record.offset for batch in found for record in batch]
        assert sorted(offsets) == [*range(BATCH * BATCHES)]
