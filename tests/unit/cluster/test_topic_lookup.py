"""Topics that brokers create on request: the requests, the wait for them, and topics that stay deleted."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from kafwire.calls.client import ClientCalls
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.topic_lookup import CREATION_SETTING_MS
from kafwire.config import ClientConfig
from kafwire.errors import BrokerError
from kafwire.testing.simulation.calls import HANGUP, NEVER
from tests.support.simulated.consumer import Consuming
from tests.support.simulated.producer import Work, log_of
from tests.support.simulated.world import World


def asked_to_create(world: World) -> list[list[str]]:
    """The topics of each metadata request that asked for their creation."""
    return [
        [topic.name for topic in call.message.topics]
        for call in world.made("Metadata")
        if call.message.allow_auto_topic_creation
    ]


def test_a_send_has_its_topic_created_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    with World() as world:
        world.allow_auto_create()
        world.state.creation_ms = 20_000.0
        work = Work(world, "new")
        work.send("new", b"x")
        work.flush()
        assert log_of(world, topic="new").values() == [b"x"]
        assert asked_to_create(world) == [["new"]]
    assert "kafwire: topic 'new' did not exist: the broker has created it, with 1 partition(s)" in caplog.messages


def test_a_topic_that_exists_takes_one_request_and_no_word(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.INFO, "kafwire")
    with World() as world:
        world.create_topic("t")
        Work(world, "t")
        assert len(world.made("Metadata")) == 1
    assert not caplog.messages


def test_all_topics_of_a_column_are_asked_for_with_one_request() -> None:
    with World() as world:
        world.allow_auto_create()
        world.create_topic("b")
        work = Work(world)
        world.run(work.core.ensure_metadata(["a", "b", "c"], 60_000))
        assert set(work.accumulator.topics) == {"a", "b", "c"}
        assert asked_to_create(world) == [["a", "b", "c"]]


def test_callers_share_the_requests_for_topics_that_do_not_exist() -> None:
    """A caller that gives up does not let the others begin again at once."""

    def requests(callers: int) -> int:
        with World() as world:
            work = Work(world)

            async def search() -> list[BaseException | None]:
                calls = [work.core.ensure_metadata(["typo"], 60_000) for _ in range(callers)]
                return await asyncio.gather(*calls, return_exceptions=True)

            assert all(isinstance(error, BrokerError) for error in world.run(search()))
            assert not work.cluster._wanted
            assert asked_to_create(world) == [["typo"]]
            return len(world.made("Metadata"))

    assert requests(30) <= requests(1) + 2


def test_callers_share_the_question_whether_the_broker_creates_topics() -> None:
    with World() as world:
        work = Work(world)

        def search(callers: int) -> int:
            """The requests of so many callers of different topics."""
            before = len(world.made("DescribeConfigs"))

            async def together() -> list[BaseException | None]:
                calls = [work.core.ensure_metadata([f"typo-{number}"], 60_000) for number in range(callers)]
                return await asyncio.gather(*calls, return_exceptions=True)

            errors = world.run(together())
            assert all("do not create topics" in str(error) for error in errors), errors
            return len(world.made("DescribeConfigs")) - before

        assert [search(30), search(1)] == [1, 0]
        world.pass_time(CREATION_SETTING_MS / 1000)
        assert search(30) == 1


def test_a_cancelled_caller_leaves_the_question_to_others() -> None:
    with World() as world:
        work = Work(world)
        setting = work.cluster.creation_setting

        async def read() -> bool | None:
            first, second = (asyncio.ensure_future(setting.read()) for _ in range(2))
            await asyncio.sleep(0)
            first.cancel()
            return await second

        world.create_topic("t")
        world.run(work.core.ensure_metadata(["t"], 60_000))
        assert world.run(read()) is False
        assert len(world.made("DescribeConfigs")) == 1


def test_topics_gather_while_a_request_is_in_flight() -> None:
    with World() as world:
        world.allow_auto_create()
        work = Work(world)

        async def searches() -> None:
            first = asyncio.ensure_future(work.core.ensure_metadata(["a", "b"], 60_000))
            await asyncio.sleep(0)
            await asyncio.sleep(0)
            others = [work.core.ensure_metadata(names, 60_000) for names in (["a"], ["b", "c"], ["d"], ["d", "a"])]
            await asyncio.gather(first, *others)

        world.run(searches())
        assert set(work.accumulator.topics) == {"a", "b", "c", "d"}
        assert asked_to_create(world) == [["a", "b"], ["c", "d"]]


def test_a_cancelled_caller_leaves_the_request_to_others() -> None:
    with World() as world:
        world.allow_auto_create()
        work = Work(world)

        async def searches() -> None:
            first = asyncio.ensure_future(work.core.ensure_metadata(["a"], 60_000))
            second = asyncio.ensure_future(work.core.ensure_metadata(["a"], 60_000))
            await asyncio.sleep(0)
            first.cancel()
            await second

        world.run(searches())
        assert asked_to_create(world) == [["a"]]


def test_a_cancelled_search_leaves_no_name_to_refresh() -> None:
    with World() as world:
        work = Work(world)

        async def search() -> None:
            only = asyncio.ensure_future(work.core.ensure_metadata(["typo"], 60_000))
            await asyncio.sleep(0)
            only.cancel()
            await asyncio.sleep(1)

        world.run(search())
        assert not work.cluster._wanted


def test_a_deleted_topic_stays_deleted() -> None:
    with World() as world:
        world.allow_auto_create()
        world.create_topic("kept")
        work = Work(world, "kept", "gone", metadata_max_age_ms=1_000, delivery_timeout_ms=40_000)
        work.send("gone", b"before")
        work.flush()
        world.delete_topic("gone")
        lost = work.send("gone", b"after")
        work.send("kept", b"x")
        work.flush()
        assert isinstance(lost.exception(), Exception)
        world.run(work.core.ensure_metadata(["another"], 60_000))
        work.cluster.forget(["gone"])
        with pytest.raises(BrokerError, match="'gone' does not exist"):
            world.run(work.core.ensure_metadata(["gone"], 60_000))
        assert set(world.topics) == {"kept", "another"}
        assert asked_to_create(world) == [["kept"], ["gone"], ["another"]]


def test_a_broker_that_creates_no_topics_differs_from_a_slow_one() -> None:
    with World() as world:
        started = world.engine.now_ms()
        with pytest.raises(BrokerError) as caught:
            Work(world, "nope")
        assert 3_000 <= world.engine.now_ms() - started < 5_000
        assert asked_to_create(world) == [["nope"]]
    for words in ("topic 'nope' does not exist on 10.0.0.1:9092", "do not create topics", "create it"):
        assert words in str(caught.value)


@pytest.mark.parametrize("described", [True, False], ids=["true", "unsaid"])
def test_a_creation_that_does_not_come_is_waited_for_until_max_block_ms(*, described: bool) -> None:
    with World() as world:
        world.allow_auto_create()
        world.state.creation_ms = 1e9
        if not described:
            world.on("DescribeConfigs", lambda _: HANGUP)
        work = Work(world)
        started = world.engine.now_ms()
        with pytest.raises(BrokerError, match="topic 'slow'.*was asked to create it but did not") as caught:
            world.run(work.core.ensure_metadata(["slow"], 9_000))
        assert caught.value.name == "UNKNOWN_TOPIC_OR_PARTITION"
        assert 7_900 < world.engine.now_ms() - started <= 9_001


def test_it_is_asked_for_again_when_the_request_is_lost() -> None:
    with World() as world:
        world.allow_auto_create()
        world.on("Metadata", lambda _: HANGUP if len(world.made("Metadata")) < 3 else None)
        Work(world, "new")
        assert set(asked_to_create(world)[0]) == {"new"}
        assert "new" in world.topics


def test_a_producer_that_may_not_does_not_ask() -> None:
    with World() as world:
        world.allow_auto_create()
        with pytest.raises(BrokerError, match="'new' does not exist on 10.0.0.1:9092: create it, or check the name"):
            Work(world, "new", allow_auto_create_topics=False)
        assert asked_to_create(world) == []


def test_a_consumer_asks_only_if_it_may() -> None:
    with World() as world:
        world.allow_auto_create()
        for how in ({"topics": "new"}, {"assign": [("new", 0)]}):
            with pytest.raises(BrokerError, match="'new' does not exist"):
                Consuming(world, **how)
        assert asked_to_create(world) == []
        with Consuming(world, topics=["new"], allow_auto_create_topics=True, metadata_max_age_ms=1_000):
            with Consuming(world, assign=[("other", 0)], allow_auto_create_topics=True):
                assert set(world.topics) == {"new", "other"}
            world.delete_topic("new")
            world.pass_time(30)
        assert asked_to_create(world) == [["new"], ["other"]]


def test_a_client_never_asks() -> None:
    with World() as world:
        world.allow_auto_create()
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        requests = ClientCalls(cluster)
        world.engine.run(requests.metadata(["new"]))
        world.run(cluster.refresh(["new"]))
        with pytest.raises(BrokerError, match="'new' does not exist"):
            world.engine.run(cluster.topic, "new")
        assert world.topics == {}


def test_a_broker_that_does_not_describe_itself_holds_nothing_up() -> None:
    """The time-out is that of the search, whatever it waits for."""
    with World() as world:
        world.on("DescribeConfigs", lambda _: NEVER)
        work = Work(world)
        started = world.engine.now_ms()

        async def learn() -> Any:
            return await asyncio.gather(work.core.ensure_metadata(["nope"], 5_000), return_exceptions=True)

        (error,) = world.run(learn())
        assert isinstance(error, BrokerError)
        assert world.engine.now_ms() - started <= 5_001


def test_a_fresh_look_at_a_known_topic_waits_for_no_backoff() -> None:
    with World() as world:
        world.create_topic("t")
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        for turn in range(12):
            began = world.loop.time()
            info = world.run(cluster.topic("t", fresh=True))
            assert world.loop.time() - began < 0.05, f"turn {turn}"
        world.add_partitions("t", 1)
        assert len(world.run(cluster.topic("t", fresh=True)).partitions) == len(info.partitions) + 1


def test_fresh_looks_at_the_same_time_share_requests() -> None:
    with World() as world:
        world.create_topic("t")
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        world.run(cluster.topic("t"))
        before = len(world.made("Metadata"))

        async def look() -> None:
            await asyncio.gather(*(cluster.topic("t", fresh=True) for _ in range(20)))

        world.run(look())
        assert len(world.made("Metadata")) - before <= 2
