"""Delivery callbacks apart from the engine: their order, the memory that they hold, and what waits for them."""

from __future__ import annotations

import random
import sys
from collections import deque
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, ErrorCode, KafkaError, KafkaTimeoutError
from kafwire.testing.simulation.calls import NEVER
from kafwire.testing.simulation.cluster import ClusterWorld
from tests.support import seeds
from tests.support.accumulator_store import Store
from tests.support.simulated.producer import Work, log_of
from tests.support.simulated.world import World


class LateCallbacks:
    """A callback thread that the test runs: `run` calls what was submitted."""

    def __init__(self) -> None:
        self.waiting: deque[Callable[[], object]] = deque()
        self.is_current = False

    def submit(self, function: Callable[[], object]) -> None:
        self.waiting.append(function)

    def run(self, limit: int = 1_000_000) -> None:
        while self.waiting and limit:
            limit -= 1
            self.is_current = True
            try:
                self.waiting.popleft()()
            finally:
                self.is_current = False


def late(world: Any) -> LateCallbacks:
    world.engine.callbacks = LateCallbacks()
    found: LateCallbacks = world.engine.callbacks
    return found


def test_a_record_keeps_its_memory_until_its_callback_ran() -> None:
    with World() as world:
        world.create_topic("t")
        callbacks = late(world)
        work = Work(world, "t")
        plain = work.send("t", b"x" * 1000)
        world.pass_time(1)
        assert (plain.done(), work.used) == (True, 0)
        called: list[Any] = []
        held = work.send("t", b"x" * 1000)
        held.add_done_callback(called.append)
        world.pass_time(1)
        assert (held.done(), called) == (True, [])
        assert work.used > 1000
        callbacks.run()
        assert (called, work.used) == ([held], 0)


@seeds.several(5)
def test_callbacks_keep_the_order_of_their_partition(seed: int) -> None:
    """Those that are added to a record that is done come behind those that are due."""
    chance = random.Random(seed)
    seen: list[int] = []
    with World() as world:
        world.create_topic("t")
        callbacks = late(world)
        work = Work(world, "t", batch_size=200)
        for number in range(60):
            delivery = work.send("t", b"x" * chance.randrange(90))
            if chance.random() < 0.5:
                world.pass_time(chance.random() / 10)
            delivery.add_done_callback(lambda _, number=number: seen.append(number))
            if chance.random() < 0.3:
                callbacks.run(chance.randrange(3))
        world.pass_time(5)
        callbacks.run()
    assert seen == list(range(60))


@pytest.mark.parametrize("rows", [False, True])
@pytest.mark.parametrize("is_done", [False, True])
def test_an_exception_of_a_callback_is_logged_whenever_it_was_added(
    caplog: pytest.LogCaptureFixture, *, rows: bool, is_done: bool
) -> None:
    store = Store()
    delivery = store.append_table(pa.table({"value": ["a", "b"]})) if rows else store.append()
    if is_done:
        store.deliver()
    called: list[Any] = []
    delivery.add_done_callback(lambda _: 1 / 0)
    delivery.add_done_callback(called.append)
    store.deliver()
    assert called == [delivery]
    (line,) = caplog.records
    assert (line.levelname, line.getMessage()) == ("ERROR", "kafwire: a delivery callback raised")
    assert line.exc_info is not None
    assert line.exc_info[0] is ZeroDivisionError


def test_an_exit_in_a_callback_that_is_called_at_once_is_the_callers() -> None:
    store = Store()
    delivery = store.append()
    store.deliver()
    with pytest.raises(SystemExit):
        delivery.add_done_callback(lambda _: sys.exit(3))


