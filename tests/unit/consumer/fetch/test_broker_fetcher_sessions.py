"""A consumer's fetch sessions with simulated brokers: what requests say, every session error, and the end."""

from __future__ import annotations

from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import ProtocolError
from kafwire.testing.simulation.calls import HANGUP, Call
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, log_of, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")
# Of tests that count partitions, or log lines about them.
few_partitions = pytest.mark.shapes("as_written", "single_records")

PARTITIONS = 20


def once(world: World, response: Any) -> None:
    """The next Fetch gets this response."""
    left = [response]
    world.on("Fetch", lambda _: left.pop() if left else None)


def read_more(world: World, consuming: Consuming, rows: Any) -> None:
    for number in range(0, len(rows), 3):
        rows["t", number] += write(world, "t", number, batches=2)
    consuming.until_read(rows)


def test_requests_name_changes_only() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            before = len(consuming.fetches())
            consuming.idle(5)
            assert all(not consuming.asked(call) for call in consuming.fetches()[before:])
            rows["t", 7] += write(world, "t", 7)
            before = len(consuming.fetches())
            consuming.until_read(rows)
            assert {n: at for call in consuming.fetches()[before:] for n, at in consuming.asked(call).items()} == {
                7: 13
            }
            assert sum(call.message.session_epoch == 0 for call in consuming.fetches()) == 1
            consuming.pause(3)
            consuming.idle(2)
            forgotten = [t.partitions for call in consuming.fetches() for t in call.message.forgotten_topics_data]
            assert forgotten == [[3]]


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("code", [70, 71, 106, -1, 56])
def test_session_errors(code: int, strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            for _ in range(3):
                once(world, protocol.FetchResponse(error_code=code))
                read_more(world, consuming, rows)
                world.off("Fetch")
            stats = consuming.fetcher.stats()
            if code in (70, 71, 106):
                assert sum(s["session_errors"] for s in stats["broker_fetchers"]) == 3
                assert not stats["errors"]
            else:
                assert [sum(counts.values()) for counts in stats["errors"].values()] == [3]


def test_a_session_error_again_and_again_does_not_hammer() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            world.on("Fetch", lambda _: protocol.FetchResponse(error_code=71))
            before = len(consuming.fetches())
            consuming.idle(10)
            assert 5 < len(consuming.fetches()) - before < 40
            world.off("Fetch")
            read_more(world, consuming, rows)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("code", [100, 103, 3, 5, 6, 9, 74, 75, 78, 56])
def test_a_partition_that_is_elsewhere_for_a_moment(code: int, strategy: dict[str, Any]) -> None:
    """An error of one partition, which a look at the metadata mends; others go on meanwhile."""
    with World() as world:
        rows = fill(world, "t", partitions=5)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.idle(0.1)
            log_of(world, "t", 2).error = code
            consuming.idle(3)
            others = {where: some for where, some in rows.items() if where[1] != 2}
            for number in (0, 1, 3, 4):
                rows["t", number] += write(world, "t", number)
            consuming.until(lambda: all(consuming.rows.get(where) == some for where, some in others.items()))
            log_of(world, "t", 2).error = 0
            rows["t", 2] += write(world, "t", 2)
            consuming.until_read(rows, 10)
            # with backoff
            assert len(world.made("Metadata")) < 20


@pytest.mark.parametrize("slots", [0, 1])
def test_brokers_without_room_for_a_session(slots: int) -> None:
    with World() as world:
        world.keep_sessions(slots)
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t") as first, Consuming(world, topics="t") as second:
            for consuming in (first, second):
                mine = {where: list(some) for where, some in rows.items()}
                consuming.until_read(mine)
            for number in range(PARTITIONS):
                rows["t", number] += write(world, "t", number)
            first.until_read(rows)
            second.until_read(rows)


def test_a_session_that_was_thrown_out_is_opened_again() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            world.sessions(1).sessions.clear()
            read_more(world, consuming, rows)
            assert sum(call.message.session_epoch == 0 for call in consuming.fetches()) == 2


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("how", ["break", "hang up", "kill"])
def test_lost_connections(how: str, strategy: dict[str, Any]) -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            for _ in range(3):
                if how == "hang up":
                    once(world, HANGUP)
                elif how == "break":
                    world.break_connections(1)
                else:
                    world.kill(1)
                    consuming.idle(3)
                    world.nodes[1].down = False
                read_more(world, consuming, rows)


def test_a_lost_session_is_closed_by_the_next_full_request() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t") as consuming:
            for _ in range(5):
                consuming.until_read(rows)
                world.break_connections(1)
            consuming.until_read(rows)
            assert len(world.sessions(1).sessions) == 1


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_sessions_end_with_the_consumer(strategy: dict[str, Any]) -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            assert any(world.sessions(node).sessions for node in (1, 2, 3))
        assert not any(world.sessions(node).sessions for node in (1, 2, 3))
        assert all(connection.closed for connection in world.connections)


def test_closing_does_not_wait_for_a_silent_broker() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2)
        consuming = Consuming(world, topics="t")
        consuming.until_read(rows)
        world.break_connections(2)
        world.nodes[2].silent = True
        begin = world.loop.time()
        consuming.close()
        assert world.loop.time() - begin <= 1.01


