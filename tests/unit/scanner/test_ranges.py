"""`scanner.ranges` and `cluster.list_offsets`: the user's bounds become exact offsets, or an error that says which is
wrong."""

from __future__ import annotations

import asyncio
import datetime as dt
from typing import Any

import pytest

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import EARLIEST, LATEST, Place, Time, end_of_epoch, list_offsets, number_of
from kafwire.cluster.offset_spec import Bound, Point, Timestamps, milliseconds_of, place_of, window_of
from kafwire.config import ClientConfig
from kafwire.errors import BrokerError, ConfigError, ErrorCode, KafkaTimeoutError, ProtocolError
from kafwire.records import encode_batch
from kafwire.scanner.ranges import Bounds, plan_ranges
from kafwire.testing.simulation.calls import NEVER, Call
from kafwire.types import Offset, Tail, TopicPartition
from tests.support.simulated.world import World

HOUR_MS = 3_600_000


def make_world(*, brokers: int = 2, partitions: int = 3) -> World:
    """Topic "t": partition p holds 10 records a minute apart, from its start offset 5p on."""
    world = World(brokers=brokers)
    for log in world.create_topic("t", partitions=partitions).partitions:
        number = world.topics["t"].partitions.index(log)
        log.log.start_offset = log.log.end_offset = 5 * number
        for i in range(10):
            log.append(encode_batch([(None, b"v", HOUR_MS + 60_000 * i)]))
    return world


def make_cluster(world: World, **options: Any) -> Cluster:
    return Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap, **options}))


def plan(
    world: World,
    *,
    partitions: list[int] | None = None,
    start: Bound = "earliest",
    end: Bound = "latest",
    level: int = 0,
    topics: tuple[str, ...] = ("t",),
    timestamps: Timestamps | None = None,
) -> list[tuple[int, int, int]]:
    """(partition, start, end) of each range."""
    bounds = Bounds(topics, partitions, start, end, timestamps)
    found = world.run(plan_ranges(make_cluster(world), bounds, isolation_level=level))
    assert all(r.topic == info.name for r, info in found)
    return [(r.partition, r.start, r.end) for r, _ in found]


def moment(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def at(**offsets: Point | int) -> dict[TopicPartition, Point | int]:
    return {TopicPartition("t", int(name[1:])): value for name, value in offsets.items()}


@pytest.mark.parametrize(
    ("when", "timestamp"),
    [
        ("earliest", -2),
        ("latest", -1),
        (0, 0),
        (1_700_000_000_000, 1_700_000_000_000),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC), HOUR_MS),
        (dt.datetime(1970, 1, 1, 1, tzinfo=dt.timezone(dt.timedelta(hours=1))), 0),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1_000, tzinfo=dt.UTC), 1),
        (dt.datetime(1970, 1, 1, 0, 0, 0, 1_001, tzinfo=dt.UTC), 2),
        (dt.datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=dt.UTC), 253_402_300_799_999),
    ],
)
def test_points_in_time(when: Any, timestamp: int) -> None:
    assert number_of(place_of(when)) == timestamp


@pytest.mark.parametrize("when", ["now", "", -1, -3, True, None, 1.5, b"earliest", dt.date(2013, 1, 1)])
def test_a_value_that_is_no_point_in_time_is_refused(when: Any) -> None:
    with pytest.raises(ConfigError, match="is not 'earliest', 'latest', a datetime or milliseconds"):
        place_of(when)


def test_a_datetime_needs_a_time_zone() -> None:
    with pytest.raises(ConfigError, match="has no time zone"):
        milliseconds_of(dt.datetime(2013, 1, 1))  # noqa: DTZ001


def test_everything_by_default() -> None:
    with make_world() as world:
        assert plan(world) == [(0, 0, 10), (1, 5, 15), (2, 10, 20)]


def test_partitions_can_be_chosen() -> None:
    with make_world() as world:
        assert plan(world, partitions=[2, 0, 2]) == [(0, 0, 10), (2, 10, 20)]


def test_a_time_after_all_records_is_the_end() -> None:
    with make_world() as world:
        assert plan(world, start=moment(10 * HOUR_MS)) == [(0, 10, 10), (1, 15, 15), (2, 20, 20)]
        assert plan(world, end=moment(10 * HOUR_MS)) == [(0, 0, 10), (1, 5, 15), (2, 10, 20)]


def test_bounds_by_time() -> None:
    with make_world() as world:
        start, end = moment(HOUR_MS + 60_000 * 3), dt.datetime(1970, 1, 1, 1, 7, tzinfo=dt.UTC)
        assert plan(world, start=start, end=end) == [(0, 3, 7), (1, 8, 12), (2, 13, 17)]


