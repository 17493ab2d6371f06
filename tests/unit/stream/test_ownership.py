"""Nothing is begun for a partition that is another member's: in tasks, threads, processes and steps, in memory."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from kafwire.error_codes import ErrorCode
from kafwire.errors import TransactionAbortableError, TransactionTimeoutError, broker_error
from kafwire.records import Record
from kafwire.stream import MemorySink, MemorySource, Message, NotNow, Pipeline, RetryTopic, StopRequest
from kafwire.stream.transactions import GROUP_REFUSALS
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support.deadlines import PATIENCE_S
from tests.support.stream.stream_handlers import wait_for_file
from tests.support.stream.streams import number, numbered, run_simulated

ORDERS = TopicPartition("orders", 0)
ONCE: dict[str, Any] = {"guarantee": "exactly_once"}


class Recording(MemorySink):
    """Takes a second for each value, and knows which ones were begun."""

    def __init__(self, source: MemorySource, *, second_s: float = 0.0, later: bool = False) -> None:
        super().__init__(source)
        self.begun: list[Any] = []
        self._second_s, self._later = second_s, later

    async def write(self, value: Any) -> Any:
        """Begin at once; be done later."""
        self.begun.append(value)
        if self._later:
            return asyncio.ensure_future(self._fail())
        await asyncio.sleep(self._second_s)
        return await super().write(value)

    async def _fail(self) -> None:
        await asyncio.sleep(1.0)
        raise ConnectionError("not stored")


async def becomes(condition: Callable[[], bool]) -> None:
    """Let time go by until something is so."""
    for _ in range(100_000):
        if condition():
            return
        await asyncio.sleep(0.01)
    pytest.fail("it did not come to be so")


def loses(source: MemorySource, after_s: float, *, goes_on_s: float = 30.0) -> Callable[[StopRequest], Any]:
    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(after_s)
        source.lose("orders")
        await asyncio.sleep(goes_on_s)
        stop.request()

    return beside


async def second(record: Record) -> int:
    await asyncio.sleep(1.0)
    return number(record)


async def fail_later(record: Record) -> int:
    await asyncio.sleep(1.0)
    raise ValueError("no")


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("by", ["key", "partition", None])
def test_a_lost_partition_writes_no_result_and_begins_no_record(by: Any, guarantee: Any) -> None:
    source = MemorySource({"orders": numbered(9)}, ends=False)
    sink, calls = Recording(source), []

    async def handle(record: Record) -> int:
        calls.append(number(record))
        return await second(record)

    pipeline = Pipeline().for_each(handle, workers=2, by=by)
    run_simulated(pipeline, source, sink, beside=loses(source, 0.5), guarantee=guarantee)
    assert sorted(calls) == ([0] if by == "partition" else [0, 1])
    assert sink.begun == []
    assert source.committed == ({ORDERS: 9} if guarantee == "at_most_once" else {})


@pytest.mark.parametrize(
    "add",
    [
        lambda pipeline: pipeline.dead_letters("dead"),
        lambda pipeline: pipeline.retry_topics(RetryTopic("later", 60.0)),
        lambda pipeline: pipeline.retry(9, backoff_s=0.1),
        lambda pipeline: pipeline.skip_failures(),
    ],
)
def test_a_failure_in_a_lost_partition_has_no_consequences(add: Callable[[Pipeline], Pipeline]) -> None:
    source = MemorySource({"orders": numbered(4)}, ends=False)
    sink = Recording(source)
    pipeline = add(Pipeline().for_each(fail_later, workers=4, by="key"))
    summary = run_simulated(pipeline, source, sink, beside=loses(source, 0.5))
    assert (sink.begun, source.committed) == ([], {})
    assert (summary.retries, summary.dead_letters, summary.delayed, summary.skipped) == (0, 0, 0, 0)


@pytest.mark.parametrize(
    "pipeline",
    [Pipeline().map(number), Pipeline().map(number).for_each(lambda one: one, workers=4, by=None, run_in="tasks")],
)
def test_values_behind_the_one_that_is_written_are_not_begun(pipeline: Pipeline) -> None:
    source = MemorySource({"orders": numbered(9)}, ends=False)
    sink = Recording(source, second_s=1.0)
    run_simulated(pipeline, source, sink, beside=loses(source, 0.5))
    assert sink.begun == list(range(1 if pipeline.steps[-1] == pipeline.steps[0] else 4))
    assert source.committed == {}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_letters_of_a_lost_partition_are_not_written_on(guarantee: Any) -> None:
    source = MemorySource({"orders": numbered(9)}, ends=False)
    sink = Recording(source, second_s=1.0)

    def fail(values: list[Any]) -> None:
        raise ValueError("no")

    pipeline = Pipeline().batch(9).map(fail).dead_letters("dead")
    run_simulated(pipeline, source, sink, beside=loses(source, 2.5), guarantee=guarantee)
    assert len(sink.begun) == 3, "one a second, until the loss"
    assert source.committed == {}


@pytest.mark.parametrize(
    "pipeline", [Pipeline().map(number), Pipeline().for_each(second, workers=9, by="key")], ids=["map", "for_each"]
)
def test_a_delivery_of_a_lost_partition_that_fails_is_not_written_again(pipeline: Pipeline) -> None:
    source = MemorySource({"orders": numbered(2)}, ends=False)
    sink = Recording(source, later=True)
    run_simulated(pipeline.retry(9, backoff_s=0.1), source, sink, beside=loses(source, 1.5))
    before = len(sink.begun)
    assert sink.begun.count(0) == 1 + (pipeline.steps[0].__class__.__name__ == "Map")
    assert before == len(sink.begun)


def test_a_step_after_the_handler_is_not_begun() -> None:
    source, calls = MemorySource({"orders": numbered(3)}, ends=False), list[int]()
    pipeline = Pipeline().for_each(second, workers=3, by="key").map(calls.append)
    run_simulated(pipeline, source, Recording(source), beside=loses(source, 0.5))
    assert calls == []


def test_a_call_in_a_thread_whose_partition_is_lost_writes_nothing() -> None:
    source = MemorySource({"orders": numbered(4, keys=1)}, ends=False)
    sink, begun, released, calls = MemorySink(), threading.Event(), threading.Event(), []

    def handle(record: Record) -> int:
        calls.append(number(record))
        begun.set()
        assert released.wait(PATIENCE_S)
        return number(record)

    async def main() -> None:
        stop = StopRequest()
        running = asyncio.ensure_future(
            Pipeline().for_each(handle, workers=1, by="key").run_async(source, sink, stop=stop)
        )
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        source.lose("orders")
        released.set()
        source.append("bills", numbered(1))
        async with asyncio.timeout(PATIENCE_S):
            await becomes(lambda: bool(sink.values))
        stop.request()
        await running

    asyncio.run(main())
    assert calls == [0, 0], "of the lost one the first, and that of the other partition"
    assert (sink.values, source.committed) == ([0], {TopicPartition("bills", 0): 1})


def test_a_call_in_a_process_whose_partition_is_lost_writes_nothing(tmp_path: Any) -> None:
    """The handler waits for a file that is there once the partition is lost."""
    begun, released = tmp_path / "begun", tmp_path / "released"
    records = [(b"k", f"{begun} {released}".encode())] * 3
    source, sink = MemorySource({"orders": records}, ends=False), MemorySink()

    async def main() -> None:
        stop = StopRequest()
        pipeline = Pipeline().for_each(wait_for_file, workers=1, by="key", run_in="processes")
        running = asyncio.ensure_future(pipeline.dead_letters("dead").run_async(source, sink, stop=stop))
        async with asyncio.timeout(PATIENCE_S):
            await becomes(lambda: bool(begun.exists()))
            source.lose("orders")
            released.touch()
            source.append("bills", records[:1])
            await becomes(lambda: bool(sink.values))
        stop.request()
        await running

    asyncio.run(main())
    assert sink.values == [b"bills"]
    assert source.committed == {TopicPartition("bills", 0): 1}


# --- revoked, while something waits


@pytest.mark.parametrize("by", ["key", "partition", None])
@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_revocation_leaves_waiting_records_and_their_followers_in_the_lane(by: Any, guarantee: Any) -> None:
    source = MemorySource({"orders": numbered(12)}, ends=False)
    sink, times, calls = MemorySink(source), [], []

    async def handle(record: Record) -> int:
        calls.append(number(record))
        await asyncio.sleep(1.0)
        if number(record) == 4:
            raise ValueError("no")
        return number(record)

    async def beside(stop: StopRequest) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(20.0)
        revoked, began = source.revoke("orders"), loop.time()
        await becomes(lambda: bool(revoked.is_closed))
        times.append(loop.time() - began)
        await asyncio.sleep(5.0)
        stop.request()

    pipeline = Pipeline().for_each(handle, workers=2, by=by).retry(99, backoff_s=3600.0, max_backoff_s=3600.0)
    run_simulated(pipeline, source, sink, beside=beside, guarantee=guarantee)
    assert times[0] < 1.0
    assert source.committed == ({ORDERS: 4} if guarantee == "at_least_once" else {})
    if guarantee == "exactly_once":
        assert sink.values == [], "results behind the gap are in its transaction"
    assert calls.count(4) == 1
    if by == "key":
        assert not {7, 10} & set(calls), "nothing overtakes it"


def test_a_running_handler_keeps_the_window_and_one_that_is_not_ready_then_does_not() -> None:
    source, calls = MemorySource({"orders": numbered(2)}, ends=False), []

    async def handle(record: Record) -> None:
        calls.append(number(record))
        await asyncio.sleep(10.0)
        if number(record):
            raise NotNow(3600.0)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1.0)
        revoked = source.revoke("orders")
        await asyncio.sleep(8.0)
        assert not revoked.is_closed
        await asyncio.sleep(1.5)
        assert revoked.is_closed
        stop.request()

    run_simulated(Pipeline().for_each(handle, workers=2, by=None), source, beside=beside)
    assert (calls, source.committed) == ([0, 1], {ORDERS: 1})


def test_a_letter_that_waits_is_left_and_its_transaction_aborted() -> None:
    """The first of three letters is in the transaction: without the offset, the next owner writes it again."""
    source = MemorySource({"orders": numbered(3)}, ends=False)

    class Busy(MemorySink):
        """Takes one letter."""

        async def write(self, value: Any) -> None:
            """Take it, or not now."""
            if self._open:
                raise NotNow(3600.0)
            await super().write(value)

    def fail(values: list[Any]) -> None:
        raise ValueError("no")

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(1.0)
        revoked = source.revoke("orders")
        await asyncio.sleep(0.9)
        assert revoked.is_closed
        stop.request()

    sink = Busy(source)
    pipeline = Pipeline().batch(3, max_seconds=0.1).map(fail).dead_letters("dead")
    run_simulated(pipeline, source, sink, beside=beside, **ONCE)
    assert (sink.values, sink.aborted, source.committed) == ([], 1, {})


# --- the group refuses


class Refusing(MemorySink):
    """Its commits are refused so many times, each with an error of the group's."""

    def __init__(self, source: MemorySource, codes: list[ErrorCode]) -> None:
        super().__init__(source)
        self.codes = codes
        self.members: list[ConsumerGroupMetadata] = []

    async def commit(self, offsets: Any, group: ConsumerGroupMetadata) -> None:
        """Refuse, or commit."""
        self.members.append(group)
        if self.codes:
            code = self.codes.pop()
            raise TransactionAbortableError("refused") from broker_error(code, "the group has moved on")
        await super().commit(offsets, group)


