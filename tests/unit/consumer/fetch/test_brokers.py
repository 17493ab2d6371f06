"""`consumer.fetch.brokers`: moved leaders, followers nearby, brokers that die, topics that go."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import BrokerError
from kafwire.testing.simulation.calls import Call
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import STRATEGIES, Consuming, Rows, fill, log_of, write
from tests.support.simulated.world import World

pytestmark = pytest.mark.usefixtures("shape")
# Of tests that count partitions, or log lines about them.
few_partitions = pytest.mark.shapes("as_written", "single_records")


def more(world: World, rows: Rows, records: int = 1) -> None:
    for topic, number in rows:
        rows[topic, number] += write(world, topic, number, records=records)


def nodes(consuming: Consuming, since: int = 0) -> set[int]:
    return {call.node for call in consuming.fetches()[since:]}


@pytest.mark.thousand
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("partitions", [1, 50])
def test_leader_moves(partitions: int, strategy: dict[str, Any]) -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=partitions)
        with Consuming(world, topics="t", **strategy) as consuming:
            for turn in range(6):
                consuming.idle(0.01 * turn)
                for number in range(0, partitions, 2):
                    world.move_leader("t", number, (number + turn) % 3 + 1)
                more(world, rows)
                consuming.until_read(rows)


def test_a_hint_spares_the_look_at_the_metadata() -> None:
    """KIP-951: the old leader names the new one."""
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            before = len(world.made("Metadata"))
            begin = world.loop.time()
            world.move_leader("t", 0, 2)
            more(world, rows)
            consuming.until(lambda: consuming.rows == rows)
            assert len(world.made("Metadata")) == before
            assert world.loop.time() - begin < 0.1


def test_no_hint_before_it_was_invented() -> None:
    """The metadata is asked at once, however often that was needed before."""
    with World(brokers=3) as world:
        for node in world.nodes.values():
            node.versions["Fetch"] = (4, 15)
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            for turn in range(8):
                before = len(world.made("Metadata"))
                begin = world.loop.time()
                world.move_leader("t", 0, turn % 3 + 1)
                more(world, rows)
                consuming.until(lambda: consuming.rows == rows)
                assert len(world.made("Metadata")) == before + 1
                assert world.loop.time() - begin < 0.05
                consuming.idle(1)


def test_a_broker_that_refuses_and_stays_in_the_metadata() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            reported = world.serve(world.made("Metadata")[-1])
            world.on("Metadata", lambda _: reported)
            world.kill(2)
            consuming.idle(5)
            world.nodes[2].down = False
            more(world, rows)
            consuming.until_read(rows, 5)


@few_partitions
def test_stale_metadata_does_not_move_a_partition_back() -> None:
    """librdkafka 0146."""
    with World(brokers=3) as world:
        rows = fill(world, "t", replicas=3)
        with Consuming(world, topics="t", metadata_max_age_ms=200) as consuming:
            consuming.until_read(rows)
            old = world.made("Metadata")[-1]
            stale = world.serve(old)
            world.move_leader("t", 0, 2)
            more(world, rows)
            consuming.until_read(rows)
            world.on("Metadata", lambda _: stale)
            consuming.idle(5)
            more(world, rows)
            begin = len(consuming.fetches())
            consuming.until_read(rows)
            assert nodes(consuming, begin) == {2}


def fetched(world: World) -> list[Any]:
    """The partitions in responses to Fetch, from now on."""
    parts: list[Any] = []

    async def note(call: Call) -> Any:
        response = await world.response_to(call)
        parts.extend(part for topic in response.responses for part in topic.partitions)
        return response

    world.on("Fetch", note)
    return parts


@few_partitions
def test_a_leader_that_was_elected_again_is_asked_under_its_new_epoch() -> None:
    """The partition was not requested when that happened. Under the old epoch the leader would fence the request."""
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=3)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            consuming.pause(0)
            consuming.idle(1)
            world.move_leader("t", 0, 1)
            world.run(consuming.cluster.refresh())
            consuming.idle(1)
            parts = fetched(world)
            consuming.resume(0)
            more(world, rows)
            consuming.until_read(rows)
            assert {part.error_code for part in parts} == {0}


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("seconds", [0.0, 1.0, 20.0])
def test_a_broker_dies_and_comes_back(seconds: float, strategy: dict[str, Any]) -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=9)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.idle(0.004)
            world.kill(2)
            others: Rows = {where: some for where, some in rows.items() if log_of(world, *where).leader != 2}
            more(world, others)
            consuming.until(lambda: all(consuming.rows.get(where) == some for where, some in others.items()), 5)
            consuming.idle(seconds)
            world.nodes[2].down = False
            more(world, rows)
            consuming.until_read(rows, 10)


@pytest.mark.thousand
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
def test_a_silent_broker_holds_no_other_partition_up(strategy: dict[str, Any]) -> None:
    """Its connections hang; partitions that move meanwhile, between others, are read on at once."""
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=6)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.until_read(rows)
            world.nodes[2].silent = True
            world.break_connections(2)
            consuming.idle(0.5)
            begin = world.loop.time()
            for turn in range(3):
                world.move_leader("t", 0, (1, 3)[turn % 2])
                world.move_leader("t", 2, (3, 1)[turn % 2])
                some = {("t", number): rows["t", number] for number in (0, 2, 3, 5)}
                more(world, some)
                consuming.until(lambda: all(consuming.rows[where] == some[where] for where in some))  # noqa: B023
            assert world.loop.time() - begin < 3
            world.nodes[2].silent = False
            more(world, rows)
            consuming.until_read(rows)


def test_a_partition_of_a_silent_broker_goes_to_the_next_leader() -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=6)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            world.nodes[2].silent = True
            world.break_connections(2)
            consuming.idle(0.5)
            for number in (1, 4):
                world.move_leader("t", number, 3)
            more(world, rows)
            world.run(consuming.cluster.refresh())
            begin = world.loop.time()
            consuming.until_read(rows)
            assert world.loop.time() - begin < 3


@pytest.mark.parametrize("version", [15, 18])
def test_a_partition_without_leader_holds_no_other_up(version: int) -> None:
    """Neither with the leader in the response, nor (before 16) with a look at the metadata."""
    with World(brokers=3) as world:
        for node in world.nodes.values():
            node.versions["Fetch"] = (4, version)
        rows = fill(world, "t", partitions=6)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            log_of(world, "t", 0).lead(-1, 1)
            log_of(world, "t", 0).leader = -1
            consuming.idle(5)
            for turn in range(4):
                world.move_leader("t", 1, turn % 3 + 1)
                rows["t", 1] += write(world, "t", 1)
                begin = world.loop.time()
                consuming.until(lambda: consuming.rows["t", 1] == rows["t", 1])
                assert world.loop.time() - begin < 0.2
            assert len(world.made("Metadata")) < 40
            log_of(world, "t", 0).lead(3, 2)
            rows["t", 0] += write(world, "t", 0)
            consuming.until_read(rows, 3)


def test_an_endless_error_of_one_beside_others_that_flow() -> None:
    """The metadata insists on a leader that says it is none: looked up with backoff, however much else arrives."""
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=4)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            log_of(world, "t", 0).error = 6
            before = len(world.made("Metadata"))
            for _ in range(200):
                rows["t", 1] += write(world, "t", 1)
                consuming.until(lambda: consuming.rows["t", 1] == rows["t", 1])
                consuming.idle(0.02)
            assert len(world.made("Metadata")) - before < 15
            log_of(world, "t", 0).error = 0
            consuming.until_read(rows)


@few_partitions
@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("code", [-1, 32_000])
def test_unknown_errors(code: int, strategy: dict[str, Any], caplog: pytest.LogCaptureFixture, *, whole: bool) -> None:
    """Retried with backoff for ever, logged once, and seen in the metrics: of one partition or of a whole response."""

    def refuse(call: Call) -> Any:
        if whole:
            return protocol.FetchResponse(error_code=code)
        log_of(world).error = code
        return None

    with World() as world:
        rows = fill(world, "t", partitions=2)
        world.on("Fetch", refuse)
        with Consuming(world, topics="t", **strategy) as consuming:
            consuming.idle(60)
            # Every second, give or take a fifth, at last: the metadata's backoff and the partition's own pass side by
            # side. In per_node the request may be parked for half of one: there are no immediate fetches.
            least = 40 if strategy.get("fetch_strategy") == "per_node" and not whole else 50
            assert least <= sum(consuming.asked(call).get(0) == 0 for call in consuming.fetches()) <= 70
            warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
            assert len(warnings) == 1, warnings
            where = "broker 1 at 10.0.0.1:9092" if whole else "t-0"
            assert f"({code})" in warnings[0]
            assert where in warnings[0]
            metrics = consuming.core.metrics()
            assert metrics["partitions"]["t-0"]["failing_ms"] > 55_000
            assert metrics["partitions"]["t-1"]["failing_ms"] is None or whole
            ((reported, counts),) = metrics["fetcher"]["errors"].items()
            assert reported == where
            assert sum(counts.values()) >= least
            world.off("Fetch")
            log_of(world).error = 0
            consuming.until_read(rows)
            assert consuming.core.metrics()["partitions"]["t-0"]["failing_ms"] is None


@few_partitions
def test_a_refused_fetch_is_not_hammered_while_metadata_change() -> None:
    """Each response names another leader, so metadata alone would have no reason to back off."""
    with World(brokers=2) as world:
        rows = fill(world, "t", replicas=2)
        log_of(world).error = 6

        def flip(call: Call) -> Any:
            response = world.serve(call)
            for topic in response.topics:
                topic.partitions[0].leader_id = 1 + len(world.made("Metadata")) % 2
            return response

        world.on("Metadata", flip)
        with Consuming(world, topics="t") as consuming:
            consuming.idle(60)
            assert len(consuming.fetches()) <= 80
            world.off("Metadata")
            log_of(world).error = 0
            consuming.until_read(rows)


@few_partitions
@pytest.mark.parametrize("how", ["all are down", "the leader is down, and stays the leader"])
def test_an_unreachable_broker_is_logged_once(how: str, caplog: pytest.LogCaptureFixture) -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=3, replicas=3)

        def stays(call: Call) -> Any:
            world.nodes[1].down = False
            response = world.serve(call)
            world.nodes[1].down = True
            for part in (part for topic in response.topics for part in topic.partitions):
                part.leader_id = 1 if part.partition_index == 0 else part.leader_id
            return response

        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            if how == "all are down":
                for number in world.nodes:
                    world.kill(number)
            else:
                world.on("Metadata", stays)
                world.kill(1)
            caplog.clear()
            consuming.idle(600)
            reported = [record.message for record in caplog.records if record.levelname == "WARNING"]
            assert 1 <= len(reported) <= 2 * len(world.nodes) + 1, reported
            assert len(reported) == len(set(reported)), reported
            world.off("Metadata")
            for node in world.nodes.values():
                node.down = False
            more(world, rows)
            consuming.until_read(rows)


def test_in_per_node_a_partition_that_moves_lets_the_others_go_on() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=3, batches=20, size=1000)
        options: dict[str, Any] = {"fetch_strategy": "per_node", "max_prefetch_batches": 1}
        with Consuming(world, topics="t", max_partition_fetch_bytes=4000, **options) as consuming:
            consuming.stream(0)  # without a read
            consuming.until(lambda: consuming.rows.get(("t", 1)) == rows["t", 1])
            consuming.idle(5)
            assert len(consuming.rows.get(("t", 2), [])) < 60
            world.move_leader("t", 0, 2)
            world.run(consuming.cluster.refresh())
            consuming.until(lambda: consuming.rows.get(("t", 2)) == rows["t", 2])


def test_another_address() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=4)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            world.nodes[2].host = "10.0.9.9"
            world.break_connections(2)
            more(world, rows)
            consuming.until_read(rows)


@pytest.mark.shapes("as_written", "single_records")  # it has many anyway
def test_a_thousand_partitions_through_trouble() -> None:
    with World(brokers=3) as world:
        rows = fill(world, "t", partitions=1000, batches=1, records=1)
        chance = random.Random(1)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            for trouble in ("move", "kill", "break", "forget", "pause", "seek"):
                some = chance.sample(range(1000), 300)
                if trouble == "move":
                    for number in some:
                        world.move_leader("t", number, chance.randint(1, 3))
                elif trouble == "kill":
                    world.kill(2)
                    world.loop.call_later(2, setattr, world.nodes[2], "down", False)
                elif trouble == "break":
                    world.break_connections(3)
                elif trouble == "forget":
                    world.sessions(1).sessions.clear()
                elif trouble == "pause":
                    consuming.pause(*some)
                    consuming.idle(1)
                    consuming.resume(*some)
                else:
                    for number in some:
                        consuming.seek(0, "t", number)
                        consuming.rows["t", number].clear()
                for number in chance.sample(range(1000), 300):
                    rows["t", number] += write(world, "t", number)
                consuming.until_read(rows, 10)
            assert len(world.made("Metadata")) < 20


# --- followers (KIP-392) --------------------------------------------------------------------------------------------


def racks(world: World) -> None:
    for number, node in world.nodes.items():
        node.rack = f"r{number}"


def test_a_follower_nearby_is_read_from() -> None:
    with World(brokers=3) as world:
        racks(world)
        rows = fill(world, "t", partitions=6, replicas=3)
        with Consuming(world, topics="t", client_rack="r3") as consuming:
            consuming.until_read(rows)
            before = len(consuming.fetches())
            more(world, rows)
            consuming.until_read(rows)
            assert nodes(consuming, before) == {3}
            assert all(c.replica == (-1 if log_of(world, "t", n).leader == 3 else 3) for n, c in _cursors(consuming))


def _cursors(consuming: Consuming) -> list[tuple[int, Any]]:
    return [(number, cursor) for (_, number), cursor in consuming.fetcher.cursors.items()]


def test_the_lease_ends_and_the_leader_is_asked_again() -> None:
    with World(brokers=3) as world:
        racks(world)
        rows = fill(world, "t", replicas=3)
        options: dict[str, Any] = {"client_rack": "r3", "metadata_max_age_ms": 5000}
        with Consuming(world, topics="t", **options) as consuming:
            consuming.until_read(rows)
            before = len(consuming.fetches())
            consuming.idle(30)
            asked = [call for call in consuming.fetches()[before:] if call.node == 1]
            assert 4 <= len(asked) <= 8
            more(world, rows)
            consuming.until_read(rows)


def test_the_lease_ends_although_no_metadata_changed() -> None:
    with World(brokers=3) as world:
        racks(world)
        rows = fill(world, "t", replicas=3)
        with Consuming(world, topics="t", client_rack="r3", metadata_max_age_ms=5000) as consuming:
            consuming.until_read(rows)
            world.nodes[2].rack, world.nodes[3].rack = "r3", "r2"
            consuming.idle(12)
            before = len(consuming.fetches())
            more(world, rows)
            consuming.until_read(rows)
            assert nodes(consuming, before) == {2}


@pytest.mark.parametrize("how", ["down", "silent", "no replica", "behind"])
def test_a_follower_that_cannot_serve(how: str) -> None:
    """librdkafka 0104: the leader is asked again, nothing is skipped, whatever `auto_offset_reset` says."""
    with World(brokers=3) as world:
        racks(world)
        rows = fill(world, "t", replicas=3)
        options: dict[str, Any] = {"client_rack": "r3", "auto_offset_reset": "error", "request_timeout_ms": 2000}
        with Consuming(world, topics="t", **options) as consuming:
            consuming.until_read(rows)
            if how == "down":
                world.kill(3)
            elif how == "silent":
                world.nodes[3].silent = True
                world.break_connections(3)
                world.nodes[3].rack = "far"
            elif how == "no replica":
                log_of(world).replicas.remove(3)
                log_of(world).notify(-1)
            else:
                log_of(world).replica_ends[3] = 5
                consuming.seek(9)
                consuming.rows["t", 0] = rows["t", 0][:9]
            more(world, rows)
            consuming.until_read(rows, 30)


def test_a_follower_that_the_metadata_does_not_know() -> None:
    with World(brokers=3) as world:
        racks(world)
        rows = fill(world, "t", replicas=3)
        with Consuming(world, topics="t", client_rack="r3", asks=False) as consuming:
            del consuming.cluster.metadata.brokers[3]
            world.run(consuming.core.assignment.ask())
            consuming.until_read(rows)
            assert consuming.cursor().replica == 3


# --- topics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("topic_ids", [True, False])
@few_partitions
def test_a_topic_that_is_deleted(strategy: dict[str, Any], *, topic_ids: bool) -> None:
    with World(brokers=2, topic_ids=topic_ids) as world:
        rows = fill(world, "t", partitions=2) | fill(world, "u", partitions=2)
        with Consuming(world, topics=["t", "u"], default_api_timeout_ms=10_000, **strategy) as consuming:
            consuming.until_read(rows)
            world.delete_topic("t")
            rows = {where: some for where, some in rows.items() if where[0] == "u"}
            for _ in range(4):
                more(world, rows)
                consuming.until(lambda: all(consuming.rows[where] == rows[where] for where in rows), 2)
                consuming.idle(2)
            consuming.idle(10)
            seen = set()
            for _ in range(4):
                with pytest.raises(BrokerError, match="been gone for 10 s|UNKNOWN_TOPIC") as caught:
                    consuming.take()
                seen.add(str(caught.value).split(";")[-1])
            assert len(seen) == 2
            world.run(consuming.core.assignment.assign([TopicPartition("u", n) for n in range(2)]))
            more(world, rows)
            consuming.until(lambda: all(consuming.rows[where] == rows[where] for where in rows), 2)


@pytest.mark.parametrize("version", [12, 18])
def test_a_recreated_topic_is_a_loud_error(version: int) -> None:
    """librdkafka 0107, confluent-kafka #1787: its offsets are those of other records."""
    with World() as world:
        world.nodes[1].versions["Fetch"] = (4, version)
        rows = fill(world, "t", batches=3)
        with Consuming(world, topics="t", metadata_max_age_ms=1000) as consuming:
            consuming.until_read(rows)
            added = fill(world, "t", batches=10)
            consuming.idle(5)
            with pytest.raises(BrokerError, match=r"'t' was deleted and recreated.*assign it again"):
                consuming.drain()
            world.run(consuming.core.assignment.assign([]))
            consuming.rows.clear()
            world.run(consuming.core.assignment.assign([TopicPartition("t", 0)]))
            consuming.until_read(added)


