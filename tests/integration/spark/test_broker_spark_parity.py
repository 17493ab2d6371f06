"""Streams of Spark's own Kafka source and of kafwire: one checkpoint, and the same options. In the long run alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafwire.testing import EmbeddedKafka
from tests.support.spark.stream_events import BETWEEN, WITHIN
from tests.support.spark.stream_events import COUNT as OF_EVENTS
from tests.support.spark.stream_parity import BOTH, LONGEST_S, PER_RUN, TOPIC

ROOT = Path(__file__).parents[3]
COUNT = 40
# Both refuse these; what kafwire says.
REFUSED = {
    "no match": "has no record at or after 9999999999999 ms",
    "ending offsets": "option endingOffsets: a stream has no end",
    "ending timestamps": "option endingOffsetsByTimestamp: a stream has no end",
    "minimum above maximum": "option minOffsetsPerTrigger=10 is above maxOffsetsPerTrigger=9",
    "missing partition": "must name every partition that is read: flights-1 missing",
    "passed end": "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
    "two strategies": "exactly one of the options assign, subscribe, subscribePattern",
    "no such topic": "no such topic: nowhere",
    "auto.offset.reset": "option kafka.auto.offset.reset is not supported",
    "enable.auto.commit": "option kafka.enable.auto.commit is not supported",
    "bad delay": "option maxTriggerDelay='soon'",
}
# Spark's source takes these, and kafwire refuses them, each for the reason in docs/reference/spark-parity.md.
STRICTER = {
    "missing partition of a list": "option assign names flights-7, but flights has 2 partitions",
    "ending timestamp": "option endingTimestamp: a stream has no end",
    "unknown option": "unknown option 'nonsense'",
    "limit of 0": "option maxOffsetsPerTrigger='0'",
}
# kafwire's error for an event with failOnDataLoss=true; Spark's own source fails too.
LOSSES = {
    "partition added, not from 0": "KAFKA_DATA_LOSS.ADDED_PARTITION_DOES_NOT_START_FROM_OFFSET_ZERO",
    "records deleted": "KAFKA_DATA_LOSS",
    "topic deleted": "KAFKA_DATA_LOSS.PARTITIONS_DELETED",
    "topic recreated": "KAFKA_DATA_LOSS.PARTITION_OFFSET_CHANGED",
}
# The same under AvailableNow.
CHANGES = {
    "topic deleted": "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
    "topic recreated": "LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW",
}
pytestmark = [pytest.mark.long, pytest.mark.timeout(30 * LONGEST_S)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Any]:
    with EmbeddedKafka() as kafka:
        kafka.create_topic(TOPIC, partitions=2)
        for index in range(2):
            kafka.append(TOPIC, [b"%d" % number for number in range(COUNT)], partition=index)
        folder = tmp_path_factory.mktemp("checkpoints")
        command = [sys.executable, "-m", "tests.support.spark.stream_parity", kafka.bootstrap, f"{folder}"]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=28 * LONGEST_S, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        yield json.loads(done.stdout.splitlines()[-1])


def test_a_checkpoint_goes_from_spark_s_source_to_kafwire_and_back(found: Any) -> None:
    first, *others = found["continued"]["rows"]
    assert [sum(map(len, batches)) for batches in (first, *others)] == [2 * COUNT, PER_RUN, PER_RUN, PER_RUN]
    rows = [tuple(row) for run in (first, *others) for batch in run for row in batch]
    assert sorted(rows) == [(index, offset) for index in range(2) for offset in range(COUNT + 3 * PER_RUN // 2)]


def test_a_stateful_query_keeps_its_state_when_the_format_changes(found: Any) -> None:
    counts = [runs[-1] for runs in found["continued"]["counted"]]
    before = COUNT + 4 * PER_RUN // 2
    assert counts == [[[index, before + run * PER_RUN // 2] for index in range(2)] for run in range(4)]


@pytest.mark.parametrize("name", [name for name in BOTH if name not in STRICTER])
def test_both_sources_make_the_same_of_the_same_options(found: Any, name: str) -> None:
    connector, kafwire = found["same"][name]
    if name in REFUSED:
        assert isinstance(connector, str), connector
        assert REFUSED[name] in kafwire
    else:
        assert kafwire == connector


@pytest.mark.parametrize("name", STRICTER)
def test_kafwire_refuses_some_options_of_spark_s_source(found: Any, name: str) -> None:
    connector, kafwire = found["same"][name]
    assert isinstance(connector, list), connector
    assert STRICTER[name] in kafwire


@pytest.mark.parametrize("name", BETWEEN)
def test_both_sources_react_alike_to_changes_of_a_topic(found: Any, name: str) -> None:
    connector, kafwire = found["between"][name]["strict"]
    if name in LOSSES:
        assert isinstance(connector, str), connector
        assert LOSSES[name] in kafwire
        connector, kafwire = found["between"][name]["lenient"]
    if name == "topic deleted":
        assert "UnknownTopicOrPartitionException" in connector
        assert kafwire == []
    else:
        assert kafwire == connector
        assert isinstance(kafwire, list), kafwire


@pytest.mark.parametrize("name", WITHIN)
def test_both_sources_make_the_same_of_changes_under_available_now(found: Any, name: str) -> None:
    connector, kafwire = found["within"][name]
    if name in CHANGES:
        assert isinstance(connector, str), connector
        assert CHANGES[name] in kafwire
    else:
        assert kafwire == connector
        assert sum(map(len, kafwire)) == 2 * OF_EVENTS


@pytest.mark.parametrize("mode", ["append", "complete"])
def test_both_sinks_write_the_same_in_each_output_mode(found: Any, mode: str) -> None:
    connector, kafwire = found["sinks"][mode]
    assert kafwire == connector
    assert isinstance(kafwire, list), kafwire


def test_spark_refuses_the_update_mode_of_a_python_sink(found: Any) -> None:
    connector, kafwire = found["sinks"]["update"]
    assert isinstance(connector, list), connector
    assert "kafwire does not support Update mode" in kafwire


def test_a_first_batch_of_spark_s_own_source_that_failed_is_found_in_its_checkpoint(found: Any) -> None:
    before, after = found["unfinished"]
    assert "(sources/0/0 without commits/0): its start is flights-0: 7, flights-1: 9" in before
    assert after is None
