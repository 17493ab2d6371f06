"""Steps that raise, hang, are cancelled, or are not ready: retries, dead letters and pauses, in simulated time."""

from __future__ import annotations

import asyncio
import itertools
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.errors import ConfigError, KafkaConnectionError, TransactionAbortableError
from kafwire.records import Record
from kafwire.stream import (
    FunctionSink,
    HandlerTimeoutError,
    MemorySink,
    MemorySource,
    NotNow,
    Pipeline,
    RetryTopic,
    StopRequest,
    StreamError,
)
from kafwire.types import TopicPartition
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)


class Flaky:
    """Raises for some records, a number of times each."""

    def __init__(self, failures: dict[int, int], error: Callable[[], Exception] = lambda: ValueError("no")) -> None:
        self.left = Counter(failures)
        self.error = error
        self.calls: list[int] = []
        self.times: dict[int, list[float]] = defaultdict(list)

    def __call__(self, record: Record) -> int:
        """A step."""
        one = number(record)
        self.calls.append(one)
        self.times[one].append(asyncio.get_running_loop().time())
        if self.left[one] > 0:
            self.left[one] -= 1
            raise self.error()
        return one

    async def handle(self, record: Record) -> int:
        """The same, awaited."""
        await asyncio.sleep(0.01)
        return self(record)

    def waits(self, one: int) -> list[float]:
        """Seconds between its calls."""
        times = self.times[one]
        return [after - before for before, after in itertools.pairwise(times)]


PLACES: dict[str, Callable[[Flaky], Pipeline]] = {
    "map": lambda flaky: Pipeline().map(flaky),
    "filter": lambda flaky: Pipeline().filter(lambda one: flaky(one) >= 0).map(number),
    "flat_map": lambda flaky: Pipeline().flat_map(lambda one: [flaky(one)]),
    "generator": lambda flaky: Pipeline().flat_map(lambda one: (flaky(each) for each in [one])),
    "behind a batch": lambda flaky: Pipeline().batch(1).flat_map(lambda values: [flaky(one) for one in values]),
    "handler": lambda flaky: Pipeline().for_each(flaky.handle, workers=4, by="key"),
    "sync handler": lambda flaky: Pipeline().for_each(flaky, workers=4, by="key", run_in="tasks"),
    "behind the handler": lambda flaky: Pipeline().for_each(lambda one: one, workers=4, run_in="tasks").map(flaky),
}


@pytest.mark.parametrize("place", PLACES)
def test_a_failed_record_is_tried_again(place: str) -> None:
    flaky = Flaky({3: 2, 7: 1})
    source, sink = MemorySource({"orders": numbered(10)}), MemorySink()
    summary = run_simulated(PLACES[place](flaky).retry(3, backoff_s=1.0), source, sink)
    assert sorted(sink.values) == list(range(10))
    assert Counter(flaky.calls) == Counter({**dict.fromkeys(range(10), 1), 3: 3, 7: 2})
    assert flaky.waits(3) == [pytest.approx(1, rel=0.21), pytest.approx(2, rel=0.21)]
    assert (summary.retries, source.committed) == (3, {ORDERS: 10})


@pytest.mark.parametrize("place", PLACES)
def test_a_record_that_fails_for_good_is_a_dead_letter(place: str) -> None:
    flaky = Flaky({3: 99, 9: 99})
    source, sink = MemorySource({"orders": numbered(10)}), MemorySink()
    pipeline = PLACES[place](flaky).retry(2, backoff_s=1.0).dead_letters("dead")
    summary = run_simulated(pipeline, source, sink)
    letters = sink.written("dead")
    assert {letter.value for letter in letters} == {b"3", b"9"}
    headers = dict(letters[0].headers)
    assert headers["kafwire.error.class"] == b"ValueError"
    assert headers["kafwire.attempts"] == b"2"
    assert headers["kafwire.origin.offset"] == letters[0].value
    assert sorted(one for one in sink.values if isinstance(one, int)) == [0, 1, 2, 4, 5, 6, 7, 8]
    assert (summary.dead_letters, source.committed) == (2, {ORDERS: 10})