@pytest.mark.parametrize("code", sorted(GROUP_REFUSALS), ids=lambda code: code.name)
def test_a_stream_survives_any_number_of_refusals_by_its_group(code: ErrorCode) -> None:
    source = MemorySource({"orders": numbered(5)})
    sink = Refusing(source, [code] * 40)
    summary = run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert (summary.aborts, sink.values, source.committed) == (40, [0, 1, 2, 3, 4], {ORDERS: 5})


def test_other_aborts_beside_refusals_still_end_the_stream() -> None:
    source = MemorySource({"orders": numbered(5)})
    sink = Refusing(source, [ErrorCode.ILLEGAL_GENERATION, ErrorCode.TRANSACTION_ABORTABLE] * 40)
    with pytest.raises(TransactionAbortableError):
        run_simulated(Pipeline().map(number), source, sink, **ONCE)
    assert len(sink.members) == 11


def test_a_commit_that_is_asked_for_again_names_the_same_member_and_offsets() -> None:
    """The member loses a partition while its commit has no outcome yet: a newer member's would be taken."""
    source = MemorySource({"orders": numbered(5)}, ends=False)
    asked: list[tuple[dict[TopicPartition, int], ConsumerGroupMetadata]] = []

    class Slow(MemorySink):
        """Its first commit has no outcome in time."""

        async def commit(self, offsets: Any, group: ConsumerGroupMetadata) -> None:
            """Time out, or check the member."""
            asked.append((dict(offsets), group))
            if len(asked) == 1:
                source.lose("orders")
                raise TransactionTimeoutError("no outcome yet")
            await super().commit(offsets, group)

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(30.0)
        stop.request()

    sink = Slow(source)
    run_simulated(Pipeline().map(number), source, sink, beside=beside, **ONCE)
    assert asked == [asked[0]] * 2
    assert (sink.values, source.committed, sink.aborted) == ([], {}, 1)


