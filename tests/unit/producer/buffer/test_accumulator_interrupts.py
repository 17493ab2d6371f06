"""`_accumulator`: whatever Python code runs in between, and whatever it raises, nothing that was accepted is lost.

Python code of others runs where a buffer is given back, where a record is compressed by a Python codec, where a thread
that waits for room is woken, in delivery callbacks and partitioners, in collections of garbage, and as a signal handler
in all of these. Each may send, and raise.
"""

from __future__ import annotations

import contextlib
import gc
import logging
import random
import signal
import sys
import threading
import zlib
from collections.abc import Callable, Iterator
from typing import Any

import pyarrow as pa
import pytest

from kafwire.memory._buffer import pool_bytes
from kafwire.producer.buffer._batch import BatchDelivery, Delivery, ProducerBatch
from kafwire.records import _compress
from kafwire.records._arrow_rows import RowsReader
from tests.support import seeds
from tests.support.accumulator_store import Store
from tests.support.deadlines import ended
from tests.support.pass_clock import PassClock
from tests.support.released_bytes import releasing

PATIENCE_S = 60.0
# Of the engine, until the sender of rows gives up, as it would after `max_block_ms`.
TURNS = 20


class World:
    """A store whose engine has a thread of its own, and what was accepted so far."""

    def __init__(self, **options: Any) -> None:
        gc.collect()
        self.before = pool_bytes()[0]
        self.store = Store(**{"partitions": 2, "buffer_memory": 1 << 22, **options})
        self.records: list[tuple[bytes, Delivery]] = []
        self.tables: list[tuple[int, int, BatchDelivery]] = []  # number, rows, what of them was accepted
        self.is_delivering = False
        self._sending = 0  # calls that send, one in another
        self._numbers = iter(range(1 << 30))

    def send(self, *, partition: int | None = 0, then: Callable[[], object] | None = None, **options: Any) -> None:
        value = b"r%d:" % next(self._numbers) + b"x" * 40
        data = value if then is None else releasing(value, then)
        self._sending += 1
        try:
            delivery = self.store.accumulator.append("t", data, None, None, options.get("timestamp_ms"), partition)
        finally:
            self._sending -= 1
        if delivery is not None:
            self.records.append((value, delivery))

    def send_rows(self, count: int, partition: int | None = 0) -> None:
        number = next(self._numbers)
        table = pa.table({"value": pa.array([b"t%d:%d:" % (number, i) + b"x" * 30 for i in range(count)], pa.binary())})
        parts: list[tuple[ProducerBatch, int, int]] = []
        self._sending += 1
        try:
            for rows in RowsReader(table):
                plan = self.store.accumulator.plan_rows("t", rows, partition, 0)
                assert plan is not None
                turns = 0
                while not self.store.accumulator.append_rows(plan, parts):
                    if turns == TURNS:
                        assert self._sending > 1, "no room, and no call has it"
                        raise RuntimeError("the room is that of the call which this one runs in")
                    turns += 1
                    self.deliver()
        finally:
            self._sending -= 1
            self.tables.append((number, count, BatchDelivery(parts)))

    def deliver(self) -> None:
        """The engine's turn, on a thread of its own."""
        problems: list[BaseException] = []

        def turn() -> None:
            try:
                self.store.deliver()
            except BaseException as problem:
                problems.append(problem)

        self.is_delivering = True  # first: a hook would find the locks of the module `threading` taken
        engine = threading.Thread(target=turn)
        engine.start()
        ended(engine)
        self.is_delivering = False
        assert not problems, problems

    def check(self, *, is_logged: bool = False) -> None:
        """All that was accepted is there, once, in order and where it was said to be; nothing else is charged.

        `is_logged`: tracebacks were, which hold what was decoded.
        """
        self.deliver()
        found = [value for partition in self.store.logs for value in self.store.values(partition)]
        assert len(found) == len(set(found)), "something is there twice"
        expected = len(self.records)
        for value, delivery in self.records:
            meta = delivery.result(0)
            assert self.store.values(meta.partition)[meta.offset] == value
        for number, rows, accepted in self.tables:
            expected += len(accepted)
            numbers: dict[int, list[int]] = {}
            for _, partition, first, count in accepted.result(0):
                for found_there in self.store.values(partition)[first : first + count]:
                    table, row, _ = (found_there or b"").split(b":")
                    assert table == b"t%d" % number
                    numbers.setdefault(partition, []).append(int(row))
            assert all(rows_there == sorted(set(rows_there)) for rows_there in numbers.values()), "out of order"
            assert sum(map(len, numbers.values())) == len(accepted) <= rows
        assert len(found) == expected, "a value is there without a delivery"
        assert self.store.used == 0
        self.records.clear()
        self.tables.clear()
        found.clear()
        for log in self.store.logs.values():
            log.clear()
        if not is_logged:
            gc.collect()
            assert pool_bytes()[0] <= self.before, "memory without a reference is not given back"