def test_a_topic_that_the_metadata_omits_for_a_while() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t", metadata_max_age_ms=1000) as consuming:
            consuming.until_read(rows)
            gone = world.topics.pop("t")
            consuming.idle(5)
            world.topics["t"] = gone
            more(world, rows)
            consuming.until_read(rows, 10)


def test_an_old_failure_is_forgotten() -> None:
    """A connection lost long ago does not make a short absence of the topic a long one."""
    with World() as world:
        rows = fill(world, "t")
        with Consuming(world, topics="t", default_api_timeout_ms=10_000, metadata_max_age_ms=1000) as consuming:
            consuming.until_read(rows)
            world.break_connections(1)
            consuming.idle(30)
            gone = world.topics.pop("t")
            consuming.idle(4)
            world.topics["t"] = gone
            more(world, rows)
            consuming.until_read(rows, 10)


def test_a_partition_that_may_not_be_read() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            log_of(world, "t", 0).error = 29
            consuming.idle()
            with pytest.raises(BrokerError, match="TOPIC_AUTHORIZATION_FAILED.*t-0"):
                consuming.drain()
            before = len(consuming.fetches())
            consuming.idle(10)
            assert len(consuming.fetches()) - before < 30


def test_bad_metadata_once_is_no_end() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            garbage = [b"\xff" * 7] * 2
            world.on("Metadata", lambda _: garbage.pop() if garbage else None)
            world.break_connections(2)
            more(world, rows)
            consuming.until_read(rows)


