"""The planner of streams over a cluster in memory: starts, ends of batches, losses."""

from __future__ import annotations

import logging
import re

import pytest

from kafwire.errors import ConfigError, KafkaError
from kafwire.spark.data_loss import AvailableNowError, DataLossError
from kafwire.types import TopicPartition
from tests.support.spark.lookup import MemoryLookup, Planning

A0, A1, A2, B0 = (TopicPartition(*place) for place in (("a", 0), ("a", 1), ("a", 2), ("b", 0)))
NONE_LOST = {"failOnDataLoss": "false"}


@pytest.fixture
def cluster() -> MemoryLookup:
    made = MemoryLookup()
    made.create("a", 30, 10)
    made.first[A0] = 5
    return made


def test_a_stream_starts_at_the_latest_offsets_and_pins_them_by_an_empty_batch(cluster: MemoryLookup) -> None:
    planning = Planning(cluster)
    start = planning.planner.start()
    assert start == {A0: 30, A1: 10}
    cluster.ends |= {A0: 40, A1: 15}
    assert planning.planner.start() == start  # the second call of the first batch
    assert planning.latest(start) == start
    assert planning.spans(start, start) == []
    end = planning.latest(start)
    assert end == {A0: 40, A1: 15}
    assert planning.spans(start, end) == [("a", 0, 30, 40), ("a", 1, 10, 15)]


def test_the_only_batch_of_the_trigger_once_is_not_empty(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, maxOffsetsPerTrigger="1")
    start = planning.planner.start()
    cluster.ends[A0] = 40
    assert planning.latest(start, has_limits=False) == {A0: 40, A1: 10}


@pytest.mark.parametrize(
    ("options", "start", "first_batch_is_empty"),
    [
        ({"startingOffsets": "earliest"}, {A0: 5, A1: 0}, False),
        ({"startingOffsets": "latest"}, {A0: 30, A1: 10}, True),
        ({"startingOffsets": '{"a":{"0":7,"1":-2}}'}, {A0: 7, A1: 0}, False),
        ({"startingOffsets": '{"a":{"0":7,"1":-1}}'}, {A0: 7, A1: 10}, True),
        ({"startingTimestamp": "1000"}, {A0: 20, A1: 3}, True),
        ({"startingOffsetsByTimestamp": '{"a":{"0":1000,"1":2000}}'}, {A0: 20, A1: 6}, True),
        ({"startingOffsets": "group:g"}, {A0: 12, A1: 0}, True),
    ],
)
def test_starts(cluster: MemoryLookup, options: dict[str, str], start: dict, first_batch_is_empty: bool) -> None:  # type: ignore[type-arg]
    cluster.times = {A0: {1000: 20}, A1: {1000: 3, 2000: 6}}
    cluster.commits = {"g": {A0: 12}}
    planning = Planning(cluster, **options)
    assert planning.planner.start() == start
    assert (planning.latest(start) == start) is first_batch_is_empty
    assert planning.latest(start) == {A0: 30, A1: 10}


def test_a_timestamp_after_the_last_record_is_an_error_or_the_end(cluster: MemoryLookup) -> None:
    cluster.times = {A0: {1000: 20}}
    with pytest.raises(ConfigError, match="startingTimestamp: a-1 has no record at or after 1000 ms"):
        Planning(cluster, startingTimestamp="1000").planner.start()
    lenient = Planning(cluster, startingTimestamp="1000", startingOffsetsByTimestampStrategy="latest")
    assert lenient.planner.start() == {A0: 20, A1: 10}


