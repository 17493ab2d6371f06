"""Options of a stream: accepted values, refused ones, and the texts of refusals. No pyspark needed."""

from __future__ import annotations

import pickle
import re

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.options import check_reading, read_options
from kafwire.spark.stream_options import StreamOptions, stream_options
from kafwire.spark.trigger_limits import Limits

SERVERS = {"kafka.bootstrap.servers": "127.0.0.1:9092"}


def stream(**options: str) -> StreamOptions:
    return stream_options({**SERVERS, "subscribe": "a", **{name.lower(): value for name, value in options.items()}})


def test_defaults_are_those_of_spark() -> None:
    options = stream()
    assert (options.read.start.everywhere, options.start_group, options.commit_group) == (-1, None, None)
    assert options.limits == Limits(None, None, 900_000, None, {})
    assert (options.attempts, options.retry_interval_ms) == (3, 1000)
    assert options.read.fail_on_data_loss
    assert pickle.loads(pickle.dumps(options)) == options


def test_all_options_of_a_stream() -> None:
    options = stream(
        maxOffsetsPerTrigger="100",
        minOffsetsPerTrigger="10",
        maxTriggerDelay="90s",
        maxBytesPerTrigger="1000000",
        maxOffsetsPerTriggerByTopic='{"a": 7}',
        commitGroup=" g ",
        startingOffsets="group:h",
        **{"fetchOffset.numRetries": "5", "fetchOffset.retryIntervalMs": "0", "kafkaConsumer.pollTimeoutMs": "5"},
    )
    assert options.limits == Limits(100, 10, 90_000, 1_000_000, {"a": 7})
    assert (options.start_group, options.commit_group) == ("h", "g")
    assert (options.attempts, options.retry_interval_ms) == (5, 0)


@pytest.mark.parametrize(
    ("options", "moves"),
    [
        ({}, True),
        ({"startingOffsets": "earliest"}, False),
        ({"startingOffsets": '{"a":{"0":1,"1":-2}}'}, False),
        ({"startingOffsets": '{"a":{"0":1,"1":-1}}'}, True),
        ({"startingOffsets": "group:g"}, True),
        ({"startingTimestamp": "5", "startingOffsets": "group:g"}, True),
    ],
)
def test_starts_that_a_second_lookup_may_move(options: dict[str, str], moves: bool) -> None:
    assert stream(**options).start_moves is moves


@pytest.mark.parametrize(
    ("text", "ms"),
    [("500ms", 500), ("1500us", 1), ("7", 7), (" 2 min ", 120_000), ("1H", 3_600_000), ("1d", 86_400_000)],
)
def test_delays_are_spark_s_times(text: str, ms: int) -> None:
    assert stream(maxTriggerDelay=text).limits.max_delay_ms == ms


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets: a stream has no end; leave it out"),
        ({"endingOffsetsByTimestamp": "x"}, "option endingOffsetsByTimestamp: a stream has no end"),
        ({"endingTimestamp": "5"}, "option endingTimestamp: a stream has no end"),
        ({"startingOffsets": "group: "}, "option startingOffsets='group:' names no group: give group:<id>"),
        ({"commitGroup": " "}, "option commitGroup is empty"),
        ({"maxTriggerDelay": "soon"}, "option maxTriggerDelay='soon': a time is needed, such as 500ms"),
        ({"maxBytesPerTrigger": "1k"}, "option maxBytesPerTrigger='1k': a whole number above 0"),
        ({"maxOffsetsPerTriggerByTopic": '{"a": 0}'}, "option maxOffsetsPerTriggerByTopic: expected JSON like"),
        ({"maxOffsetsPerTriggerByTopic": "5"}, "option maxOffsetsPerTriggerByTopic: expected JSON like"),
        ({"fetchOffset.numRetries": "0"}, "option fetchOffset.numRetries='0': a whole number from 1 on"),
        ({"fetchOffset.retryIntervalMs": "-1"}, "option fetchOffset.retryIntervalMs='-1': a whole number from 0 on"),
        ({"minOffsetsPerTrigger": "5", "maxOffsetsPerTrigger": "4"}, "minOffsetsPerTrigger=5 is above maxOffsets"),
        ({"maxOffsetPerTrigger": "4"}, "did you mean maxOffsetsPerTrigger?"),
    ],
)
def test_a_wrong_option_is_named(options: dict[str, str], said: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(said)):
        stream(**options)


def test_a_group_to_start_from_is_for_streams_alone() -> None:
    given = {**SERVERS, "subscribe": "a", "startingOffsets": "group:g"}
    with pytest.raises(ConfigError, match="only a stream starts from the offsets of a group"):
        read_options(given)


def test_the_schema_needs_only_options_that_batches_and_streams_share() -> None:
    check_reading({**SERVERS, "subscribe": "a", "startingOffsets": "latest", "endingOffsets": "latest"})
    with pytest.raises(ConfigError, match="exactly one of the options assign, subscribe"):
        check_reading(SERVERS)