def test_the_member_is_read_before_the_partitions_are_asked() -> None:
    """A partition that is lost in between is seen; the other order would commit it as the next member."""
    source = MemorySource({"orders": numbered(5)}, ends=False)
    real = source.group_metadata

    def metadata() -> ConsumerGroupMetadata:
        found = real()
        if TopicPartition("orders", 0) in source._streams:
            source.lose("orders")
        return found

    source.group_metadata = metadata  # type: ignore[method-assign]

    async def beside(stop: StopRequest) -> None:
        await asyncio.sleep(30.0)
        stop.request()

    sink = Refusing(source, [])
    run_simulated(Pipeline().map(number), source, sink, beside=beside, **ONCE)
    assert (sink.members, sink.values, source.committed) == ([], [], {})


def test_only_partitions_that_are_still_owned_are_processed_again() -> None:
    """A partition goes during the back-off after an abort."""
    source = MemorySource({"orders": numbered(3), "bills": numbered(3)}, ends=False)
    sink = Refusing(source, [ErrorCode.TRANSACTION_ABORTABLE] * 4)
    calls: list[str | None] = []

    def handle(record: Record) -> tuple[str | None, int]:
        calls.append(record.topic)
        return record.topic, number(record)

    async def beside(stop: StopRequest) -> None:
        await becomes(lambda: len(sink.members) >= 4)
        await asyncio.sleep(0.1)  # the back-off is 800 ms
        gone = source.lose("orders")
        await asyncio.sleep(0.1)
        assert gone.is_closed
        calls.clear()
        await asyncio.sleep(30.0)
        stop.request()

    run_simulated(Pipeline().map(handle), source, sink, beside=beside, **ONCE)
    assert calls == ["bills"] * 3
    assert sorted(sink.values) == [("bills", 0), ("bills", 1), ("bills", 2)]
    assert source.committed == {TopicPartition("bills", 0): 3}