@pytest.fixture
def make_world() -> Callable[..., World]:
    return World


@pytest.fixture
def python_gzip() -> Iterator[None]:
    with pytest.warns(RuntimeWarning, match="Python"):
        _compress._resolve(1, ("python",))
    yield
    _compress._resolve(1)


def interrupt() -> None:
    signal.raise_signal(signal.SIGINT)


def fail() -> None:
    raise RuntimeError("a hook raised")


def leave() -> None:
    raise SystemExit(3)


@pytest.mark.parametrize("hook", [interrupt, fail, leave])
@pytest.mark.parametrize("rows", [200, 2_000])
def test_an_interrupt_where_others_are_woken_for_room_loses_nothing(
    make_world: Callable[..., World], hook: Callable[[], None], rows: int
) -> None:
    """The first record is in a batch that the rows go on with; each full batch gives back what compression saved."""
    world = make_world(compression="lz4")
    called: list[str] = []

    def listener() -> None:
        called.append("first")
        if threading.current_thread() is threading.main_thread():
            hook()

    def other() -> None:
        called.append("other")

    world.store.accumulator.budget.listen(listener)
    world.store.accumulator.budget.listen(other)
    world.send()
    try:
        world.send_rows(rows)
    except (KeyboardInterrupt, SystemExit):
        assert hook is not fail
    else:
        assert hook is fail
    assert called[:2] == ["first", "other"], "one that raises keeps others from being woken"
    world.send()
    world.check()


@pytest.mark.parametrize("hook", [interrupt, fail, leave])
def test_an_interrupt_behind_a_pass_loses_nothing(make_world: Callable[..., World], hook: Callable[[], None]) -> None:
    clock = PassClock()
    world = make_world(compression="lz4", clock=clock)
    world.send()
    raised = pytest.raises((KeyboardInterrupt, RuntimeError, SystemExit))
    with clock.behind_passes(world.store.accumulator, hook), raised:
        world.send_rows(500)
    world.send()
    world.send_rows(50)
    world.check()


@pytest.mark.parametrize("hook", [interrupt, fail, leave])
def test_a_callback_that_raises_as_rows_fail_keeps_none_from_its_outcome(
    make_world: Callable[..., World], hook: Callable[[], None]
) -> None:
    """The producer is closed while a thread encodes: it fails the batches that it comes back with."""
    clock = PassClock()
    world = make_world(batch_size=300, clock=clock)
    called: list[int] = []
    world.send()
    batch = world.records[0][1].batch

    def callback() -> None:
        called.append(len(called))
        hook()

    for _ in range(2):
        batch.add_done_callback(callback)
    parts: list[tuple[ProducerBatch, int, int]] = []
    (rows,) = RowsReader(pa.table({"value": [b"x" * 30] * 40}))
    plan = world.store.accumulator.plan_rows("t", rows, 0, 0)
    assert plan is not None
    with (
        clock.behind_passes(world.store.accumulator, lambda: world.store.accumulator.end("closed")),
        contextlib.suppress(KeyboardInterrupt, SystemExit),
    ):
        world.store.accumulator.append_rows(plan, parts)
    assert called == [0, 1]
    assert len(parts) > 1
    assert all(b.done and "closed" in str(b.error) for b, _, _ in parts)
    assert world.store.used == 0


@pytest.mark.parametrize("hook", [fail, leave])
def test_a_callback_that_raises_on_the_engine_stops_no_other(
    make_world: Callable[..., World], hook: Callable[[], None], caplog: pytest.LogCaptureFixture
) -> None:
    world = make_world()
    called: list[Delivery] = []
    for _ in range(3):
        world.send(partition=0)
        world.send(partition=1)

    def callback(delivery: Delivery) -> None:
        called.append(delivery)
        hook()

    for _, delivery in world.records:
        delivery.add_done_callback(callback)
    with caplog.at_level(logging.ERROR):
        world.deliver()
    assert len(called) == 6
    assert len(caplog.records) >= 2
    world.check(is_logged=True)