def test_records_that_arrive_during_the_lookup_of_times_are_not_read() -> None:
    """The ends are known by then; a record found by its time lies behind them, others that came late before it."""

    def write(call: Call) -> None:
        if call.message.topics[0].partitions[0].timestamp >= 0:
            for log in world.topics["t"].partitions:
                log.append(encode_batch([(None, b"late", HOUR_MS)] * 2 + [(None, b"late", 2 * HOUR_MS)]))

    cases: list[tuple[dict[str, Any], tuple[int, int, int]]] = [
        ({"end": moment(2 * HOUR_MS)}, (0, 0, 10)),
        ({"start": moment(2 * HOUR_MS)}, (0, 10, 10)),
        ({"timestamps": (2 * HOUR_MS, None)}, (0, 10, 10)),
    ]
    for bounds, expected in cases:
        with make_world() as world:
            world.on("ListOffsets", write)
            assert plan(world, partitions=[0], **bounds) == [expected]
            assert world.topics["t"].partitions[0].end == 13


def test_a_start_in_time_after_the_end_is_an_empty_range() -> None:
    with make_world() as world:
        assert plan(world, start="latest", end="earliest") == [(0, 10, 10), (1, 15, 15), (2, 20, 20)]


def test_offsets_by_partition_choose_the_partitions() -> None:
    with make_world() as world:
        assert plan(world, start=at(p1=7, p0="earliest")) == [(0, 0, 10), (1, 7, 15)]
        assert plan(world, end=at(p2=12)) == [(2, 10, 12)]
        assert plan(world, start=at(p2="earliest"), end=at(p2=12)) == [(2, 10, 12)]


def test_the_last_of_each_partition() -> None:
    with make_world() as world:
        assert plan(world, start=Tail(3)) == [(0, 7, 10), (1, 12, 15), (2, 17, 20)]
        assert plan(world, start=Tail(99)) == [(0, 0, 10), (1, 5, 15), (2, 10, 20)]
        assert plan(world, start=Tail(0)) == [(0, 10, 10), (1, 15, 15), (2, 20, 20)]
        assert plan(world, start=Tail(5), end=Tail(2)) == [(0, 5, 8), (1, 10, 13), (2, 15, 18)]
        assert plan(world, start=Tail(2), end=Tail(5)) == [(0, 8, 8), (1, 13, 13), (2, 18, 18)]
        world.topics["t"].partitions[0].stable_at = 4
        assert plan(world, level=1, partitions=[0], start=Tail(3)) == [(0, 1, 4)]


def test_an_offset_of_all_partitions() -> None:
    with make_world(partitions=2) as world:
        assert plan(world, start=Offset(7)) == [(0, 7, 10), (1, 7, 15)]
        assert plan(world, start=Offset(6), end=Offset(8)) == [(0, 6, 8), (1, 6, 8)]
        assert plan(world, start=Offset(6), end=at(p1=8)) == [(1, 6, 8)]
        with pytest.raises(BrokerError, match=r"t-1 has the offsets 5 to 15 \(exclusive\), not 1"):
            plan(world, start=Offset(1))
        with pytest.raises(ConfigError, match="t-0: the start offset 8 is after the end offset 6"):
            plan(world, start=Offset(8), end=Offset(6))


def test_each_partition_has_a_bound_of_its_own_kind() -> None:
    with make_world() as world:
        start = at(p0=Offset(3), p1=Tail(2), p2=moment(HOUR_MS + 60_000 * 4))
        assert plan(world, start=start) == [(0, 3, 10), (1, 13, 15), (2, 14, 20)]
        end = at(p0=moment(HOUR_MS + 60_000 * 5), p1="latest", p2=Tail(1))
        assert plan(world, start=start, end=end) == [(0, 3, 5), (1, 13, 15), (2, 14, 19)]
        asked = [p for call in world.made("ListOffsets") for topic in call.message.topics for p in topic.partitions]
        times = {(p.partition_index, p.timestamp) for p in asked if p.timestamp >= 0}
        assert times == {(0, HOUR_MS + 60_000 * 5), (2, HOUR_MS + 60_000 * 4)}


def test_read_committed_ends_at_the_last_stable_offset() -> None:
    with make_world() as world:
        world.topics["t"].partitions[0].stable_at = 4
        assert plan(world, level=1, partitions=[0]) == [(0, 0, 4)]
        assert plan(world, level=1, partitions=[0], end=moment(10 * HOUR_MS)) == [(0, 0, 4)]