def test_a_revoked_partition_does_not_wait_for_a_long_back_off() -> None:
    source = MemorySource({"orders": numbered(3), "bills": numbered(3)}, ends=False)
    sink = Refusing(source, [ErrorCode.TRANSACTION_ABORTABLE] * 5)

    async def beside(stop: StopRequest) -> None:
        await becomes(lambda: len(sink.members) >= 5)
        gone = source.revoke("orders")
        await asyncio.sleep(0.9)  # the back-off is 1.6 s
        assert gone.is_closed
        await asyncio.sleep(30.0)
        stop.request()

    run_simulated(Pipeline().map(number), source, sink, beside=beside, **ONCE)
    assert source.committed == {TopicPartition("bills", 0): 3}


def test_aborts_count_only_in_a_row() -> None:
    """Each transaction is aborted once, and committed then."""
    source = MemorySource({"orders": numbered(20)}, batch_records=1)

    class Alternating(MemorySink):
        """Refuses every other commit."""

        calls = 0

        async def commit(self, offsets: Any, group: ConsumerGroupMetadata) -> None:
            """Refuse, or commit."""
            self.calls += 1
            if self.calls % 2:
                raise TransactionAbortableError("not this one")
            await super().commit(offsets, group)

    sink = Alternating(source)
    summary = run_simulated(Pipeline().map(number).commit(every=1), source, sink, **ONCE)
    assert summary.aborts > 6
    assert (sink.values, source.committed) == (list(range(20)), {ORDERS: 20})


@pytest.mark.parametrize("lost", [0, 1, 2])
def test_each_dead_letter_of_a_batch_is_waited_for(lost: int) -> None:
    """One of three is not stored: nothing of the batch is completed."""

    class Letters(MemorySink):
        """Stores them after a while, but for one."""

        def __init__(self) -> None:
            super().__init__()
            self.count = 0

        async def write(self, value: Any) -> Any:
            """Take it."""
            self.count += 1
            return asyncio.ensure_future(self._deliver(value, fails=self.count == lost + 1))

        async def _deliver(self, value: Message, *, fails: bool) -> None:
            await asyncio.sleep(1.0)
            if fails:
                raise ConnectionError("not stored")
            self.values.append(value)

    def fail(values: list[Any]) -> None:
        raise ValueError("no")

    source, letters = MemorySource({"orders": numbered(3)}), Letters()
    with pytest.raises(ConnectionError):
        run_simulated(Pipeline().batch(3).map(fail).dead_letters("dead"), source, letters=letters)
    assert source.committed == {}


def test_a_transaction_is_aborted_before_a_call_in_a_thread_is_waited_for() -> None:
    """Its time-out runs, and the producer would be fenced."""
    source = MemorySource({"orders": numbered(1), "bills": numbered(1)}, ends=False)
    sink, begun, released = MemorySink(source), threading.Event(), threading.Event()

    def handle(record: Record) -> int:
        if record.topic == "orders":
            begun.set()
            assert released.wait(PATIENCE_S)
        return number(record)

    async def main() -> None:
        stop = StopRequest()
        pipeline = Pipeline().for_each(handle, workers=2)
        running = asyncio.ensure_future(pipeline.run_async(source, sink, stop=stop, **ONCE))
        assert await asyncio.to_thread(begun.wait, PATIENCE_S)
        source.lose("bills")
        async with asyncio.timeout(PATIENCE_S):
            await becomes(lambda: sink.aborted == 1)
            released.set()
            await becomes(lambda: source.committed == {ORDERS: 1})
        stop.request()
        await running

    asyncio.run(main())
    assert sink.values == [0]
