"""Lag, backlog, rates and seconds behind, out of Spark's reports."""

from __future__ import annotations

import json

import pytest

from kafwire.spark.stream_progress import ProgressHistory
from kafwire.types import TopicPartition
from tests.support.spark.progress import report


def test_the_lag_is_that_of_the_worst_partition_and_the_backlog_of_all() -> None:
    progress = ProgressHistory().add(
        report(0, {"a": {"0": 20, "1": 20}, "b": {"0": 1}}, {"a": {"0": 50, "1": 25}, "b": {"0": 1}})
    )
    first, second = progress.topics
    assert (first.topic, first.backlog, first.lag, first.rate) == ("a", 35, 30, None)
    assert (second.topic, second.backlog, second.lag, second.seconds_behind) == ("b", 0, 0, 0.0)
    assert progress.ends == {TopicPartition("a", 0): 20, TopicPartition("a", 1): 20, TopicPartition("b", 0): 1}


def test_rates_count_from_the_batch_before() -> None:
    history = ProgressHistory()
    (topic,) = history.add(report(0, {"a": {"0": 20}}, {"a": {"0": 50}})).topics
    assert (topic.rate, topic.arrival_rate) == (None, None)
    (topic,) = history.add(report(10, {"a": {"0": 40}}, {"a": {"0": 80}}, {"a": {"0": 20}})).topics
    assert (topic.rate, topic.arrival_rate) == (10.0, 3.0)


def test_seconds_behind_is_the_time_since_the_partition_ended_there() -> None:
    history = ProgressHistory()
    (topic,) = history.add(report(0, {"a": {"0": 90}}, {"a": {"0": 100}})).topics
    assert topic.seconds_behind is None  # it was longer than that before the first report
    (topic,) = history.add(report(10, {"a": {"0": 150}}, {"a": {"0": 200}})).topics
    assert topic.seconds_behind == pytest.approx(5.0)
    (topic,) = history.add(report(20, {"a": {"0": 200}}, {"a": {"0": 200}})).topics
    assert topic.seconds_behind == 0.0
    (topic,) = history.add(report(40, {"a": {"0": 250}}, {"a": {"0": 300}})).topics
    assert topic.seconds_behind == pytest.approx(10.0)


def test_one_partition_without_a_known_time_leaves_the_topic_without_one() -> None:
    history = ProgressHistory()
    (topic,) = history.add(report(0, {"a": {"0": 10, "1": 5}}, {"a": {"0": 10, "1": 9}})).topics
    assert topic.seconds_behind is None


def test_a_recreated_topic_begins_a_new_history() -> None:
    history = ProgressHistory()
    history.add(report(0, {"a": {"0": 100}}, {"a": {"0": 100}}))
    (topic,) = history.add(report(10, {"a": {"0": 4}}, {"a": {"0": 9}})).topics
    assert (topic.backlog, topic.arrival_rate, topic.seconds_behind) == (5, None, None)


def test_a_long_history_is_thinned_and_stays_right() -> None:
    """The topic grows faster and faster; the query stands still, and then goes on to where it was in second 1000."""
    history = ProgressHistory()
    for second in range(5000):
        end = 1000**2 if second == 4999 else min(100**2, second**2)
        progress = history.add(report(second, {"a": {"0": end}}, {"a": {"0": second**2}}))
    (topic,) = progress.topics
    assert topic.seconds_behind == pytest.approx(4999 - 1000, abs=20)


def test_sources_of_other_kinds_and_missing_offsets_say_nothing() -> None:
    progress = ProgressHistory().add(
        report(
            0,
            {},
            None,
            sources=[
                {"startOffset": None, "endOffset": 7, "latestOffset": 9},
                {"startOffset": None, "endOffset": {"logOffset": 3}, "latestOffset": None},
                {"startOffset": "null", "endOffset": json.dumps({"a": {"0": 5}}), "latestOffset": "null"},
            ],
        )
    )
    (topic,) = progress.topics
    assert (topic.topic, topic.backlog, topic.arrival_rate, topic.seconds_behind) == ("a", 0, None, None)


def test_a_partition_that_two_sources_read_counts_where_it_is_furthest_behind() -> None:
    sources = [
        {"startOffset": None, "endOffset": {"a": {"0": end}}, "latestOffset": {"a": {"0": 50}}} for end in (40, 30)
    ]
    (topic,) = ProgressHistory().add(report(0, {}, None, sources=sources)).topics
    assert topic.backlog == 20


def test_the_metrics_of_a_batch_are_plain_values() -> None:
    metrics = ProgressHistory().add(report(0, {"a": {"0": 20}}, {"a": {"0": 50}}, name="q")).as_metrics()
    assert json.loads(json.dumps(metrics)) == metrics
    assert (metrics["query"], metrics["rows_per_second"], metrics["topics"]["a"]["lag"]) == ("q", 15.0, 30)