@pytest.mark.parametrize("place", PLACES)
def test_without_a_place_for_it_the_stream_ends(place: str) -> None:
    flaky = Flaky({3: 99})
    source, sink = MemorySource({"orders": numbered(10, keys=1)}, batch_records=1), MemorySink()
    with pytest.raises(StreamError, match="offset 3 of orders-0 could not be processed in 1 attempt: ValueError") as e:
        run_simulated(PLACES[place](flaky), source, sink)
    assert (e.value.topic, e.value.partition, e.value.offset) == ("orders", 0, 3)
    assert isinstance(e.value.__cause__, ValueError)
    assert source.committed == {ORDERS: 3}, "records completed before are committed, and nothing else"
    assert source.closed


def test_a_batch_that_is_read_from_its_middle_fails_at_its_first_record() -> None:
    source = MemorySource()
    source.committed[ORDERS] = 2
    source.append("orders", numbered(4))
    with pytest.raises(StreamError, match="the record at offset 2 of orders-0") as caught:
        run_simulated(Pipeline().map_batches(lambda batch: 1 // 0), source)
    assert caught.value.offset == 2


def test_failures_are_skipped_if_asked(caplog: pytest.LogCaptureFixture) -> None:
    source, sink = MemorySource({"orders": numbered(5)}), MemorySink()
    summary = run_simulated(Pipeline().map(Flaky({3: 99})).skip_failures(), source, sink)
    assert (sink.values, summary.skipped, source.committed) == ([0, 1, 2, 4], 1, {ORDERS: 5})
    assert "the record at offset 3 of orders-0 is skipped" in caplog.text


def test_a_key_that_waits_blocks_no_other() -> None:
    flaky = Flaky({0: 3})
    source, sink = MemorySource({"orders": numbered(9)}), MemorySink()
    run_simulated(Pipeline().for_each(flaky.handle, workers=1, by="key").retry(9, backoff_s=60.0), source, sink)
    assert sink.values == [1, 2, 4, 5, 7, 8, 0, 3, 6], "one worker serves others while the key waits"


def test_a_partition_that_waits_blocks_no_other() -> None:
    source, sink = MemorySource({"orders": numbered(3), "bills": numbered(3)}), MemorySink()
    flaky = Flaky({0: 1})
    run_simulated(Pipeline().map(flaky).retry(2, backoff_s=60.0), source, sink)
    assert sink.values == [0, 1, 2, 0, 1, 2]
    assert flaky.calls == [0, 0, 1, 2, 0, 1, 2]


def test_all_records_of_a_failed_batch_are_dead_letters() -> None:
    def refuse(values: list[Record]) -> None:
        if any(number(one) == 5 for one in values):
            raise ValueError("no")

    source, sink = MemorySource({"orders": numbered(9)}), MemorySink()
    pipeline = Pipeline().flat_map(lambda one: [one, one]).batch(6).for_each(refuse, run_in="tasks")
    run_simulated(pipeline.dead_letters("dead"), source, sink)
    assert [letter.value for letter in sink.written("dead")] == [b"3", b"4", b"5"], "each once"
    assert source.committed == {ORDERS: 9}


def test_dead_letters_may_have_a_sink_of_their_own() -> None:
    source, sink, letters = MemorySource({"orders": numbered(3)}), MemorySink(), MemorySink()
    run_simulated(Pipeline().map(Flaky({1: 9})).dead_letters("dead"), source, sink, letters=letters)
    assert sink.values == [0, 2]
    assert [letter.value for letter in letters.values] == [b"1"]


@pytest.mark.parametrize(
    "pipeline", [Pipeline().map(Flaky({1: 9})), Pipeline().for_each(Flaky({1: 9}), run_in="tasks")]
)
def test_dead_letters_wait_for_a_sink_that_is_not_ready(pipeline: Pipeline) -> None:
    refusals = [NotNow(60.0), NotNow(60.0)]

    class Busy(MemorySink):
        """Takes a dead letter at the third call."""

        async def write(self, value: Any) -> None:
            """Refuse."""
            if refusals:
                raise refusals.pop()
            await super().write(value)

    source, sink, letters = MemorySource({"orders": numbered(3)}, ends=False), MemorySink(), Busy()

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(130)
        stop.request()

    run_simulated(pipeline.dead_letters("dead"), source, sink, beside=beside, letters=letters)
    assert [letter.value for letter in letters.values] == [b"1"]
    assert (sink.values, source.committed) == ([0, 2], {ORDERS: 3})
    refusals[:] = [NotNow(1000.0)]
    source = MemorySource({"orders": numbered(3, keys=1)}, batch_records=1, ends=False)
    run_simulated(pipeline.dead_letters("dead"), source, sink, beside=beside, letters=letters)
    assert source.committed == {ORDERS: 1}, "it is read again"


def test_an_error_that_has_no_text_is_reported_too() -> None:
    class SilentError(Exception):
        """Its text cannot be made."""

        def __str__(self) -> str:
            raise RuntimeError("no text")

    flaky = Flaky({1: 9}, SilentError)
    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    run_simulated(Pipeline().map(flaky).dead_letters("dead"), source, sink)
    assert [letter.value for letter in sink.written("dead")] == [b"1"]
    with pytest.raises(StreamError, match="offset 1 of orders-0 .* SilentError: \\(its str\\(\\) failed\\)"):
        run_simulated(Pipeline().map(flaky), MemorySource({"orders": numbered(3)}), MemorySink())


def test_a_dead_letter_that_cannot_be_written_does_not_hide_why_it_was(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(MemorySink):
        """Takes nothing."""

        async def write(self, value: Any) -> None:
            """Refuse."""
            raise KafkaConnectionError("no broker")

    source = MemorySource({"orders": numbered(3)})
    with pytest.raises(KafkaConnectionError, match="no broker") as caught:
        run_simulated(Pipeline().map(Flaky({1: 9})).dead_letters("dead"), source, MemorySink(), letters=Refusing())
    place = "the record at offset 1 of orders-0"
    assert caught.value.__notes__ == [f"{place} failed (ValueError: no), and could not be written to dead"]
    assert "the record at offset 1 of orders-0 failed, and could not be written to dead" in caplog.text
    assert "ValueError: no" in caplog.text


def test_a_sink_of_letters_that_fails_does_not_hide_why_they_were_written(caplog: pytest.LogCaptureFixture) -> None:
    def refuse(letter: Any) -> None:
        raise OSError("the disk is full")

    source, letters = MemorySource({"orders": numbered(3)}), FunctionSink(refuse)
    with pytest.raises(OSError, match="the disk is full"):
        run_simulated(Pipeline().map(Flaky({1: 9})).dead_letters("dead"), source, MemorySink(), letters=letters)
    assert "the record at offset 1 of orders-0 failed, and could not be written to dead" in caplog.text
    assert "ValueError: no" in caplog.text


def test_a_step_with_a_transaction_of_its_own_may_fail() -> None:
    flaky = Flaky({1: 2, 2: 9}, lambda: TransactionAbortableError("mine"))
    source, sink = MemorySource({"orders": numbered(4)}), MemorySink()
    run_simulated(Pipeline().map(flaky).retry(3).dead_letters("dead"), source, sink)
    assert [letter.value for letter in sink.written("dead")] == [b"2"]
    assert (flaky.calls.count(1), source.committed) == (3, {ORDERS: 4})


def test_a_record_for_which_no_order_is_found_has_failed() -> None:
    functions: list[Callable[[Record], Any]] = [
        lambda record: 1 // (number(record) - 1),
        lambda record: [] if number(record) == 1 else number(record),
    ]
    for by in functions:
        source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
        pipeline = Pipeline().for_each(number, by=by, run_in="tasks").retry(2, backoff_s=1.0)
        assert run_simulated(pipeline.dead_letters("dead"), source, sink).retries == 1
        assert [letter.value for letter in sink.written("dead")] == [b"1"]
        assert source.committed == {ORDERS: 3}
        with pytest.raises(StreamError, match="offset 1 of orders-0"):
            run_simulated(pipeline, MemorySource({"orders": numbered(3)}), MemorySink())


# --- delayed retries --------------------------------------------------------------------------------------------------


def test_delayed_retries_through_topics() -> None:
    source, times = MemorySource({"orders": numbered(4)}, ends=False), defaultdict[int, list[tuple[str, float]]](list)

    class Topics(MemorySink):
        """Appends records to the source that are written to a topic that it reads."""

        async def write(self, value: Any) -> None:
            """Append."""
            await super().write(value)
            if getattr(value, "topic", "").startswith("retry"):
                source.append(value.topic, [value])

    async def handle(record: Record) -> None:
        now = asyncio.get_running_loop().time()
        times[number(record)].append((str(record.topic), now - began[0]))
        if number(record) in {1, 2}:
            if number(record) == 2 and record.topic == "retry.1m":
                return
            raise ConnectionError("gone")

    began: list[float] = []

    async def beside(stop: StopRequest) -> None:
        began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(700)
        stop.request()

    sink = Topics()
    pipeline = Pipeline().for_each(handle, workers=4, by="key")
    pipeline = pipeline.retry_topics(RetryTopic("retry.1m", 60), RetryTopic("retry.10m", 600)).dead_letters("dead")
    summary = run_simulated(pipeline, source, sink, beside=beside)
    handled = {one: [(topic, round(seconds)) for topic, seconds in found] for one, found in times.items()}
    assert handled[0] == [("orders", 0)]
    assert handled[2] == [("orders", 0), ("retry.1m", 60)]
    assert handled[1] == [("orders", 0), ("retry.1m", 60), ("retry.10m", 660)]
    (letter,) = sink.written("dead")
    headers = dict(letter.headers)
    assert headers["kafwire.attempts"] == b"3"
    assert headers["kafwire.origin.topic"] == b"orders"
    assert headers["kafwire.origin.offset"] == b"1"
    assert (summary.delayed, summary.dead_letters) == (3, 1)
    assert source.committed == {
        ORDERS: 4,
        TopicPartition("retry.1m", 0): 2,
        TopicPartition("retry.10m", 0): 1,
    }
    waiting = source._streams[TopicPartition("retry.1m", 0)]
    assert waiting.pauses >= 1, "the partition is paused until its record is due"
    assert not waiting.is_paused


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_whole_batches_wait_until_the_last_of_their_records_is_due(guarantee: Any) -> None:
    calls: list[tuple[str | None, int, float]] = []

    def refuse(batch: Any) -> None:
        calls.append((batch.topic, len(batch), asyncio.get_running_loop().time() - began[0]))
        raise ConnectionError("gone")

    began: list[float] = []
    source = MemorySource({"orders": [b"1", b"2"]}, ends=False)
    sink = MemorySink(source)

    async def beside(stop: StopRequest) -> None:
        began.append(asyncio.get_running_loop().time())
        await asyncio.sleep(10)
        source.append("retry", sink.written("retry"))
        await asyncio.sleep(100)
        stop.request()

    pipeline = Pipeline().map_batches(refuse).retry_topics(RetryTopic("retry", 60)).dead_letters("dead")
    run_simulated(pipeline, source, sink, beside=beside, guarantee=guarantee)
    assert calls == [("orders", 2, 0), ("retry", 2, pytest.approx(60, abs=0.1))]
    assert [letter.value for letter in sink.written("dead")] == [b"1", b"2"]


@pytest.mark.parametrize(
    "failing",
    [Pipeline().map(lambda record: 1 // 0), Pipeline().map_batches(lambda batch: 1 // 0)],
    ids=["map", "batches"],
)
def test_a_stop_does_not_wait_for_retries_that_are_not_due(failing: Pipeline) -> None:
    sink = MemorySink()
    pipeline = failing.retry_topics(RetryTopic("retry", 3600))
    run_simulated(pipeline, MemorySource({"orders": numbered(1)}), sink)
    source = MemorySource({"retry": sink.values}, ends=False)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(10)
        stop.request()

    assert run_simulated(pipeline, source, sink, beside=beside).records == 0
    assert source.committed == {}


# --- handlers that hang or are cancelled ------------------------------------------------------------------------------


def test_a_handler_that_hangs_counts_as_failed() -> None:
    cancelled: list[int] = []

    async def handle(record: Record) -> int:
        if number(record) == 1:
            try:
                await asyncio.sleep(3600)
            except asyncio.CancelledError:
                cancelled.append(number(record))
                raise
        return number(record)

    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    pipeline = Pipeline().for_each(handle, timeout_s=5.0).retry(2).dead_letters("dead")
    run_simulated(pipeline, source, sink)
    (letter,) = sink.written("dead")
    assert dict(letter.headers)["kafwire.error.class"] == b"kafwire.stream.errors.HandlerTimeoutError"
    assert cancelled == [1, 1]
    assert source.committed == {ORDERS: 3}


def test_a_timeout_of_the_handlers_own_is_its_error() -> None:
    async def handle(record: Record) -> None:
        raise TimeoutError("of my database")

    with pytest.raises(StreamError) as e:
        run_simulated(Pipeline().for_each(handle, timeout_s=5.0), MemorySource({"orders": numbered(1)}))
    assert type(e.value.__cause__) is TimeoutError
    assert not isinstance(e.value.__cause__, HandlerTimeoutError)


def test_a_handler_that_is_cancelled_counts_as_failed() -> None:
    async def handle(record: Record) -> int:
        if number(record) == 1:
            raise asyncio.CancelledError
        return number(record)

    source, sink = MemorySource({"orders": numbered(3)}), MemorySink()
    summary = run_simulated(Pipeline().for_each(handle).dead_letters("dead"), source, sink)
    assert [letter.value for letter in sink.written("dead")] == [b"1"]
    assert (summary.dead_letters, source.committed) == (1, {ORDERS: 3})


class CancelledWrites(MemorySink):
    """One value's write is cancelled, at once or as it is being stored, once."""

    def __init__(self, *, later: bool) -> None:
        super().__init__()
        self.later = later
        self.is_refusing = True

    async def write(self, value: Any) -> Any:
        """Keep it, unless it is 3."""
        if value == 3 and self.is_refusing:
            self.is_refusing = False
            if not self.later:
                raise asyncio.CancelledError
            stored = asyncio.get_running_loop().create_future()
            asyncio.get_running_loop().call_later(1.0, stored.cancel)
            return stored
        return await super().write(value)


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("pipeline", [Pipeline().map(number), Pipeline().for_each(number, run_in="tasks")])
def test_a_write_that_is_cancelled_counts_as_failed(pipeline: Pipeline, later: bool) -> None:
    source, sink = MemorySource({"orders": numbered(10)}, batch_records=2), CancelledWrites(later=later)
    run_simulated(pipeline.retry(2), source, sink)
    assert sorted(sink.values) == list(range(10))
    assert source.committed == {ORDERS: 10}
    source, sink = MemorySource({"orders": numbered(10)}, batch_records=2), CancelledWrites(later=later)
    with pytest.raises(StreamError, match="offset 3 of orders-0 .* the write was cancelled"):
        run_simulated(pipeline, source, sink)
    assert source.committed.get(ORDERS, 0) <= 3


def test_a_step_that_raises_a_cancellation_ends_the_stream() -> None:
    def refuse(record: Record) -> int:
        raise asyncio.CancelledError

    source = MemorySource({"orders": numbered(10), "bills": []}, ends=False)
    with pytest.raises(StreamError, match="the source or the sink cancelled a part of it"):
        run_simulated(Pipeline().map(refuse), source)
    assert (source.committed, source.closed) == ({}, True)


def test_a_cancelled_stream_leaves_the_group_and_commits_completed_records() -> None:
    source = MemorySource({"orders": numbered(10)}, ends=False)
    cancelled: list[int] = []

    async def handle(record: Record) -> None:
        try:
            await asyncio.sleep(3600 if number(record) == 4 else 0)
        except asyncio.CancelledError:
            cancelled.append(number(record))
            raise

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1)
        (task,) = [one for one in asyncio.all_tasks() if "run_simulated.<locals>.main" in repr(one.get_coro())]
        task.cancel()

    with pytest.raises(asyncio.CancelledError):
        run_simulated(Pipeline().for_each(handle), source, beside=beside)
    assert (cancelled, source.closed) == ([4], True)
    assert source.committed == {ORDERS: 4}


# --- not now ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", PLACES)
def test_not_now_pauses_the_partition_and_drops_nothing(place: str) -> None:
    source, sink = MemorySource({"orders": numbered(10, keys=1)}), MemorySink()
    stream = source._streams[ORDERS]
    paused: list[bool] = []

    def later() -> NotNow:
        asyncio.get_running_loop().call_later(1.0, lambda: paused.append(stream.is_paused))
        return NotNow(2.0)

    flaky = Flaky({3: 2}, later)
    summary = run_simulated(PLACES[place](flaky), source, sink)
    assert sink.values == list(range(10))
    assert flaky.waits(3) == [pytest.approx(2.0, abs=0.05)] * 2
    assert paused == [True, True]
    assert not stream.is_paused
    assert (summary.retries, source.committed) == (0, {ORDERS: 10}), "it is no attempt"


def test_a_sink_that_is_not_ready() -> None:
    refusals = iter([True, True, False])

    class Busy(MemorySink):
        """Takes a value at the third call."""

        async def write(self, value: Any) -> None:
            """Refuse."""
            if next(refusals, False):
                raise NotNow(1.0)
            await super().write(value)

    for pipeline in (Pipeline().map(number), Pipeline().for_each(number, run_in="tasks")):
        refusals = iter([True, True, False])
        source, sink = MemorySource({"orders": numbered(5)}), Busy()
        run_simulated(pipeline, source, sink)
        assert sink.values == list(range(5))
        assert source.committed == {ORDERS: 5}


@pytest.mark.parametrize("pipeline", [Pipeline().map(number), Pipeline().for_each(number, run_in="tasks")])
def test_not_now_is_no_attempt_of_a_sink_either(pipeline: Pipeline) -> None:
    errors: list[Exception] = [NotNow(1.0), NotNow(1.0), ConnectionError("no"), NotNow(1.0)]

    class Busy(MemorySink):
        """Refuses, for several reasons."""

        async def write(self, value: Any) -> None:
            """Refuse."""
            if errors:
                raise errors.pop(0)
            await super().write(value)

    source, sink = MemorySource({"orders": numbered(3)}), Busy()
    assert run_simulated(pipeline.retry(2), source, sink).retries == 1
    assert sorted(sink.values) == [0, 1, 2]


class Deliveries(MemorySink):
    """Stores a value a while after it took it; the first tries of some fail."""

    def __init__(self, failures: dict[int, int]) -> None:
        super().__init__()
        self.left = Counter(failures)

    async def write(self, value: Any) -> Any:
        """Take it."""

        async def store() -> None:
            await asyncio.sleep(5.0 / (1 + (value if isinstance(value, int) else 0)))
            if isinstance(value, int) and self.left[value] > 0:
                self.left[value] -= 1
                raise ConnectionError("not stored")
            self.values.append(value)

        return asyncio.ensure_future(store())


@pytest.mark.parametrize("pipeline", [Pipeline().map(number), Pipeline().for_each(number, run_in="tasks")])
def test_an_offset_is_completed_when_its_value_is_stored(pipeline: Pipeline) -> None:
    source, sink = MemorySource({"orders": numbered(5)}, ends=False), Deliveries({})
    committed: list[dict[TopicPartition, int]] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(4.0)
        committed.append(dict(source.committed))
        await asyncio.sleep(2.0)
        committed.append(dict(source.committed))
        stop.request()

    run_simulated(pipeline.commit(within=0.0), source, sink, beside=beside)
    assert sorted(sink.values) == list(range(5))
    assert committed == [{}, {ORDERS: 5}], "the first value is stored last"


@pytest.mark.parametrize("pipeline", [Pipeline().map(number), Pipeline().for_each(number, run_in="tasks")])
def test_a_value_that_is_not_stored_is_written_again(pipeline: Pipeline) -> None:
    source, sink = MemorySource({"orders": numbered(5)}), Deliveries({1: 1, 3: 9})
    run_simulated(pipeline.retry(3).dead_letters("dead"), source, sink)
    assert sorted(one for one in sink.values if isinstance(one, int)) == [0, 1, 2, 4]
    assert [letter.value for letter in sink.written("dead")] == [b"3"]
    assert source.committed == {ORDERS: 5}


def test_a_commit_that_is_refused_is_made_again(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(MemorySource):
        """Its first commit fails."""

        refuses = True

        async def commit(self) -> None:
            """Refuse once."""
            if self.refuses:
                self.refuses = False
                raise KafkaConnectionError("no coordinator")
            await super().commit()

    source = Refusing({"orders": numbered(4)})
    handler = Pipeline().for_each(lambda one: asyncio.sleep(3.0), run_in="tasks")
    run_simulated(handler.commit(within=1.0), source)
    assert source.committed == {ORDERS: 4}
    assert "could not commit" in caplog.text


def test_a_failed_stream_that_cannot_commit_either_says_both(caplog: pytest.LogCaptureFixture) -> None:
    class Refusing(MemorySource):
        """Its commits fail."""

        async def commit(self) -> None:
            """Refuse."""
            raise KafkaConnectionError("no coordinator")

    source = Refusing({"orders": numbered(4)})
    with pytest.raises(StreamError):
        run_simulated(Pipeline().map(Flaky({2: 1})), source)
    assert "could not commit its offsets, or abort its transaction: no coordinator" in caplog.text
    assert source.closed


def test_a_commit_that_can_never_be_ends_the_stream() -> None:
    class Refusing(MemorySource):
        """Its commits fail."""

        async def commit(self) -> None:
            """Refuse."""
            raise ConfigError("no group_id")

    handler = Pipeline().for_each(lambda one: asyncio.sleep(3.0), run_in="tasks")
    with pytest.raises(ConfigError, match="no group_id"):
        run_simulated(handler.commit(within=1.0), Refusing({"orders": numbered(4)}))