def test_a_group_without_commits_is_named(cluster: MemoryLookup, caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(ConfigError, match="startingOffsets=group:h: the group has no committed offset for a-0, a-1"):
        Planning(cluster, startingOffsets="group:h").planner.start()
    cluster.commits = {"g": {A0: 12}}
    Planning(cluster, startingOffsets="group:g").planner.start()
    assert "group g has no committed offset for a-1: the stream reads them from earliest" in caplog.text


def test_topics_that_are_not_there_and_offsets_that_are_not_named(cluster: MemoryLookup) -> None:
    with pytest.raises(ConfigError, match="no such topic: nope"):
        Planning(cluster, subscribe="a,nope").planner.start()
    with pytest.raises(ConfigError, match="must name every partition that is read: a-1 missing"):
        planning = Planning(cluster, startingOffsets='{"a":{"0":7}}')
        planning.latest(planning.planner.start())


def test_a_pattern_waits_for_topics_and_reads_new_ones_from_earliest(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, subscribePattern="^b")
    assert planning.planner.start() == {}
    assert planning.latest({}) == {}
    assert planning.planner.reported() is None
    assert planning.spans({}, {}) == []
    cluster.create("b", 3)
    assert planning.latest({}) == {B0: 3}
    assert planning.spans({}, {B0: 3}) == [("b", 0, 0, 3)]


def test_a_new_partition_is_read_from_earliest_within_the_limit(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, maxOffsetsPerTrigger="20")
    cluster.first[A2], cluster.ends[A2] = 0, 40
    start = {A0: 30, A1: 10}
    end = planning.latest(start)
    assert end == {A0: 30, A1: 10, A2: 20}
    assert planning.spans(start, end) == [("a", 2, 0, 20)]


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_new_partition_that_does_not_start_at_0_is_a_loss(
    cluster: MemoryLookup, caplog: pytest.LogCaptureFixture, is_strict: bool
) -> None:
    planning = Planning(cluster, **({} if is_strict else NONE_LOST))
    cluster.first[A2], cluster.ends[A2] = 7, 40
    start = {A0: 30, A1: 10}
    end = planning.latest(start)
    said = "[KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO] the new partition a-2 starts from offset"
    if is_strict:
        with pytest.raises(DataLossError, match=re.escape(said)):
            planning.spans(start, end)
    else:
        assert planning.spans(start, end) == [("a", 2, 7, 40)]
        assert said in caplog.text


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_deleted_topic_is_a_loss_by_name(
    cluster: MemoryLookup, caplog: pytest.LogCaptureFixture, is_strict: bool
) -> None:
    cluster.create("b", 8)
    planning = Planning(cluster, subscribe="a,b", **({} if is_strict else NONE_LOST))
    start = {A0: 30, A1: 10, B0: 8}
    cluster.delete("a")
    cluster.ends[B0] = 9
    end = planning.latest(start)
    assert end == {B0: 9}
    assert planning.slept == [1.0, 1.0]  # asked three times before it is believed
    said = "[KAFKA_DATA_LOSS.PARTITIONS_DELETED] the partitions a-0, a-1 have been deleted"
    if is_strict:
        with pytest.raises(DataLossError, match=re.escape(said)):
            planning.spans(start, end)
    else:
        assert planning.spans(start, end) == [("b", 0, 8, 9)]
        assert said in caplog.text


def test_a_new_partition_that_is_deleted_before_its_batch_is_a_loss(cluster: MemoryLookup) -> None:
    planning = Planning(cluster)
    end = {A0: 30, A1: 10, A2: 5}
    with pytest.raises(DataLossError, match=r"INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS\] the new partitions a-2 have"):
        planning.spans({A0: 30, A1: 10}, end)


@pytest.mark.parametrize("is_strict", [True, False])
def test_a_latest_offset_that_went_back_is_a_loss(
    cluster: MemoryLookup, caplog: pytest.LogCaptureFixture, is_strict: bool
) -> None:
    planning = Planning(cluster, **({} if is_strict else NONE_LOST))
    start = {A0: 50, A1: 10}
    cluster.ends[A1] = 11
    end = planning.latest(start)
    assert end == {A0: 30, A1: 11}
    said = "[KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED] the latest offset of a-0 went from 50 back to 30"
    if is_strict:
        with pytest.raises(DataLossError, match=re.escape(said)):
            planning.spans(start, end)
    else:
        assert planning.spans(start, end) == [("a", 1, 10, 11)]
        assert said in caplog.text


def test_a_stale_latest_offset_is_asked_for_again(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, **{"fetchOffset.numRetries": "2", "fetchOffset.retryIntervalMs": "250"})
    cluster.stale = [{A0: 20}]
    assert planning.latest({A0: 30, A1: 10}) == {A0: 30, A1: 10}
    assert planning.slept == [0.25]
    cluster.stale = [{A0: 20}, {A0: 21}, {A0: 22}]
    assert planning.latest({A0: 30, A1: 10}) == {A0: 21, A1: 10}


@pytest.mark.parametrize("end", [20, 40])
def test_a_recreated_topic_is_a_loss_even_if_it_has_grown_past_the_offset(cluster: MemoryLookup, end: int) -> None:
    planning = Planning(cluster)
    planning.latest({A0: 30, A1: 10})
    cluster.create("a", end, 10)
    with pytest.raises(
        DataLossError, match=r"\[KAFKA_DATA_LOSS.PARTITIONS_RECREATED\] topic a was deleted and created"
    ):
        planning.latest({A0: 30, A1: 10})


@pytest.mark.parametrize("end", [20, 40])
def test_a_recreated_topic_is_read_from_its_beginning_if_losses_are_allowed(
    cluster: MemoryLookup, caplog: pytest.LogCaptureFixture, end: int
) -> None:
    planning = Planning(cluster, **NONE_LOST, maxOffsetsPerTrigger="10")
    start = planning.latest({A0: 30, A1: 10})
    cluster.create("a", end, 0)
    pinned = planning.latest(start)
    assert pinned == {A0: 0, A1: 0}  # which the checkpoint keeps, so that a crash loses nothing of the new topic
    assert planning.spans(start, pinned) == []
    assert len(caplog.records) == 1 + 2  # the loss, and what was asked again
    cut = planning.latest(pinned)
    assert planning.spans(pinned, cut) == [("a", 0, 0, 10)]
    rest = planning.latest(cut, has_limits=False)
    assert planning.spans(cut, rest) == [("a", 0, 10, end)]


def test_a_recreated_topic_waits_for_the_minimum_too(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, **NONE_LOST, minOffsetsPerTrigger="25")
    start = planning.latest({A0: 30, A1: 10})
    cluster.create("a", 40, 0)
    assert planning.latest(start) == start
    planning.now_ms = 900_000
    assert planning.latest(start) == {A0: 0, A1: 0}
    assert planning.spans(start, {A0: 0, A1: 0}) == []
    assert planning.latest({A0: 0, A1: 0}) == {A0: 40, A1: 0}


def test_a_broker_that_still_names_the_old_topic_is_not_believed(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, **NONE_LOST)
    start = planning.latest({A0: 30, A1: 10})
    old = cluster.ids["a"]
    cluster.create("a", 3, 0)
    start = planning.latest(start)
    assert start == {A0: 0, A1: 0}
    start = planning.latest(start)
    assert start == {A0: 3, A1: 0}
    cluster.ids["a"] = old
    cluster.ends[A0] = 30
    assert planning.latest(start) == start


def test_available_now_reads_to_the_pinned_ends_and_no_further(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, maxOffsetsPerTrigger="20", minOffsetsPerTrigger="19")
    planning.planner.prepare_available_now()
    start = {A0: 0, A1: 0}
    ends = []
    while (end := planning.latest(start)) != start:
        cluster.ends[A0] += 100
        planning.spans(start, end)
        ends.append(end)
        start = end
    assert ends == [{A0: 15, A1: 5}, {A0: 30, A1: 10}]
    assert planning.planner.reported() == {A0: 30, A1: 10}


def test_available_now_from_the_latest_offsets_ends(cluster: MemoryLookup) -> None:
    planning = Planning(cluster)
    planning.planner.prepare_available_now()
    start = planning.planner.start()
    cluster.ends[A0] = 35
    assert planning.latest(start) == start
    end = planning.latest(start)
    assert end == {A0: 35, A1: 10}
    assert planning.latest(end) == end


@pytest.mark.parametrize(
    ("change", "end", "said"),
    [
        (None, {A0: 30}, "[MISMATCHED_TOPIC_PARTITIONS_BETWEEN_END_OFFSET_AND_PREFETCHED] only one of the batch's end"),
        (None, {A0: 31, A1: 10}, "[END_OFFSET_HAS_GREATER_OFFSET_FOR_TOPIC_PARTITION_THAN_PREFETCHED] the batch ends"),
        (
            lambda cluster: cluster.delete("a"),
            {A0: 30, A1: 10},
            "[LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW] the partitions a-0, a-1 were deleted",
        ),
        (
            lambda cluster: cluster.ends.update({A0: 12}),
            {A0: 30, A1: 10},
            "THAN_LATEST_WITH_TRIGGER_AVAILABLENOW] partitions end before the end of the batch: a-0 30 against 12",
        ),
    ],
)
def test_the_four_errors_of_available_now(cluster: MemoryLookup, change, end, said) -> None:  # type: ignore[no-untyped-def]
    planning = Planning(cluster)
    planning.planner.prepare_available_now()
    start = {A0: 10, A1: 10}
    planning.latest(start)
    if change is not None:
        change(cluster)
    with pytest.raises(AvailableNowError, match=re.escape(said)):
        planning.spans(start, end)


def test_a_topic_recreated_while_available_now_runs_is_lost(cluster: MemoryLookup) -> None:
    planning = Planning(cluster)
    planning.planner.prepare_available_now()
    end = planning.latest({A0: 10, A1: 10})
    cluster.create("a", 90, 90)
    with pytest.raises(AvailableNowError, match="LOST_TOPIC_PARTITIONS_IN_END_OFFSET"):
        planning.spans({A0: 10, A1: 10}, end)


def test_a_replayed_batch_0_that_starts_after_its_end_is_empty(
    cluster: MemoryLookup, caplog: pytest.LogCaptureFixture
) -> None:
    planning = Planning(cluster)
    assert planning.planner.start() == {A0: 30, A1: 10}
    end = {A0: 20, A1: 10}
    assert planning.spans({A0: 30, A1: 10}, end) == []
    assert "a-0 ends at 20, the start is 30" in caplog.text
    assert planning.latest(end) == {A0: 30, A1: 10}  # and the next one is not the empty first one


def test_a_replayed_batch_0_of_an_explicit_start_has_its_records(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, startingOffsets='{"a":{"0":7,"1":-2}}')
    start = planning.planner.start()
    assert planning.spans(start, {A0: 20, A1: 10}) == [("a", 0, 7, 20), ("a", 1, 0, 10)]


@pytest.mark.parametrize(
    ("option", "text"),
    [
        ("startingOffsets", '{"a":{"0":7,"1":-2}}'),
        ("startingOffsetsByTimestamp", '{"a":{"0":1000,"1":1000}}'),
    ],
)
def test_a_partition_added_before_batch_0_is_replayed_is_read_from_earliest(
    cluster: MemoryLookup, option: str, text: str
) -> None:
    cluster.times = {A0: {1000: 7}, A1: {1000: 0}}
    planning = Planning(cluster, **{option: text})
    end = {A0: 20, A1: 10}
    cluster.first[A2], cluster.ends[A2] = 0, 4
    planning.restart()
    start = planning.planner.start()
    assert start == {A0: 7, A1: 0}
    assert planning.spans(start, end) == [("a", 0, 7, 20), ("a", 1, 0, 10)]
    after = planning.latest(end)
    assert after == {A0: 30, A1: 10, A2: 4}
    assert planning.spans(end, after) == [("a", 0, 20, 30), ("a", 2, 0, 4)]


def test_a_partition_deleted_before_batch_0_is_replayed_is_a_loss(cluster: MemoryLookup) -> None:
    cluster.create("ab", 8)
    starts = '{"a":{"0":7,"1":-2},"ab":{"0":-2}}'
    planning = Planning(cluster, subscribePattern="^a", startingOffsets=starts)
    cluster.delete("ab")
    start = planning.planner.start()
    with pytest.raises(DataLossError, match="INITIAL_OFFSET_NOT_FOUND_FOR_PARTITIONS.* ab-0"):
        planning.spans(start, {A0: 20, A1: 10, TopicPartition("ab", 0): 8})
    planning.restart()
    with pytest.raises(ConfigError, match="option startingOffsets names ab-0, which the query does not read"):
        planning.latest(planning.planner.start())


def test_available_now_after_a_replayed_batch_0_reads_on(cluster: MemoryLookup) -> None:
    planning = Planning(cluster)
    planning.planner.prepare_available_now()
    start = planning.planner.start()
    assert planning.spans(start, start) == []
    cluster.ends[A0] = 31
    assert planning.latest(start) == {A0: 31, A1: 10}


def test_small_batches_wait_for_more_or_for_the_delay(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, minOffsetsPerTrigger="10", maxTriggerDelay="1m", maxOffsetsPerTrigger="12")
    start = planning.latest({A0: 28, A1: 10})
    assert start == {A0: 30, A1: 10}  # the first trigger never waits
    cluster.ends[A0] += 9
    planning.now_ms = 59_999
    assert planning.latest(start) == start
    cluster.ends[A0] += 1
    assert planning.latest(start) == {A0: 40, A1: 10}
    cluster.ends[A0] += 1
    planning.now_ms += 59_999
    assert planning.latest({A0: 40, A1: 10}) == {A0: 40, A1: 10}
    planning.now_ms += 1
    assert planning.latest({A0: 40, A1: 10}) == {A0: 41, A1: 10}
    cluster.ends[A0] += 100
    assert planning.latest({A0: 41, A1: 10}) == {A0: 53, A1: 10}
    assert planning.latest({A0: 41, A1: 10}, has_limits=False) == {A0: 141, A1: 10}


def test_the_first_batch_is_bounded_by_bytes(cluster: MemoryLookup) -> None:
    cluster.create("a", 1_000_000, 1_000_000)
    cluster.record_bytes = lambda offset: 100 if offset < 20_000 else 5_000
    planning = Planning(cluster, startingOffsets="earliest", maxBytesPerTrigger="10000000")
    end = planning.latest(planning.planner.start())
    size = sum(sum(map(cluster.record_bytes, range(end[place]))) for place in (A0, A1))
    assert 5_000_000 <= size <= 20_000_000


def test_limits_by_topic(cluster: MemoryLookup) -> None:
    cluster.create("b", 100)
    limits = {"maxOffsetsPerTriggerByTopic": '{"a": 4}', "maxOffsetsPerTrigger": "52"}
    planning = Planning(cluster, subscribe="a,b", **limits)
    assert planning.latest({A0: 0, A1: 0, B0: 0}) == {A0: 1, A1: 1, B0: 50}


def test_large_ranges_are_cut(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, minPartitions="4")
    assert len(planning.spans({A0: 10, A1: 10}, {A0: 30, A1: 10})) == 4
    planning = Planning(cluster, maxRecordsPerPartition="7")
    assert planning.spans({A0: 10, A1: 10}, {A0: 30, A1: 10}) == [("a", 0, 10, 16), ("a", 0, 16, 23), ("a", 0, 23, 30)]


def test_completed_offsets_are_committed_for_the_group_and_the_last_ones_are_not(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, startingOffsets="earliest", commitGroup="g", maxOffsetsPerTrigger="10")
    start = planning.planner.start()
    first = planning.latest(start)
    assert cluster.commits == {}
    second = planning.latest(first)
    assert cluster.commits == {"g": first}
    planning.planner.close()
    assert cluster.closed
    assert cluster.commits == {"g": first}
    planning.restart()
    planning.spans(first, second)
    assert cluster.commits == {"g": first}
    planning.latest(second)
    assert cluster.commits == {"g": second}


def test_a_commit_for_the_group_that_fails_is_a_warning_and_tried_again(
    cluster: MemoryLookup, caplog: pytest.LogCaptureFixture
) -> None:
    planning = Planning(cluster, commitGroup="g")
    cluster.refused = KafkaError("the group has members")
    with caplog.at_level(logging.WARNING, "kafwire.spark"):
        planning.latest({A0: 1, A1: 1})
    assert "could not be committed for group g: the group has members" in caplog.text
    cluster.refused = None
    planning.latest({A0: 1, A1: 1})
    assert cluster.commits == {"g": {A0: 1, A1: 1}}


def test_assigned_partitions(cluster: MemoryLookup) -> None:
    planning = Planning(cluster, assign='{"a":[1]}', startingOffsets="earliest")
    assert planning.planner.start() == {A1: 0}
    assert planning.latest({A1: 0}) == {A1: 10}
    with pytest.raises(ConfigError, match="assign names a-7, but a has 2 partitions"):
        Planning(cluster, assign='{"a":[7]}').planner.start()
