"""A sink with retries stores the values of a key in order, whatever is delivered late or written again."""

from __future__ import annotations

import asyncio
import random
from collections import defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.records import Record
from kafwire.stream import MemorySource, Message, NotNow, Pipeline, StopRequest
from kafwire.types import TopicPartition
from tests.support import seeds
from tests.support.stream.streams import run_simulated

ORDERS = TopicPartition("orders", 0)


class Deliveries:
    """Stores values after a while, in parallel; fails as `fails` says, at once or later."""

    splits_lists = True

    def __init__(self, *, takes_s: Callable[[Any], float], fails: Callable[[Any, int], str | None]) -> None:
        self.stored: list[Any] = []
        self.written: list[Any] = []
        self.times: dict[Any, float] = {}
        self._takes_s, self._fails = takes_s, fails
        self._attempts: defaultdict[Any, int] = defaultdict(int)

    async def write(self, value: Any) -> Any:
        """Take a value."""
        plain = value.value if isinstance(value, Message) else value
        self._attempts[plain] += 1
        self.written.append(plain)
        how = self._fails(plain, self._attempts[plain])
        if how == "at once":
            raise ConnectionError("not taken")
        if how == "not now":
            raise NotNow(0.5)
        return asyncio.ensure_future(self._deliver(plain, fails=how == "later"))

    async def _deliver(self, value: Any, *, fails: bool) -> None:
        await asyncio.sleep(self._takes_s(value))
        if fails:
            raise ConnectionError("not stored")
        self.stored.append(value)
        self.times[value] = asyncio.get_running_loop().time()


def records(count: int, keys: int) -> list[tuple[bytes | None, bytes]]:
    return [(b"%d" % (one % keys), b"%d/%02d" % (one % keys, one)) for one in range(count)]


async def handle(record: Record) -> bytes:
    return bytes(record.value)


def value_of(record: Record) -> bytes:
    return bytes(record.value)


PIPELINES: dict[str, Pipeline] = {
    "map": Pipeline().map(value_of),
    "by key": Pipeline().for_each(handle, workers=8, by="key"),
    "by partition": Pipeline().for_each(handle, workers=8, by="partition"),
    "by a function": Pipeline().for_each(handle, workers=8, by=lambda record: record.key),
    "values of a record": Pipeline().flat_map(lambda record: [record.value + b"a", record.value + b"b"]),
    "lists": Pipeline().map(lambda record: Message(record.value, key=record.key)).batch(5),
    "lists of a handler": Pipeline()
    .map(lambda record: Message(record.value, key=record.key))
    .batch(5)
    .for_each(lambda values: values, workers=3, run_in="tasks"),
}


def in_order(values: list[bytes]) -> dict[bytes, list[bytes]]:
    """The values of each key."""
    found: defaultdict[bytes, list[bytes]] = defaultdict(list)
    for value in values:
        found[value.partition(b"/")[0]].append(value)
    return found


@pytest.mark.parametrize("how", ["later", "at once", "not now"])
@pytest.mark.parametrize("name", PIPELINES)
def test_a_value_that_is_written_again_is_not_behind_later_ones_of_its_key(name: str, how: str) -> None:
    sink = Deliveries(takes_s=lambda _: 0.1, fails=lambda value, nth: how if nth < 3 and b"/00" in value else None)
    source = MemorySource({"orders": records(20, 4)})
    run_simulated(PIPELINES[name].retry(5, backoff_s=1.0), source, sink)  # type: ignore[arg-type]
    for key, values in in_order(sink.stored).items():
        assert values == sorted(values), key
    assert len(set(sink.stored)) == len(sink.stored) == (40 if name == "values of a record" else 20)
    assert source.committed == {ORDERS: 20}


@pytest.mark.parametrize("name", ["map", "by key", "by partition", "by a function"])
def test_values_of_other_keys_go_on(name: str) -> None:
    sink = Deliveries(takes_s=lambda _: 0.1, fails=lambda value, nth: "later" if nth < 3 and b"0/00" in value else None)
    source = MemorySource({"orders": records(20, 4)})
    run_simulated(PIPELINES[name].retry(5, backoff_s=100.0, max_backoff_s=100.0), source, sink)  # type: ignore[arg-type]
    assert sink.stored[:15] == [value for value in sink.stored[:15] if not value.startswith(b"0/")]
    assert sink.times[sink.stored[14]] < sink.times[b"0/00"] - 100.0