def test_a_closed_consumer_sends_nothing_more() -> None:
    with World() as world:
        fill(world, "t", partitions=3)
        consuming = Consuming(world, topics="t")
        consuming.idle(0.003)
        consuming.close()
        before = len(world.calls)
        consuming.idle(60)
        assert len(world.calls) == before
        assert consuming.take() is None
        assert consuming.reader.ended


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_throttled_consumers_wait(strategy: dict[str, Any]) -> None:
    """KIP-219: nothing is sent to a broker that throttles; the brokers of this world fail a client that sends."""
    with World() as world:
        rows = fill(world, "t", partitions=5)
        throttled: list[float] = []

        def throttle(call: Call) -> int:
            if call.name != "Fetch" or len(throttled) >= 3:
                return 0
            throttled.append(call.at_ms)
            return 2000

        world.throttle = throttle
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            assert world.loop.time() > 1000 + (2 if strategy.get("fetch_strategy") == "per_partition" else 6)
            for connection in consuming.cluster.connections:
                assert not connection.in_flight or connection.role != "fetch" or connection.in_flight == 1


@pytest.mark.parametrize(("version", "topic_ids"), [(4, False), (11, False), (12, True), (13, True), (17, True)])
def test_versions(version: int, *, topic_ids: bool) -> None:
    with World(topic_ids=topic_ids) as world:
        world.nodes[1].versions["Fetch"] = (4, version)
        rows = fill(world, "t", partitions=PARTITIONS)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            read_more(world, consuming, rows)
            assert {call.version for call in consuming.fetches()} == {version}


@few_partitions
def test_brokers_of_another_age() -> None:
    with World() as world:
        world.nodes[1].versions["Fetch"] = (30, 31)
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            consuming.idle()
            for _ in range(2):
                with pytest.raises(ProtocolError, match="Fetch.* 30"):
                    consuming.take()
            consuming.idle(60)
            world.nodes[1].versions.clear()
            world.break_connections(1)
            for number in range(2):
                consuming.seek(0, "t", number)
            consuming.until_read(rows)


def test_topics_with_and_without_ids() -> None:
    """One without an id needs an older version, and so do the others of that broker then."""
    with World() as world:
        rows = fill(world, "t", partitions=3)
        world.topic_ids = False
        rows |= fill(world, "u", partitions=3)
        with Consuming(world, topics=["t"]) as consuming:
            consuming.idle()
            where = [*consuming.core.assignment.partitions]
            world.run(consuming.core.assignment.assign([*where, *((type(where[0]))("u", n) for n in range(3))]))
            consuming.until_read(rows)
            assert {call.version >= 13 for call in consuming.fetches()} == {True, False}
            world.run(consuming.core.assignment.assign(where))
            for number in range(3):
                rows["t", number] += write(world, "t", number)
            consuming.until_read(rows)
            assert consuming.fetches()[-1].version >= 13
            assert not any(
                broker_fetcher["session_errors"] for broker_fetcher in consuming.fetcher.stats()["broker_fetchers"]
            )