def test_an_end_that_is_named_may_lie_above_the_last_stable_offset() -> None:
    with make_world() as world:
        world.topics["t"].partitions[1].stable_at = 8
        assert plan(world, level=1, end=at(p1=12)) == [(1, 5, 12)]
        assert plan(world, level=1, start=at(p1=9), end=at(p1=15)) == [(1, 9, 15)]
        assert plan(world, level=1, start=at(p1=8)) == [(1, 8, 8)]
        assert plan(world, level=1, end=at(p1="latest")) == [(1, 5, 8)]
        with pytest.raises(BrokerError, match=r"has the offsets 5 to 15 \(exclusive\), not 16"):
            plan(world, level=1, end=at(p1=16))
        with pytest.raises(BrokerError, match=r"t-1 is read up to its last stable offset 8, .* name an end offset"):
            plan(world, level=1, start=at(p1=9))


@pytest.mark.parametrize("offset", [4, 16])
def test_an_offset_that_does_not_exist_is_named(offset: int) -> None:
    with make_world() as world:
        with pytest.raises(BrokerError, match=rf"t-1 has the offsets 5 to 15 \(exclusive\), not {offset}") as caught:
            plan(world, start=at(p1=offset))
        assert caught.value.code == 1


def test_an_offset_range_that_goes_backwards_is_named() -> None:
    with make_world() as world, pytest.raises(ConfigError, match="t-1: the start offset 9 is after the end offset 7"):
        plan(world, start=at(p1=9), end=at(p1=7))


@pytest.mark.parametrize(
    ("arguments", "because"),
    [
        ({"start": {TopicPartition("u", 0): 1}}, "given for 'u', which is not among the topics"),
        (
            {"start": {TopicPartition("t", 0): -1}},
            r"start\[t-0\]=-1: it must be an offset of 0 or more, or kafwire.Tail\(1\)",
        ),
        ({"start": {TopicPartition("t", 0): True}}, r"start\[t-0\]=True: a number alone"),
        ({"end": {TopicPartition("t", 0): "soon"}}, "'soon' is not"),
        ({"start": {TopicPartition("t", 0): 1}, "partitions": [0]}, "exclude each other"),
        (
            {"start": {TopicPartition("t", 0): 1}, "end": {TopicPartition("t", 1): 1}},
            "name different partitions: only one of them has t-0, t-1",
        ),
        ({"start": "soon"}, "'soon' is not"),
        ({"end": 1.5}, "end=1.5: a number alone"),
        ({"end": 5}, r"end=5: .*kafwire.Offset\(5\)"),
    ],
)
def test_bounds_that_make_no_sense_are_an_error_before_a_broker_is_asked(
    arguments: dict[str, Any], because: str
) -> None:
    defaults: dict[str, Any] = {"partitions": None, "start": "earliest", "end": "latest"}
    with pytest.raises(ConfigError, match=because):
        Bounds(["t"], **{**defaults, **arguments})


def test_a_partition_that_the_topic_does_not_have_is_named() -> None:
    with make_world() as world:
        with pytest.raises(ConfigError, match="topic 't' has partitions 0 to 2, not 3"):
            plan(world, partitions=[3])
        with pytest.raises(ConfigError, match="topic 't' has partitions 0 to 2, not 7"):
            plan(world, start=at(p7=0))


def test_an_unknown_topic_is_named() -> None:
    with make_world() as world, pytest.raises(BrokerError, match="topic 'nope' does not exist"):
        plan(world, topics=("t", "nope"))


def test_each_leader_is_asked_once_for_all_its_partitions() -> None:
    with make_world() as world:
        wanted: dict[tuple[str, int], Place] = {("t", 0): LATEST, ("t", 1): EARLIEST, ("t", 2): Time(HOUR_MS + 60_000)}
        found = world.run(list_offsets(make_cluster(world), wanted))
        assert found == {("t", 0): 10, ("t", 1): 5, ("t", 2): 11}
        asked = {
            call.node: sorted(p.partition_index for p in call.message.topics[0].partitions)
            for call in world.made("ListOffsets")
        }
        assert asked == {1: [0, 2], 2: [1]}


def test_only_failed_partitions_are_retried_once_leaders_moved() -> None:
    def move(call: Call) -> None:
        if len(world.made("ListOffsets")) == 1:
            world.move_leader("t", 2, 2)

    with make_world() as world:
        world.on("ListOffsets", move)
        found = world.run(list_offsets(make_cluster(world), {("t", p): LATEST for p in range(3)}))
        assert found == {("t", 0): 10, ("t", 1): 15, ("t", 2): 20}
        last = world.made("ListOffsets")[-1]
        assert last.node == 2
        assert [p.partition_index for p in last.message.topics[0].partitions] == [2]


