"""The JSON of a stream's offsets: Spark's shape, and the same text for the same offsets."""

from __future__ import annotations

import json
import random

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.stream_offsets import from_json, names, to_json
from kafwire.types import TopicPartition


def test_keys_have_a_fixed_order_and_numbers_are_no_texts() -> None:
    places = [TopicPartition(topic, number) for topic in ("a", "b") for number in range(12)]
    random.shuffle(places)
    text = json.dumps(to_json({place: place.partition for place in places}))
    assert text.startswith('{"a": {"0": 0, "1": 1, "2": 2, ')
    assert text.index('"10": 10') < text.index('"11": 11') < text.index('"b"')
    assert json.dumps(to_json(from_json(json.loads(text)))) == text


def test_the_text_of_spark_s_own_source_is_read() -> None:
    assert from_json(json.loads('{"t":{"1":5,"0":3}}')) == {TopicPartition("t", 0): 3, TopicPartition("t", 1): 5}
    assert from_json({}) == from_json(None) == {}


@pytest.mark.parametrize("text", ['{"index": 5}', '{"t": {"x": 1}}', '{"t": {"0": -1}}', '{"t": {"0": "5"}}'])
def test_an_offset_of_another_source_is_refused(text: str) -> None:
    shape = json.loads(text)
    with pytest.raises(ConfigError, match="not one of a Kafka source: give this query another checkpointLocation"):
        from_json(shape)


def test_many_partitions_are_counted() -> None:
    assert names({TopicPartition("t", 1), TopicPartition("t", 0)}) == "t-0, t-1"
    assert names({TopicPartition("t", number) for number in range(12)}).endswith("t-9 and 2 more")