def test_flush_and_close_end_behind_callbacks() -> None:
    with World() as world:
        world.create_topic("t")
        callbacks = late(world)
        work = Work(world, "t", delivery_timeout_ms=40_000)
        called: list[Any] = []
        work.send("t", b"x").add_done_callback(called.append)
        with pytest.raises(KafkaTimeoutError, match="delivery callbacks have not returned within"):
            world.run(work.core.flush(1.0))
        world.loop.call_later(2.0, callbacks.run)
        world.run(work.core.flush(5.0))
        assert len(called) == 1
        work.send("t", b"x").add_done_callback(called.append)
        world.loop.call_later(2.0, callbacks.run)
        work.close(5.0)
        assert len(called) == 2


def test_a_callback_that_never_returns_does_not_hold_up_close_for_ever() -> None:
    with World() as world:
        world.create_topic("t")
        late(world)
        work = Work(world, "t", delivery_timeout_ms=40_000)
        delivery = work.send("t", b"x")
        delivery.add_done_callback(lambda _: None)
        assert work.close(None) == {}
        assert delivery.exception(0) is None


def test_records_in_flight_are_in_doubt_when_the_engine_ends() -> None:
    cause = OSError(9, "Bad file descriptor")
    error = KafkaError("this client's engine has ended")
    error.__cause__ = cause
    with World() as world:
        world.create_topic("t")
        world.on("Produce", lambda _: NEVER)
        work = Work(world, "t", linger_ms=0, max_in_flight_requests_per_connection=1)
        sent = work.send("t", b"sent")
        world.pass_time(1)
        unsent = work.send("t", b"unsent")

        async def fail() -> None:
            work.core.fail(error)

        world.run(fail())
        for delivery, in_doubt in ((sent, True), (unsent, False)):
            found = delivery.exception(0)
            assert (found.in_doubt, found.__cause__) == (in_doubt, cause)
        with pytest.raises(KafkaError, match="has ended"):
            work.accumulator.append("t", b"late", None, None, None, 0)


# --- sending within a callback


def values(world: ClusterWorld, topic: str) -> list[bytes]:
    with kafwire.scan(world.bootstrap, topic, engine=world.engine) as found:
        return [record.value for batch in found.batches() for record in batch]


@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("linger_ms", [0, 60_000])
def test_dead_letters_to_a_topic_that_the_producer_does_not_know(*, linger_ms: int, is_late: bool) -> None:
    """Their order is that of their sending, and the close that follows at once waits for them."""
    with ClusterWorld() as world:
        world.state.topics.create("t", partitions=1, replicas=1, configs={"max.message.bytes": "2000"})
        world.state.topics.create("dlq", partitions=1, replicas=1)
        callbacks = late(world) if is_late else None
        outcomes: list[Any] = []
        with kafwire.Producer(world.bootstrap, engine=world.engine, linger_ms=linger_ms) as producer:

            def rescue(number: int, _: Any) -> None:
                sent = producer.send("dlq", b"%d" % number, key=b"k")
                sent.add_done_callback(lambda d: outcomes.append(d.result(0).offset))

            for number in range(20):
                refused = producer.send("t", random.Random(number).randbytes(5000))
                refused.add_done_callback(partial(rescue, number))
            if callbacks is not None:

                def turn() -> None:
                    callbacks.run(1)
                    world.loop.call_later(0.01, turn)

                world.loop.call_soon(turn)
        assert values(world, "dlq") == [b"%d" % number for number in range(20)]
        assert sorted(outcomes) == list(range(20))


def test_a_callback_finds_room_in_a_full_buffer() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", buffer_memory=3000)
        room: list[bool] = []

        def again(_: Any) -> None:
            while work.accumulator.append("t", b"x" * 500, None, None, None, 0) is not None:
                pass
            assert work.accumulator.append_beyond("t", b"y" * 500, None, None, None, 0) is not None
            room.append(True)

        work.send("t", b"x" * 500).add_done_callback(again)
        world.pass_time(1)
        assert room == [True]
        work.flush()
        assert work.used == 0
        assert log_of(world).values()[-1] == b"y" * 500