def test_a_broker_that_lags_does_not_make_a_topic_look_recreated() -> None:
    """The lagging broker shows the topic of before its recreation, which this consumer has never seen."""
    with World(brokers=2) as world:
        old_id = world.create_topic("t").topic_id
        rows = fill(world, "t")

        late = 0

        def lag(call: Call) -> Any:
            nonlocal late
            response = world.serve(call)
            if late:
                late -= 1
                for topic in response.topics:
                    topic.topic_id = old_id
            return response

        world.on("Metadata", lag)
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            for _ in range(3):
                late = 1
                world.run(consuming.cluster.refresh())
                more(world, rows)
                consuming.until_read(rows)
            world.calls.clear()
            consuming.idle(100)
            assert not world.made("Metadata"), "nothing is in doubt any more"


def test_a_recreated_topic_is_an_error_within_seconds_although_it_is_doubted_first() -> None:
    with World(brokers=2) as world:
        rows = fill(world, "t")
        with Consuming(world, topics="t") as consuming:
            consuming.until_read(rows)
            fill(world, "t", batches=9)
            consuming.idle(3)
            with pytest.raises(BrokerError, match=r"'t' was deleted and recreated"):
                consuming.drain()


def test_a_replica_that_stays_unknown_is_no_reason_to_hammer() -> None:
    with World(brokers=3) as world:
        racks(world)
        fill(world, "t", replicas=3)
        consuming = Consuming(world, topics="t", client_rack="r3", asks=False)

        def hide(call: Any) -> Any:
            response = world.serve(call)
            response.brokers = [broker for broker in response.brokers if broker.node_id != 3]
            return response

        world.on("Metadata", hide)
        del consuming.cluster.metadata.brokers[3]
        world.run(consuming.core.assignment.ask())
        consuming.idle(10)
        assert len(world.made("Metadata")) < 150
        consuming.close()
