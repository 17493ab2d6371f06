"""`consumer.offsets.known_topics`: partitions that are new since the first look at their topic, and their start."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from kafwire.cluster.list_offsets import EARLIEST, LATEST, Time
from kafwire.cluster.metadata import NO_TOPIC_ID, PartitionInfo, TopicInfo
from kafwire.consumer.offsets.known_topics import CLOCKS_MS, KnownTopics, NewPartition, News
from kafwire.types import Offset, Tail

ID, OTHER_ID = uuid.UUID(int=1), uuid.UUID(int=2)
HOUR_MS = 3_600_000
NOW_MS = 1_000 * HOUR_MS


def topic(partitions: int = 2, topic_id: uuid.UUID = ID) -> TopicInfo:
    return TopicInfo("t", topic_id, {number: PartitionInfo(1, 0) for number in range(partitions)})


def known(lacked_ms: float | None = None, **how: Any) -> KnownTopics:
    topics = KnownTopics()
    topics.see(topic(**how), lacked_ms)
    return topics


def test_a_partition_that_was_there_is_not_new() -> None:
    assert known().look("t", ID, 1) is None
    assert KnownTopics().look("t", ID, 0) is None  # nothing is known


def test_partitions_after_the_first_sight_are_new() -> None:
    topics = known()
    assert topics.look("t", ID, 2) == (News.ADDED, None)
    assert topics.look("t", OTHER_ID, 0) == (News.RECREATED, None)
    topics.see(topic(3, OTHER_ID), 5.0)  # a later sight changes nothing
    assert topics.look("t", OTHER_ID, 0) == (News.RECREATED, None)


@pytest.mark.parametrize(("before", "now"), [(NO_TOPIC_ID, ID), (ID, NO_TOPIC_ID)])
def test_brokers_without_topic_ids_recreate_nothing(before: uuid.UUID, now: uuid.UUID) -> None:
    """A cluster is upgraded, or one of its brokers is old."""
    assert known(topic_id=before).look("t", now, 0) is None


def test_a_topic_that_metadata_lacked_is_seen_for_the_first_time() -> None:
    topics = known(lacked_ms=7.0)
    assert topics.look("t", ID, 0) == (News.FIRST_SEEN, 7.0)
    assert topics.look("t", ID, 2) == (News.ADDED, None)
    assert topics.look("t", OTHER_ID, 0) == (News.RECREATED, None)


def test_a_topic_that_is_not_read_any_more_is_forgotten() -> None:
    topics = known(lacked_ms=7.0)
    topics.keep(["t"])
    assert topics.look("t", ID, 0) is not None
    topics.keep(["u"])
    topics.see(topic(3, OTHER_ID), None)
    assert topics.look("t", OTHER_ID, 2) is None


@pytest.mark.parametrize("news", [News.ADDED, News.RECREATED])
@pytest.mark.parametrize("start", [None, LATEST, Tail(1), Offset(5)], ids=str)
@pytest.mark.parametrize("policy", ["latest", "earliest", "error", "by_duration:PT1H"])
def test_added_partitions_and_recreated_topics_begin_at_their_beginning(news: News, start: Any, policy: str) -> None:
    assert NewPartition(news).begins(start, policy, "auto", NOW_MS)[0] == EARLIEST


SINCE_MS = NOW_MS - 30_000 - CLOCKS_MS


@pytest.mark.parametrize(
    ("start", "policy", "place"),
    [
        (None, "latest", Time(SINCE_MS)),
        (LATEST, "latest", Time(SINCE_MS)),
        (LATEST, "error", Time(SINCE_MS)),
        (LATEST, "by_duration:PT1H", Time(SINCE_MS)),
        (None, "by_duration:PT1H", Time(NOW_MS - HOUR_MS)),
        (None, "by_duration:PT1S", Time(SINCE_MS)),
        (None, "earliest", None),
        (None, "error", None),
        (EARLIEST, "latest", EARLIEST),
        (Time(HOUR_MS), "latest", Time(HOUR_MS)),
        (Offset(5), "latest", Offset(5)),
        (Tail(5), "latest", Tail(5)),
    ],
    ids=str,
)
def test_a_topic_that_is_first_seen_begins_where_metadata_lacked_it(start: Any, policy: str, place: Any) -> None:
    new = NewPartition(News.FIRST_SEEN, NOW_MS - 30_000)
    assert new.begins(start, policy, "auto", NOW_MS) == (place, policy)


def test_no_time_is_below_zero() -> None:
    assert NewPartition(News.FIRST_SEEN, 1_000).begins(None, "latest", "auto", 2_000) == (Time(0), "latest")


@pytest.mark.parametrize("news", News)
@pytest.mark.parametrize("chosen", ["earliest", "latest", "error", "by_duration:PT1H"])
def test_the_option_chooses_for_all_new_partitions(news: News, chosen: str) -> None:
    assert NewPartition(news, NOW_MS).begins(Offset(5), "latest", chosen, NOW_MS) == (None, chosen)