def test_a_dead_letter_to_a_topic_that_does_not_exist_fails_at_its_delivery() -> None:
    with ClusterWorld(configs={"auto.create.topics.enable": "false"}) as world:
        world.state.topics.create("t", partitions=1, replicas=1)
        letters: list[Any] = []
        with kafwire.Producer(world.bootstrap, engine=world.engine, max_block_ms=3000) as producer:
            producer.send("t", b"x").add_done_callback(lambda _: letters.append(producer.send("nowhere", b"y")))
        (letter,) = letters
        error = letter.exception(0)
        assert isinstance(error, BrokerError)
        assert error.code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


@pytest.mark.parametrize(("value", "what"), [(5, "must be bytes-like"), ("text", "is text: encode it first")])
def test_a_wrong_value_is_refused_within_a_callback(value: Any, what: str) -> None:
    with ClusterWorld() as world:
        world.state.topics.create("t", partitions=1, replicas=1)
        errors: list[Exception] = []
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:

            def send(_: Any) -> None:
                try:
                    producer.send("new", value)
                except kafwire.ConfigError as error:
                    errors.append(error)

            producer.send("t", b"x").add_done_callback(send)
        assert what in str(errors[0])


def in_a_callback(world: ClusterWorld, calls: Callable[[kafwire.Producer], Any], **options: Any) -> list[Any]:
    """The result or the error of `calls` within a delivery callback; the producer is closed then."""
    found: list[Any] = []
    with kafwire.Producer(world.bootstrap, engine=world.engine, **options) as producer:

        def call(_: Any) -> None:
            try:
                found.append(calls(producer))
            except KafkaError as error:
                found.append(error)

        producer.send("t", b"x", partition=0).add_done_callback(call)
        producer.flush()
    return found


@pytest.mark.parametrize("wrong", ["0", True, 1.5, 2**70])
def test_a_wrong_partition_is_refused_within_a_callback(wrong: Any) -> None:
    """The records that follow it are delivered."""
    with ClusterWorld() as world:
        for topic in ("t", "new"):
            world.state.topics.create(topic, partitions=1, replicas=1)
        good: list[Any] = []

        def send(producer: kafwire.Producer) -> None:
            try:
                producer.send("new", b"bad", partition=wrong)
            finally:
                good.append(producer.send("new", b"good", partition=0))

        (error,) = in_a_callback(world, send)
        assert isinstance(error, kafwire.ConfigError)
        assert f"partition={wrong!r}: it must be " in str(error)
        assert good[0].exception(0) is None


@pytest.mark.parametrize("problem", [ZeroDivisionError, SystemExit, KeyboardInterrupt])
def test_a_partitioner_that_raises_fails_its_record_alone(problem: type[BaseException]) -> None:
    def partitioner(*_: Any) -> int:
        raise problem

    with ClusterWorld() as world:
        for topic in ("t", "new"):
            world.state.topics.create(topic, partitions=1, replicas=1)

        def send(producer: kafwire.Producer) -> list[Any]:
            return [producer.send("new", b"bad"), producer.send("new", b"good", partition=0)]

        ((bad, good),) = in_a_callback(world, send, partitioner=partitioner)
        assert problem.__name__ in str(bad.exception(0))
        assert good.exception(0) is None


def test_a_callback_sends_to_an_added_partition() -> None:
    """The producer's metadata are older than the partition; records keep their order."""
    with ClusterWorld() as world:
        world.state.topics.create("t", partitions=1, replicas=1)

        def send(producer: kafwire.Producer) -> list[Any]:
            topic = world.state.topics.find("t")
            assert topic is not None
            world.state.topics.add_partitions(topic, 2)
            return [producer.send("t", b"%d" % number, partition=number % 3) for number in range(9)]

        (sent,) = in_a_callback(world, send)
        assert [delivery.result(0).partition for delivery in sent] == [0, 1, 2] * 3
        assert values(world, "t") == [b"x", *(b"%d" % number for part in range(3) for number in range(part, 9, 3))]