def test_leaders_are_asked_in_the_epoch_that_is_known_of_them() -> None:
    """A broker that was deposed, or one that does not know it yet, then does not respond for the leader."""
    with make_world() as world:
        cluster = make_cluster(world)
        world.run(cluster.topic("t"))
        world.topics["t"].partitions[1].leader_epoch = 4
        assert world.run(list_offsets(cluster, {("t", 0): LATEST, ("t", 1): LATEST})) == {("t", 0): 10, ("t", 1): 15}
        asked = [
            (part.partition_index, part.current_leader_epoch)
            for call in world.made("ListOffsets")
            for topic in call.message.topics
            for part in topic.partitions
        ]
        assert sorted(asked) == [(0, 0), (1, 0), (1, 4)]
        assert world.run(end_of_epoch(cluster, "t", 1, 0)) == (0, 15)
        world.topics["t"].partitions[1].leader_epoch = 5
        assert world.run(end_of_epoch(cluster, "t", 1, 0)) == (0, 15)
        calls = world.made("OffsetForLeaderEpoch")
        assert [call.message.topics[0].partitions[0].current_leader_epoch for call in calls] == [4, 4, 5]


def test_a_partition_that_stays_unavailable_is_given_up_in_time() -> None:
    def refuse(call: Call) -> Any:
        response = world.serve(call)
        for part in response.topics[0].partitions:
            part.error_code = ErrorCode.NOT_LEADER_OR_FOLLOWER
        return response

    with make_world() as world:
        world.on("ListOffsets", refuse)
        with pytest.raises(KafkaTimeoutError, match="listing offsets of t-.* within 3 s: .*offsets of t-"):
            world.run(list_offsets(make_cluster(world, default_api_timeout_ms=3_000), {("t", 0): LATEST}))
        times = [call.at_ms for call in world.made("ListOffsets")]
        assert len(times) > 3
        assert world.engine.now_ms() <= 1_000_000 + 3_100


@pytest.mark.parametrize("how", ["leaderless", "silent"])
def test_a_scan_names_the_partition_that_is_not_available(how: str, caplog: pytest.LogCaptureFixture) -> None:
    with make_world() as world:
        if how == "leaderless":
            world.topics["t"].partitions[1].lead(-1, 1)
        else:
            world.on("ListOffsets", lambda call: NEVER if call.node == 2 else world.serve(call))
        cluster = make_cluster(world, default_api_timeout_ms=5_000)
        bounds = Bounds(["t"], None, "earliest", "latest")
        began = world.engine.now_ms()
        with pytest.raises(KafkaTimeoutError) as raised:
            world.run(plan_ranges(cluster, bounds, isolation_level=0))
        assert world.engine.now_ms() - began <= 5_500
        assert "listing offsets of t-1 did not succeed within 5 s" in str(raised.value)
        assert "name the others by partitions=" in str(raised.value)
        (line,) = [each.getMessage() for each in caplog.records if "no offset yet of" in each.getMessage()]
        assert "no offset yet of t-1: " in line
        assert ("LEADER_NOT_AVAILABLE" if how == "leaderless" else "broker 2, the leader of t-1") in line
        others = Bounds(["t"], [0, 2], "earliest", "latest")
        found = world.run(plan_ranges(cluster, others, isolation_level=0))
        assert [each.partition for each, _ in found] == [0, 2]


def test_an_error_that_no_retry_mends_ends_it_at_once() -> None:
    def refuse(call: Call) -> Any:
        response = world.serve(call)
        response.topics[0].partitions[0].error_code = 29
        return response

    with make_world() as world:
        world.on("ListOffsets", refuse)
        with pytest.raises(BrokerError, match="offsets of t-0"):
            world.run(list_offsets(make_cluster(world), {("t", 0): LATEST}))
        assert len(world.made("ListOffsets")) == 1


def test_a_response_that_leaves_a_partition_out_is_an_error() -> None:
    def leave_out(call: Call) -> Any:
        response = world.serve(call)
        del response.topics[0].partitions[0]
        return response

    with make_world() as world:
        world.on("ListOffsets", leave_out)
        with pytest.raises(ProtocolError, match="sent a response without t-"):
            world.run(list_offsets(make_cluster(world), {("t", p): LATEST for p in range(3)}))


