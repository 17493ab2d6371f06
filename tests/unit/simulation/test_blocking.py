"""`testing.simulation`: blocking clients, which run the world while they wait."""

from __future__ import annotations

import pytest

import kafwire
from kafwire.errors import KafkaTimeoutError
from kafwire.testing.simulation import NEVER
from tests.support.simulated.world import World


def test_a_delivery_is_waited_for() -> None:
    with World() as world:
        world.create_topic("t")
        with kafwire.Producer(world.bootstrap, engine=world.engine, linger_ms=500) as producer:
            delivery = producer.send("t", b"value")
            assert not delivery.done()
            before = world.engine.now_ms()
            assert delivery.result(timeout=10).offset == 0
            assert 500 <= world.engine.now_ms() - before < 600
        assert world.topics["t"].partitions[0].values() == [b"value"]


def test_a_wait_in_vain_ends_in_time() -> None:
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: NEVER)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            delivery = producer.send("t", b"value")
            before = world.engine.now_ms()
            with pytest.raises(KafkaTimeoutError, match="within 7 s"):
                delivery.result(timeout=7)
            assert world.engine.now_ms() - before == pytest.approx(7_000)
            producer.purge(in_flight=True)


def test_room_is_waited_for() -> None:
    with World() as world:
        world.create_topic("t")
        with kafwire.Producer(
            world.bootstrap, engine=world.engine, buffer_memory=1_000, batch_size=500, linger_ms=0
        ) as producer:
            for number in range(20):
                producer.send("t", b"%0400d" % number)
            producer.flush()
        assert len(world.topics["t"].partitions[0].values()) == 20


def test_records_are_waited_for_and_their_absence_ends_the_wait() -> None:
    with World() as world:
        world.create_topic("t")
        log = world.topics["t"].partitions[0]
        with kafwire.Consumer(world.bootstrap, topics="t", start="earliest", engine=world.engine) as consumer:
            world.loop.call_later(30, log.append_values, [b"late"])
            before = world.engine.now_ms()
            (record,) = next(consumer.batches(timeout=60))
            assert record.value == b"late"
            assert 30_000 <= world.engine.now_ms() - before < 31_000
            before = world.engine.now_ms()
            assert list(consumer.batches(timeout=5)) == []
            assert world.engine.now_ms() - before == pytest.approx(5_000, abs=50)


def test_a_scan_is_read_to_its_end() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        for log in world.topics["t"].partitions:
            log.append_values([b"%d" % number for number in range(100)])
        rows = sum(len(batch) for batch in kafwire.scan(world.bootstrap, "t", engine=world.engine).batches())
        assert rows == 200


def test_the_same_seed_gives_the_same_requests_at_the_same_times() -> None:
    def run(seed: int) -> tuple[tuple[float, int, str], ...]:
        with World(brokers=3, seed=seed) as world:
            world.create_topic("t", partitions=6, replicas=3)
            with kafwire.Producer(world.bootstrap, engine=world.engine, linger_ms=3) as producer:
                for number in range(200):
                    producer.send("t", b"%d" % number)
                    if number == 100:
                        world.kill(1)
                    if number % 10 == 0:
                        world.pass_time(0.01)
                producer.purge(in_flight=True)
            return tuple((call.at_ms, call.node, call.name) for call in world.calls)

    seeds = range(8)
    runs = [run(seed) for seed in seeds]
    assert runs == [run(seed) for seed in seeds]
    assert len(set(runs)) > 1