def test_a_partition_that_is_never_added_fails_its_records_alone() -> None:
    with ClusterWorld() as world:
        world.state.topics.create("t", partitions=1, replicas=1)

        def send(producer: kafwire.Producer) -> list[Any]:
            return [producer.send("t", b"%d" % number, partition=number) for number in (7, 0, 8, 0)]

        (sent,) = in_a_callback(world, send, max_block_ms=3000)
        first, good, second, last = (delivery.exception(0) for delivery in sent)
        assert (good, last) == (None, None)
        for number, error in ((7, first), (8, second)):
            assert isinstance(error, kafwire.ConfigError)
            assert f"not {number}" in str(error)


@pytest.mark.parametrize("added", [False, True])
def test_a_commit_waits_for_records_that_callbacks_sent_before(*, added: bool) -> None:
    """They wait for a topic, or an added partition, when the commit begins."""
    with ClusterWorld() as world:
        topic = world.state.topics.create("new", partitions=1, replicas=1)
        world.state.topics.create("t", partitions=1, replicas=1)
        letters: list[Any] = []
        with kafwire.Producer(world.bootstrap, engine=world.engine, transactional_id="x") as producer:

            def send(_: Any) -> None:
                letters.append(producer.send("new", b"letter", partition=int(added)))

            if added:
                with producer.transaction():
                    producer.send("new", b"known", partition=0)
                world.state.topics.add_partitions(topic, 1)
            with producer.transaction():
                producer.send("t", b"x").add_done_callback(send)
                producer.flush()
            assert letters[0].result(0).offset == 0
        with kafwire.scan(world.bootstrap, "new", engine=world.engine, isolation_level="read_committed") as found:
            assert b"letter" in [record.value for batch in found.batches() for record in batch]


def test_a_flush_waits_for_a_record_that_is_placed_while_it_begins(monkeypatch: pytest.MonkeyPatch) -> None:
    with World() as world:
        world.create_topic("t")
        world.create_topic("new")
        callbacks = late(world)
        work = Work(world, "t", linger_ms=60_000)
        letters: list[Any] = []
        work.send("t", b"x").add_done_callback(
            lambda _: letters.append(work.core.deferred.send("new", b"y", None, None, None, None))
        )
        world.pass_time(61)
        callbacks.run()
        world.pass_time(1)  # the topic is known, and the callback thread has yet to place the record
        pump = work.core.sender.pump

        def pump_and_place(*, everything: bool) -> None:
            pump(everything=everything)
            callbacks.run()

        monkeypatch.setattr(work.core.sender, "pump", pump_and_place)
        work.flush()
        assert letters[0].done()


def test_purge_gives_up_records_whose_topic_is_not_known_yet() -> None:
    with World() as world:
        world.create_topic("t")
        callbacks = late(world)
        work = Work(world, "t")
        letters: list[Any] = []
        work.send("t", b"x").add_done_callback(
            lambda _: letters.append(work.core.deferred.send("new", b"y", None, None, None, None))
        )
        world.pass_time(1)
        world.kill(1)
        callbacks.run()
        assert world.run(work.core.purge(in_flight=False)) == 1
        assert isinstance(letters[0].exception(0), kafwire.PurgedError)
        assert work.used == 0


def test_closing_within_a_callback_leaves_the_producer_open() -> None:
    with ClusterWorld() as world:
        world.state.topics.create("t", partitions=1, replicas=1)
        errors: list[str] = []
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:

            def close(_: Any) -> None:
                for call in (producer.close, producer.flush):
                    try:
                        call()
                    except KafkaError as error:
                        errors.append(str(error))

            producer.send("t", b"x").add_done_callback(close)
            producer.flush()
            assert producer.send("t", b"y").result(10).offset == 1
        assert len(errors) == 2
        assert "from a delivery callback" in errors[0]