def test_one_leader_that_is_gone_does_not_lose_the_responses_of_others() -> None:
    async def revive(world: World, cluster: Cluster) -> Any:
        await cluster.refresh(["t"])
        world.kill(2)
        asking = asyncio.ensure_future(list_offsets(cluster, {("t", p): LATEST for p in range(3)}))
        await asyncio.sleep(2)
        world.nodes[2].down = False
        return await asking

    with make_world() as world:
        found = world.run(revive(world, make_cluster(world)))
        assert found == {("t", 0): 10, ("t", 1): 15, ("t", 2): 20}
        assert len([call for call in world.made("ListOffsets") if call.node == 1]) == 1


# ---- a filter by time


@pytest.mark.parametrize(
    ("timestamps", "window"),
    [
        (None, None),
        ((5, 7), (5, 7)),
        ([5, 5], (5, 5)),
        ((None, 7), (-(1 << 63), 7)),
        ((5, None), (5, (1 << 63) - 1)),
        ((dt.datetime(1970, 1, 1, 1, tzinfo=dt.UTC), None), (HOUR_MS, (1 << 63) - 1)),
    ],
)
def test_filters_by_time(timestamps: Any, window: Any) -> None:
    assert window_of(timestamps) == window


@pytest.mark.parametrize("timestamps", [5, (), (1,), (1, 2, 3), "12", ("earliest", 5), (5, "latest"), {1: 2, 3: 4}])
def test_a_value_that_is_no_pair_of_times_is_refused(timestamps: Any) -> None:
    with pytest.raises(ConfigError, match=r"timestamps must be a pair \(from, to\)"):
        window_of(timestamps)


@pytest.mark.parametrize("timestamps", [(-1, None), (None, 1.5), (True, 5), (dt.date(2013, 1, 1), None)])
def test_a_filter_s_sides_are_points_in_time(timestamps: Any) -> None:
    with pytest.raises(ConfigError, match="is not 'earliest'"):
        window_of(timestamps)


def test_a_filter_that_goes_backwards_is_refused() -> None:
    with pytest.raises(ConfigError, match="timestamps: 7 is after 5"):
        window_of((7, 5))


def test_reading_begins_where_the_first_record_of_the_time_is() -> None:
    with make_world() as world:
        first, late = HOUR_MS + 60_000 * 3, HOUR_MS + 60_000 * 7
        assert plan(world, timestamps=(first, late)) == [(0, 3, 10), (1, 8, 15), (2, 13, 20)]
        assert plan(world, timestamps=(None, late)) == [(0, 0, 10), (1, 5, 15), (2, 10, 20)]
        assert plan(world, timestamps=(10 * HOUR_MS, None)) == [(0, 10, 10), (1, 15, 15), (2, 20, 20)]
        assert plan(world, timestamps=(first, None), start=at(p0=5)) == [(0, 5, 10)]
        assert plan(world, timestamps=(first, None), start=at(p0=1), end=at(p0=2)) == [(0, 2, 2)]
        assert plan(world, timestamps=(first, None), end=moment(late)) == [(0, 3, 7), (1, 8, 12), (2, 13, 17)]


def test_offsets_that_go_backwards_are_an_error_with_a_filter_too() -> None:
    with make_world() as world, pytest.raises(ConfigError, match="t-1: the start offset 9 is after the end offset 7"):
        plan(world, start=at(p1=9), end=at(p1=7), timestamps=(HOUR_MS, None))


@pytest.mark.parametrize("by", ["start", "timestamps"])
def test_a_record_that_arrives_meanwhile_is_after_the_end_and_not_before_the_start(by: str) -> None:
    """Nothing of that time was there when it was asked for: the record that now is must be left to the next read."""
    late = 10 * HOUR_MS
    with make_world(partitions=1) as world:
        log = world.topics["t"].partitions[0]
        asked: set[int] = set()

        async def slowly(call: Call) -> None:
            """The end comes late; and when no partition has the requested time, a record of that time is written."""
            timestamps = {p.timestamp for topic in call.message.topics for p in topic.partitions}
            if number_of(LATEST) in timestamps:
                await asyncio.sleep(1)
                if late in asked:
                    log.append(encode_batch([(None, b"v", late)]))
            asked.update(timestamps)

        world.on("ListOffsets", slowly)
        arguments: Any = {"start": moment(late)} if by == "start" else {"timestamps": (late, None)}
        assert plan(world, **arguments) == [(0, log.end, log.end)]
        assert asked == {number_of(EARLIEST), number_of(LATEST), late}
        assert len(log.batches) == 10