@pytest.mark.parametrize("timestamp_ms", [None, 5])
def test_two_records_of_which_one_is_sent_as_the_others_buffer_is_given_back(
    make_world: Callable[..., World], timestamp_ms: int | None
) -> None:
    world = make_world()
    world.send(then=lambda: world.send(timestamp_ms=7), timestamp_ms=timestamp_ms)
    world.check()


@pytest.mark.parametrize("hook", [interrupt, fail])
def test_a_buffer_that_raises_as_it_is_given_back(
    make_world: Callable[..., World], hook: Callable[[], None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing can raise there: Python says so on stderr, and goes on."""
    monkeypatch.setattr("sys.unraisablehook", lambda problem: None)
    world = make_world()
    world.send(then=hook)
    world.send()
    assert len(world.records) == 2
    world.check()


@pytest.mark.parametrize("hook", [interrupt, fail, leave, None])
def test_a_codec_in_python_is_called_where_no_batch_is_open(
    make_world: Callable[..., World],
    python_gzip: None,
    hook: Callable[[], None] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    world = make_world(compression="gzip")
    threads: set[threading.Thread] = set()
    real = zlib.compressobj

    def compressobj(*args: Any, **kwargs: Any) -> Any:
        threads.add(threading.current_thread())
        if threading.current_thread() is threading.main_thread() and hook is not None:
            hook()
        world.store.accumulator.append("t", b"inner", None, None, None, 1)
        return real(*args, **kwargs)

    world.send()
    with monkeypatch.context() as patch:
        patch.setattr(zlib, "compressobj", compressobj)
        world.send_rows(300)
        assert threading.main_thread() not in threads
        world.deliver()
    assert threads
    world.deliver()
    for value in [v for v in world.store.logs[1] if v.value == b"inner"]:
        world.store.logs[1].remove(value)
    world.check()


def test_an_interrupt_in_a_codec_in_python_comes_after_its_work(
    python_gzip: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    real_deflate, real_inflate = zlib.compressobj, zlib.decompressobj
    calls: list[str] = []

    def interrupted(what: str, real: Any) -> Any:
        def function(*args: Any, **kwargs: Any) -> Any:
            calls.append(what)
            if calls.count(what) == 1:
                interrupt()
            return real(*args, **kwargs)

        return function

    data = random.randbytes(1_000)
    with monkeypatch.context() as patch:
        patch.setattr(zlib, "compressobj", interrupted("deflate", real_deflate))
        packed = b""
        with pytest.raises(KeyboardInterrupt):
            packed = _compress.compress_bytes("gzip", data)
            for _ in range(1_000_000):
                pass
        patch.setattr(zlib, "decompressobj", interrupted("inflate", real_inflate))
        packed = packed or _compress.compress_bytes("gzip", data)
        plain = b""
        with pytest.raises(KeyboardInterrupt):
            plain = _compress.decompress_bytes("gzip", packed, 10_000)
            for _ in range(1_000_000):
                pass
        assert plain in {b"", data}
        assert _compress.decompress_bytes("gzip", packed, 10_000) == data
    assert calls[:2] == ["deflate", "deflate"]
    assert calls[-3:] == ["inflate", "inflate", "inflate"]


@seeds.several(10)
def test_code_that_runs_in_between(
    make_world: Callable[..., World], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Hooks that send, raise and are interrupted, in any order; a collection of garbage at every object made."""
    monkeypatch.setattr("sys.unraisablehook", lambda problem: None)
    logging.getLogger("kafwire").setLevel(logging.CRITICAL)
    chance = random.Random(seed)
    depth = 0

    def partitioner(*_: Any) -> int:
        hook()
        return chance.randrange(2)

    clock = PassClock()
    world = make_world(
        clock=clock,
        compression=chance.choice(["none", "lz4"]),
        batch_size=chance.choice([200, 1_000]),
        buffer_memory=chance.choice([3_000, 1 << 20]),
        partitioner=partitioner,
    )

    def hook(*_: Any) -> None:
        nonlocal depth
        if depth or world.is_delivering or threading.get_ident() != threading.main_thread().ident:
            return
        depth += 1
        try:
            event = chance.random()
            if event < 0.2:
                world.send(partition=chance.choice([0, 1]))
            elif event < 0.3:
                world.send_rows(chance.choice([1, 5, 60]), chance.choice([0, 1]))
            elif event < 0.4:
                fail()
            elif event < 0.5:
                interrupt()
            elif event < 0.55:
                world.deliver()
        finally:
            depth -= 1

    world.store.accumulator.budget.listen(hook)
    gc.callbacks.append(hook)
    threshold = gc.get_threshold()
    try:
        with clock.behind_passes(world.store.accumulator, hook):
            for _ in range(60):
                gc.set_threshold(1 if chance.random() < 0.5 else 700)
                try:
                    event = chance.random()
                    if event < 0.5:
                        world.send(partition=chance.choice([0, 1, None]), then=chance.choice([None, hook]))
                    elif event < 0.85:
                        world.send_rows(chance.choice([1, 5, 60]), chance.choice([0, 1, None]))
                    elif event < 0.9 and world.records:
                        chance.choice(world.records)[1].add_done_callback(hook)
                    else:
                        world.deliver()
                except (KeyboardInterrupt, RuntimeError):
                    pass
                except Exception as problem:
                    assert "partitioner" in str(problem), problem
    finally:
        gc.set_threshold(*threshold)
        gc.callbacks.remove(hook)
        logging.getLogger("kafwire").setLevel(logging.NOTSET)
    world.store.accumulator.budget.unlisten(hook)
    world.check(is_logged=True)


def test_real_signals_at_any_time(make_world: Callable[..., World]) -> None:
    """An engine's thread goes on delivering while a timer interrupts the sending thread, again and again."""
    world = make_world(compression="lz4", buffer_memory=20_000)
    budget = world.store.accumulator.budget
    seed = seeds.of_test()
    chance = random.Random(seed)
    stop = threading.Event()

    def engine() -> None:
        while not stop.wait(0.0005):
            world.store.deliver(everything=True)

    def listener() -> None:
        sum(range(20))

    is_armed = False

    def interrupt_if_armed(*_: object) -> None:
        """Once in a round: the signal of the one before may come after its timer was stopped, and then this one's."""
        nonlocal is_armed
        if is_armed:
            is_armed = False
            raise KeyboardInterrupt

    def send() -> None:
        nonlocal is_armed
        is_armed = True
        signal.setitimer(signal.ITIMER_VIRTUAL, chance.uniform(0.0001, 0.003))
        table = pa.table({"value": pa.array([b"x" * 40] * 200, pa.binary())})
        for _ in range(50):  # Python may swallow an interrupt, as in a collection of garbage
            world.store.accumulator.append("t", b"x" * 40, None, None, None, chance.choice([0, 1, None]))
            for rows in RowsReader(table):
                plan = world.store.accumulator.plan_rows("t", rows, chance.choice([0, 1, None]), 0)
                assert plan is not None
                while not world.store.accumulator.append_rows(plan, []):
                    assert budget.wait(PATIENCE_S)
        is_armed = False
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)

    def interrupted() -> bool:
        try:
            send()
        except KeyboardInterrupt:
            return True
        return False

    interrupts = rounds = 0
    others, gc.callbacks[:] = list(gc.callbacks), []  # Python drops exceptions in these, with a warning
    hook = sys.unraisablehook
    sys.unraisablehook = lambda it: None if it.exc_type is KeyboardInterrupt else hook(it)  # and in weakrefs' callbacks
    before = signal.signal(signal.SIGVTALRM, interrupt_if_armed)
    thread = threading.Thread(target=engine)
    thread.start()
    budget.listen(listener)
    try:
        while interrupts < 60 and rounds < 20_000:  # how many rounds a timer cuts short is the kernel's matter
            rounds += 1
            try:
                interrupts += interrupted()
            except KeyboardInterrupt:  # at the last moment
                interrupts += 1
    finally:
        signal.setitimer(signal.ITIMER_VIRTUAL, 0)
        # A signal that is still on its way would end the process.
        signal.signal(signal.SIGVTALRM, signal.SIG_IGN if before == signal.SIG_DFL else before)
        sys.unraisablehook = hook
        gc.callbacks[:] = others
        stop.set()
        ended(thread)
    assert interrupts == 60
    budget.unlisten(listener)
    world.store.deliver()
    assert all(queue.is_empty for queue in world.store.accumulator.topics["t"].queues)
    assert budget.used == 0
    assert budget.waiting == 0
