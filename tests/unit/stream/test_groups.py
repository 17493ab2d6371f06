"""Streams as members of a simulated group: late revocations, lost sessions, records that wait, handlers that hang."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from kafwire.broker import dispatch
from kafwire.broker.request import LATER, Request
from kafwire.records import Record
from kafwire.stream import NotNow, Pipeline, RetryTopic
from tests.support.stream.stream_members import PROTOCOLS, StreamGroup, repeated

LATE: dict[str, dict[str, Any]] = {
    "finish": {"revocation_timeout_ms": 2_000},
    "discard": {"on_revocation": "discard"},
}
Handle = Callable[[Record], Awaitable[Any]]


@pytest.fixture(params=PROTOCOLS)
def protocol(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Options of one protocol."""
    return PROTOCOLS[request.param]


def by_key(handle: Handle) -> Pipeline:
    return Pipeline().for_each(handle, workers=16, by="key").commit(within=0.1)


# --- the owner of a partition


@pytest.mark.parametrize("how", LATE)
def test_a_late_revocation_is_not_committed_exactly_once(protocol: dict[str, Any], how: str) -> None:
    with StreamGroup() as group:

        async def main() -> None:
            await group.send(4)
            slow = group.add(by_key, work_s=8.0, guarantee="exactly_once", **protocol, **LATE[how])
            await group.until(lambda: len(group.calls) >= 2)
            quick = group.add(by_key, work_s=0.1, guarantee="exactly_once", **protocol, **LATE[how])
            await group.send(4)
            await group.until(lambda: sum(group.committed().values()) == 16, 600.0)
            for member in (slow, quick):
                await member.leave()
            found = await group.results()
            assert (len(found), repeated(found)) == (16, [])
            begun = {partition for (partition, _), names in group.begun().items() if quick.name in names}
            assert len(begun) == 1, "the second member has processed one partition"

        group.world.run(main())


@pytest.mark.parametrize("guarantee", ["at_least_once", "at_most_once"])
@pytest.mark.parametrize("how", LATE)
def test_nothing_is_begun_after_a_late_revocation(protocol: dict[str, Any], how: str, guarantee: Any) -> None:
    with StreamGroup() as group:

        async def main() -> None:
            await group.send(6)
            slow = group.add(by_key, work_s=3.0, guarantee=guarantee, **protocol, **LATE[how])
            await group.until(lambda: len(group.calls) >= 2)
            quick = group.add(by_key, work_s=0.01, guarantee=guarantee, **protocol, **LATE[how])
            await group.until(group.shared_out([slow, quick], 2))
            await asyncio.sleep(60.0)
            (taken,) = {where.partition for where in quick.assigned}
            names = [call.member for call in group.calls if call.partition == taken]
            if quick.name in names:
                assert slow.name not in names[names.index(quick.name) :], "the slow member began a record of the other"
            for member in (slow, quick):
                await member.leave()
            written = [value for value in await group.results() if value.startswith(b"%d/" % taken)]
            assert written == sorted(written), "stale results come last"
            if guarantee == "at_least_once":
                assert {int(value.partition(b"/")[2]) for value in written} == set(range(6))

        group.world.run(main())


