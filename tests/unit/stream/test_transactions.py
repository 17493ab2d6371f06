"""Exactly once in memory: transactions that are committed, aborted and processed again, in simulated time."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping
from collections.abc import Set as AbstractSet
from typing import Any

import pytest

from kafwire.errors import (
    KafkaTimeoutError,
    ProducerFencedError,
    RecordTooLargeError,
    TransactionAbortableError,
    TransactionAbortedError,
    TransactionTimeoutError,
)
from kafwire.records import Record
from kafwire.stream import (
    FunctionSink,
    MemorySink,
    MemorySource,
    Message,
    NotNow,
    Pipeline,
    RetryTopic,
    StopRequest,
    StreamError,
)
from kafwire.testing import run_in_simulated_time
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support.deadlines import comes
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)
ONCE: dict[str, Any] = {"guarantee": "exactly_once"}


class FailingSink(MemorySink):
    """Fails at given calls: the nth `write`, the nth `commit`."""

    def __init__(
        self, source: MemorySource, *, writes: AbstractSet[int] = frozenset(), commits: AbstractSet[int] = frozenset()
    ) -> None:
        super().__init__(source)
        self.calls: Counter[str] = Counter()
        self.fails = {"write": writes, "commit": commits}
        self.error: type[Exception] = TransactionAbortableError
        self.committed: list[Mapping[TopicPartition, int]] = []

    def _call(self, name: str) -> None:
        self.calls[name] += 1
        if self.calls[name] in self.fails[name]:
            raise self.error("not this one")

    async def write(self, value: Any) -> None:
        """Fail, or keep it."""
        self._call("write")
        await super().write(value)

    async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
        """Fail, or commit."""
        self._call("commit")
        self.committed.append(dict(offsets))
        await super().commit(offsets, group)


async def handle(record: Record) -> int:
    """Takes a while, other whiles for others."""
    await asyncio.sleep(0.01 * (1 + number(record) % 7))
    return number(record)


PIPELINES = {
    "map": Pipeline().map(number),
    "batch": Pipeline().map(number).batch(7).flat_map(lambda values: values),
    "for_each": Pipeline().for_each(handle, workers=5, by="key"),
    "batches": Pipeline().map_batches(list).flat_map(lambda records: map(number, records)),
    "flat_map": Pipeline()
    .flat_map(lambda one: [one, one])
    .batch(3)
    .flat_map(lambda both: [number(one) for one in both]),
}


def copies(name: str, count: int) -> list[int]:
    return sorted([*range(count)] * (2 if name == "flat_map" else 1))


@pytest.mark.parametrize("name", PIPELINES)
def test_results_and_offsets_go_together(name: str) -> None:
    source = MemorySource({"orders": numbered(100)}, batch_records=8)
    sink = FailingSink(source)
    summary = run_simulated(PIPELINES[name].commit(every=20), source, sink, **ONCE)
    assert sorted(sink.values) == copies(name, 100)
    assert source.committed == {ORDERS: 100}
    assert [offsets[ORDERS] for offsets in sink.committed] == sorted({offsets[ORDERS] for offsets in sink.committed})
    assert summary.commits == sink.transactions >= 3
    assert sink.aborted == 0


@pytest.mark.parametrize("name", PIPELINES)
@pytest.mark.parametrize("fails", [{"commits": {1}}, {"commits": {2, 3}}, {"writes": {5}}, {"writes": {1, 60}}])
def test_an_aborted_transaction_is_processed_again(name: str, fails: dict[str, AbstractSet[int]]) -> None:
    source = MemorySource({"orders": numbered(100), "bills": numbered(50)}, batch_records=8)
    sink = FailingSink(source, **fails)
    summary = run_simulated(PIPELINES[name].commit(every=20), source, sink, **ONCE)
    assert sorted(sink.values) == sorted([*copies(name, 100), *copies(name, 50)])
    assert source.committed == {ORDERS: 100, TopicPartition("bills", 0): 50}
    assert summary.aborts == sink.aborted >= 1


def test_a_transaction_that_never_succeeds_ends_the_stream(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource({"orders": numbered(10)})
    sink = FailingSink(source, commits=set(range(1, 100)))
    with pytest.raises(TransactionAbortableError):
        run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert sink.calls["commit"] == 6
    assert caplog.text.count("a stream's transaction is aborted") == 5
    assert (sink.values, source.committed, source.closed) == ([], {}, True)


def test_a_sink_that_never_takes_a_value_ends_the_stream() -> None:
    source = MemorySource({"orders": numbered(10)})
    sink = FailingSink(source, writes=set(range(1, 100)))
    with pytest.raises(TransactionAbortableError):
        run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert (sink.calls["write"], sink.aborted) == (6, 6)


@pytest.mark.parametrize("failures", [1, 99])
def test_a_result_that_is_not_stored_aborts(failures: int) -> None:
    class Deliveries(MemorySink):
        """Says later that it could not store a value."""

        left = failures

        async def write(self, value: Any) -> Any:
            """Take it."""
            await super().write(value)

            async def deliver() -> None:
                await asyncio.sleep(1.0)
                if value == 3 and self.left:
                    self.left -= 1
                    raise ConnectionError("not stored")

            return asyncio.ensure_future(deliver())

    source = MemorySource({"orders": numbered(5)})
    sink = Deliveries(source)
    pipeline = Pipeline().map(number).retry(3).dead_letters("dead")
    if failures == 1:
        assert run_simulated(pipeline, source, sink, **ONCE).aborts == 1
        assert sink.values == list(range(5))
        assert source.committed == {ORDERS: 5}
    else:
        with pytest.raises(TransactionAbortableError) as e:
            run_simulated(pipeline, source, sink, **ONCE)
        assert isinstance(e.value.__cause__, ConnectionError)
        assert (sink.values, source.committed) == ([], {})


def test_a_batch_that_is_committed_in_part_is_processed_again_from_there() -> None:
    source = MemorySource({"orders": numbered(4000)}, batch_records=4000)
    sink = FailingSink(source, commits={2})
    run_simulated(Pipeline().map(number).commit(within=0.0), source, sink, **ONCE)
    assert sink.aborted == 1
    assert 0 < sink.committed[0][ORDERS] < 4000, "the first transaction ended within the batch"
    assert sink.values == list(range(4000))


def test_a_partition_that_comes_while_a_transaction_is_aborted_is_processed_once() -> None:
    source = MemorySource({"orders": numbered(5)}, ends=False)
    sink = FailingSink(source, commits={1})

    async def beside(stop: StopRequest) -> None:
        for _ in range(100):
            await asyncio.sleep(0.01)
            if sink.aborted:
                break
        source.append("bills", numbered(5))
        await asyncio.sleep(5)
        stop.request()

    run_simulated(Pipeline().map(number), source, sink, beside=beside, **ONCE)
    assert sink.aborted == 1
    assert sorted(sink.values) == sorted([*range(5), *range(5)])


def test_a_sink_that_cannot_start_ends_the_stream() -> None:
    class Refused(MemorySink):
        """Its transactional id is not permitted."""

        async def start(self) -> None:
            """Refuse."""
            raise ProducerFencedError("not permitted")

    source = MemorySource({"orders": numbered(3)})
    with pytest.raises(ProducerFencedError):
        run_simulated(Pipeline().map(number), source, Refused(source), **ONCE)
    assert source.closed


def test_a_fenced_producer_ends_the_stream() -> None:
    source = MemorySource({"orders": numbered(10)})
    sink = FailingSink(source, commits={1})
    sink.error = ProducerFencedError
    with pytest.raises(ProducerFencedError):
        run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert (sink.values, source.committed) == ([], {})


def test_a_commit_that_takes_long_is_waited_for() -> None:
    source = MemorySource({"orders": numbered(10)})
    sink = FailingSink(source, commits={1, 2})
    sink.error = TransactionTimeoutError
    run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert (sink.values, sink.aborted) == (list(range(10)), 0)


def test_a_record_that_fails_ends_the_stream_without_a_result() -> None:
    def refuse(record: Record) -> int:
        if number(record) == 5:
            raise ValueError("no")
        return number(record)

    source = MemorySource({"orders": numbered(10)}, batch_records=1)
    sink = MemorySink(source)
    with pytest.raises(StreamError):
        run_simulated(Pipeline().map(refuse).commit(every=3), source, sink, **ONCE)
    assert sink.values == list(range(source.committed.get(ORDERS, 0)))


@pytest.mark.parametrize("letters", ["dead", "retry"])
def test_a_dead_letter_and_its_offset_are_one_transaction(letters: str) -> None:
    def refuse(record: Record) -> int:
        raise ValueError("no")

    source = MemorySource({"orders": numbered(1)})
    sink = FailingSink(source, commits={1})
    pipeline = Pipeline().map(refuse)
    pipeline = pipeline.dead_letters("dead") if letters == "dead" else pipeline.retry_topics(RetryTopic("retry", 5))
    run_simulated(pipeline, source, sink, **ONCE)
    (letter,) = sink.values
    assert isinstance(letter, Message)
    assert letter.topic == letters
    assert source.committed == {ORDERS: 1}
    assert sink.aborted == 1


class RefusingLetters(MemorySink):
    """Takes results, and refuses so many dead letters."""

    def __init__(self, source: MemorySource, times: int, error: Exception) -> None:
        super().__init__(source)
        self.left, self.error = times, error

    async def write(self, value: Any) -> None:
        """Refuse a dead letter, or keep it."""
        if isinstance(value, Message) and self.left:
            self.left -= 1
            raise self.error
        await super().write(value)


def letter_of_two(record: Record) -> int:
    if number(record) == 2:
        raise ValueError("no")
    return number(record)


def test_a_dead_letter_that_is_refused_aborts_and_is_written_again(caplog: pytest.LogCaptureFixture) -> None:
    source = MemorySource({"orders": numbered(4)})
    sink = RefusingLetters(source, 2, KafkaTimeoutError("no leader"))
    summary = run_simulated(Pipeline().map(letter_of_two).dead_letters("dead"), source, sink, **ONCE)
    assert [letter.value for letter in sink.written("dead")] == [b"2"]
    assert (len(sink.values), source.committed, summary.aborts) == (4, {ORDERS: 4}, 2)
    assert "the record at offset 2 of orders-0 failed, and could not be written to dead: no leader" in caplog.text


@pytest.mark.parametrize(
    ("error", "refusals"), [(KafkaTimeoutError("no leader"), 6), (RecordTooLargeError("417 bytes"), 1)]
)
def test_a_dead_letter_that_is_always_refused_ends_the_stream(error: Exception, refusals: int) -> None:
    """The stream ends at once if the letter would be refused again."""
    source = MemorySource({"orders": numbered(4)})
    sink = RefusingLetters(source, 99, error)
    with pytest.raises(TransactionAbortableError if refusals > 1 else type(error)) as caught:
        run_simulated(Pipeline().map(letter_of_two).dead_letters("dead"), source, sink, **ONCE)
    assert error in (caught.value, caught.value.__cause__)
    assert (99 - sink.left, sink.values, source.committed) == (refusals, [], {})


def test_a_transaction_is_due_by_time() -> None:
    source = MemorySource({"orders": numbered(5)}, ends=False)
    sink = MemorySink(source)
    seen: list[tuple[int, dict[TopicPartition, int]]] = []

    async def beside(stop: StopRequest) -> None:
        for seconds in (0.9, 0.2):
            await asyncio.sleep(seconds)
            seen.append((len(sink.values), dict(source.committed)))
        await asyncio.sleep(60)
        assert sink.transactions == 1, "without records there are no transactions"
        stop.request()

    run_simulated(Pipeline().map(number).commit(within=1.0), source, sink, beside=beside, **ONCE)
    assert seen == [(0, {}), (5, {ORDERS: 5})]


def test_a_stop_commits_finished_records() -> None:
    source = MemorySource({"orders": numbered(30)}, ends=False)
    sink = MemorySink(source)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.05)
        stop.request()

    run_simulated(PIPELINES["for_each"].commit(within=60), source, sink, beside=beside, **ONCE)
    assert sorted(sink.values) == list(range(30))
    assert source.committed == {ORDERS: 30}


def test_a_stop_while_a_transaction_is_committed_is_not_missed() -> None:
    source = MemorySource({"orders": numbered(5)}, ends=False)
    times: list[float] = []

    class Slow(MemorySink):
        """Its commits take a second."""

        async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
            """Take a second, in whose middle the stream is stopped."""
            await asyncio.sleep(0.5)
            stopping.set()
            await asyncio.sleep(0.5)
            await super().commit(offsets, group)
            times.append(asyncio.get_running_loop().time())

    stopping = asyncio.Event()

    async def beside(stop: StopRequest) -> None:
        await comes(stopping)
        stop.request()

    async def main(clock: Any) -> None:
        stop = StopRequest()
        other = asyncio.ensure_future(beside(stop))
        await PIPELINES["map"].run_async(source, Slow(source), stop=stop, clock=clock, **ONCE)
        times.append(asyncio.get_running_loop().time())
        await other

    run_in_simulated_time(main)
    assert times[1] == times[0], "it waits for nothing more"


def test_a_stop_while_a_list_is_written_is_not_missed() -> None:
    source = MemorySource({"orders": numbered(5)}, ends=False)
    times: list[float] = []

    async def main(clock: Any) -> None:
        stop = StopRequest()

        async def write(value: Any) -> None:
            await asyncio.sleep(0.5)
            stop.request()
            await asyncio.sleep(0.5)
            times.append(asyncio.get_running_loop().time())

        pipeline = Pipeline().map(number).batch(10, max_seconds=1.0)
        await pipeline.run_async(source, FunctionSink(write), stop=stop, clock=clock)
        times.append(asyncio.get_running_loop().time())

    run_in_simulated_time(main)
    assert times[1] == times[0], "it waits for nothing more"


def test_a_stop_with_a_gap_aborts() -> None:
    async def refuse(record: Record) -> int:
        if number(record) == 3:
            raise ValueError("no")
        return number(record)

    source = MemorySource({"orders": numbered(30, keys=30)}, ends=False)
    sink = MemorySink(source)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(5)
        stop.request()

    pipeline = Pipeline().for_each(refuse, workers=5, by="key").retry(9, backoff_s=60.0).commit(within=30)
    summary = run_simulated(pipeline, source, sink, beside=beside, **ONCE)
    assert (sink.values, source.committed, sink.aborted) == ([], {}, 1)
    assert (summary.commits, summary.aborts) == (0, 1)


def test_a_revoked_partition_is_committed_before_others_are_read_on() -> None:
    source = MemorySource({"orders": numbered(30), "bills": numbered(30)}, ends=False)
    sink = MemorySink(source)
    seen: list[dict[TopicPartition, int]] = []

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.05)
        source.revoke("orders")
        await asyncio.sleep(1)
        seen.append(dict(source.committed))
        stop.request()

    run_simulated(PIPELINES["for_each"].commit(within=60), source, sink, beside=beside, **ONCE)
    assert seen[0][ORDERS] == 30
    assert Counter(sink.values) == Counter([*range(30), *range(30)])


def test_a_revoked_partition_is_processed_again_as_a_whole() -> None:
    source = MemorySource({"orders": numbered(3000)}, batch_records=1500, ends=False)
    sink = FailingSink(source, commits={1})

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.01)
        source.revoke("orders")
        await asyncio.sleep(5)
        stop.request()

    run_simulated(Pipeline().map(number).commit(within=60), source, sink, beside=beside, **ONCE)
    assert sink.aborted == 1
    assert sink.values == list(range(3000))
    assert source.committed == {ORDERS: 3000}


def test_a_lost_partition_aborts_and_others_are_processed_again() -> None:
    source = MemorySource({"orders": numbered(30), "bills": numbered(30)}, ends=False)
    sink = MemorySink(source)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(0.05)
        source.lose("orders")
        await asyncio.sleep(10)
        stop.request()

    run_simulated(PIPELINES["for_each"].commit(within=1), source, sink, beside=beside, **ONCE)
    assert sink.aborted == 1
    assert source.committed == {TopicPartition("bills", 0): 30}
    assert sorted(sink.values) == list(range(30))


@pytest.mark.parametrize("waits", ["not now", "not due"])
def test_a_partition_that_was_paused_as_a_transaction_was_aborted_is_read_on(waits: str) -> None:
    due = 1_700_000_000_000 + 1_000_000 + 20_000  # 20 s of simulated time from now
    waiting = Message(b"0", headers=[("kafwire.due_ms", b"%d" % due)])
    source = MemorySource({"retry": [waiting], "orders": numbered(3)}, ends=False)
    sink = FailingSink(
        source, commits={1} if waits == "not due" else set(), writes=set() if waits == "not due" else {2}
    )
    refusals = [NotNow(5.0)] if waits == "not now" else []

    async def handle(record: Record) -> tuple[str | None, int]:
        await asyncio.sleep(0.1)
        if record.topic == "retry" and refusals:
            raise refusals.pop()
        return record.topic, number(record)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(60)
        source.append("retry", [b"1"])
        await asyncio.sleep(60)
        stop.request()

    pipeline = Pipeline().for_each(handle, workers=4, by="key")
    if waits == "not due":
        pipeline = pipeline.retry_topics(RetryTopic("retry", 60))
    run_simulated(pipeline, source, sink, beside=beside, **ONCE)
    assert sink.aborted == 1
    assert sorted(sink.values) == [("orders", 0), ("orders", 1), ("orders", 2), ("retry", 0), ("retry", 1)]


def test_a_transaction_that_was_aborted_already_is_processed_again() -> None:
    source = MemorySource({"orders": numbered(5)})
    sink = FailingSink(source, commits={1})
    sink.error = TransactionAbortedError
    assert run_simulated(Pipeline().map(number), source, sink, **ONCE).aborts == 1
    assert (sink.values, source.committed) == (list(range(5)), {ORDERS: 5})


def test_an_abort_that_takes_long_is_waited_for_and_one_that_fails_ends_the_stream() -> None:
    class Aborting(FailingSink):
        """Its aborts fail in turn."""

        problems: list[Exception]

        async def abort(self) -> None:
            """Abort, or not."""
            if self.problems:
                raise self.problems.pop()
            await super().abort()

    source = MemorySource({"orders": numbered(5)})
    sink = Aborting(source, commits={1})
    sink.problems = [TransactionTimeoutError("slow"), TransactionTimeoutError("slow")]
    run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert (sink.values, sink.aborted) == (list(range(5)), 1)
    source = MemorySource({"orders": numbered(5)}, ends=False)
    sink = Aborting(source, commits={1})
    sink.problems = [TransactionAbortableError("no abort")] * 2
    with pytest.raises(TransactionAbortableError, match="no abort"):
        run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert source.closed


def test_a_stop_does_not_wait_for_ever_for_a_commit() -> None:
    times: list[float] = []

    class Hanging(MemorySink):
        """Its commits never end."""

        async def commit(self, offsets: Mapping[TopicPartition, int], group: ConsumerGroupMetadata) -> None:
            """Hang."""
            await asyncio.sleep(60)
            raise TransactionTimeoutError("slow")

    source = MemorySource({"orders": numbered(5)}, ends=False)
    sink = Hanging(source)

    async def main(clock: Any) -> None:
        stop, loop = StopRequest(), asyncio.get_running_loop()
        loop.call_later(100, stop.request)
        began = loop.time()
        await Pipeline().map(number).limits(stop_timeout_s=5.0).run_async(source, sink, stop=stop, clock=clock, **ONCE)
        times.append(loop.time() - began)

    run_in_simulated_time(main)
    assert times == [pytest.approx(105, abs=0.1)]
    assert (sink.values, source.committed, source.closed) == ([], {}, True)