@pytest.mark.parametrize("name", ["map", "by key", "by partition"])
def test_without_retries_deliveries_of_a_key_overlap(name: str) -> None:
    sink = Deliveries(takes_s=lambda _: 1.0, fails=lambda value, nth: None)
    run_simulated(PIPELINES[name], MemorySource({"orders": records(20, 1)}), sink)  # type: ignore[arg-type]
    assert max(sink.times.values()) - min(sink.times.values()) < 0.5


def test_records_without_a_key_overlap() -> None:
    sink = Deliveries(takes_s=lambda _: 1.0, fails=lambda value, nth: None)
    source = MemorySource({"orders": [(None, b"%d" % one) for one in range(20)]})
    run_simulated(Pipeline().map(value_of).retry(3), source, sink)  # type: ignore[arg-type]
    assert max(sink.times.values()) - min(sink.times.values()) < 0.5


def test_a_value_that_finally_fails_lets_its_key_go_on() -> None:
    sink = Deliveries(takes_s=lambda _: 0.1, fails=lambda value, nth: "later" if b"/00" in value else None)
    source = MemorySource({"orders": records(8, 2)})
    pipeline = PIPELINES["by key"].retry(3, backoff_s=1.0).skip_failures()
    summary = run_simulated(pipeline, source, sink)  # type: ignore[arg-type]
    assert (summary.skipped, len(sink.stored), source.committed) == (1, 7, {ORDERS: 8})


@pytest.mark.parametrize("take", ["revoke", "lose"])
@pytest.mark.parametrize("name", ["map", "by key", "by a function", "lists"])
def test_a_key_that_waits_when_its_partition_goes_does_not_block_the_next_assignment(name: str, take: str) -> None:
    broken = [True]
    sink = Deliveries(takes_s=lambda _: 0.1, fails=lambda value, nth: "later" if broken and b"/00" in value else None)
    source = MemorySource({"orders": records(8, 2)}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(10.0)
        before = len(sink.written)
        gone = getattr(source, take)("orders")
        await asyncio.sleep(0.9)
        assert gone.is_closed
        await asyncio.sleep(10.0)
        assert len(sink.written) == before
        broken.clear()
        source.assign("orders")
        await asyncio.sleep(30.0)
        stop.request()

    pipeline = PIPELINES[name].retry(99, backoff_s=3600.0, max_backoff_s=3600.0).commit(within=0.1)
    run_simulated(pipeline, source, sink, beside=beside)  # type: ignore[arg-type]
    assert source.committed == {ORDERS: 8}
    last = {value: at for at, value in enumerate(sink.stored)}
    for values in in_order(sorted(last, key=last.__getitem__)).values():
        assert values == sorted(values)


@seeds.several(30)
def test_whatever_fails_each_key_is_stored_in_order(seed: int) -> None:
    rng = random.Random(seed)
    name = rng.choice(sorted(PIPELINES))
    chance = rng.choice([0.0, 0.1, 0.4])

    def fails(value: Any, nth: int) -> str | None:
        return rng.choice(["later", "at once", "not now"]) if nth < 5 and rng.random() < chance else None

    sink = Deliveries(takes_s=lambda _: rng.random(), fails=fails)
    source = MemorySource({"orders": records(60, rng.choice([1, 3, 10]))}, batch_records=rng.choice([1, 7, 60]))
    pipeline = PIPELINES[name].retry(20, backoff_s=0.2, max_backoff_s=1.0).limits(max_in_flight=rng.choice([1, 5, 100]))
    run_simulated(pipeline, source, sink, seed=seed)  # type: ignore[arg-type]
    for values in in_order(sink.stored).values():
        assert values == sorted(values)
    assert len(set(sink.stored)) == len(sink.stored)
    assert source.committed == {ORDERS: 60}