def test_an_exactly_once_stream_survives_lost_sessions(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """More of them than the aborts in a row that end a stream, and nothing is committed in between."""
    losses = 8
    with StreamGroup() as group:

        async def main() -> None:
            member = group.add(by_key, guarantee="exactly_once", **protocol)
            await group.send(1)  # a group without members and offsets is deleted
            await group.until(lambda: sum(group.committed().values()) == 2)
            member.work_s = 150.0
            for loss in range(losses):
                begun = len(group.calls)
                await group.send(1, key=b"%d" % loss)
                await group.until(lambda begun=begun: len(group.calls) > begun)  # type: ignore[misc]
                group.cut(is_cut=True)
                await asyncio.sleep(100.0)
                group.cut(is_cut=False)
                await group.until(lambda: len(member.assigned) == 2)
            assert sum(group.committed().values()) == 2
            member.work_s = 0.1
            await group.until(lambda: sum(group.committed().values()) == 2 * losses + 2, 400.0)
            summary = await member.leave()
            assert summary.aborts >= losses
            found = await group.results()
            assert (len(found), repeated(found)) == (2 * losses + 2, [])

        group.world.run(main())
    assert "within the transaction" in caplog.text


def test_an_idle_exactly_once_stream_commits_as_the_current_member(protocol: dict[str, Any]) -> None:
    with StreamGroup(partitions=1) as group:

        async def main() -> None:
            member = group.add(by_key, guarantee="exactly_once", **protocol)
            await group.send(1, partitions=[0])
            await group.until(lambda: group.committed().get(("in", 0)) == 1)
            group.cut(is_cut=True)
            await asyncio.sleep(100.0)
            group.cut(is_cut=False)
            await asyncio.sleep(10.0)  # the member joins again
            assert len(member.assigned) == 1
            await group.send(1, partitions=[0])
            assert await group.until(lambda: group.committed().get(("in", 0)) == 2) < 5.0
            assert (await member.leave()).aborts == 0

        group.world.run(main())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize(("reset", "offset"), [("latest", 1), ("earliest", None)])
def test_a_stream_commits_where_it_begins(
    protocol: dict[str, Any], guarantee: Any, reset: str, offset: int | None
) -> None:
    """Otherwise `latest` skips what comes before the first commit, when the partition is assigned again."""
    with StreamGroup(partitions=1) as group:

        async def main() -> None:
            await group.send(1, partitions=[0])
            waits = group.add(by_key, not_now_at_all, guarantee=guarantee, auto_offset_reset=reset, **protocol)
            await group.until(lambda: len(waits.assigned) == 1)
            await asyncio.sleep(5.0)
            assert group.committed().get(("in", 0)) == offset
            await waits.leave()

        group.world.run(main())


# --- what waits


async def refuse(record: Record) -> None:
    if record.value == b"bad":
        raise ConnectionError("the bank is closed")


async def not_now(record: Record) -> None:
    if record.value == b"bad":
        raise NotNow(3600.0)


def test_a_late_commit_of_the_start_sets_no_transaction_back(protocol: dict[str, Any]) -> None:
    with StreamGroup(partitions=1) as group:
        held: list[Request] = []

        def hold(request: Request) -> Any:
            if request.name == "OffsetCommit" and not held:
                held.append(request)
                return LATER
            return None

        group.world.state.interceptors.insert(0, hold)

        async def main() -> None:
            await group.send(1, partitions=[0])
            member = group.add(by_key, guarantee="exactly_once", auto_offset_reset="latest", **protocol)
            await group.until(lambda: bool(held))
            await group.send(1, partitions=[0])
            await asyncio.sleep(5.0)
            dispatch.handle(group.world.state, held[0])
            group.world.changed()
            await asyncio.sleep(5.0)
            assert group.committed() == {("in", 0): 2}
            await member.leave()

        group.world.run(main())


async def not_now_at_all(_: Record) -> None:
    raise NotNow(3600.0)


def steps_of(handle: Handle) -> Pipeline:
    """The same without workers: the handler's coroutine never waits."""

    def call(record: Record) -> Record:
        with contextlib.suppress(StopIteration):
            handle(record).__await__().send(None)
        return record

    return Pipeline().map(call).retry(99, backoff_s=3600.0, max_backoff_s=3600.0)


WAITS: dict[str, tuple[Handle, Callable[[Handle], Pipeline]]] = {
    "retry": (refuse, lambda handle: by_key(handle).retry(99, backoff_s=3600.0, max_backoff_s=3600.0)),
    "not now": (not_now, by_key),
    "retry of a step": (refuse, steps_of),
    "not now of a step": (not_now, steps_of),
}


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
@pytest.mark.parametrize("waits", WAITS)
def test_a_record_that_waits_for_its_next_attempt_holds_up_no_rebalance(
    protocol: dict[str, Any], waits: str, guarantee: Any
) -> None:
    handle, pipeline = WAITS[waits]
    with StreamGroup(partitions=4) as group:

        async def main() -> None:
            first = group.add(pipeline, handle, guarantee=guarantee, **protocol)
            await group.until(lambda: len(first.assigned) == 4)
            async with group.producer() as producer:
                for partition in range(4):
                    await (await producer.send("in", b"bad", key=b"bad", partition=partition))
            await group.until(lambda: len(group.calls) == 4)
            second = group.add(pipeline, handle, guarantee=guarantee, **protocol)
            await group.until(lambda: bool(group.members[1].consumer._core.membership._driver))  # type: ignore[union-attr]
            # The first member learns of it by its heartbeat, within 5 s; the waiting itself is over within 1 s.
            assert await group.until(group.shared_out([first, second], 4)) < 7.0
            assert not any(group.committed().values()), "it is not completed"
            taken = {where.partition for where in second.assigned}
            await group.until(lambda: taken <= {call.partition for call in group.calls if call.member == second.name})
            for member in (first, second):
                await member.leave()

        group.world.run(main())


@pytest.mark.parametrize("guarantee", ["at_least_once", "exactly_once"])
def test_a_record_that_is_not_due_holds_up_no_rebalance(protocol: dict[str, Any], guarantee: Any) -> None:
    def pipeline(handle: Handle) -> Pipeline:
        return by_key(handle).retry_topics(RetryTopic("in.retry", 3600.0)).dead_letters("dead")

    with StreamGroup(topics=["in.retry"]) as group:

        async def main() -> None:
            options = {"topics": ["in", "in.retry"], "guarantee": guarantee, **protocol}
            first = group.add(pipeline, refuse, **options)
            async with group.producer() as producer:
                for number in range(8):
                    await (await producer.send("in", b"bad", key=b"%d" % number, partition=number % 2))
            await group.until(lambda: len(group.calls) == 8)
            await asyncio.sleep(5.0)
            second = group.add(pipeline, refuse, **options)
            assert await group.until(group.shared_out([first, second], 4)) < 7.0
            for member in (first, second):
                await member.leave()

        group.world.run(main())


@pytest.mark.parametrize("others", [1, 0], ids=["records of the other", "the other empty"])
def test_a_wait_in_another_partition_holds_up_no_revocation_exactly_once(protocol: dict[str, Any], others: int) -> None:
    """A transaction has the records of all partitions, and one of them waits. An empty partition leaves it."""
    with StreamGroup() as group:

        async def main() -> None:
            first = group.add(by_key, not_now, guarantee="exactly_once", **protocol)
            await group.until(lambda: len(first.assigned) == 2)
            async with group.producer() as producer:
                await (await producer.send("in", b"bad", partition=0))
                for _ in range(others):
                    await (await producer.send("in", b"good", partition=1))
            await group.until(lambda: len(group.calls) == 1 + others)
            await asyncio.sleep(5.0)  # the transaction is due, and waits
            second = group.add(by_key, not_now, guarantee="exactly_once", **protocol)
            assert await group.until(group.shared_out([first, second], 2)) < 7.0
            await group.until(lambda: group.committed().get(("in", 1), 0) == others)
            assert not group.committed().get(("in", 0))
            for member in (first, second):
                await member.leave()

        group.world.run(main())


def test_at_most_once_a_wait_keeps_the_window(protocol: dict[str, Any]) -> None:
    attempts: list[float] = []

    async def later(record: Record) -> None:
        attempts.append(asyncio.get_running_loop().time())
        if len(attempts) == 1:
            raise NotNow(30.0)

    with StreamGroup(partitions=1) as group:

        async def main() -> None:
            first = group.add(by_key, later, guarantee="at_most_once", **protocol)
            await group.send(1, partitions=[0])
            await group.until(lambda: len(attempts) == 1)
            await first.consumer.subscribe("out")
            await group.until(lambda: len(attempts) == 2)
            assert attempts[1] - attempts[0] == pytest.approx(30.0, abs=0.5)
            await first.leave()

        group.world.run(main())


# --- handlers that hang


def test_a_member_whose_handler_hangs_leaves_until_it_returns(
    protocol: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    async def hang(record: Record) -> None:
        if record.partition == 0:
            await released

    with StreamGroup() as group:
        released: asyncio.Future[None] = group.world.loop.create_future()

        async def main() -> None:
            hung = group.add(by_key, hang, max_poll_interval_ms=60_000, **protocol)
            await group.until(lambda: len(hung.assigned) == 2)
            await group.send(1)
            await asyncio.sleep(50.0)
            assert len(hung.assigned) == 2
            await asyncio.sleep(30.0)
            assert not hung.assigned
            other = group.add(by_key, **protocol)
            await group.until(lambda: group.committed() == {("in", 0): 1, ("in", 1): 1})
            await asyncio.sleep(600.0)
            assert not hung.assigned, "it stays out"
            released.set_result(None)
            assert await group.until(group.shared_out([hung, other], 2)) < 7.0
            for member in (hung, other):
                await member.leave()

        group.world.run(main())
    said = [record.getMessage() for record in caplog.records if "max_poll_interval_ms" in record.getMessage()]
    assert len(said) == 1
    assert "for_each(work) of the record at offset 0 of in-0" in said[0]


def test_waits_and_many_short_calls_do_not_count_as_one_that_hangs(protocol: dict[str, Any]) -> None:
    """A record waits for its next attempt, others for their worker, and there are no records for a long time."""
    with StreamGroup() as group:

        async def main() -> None:
            def pipeline(handle: Handle) -> Pipeline:
                return Pipeline().for_each(handle, workers=1).retry(3, backoff_s=100.0, max_backoff_s=100.0)

            failures = [ConnectionError("closed")]

            async def slow(record: Record) -> None:
                await asyncio.sleep(20.0)
                if failures:
                    raise failures.pop()

            member = group.add(pipeline, slow, max_poll_interval_ms=60_000, **protocol)
            await group.send(4)
            await group.until(lambda: sum(group.committed().values()) == 8, 500.0)
            await asyncio.sleep(200.0)
            await group.send(1)
            await group.until(lambda: sum(group.committed().values()) == 10)
            summary = await member.leave()
            assert summary.retries == 1

        group.world.run(main())
    assert [(call.partition, call.offset) for call in group.calls].count((0, 1)) == 1, "it was never out"


def test_a_stuck_call_is_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING)
    with StreamGroup(partitions=1) as group:

        async def main() -> None:
            member = group.add(by_key, lambda _: asyncio.sleep(10_000.0))
            await group.send(2, partitions=[0])
            await asyncio.sleep(1_000.0)
            member.task.cancel()
            await asyncio.gather(member.task, return_exceptions=True)

        group.world.run(main())
    said = [record.getMessage() for record in caplog.records if "stuck" in record.getMessage()]
    assert len(said) == 1
    assert "the record at offset 0 of in-0 is in for_each(work)" in said[0]
