"""`telemetry.sampling`: the values of snapshots, with names, labels and units."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

import kafwire
from kafwire.errors import ConfigError
from kafwire.telemetry import METRICS, flat, samples
from kafwire.testing.simulation.cluster import ClusterWorld

NAME = re.compile(r"kafwire_[a-z0-9_]+")


def test_names_are_unique_and_tell_type_and_unit() -> None:
    exported = [metric for metric in METRICS if metric.name]
    for names in ([metric.name for metric in exported], [metric.otel_name for metric in exported]):
        assert len(names) == len(set(names))
    for metric in exported:
        assert NAME.fullmatch(metric.name)
        assert metric.name.endswith("_total") == (metric.kind in {"counter", "errors", "place_errors"})
        assert ("_seconds" in metric.name) == (metric.unit in {"ms", "s"} or metric.key == "rows_per_second") or (
            "per_second" in metric.name
        )
        assert ("bytes" in metric.name) == (metric.unit == "bytes")


def test_a_producers_values() -> None:
    with ClusterWorld(brokers=1, seed=1) as world:
        world.state.topics.create("a-b", partitions=1)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("a-b", b"v").result(30)
            snapshot = producer.metrics()
    found = flat(snapshot)
    assert json.loads(json.dumps(found)) == found
    assert found["kafwire_producer_records_total"] == 1
    assert found['kafwire_producer_partition_records_total{topic="a-b",partition="0"}'] == 1
    assert found["kafwire_producer_buffer_memory_bytes"] == snapshot["producer"]["buffer_memory"]
    connection = snapshot["connections"][0]
    labels = f'{{node="{connection["node"]}",role="{connection["role"]}"}}'
    assert found[f"kafwire_connection_responses_total{labels}"] == connection["responses"]
    assert found[f"kafwire_connection_latency_seconds_total{labels}"] == pytest.approx(
        connection["latency_ms_sum"] / 1000
    )


def test_a_consumers_values() -> None:
    with ClusterWorld(brokers=1, seed=1) as world:
        world.state.topics.create("t", partitions=1)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("t", b"v").result(30)
        options: Any = {"group_id": "g", "auto_offset_reset": "earliest", "topics": "t", "engine": world.engine}
        with kafwire.Consumer(world.bootstrap, **options) as consumer:
            assert consumer.poll(timeout=30.0)
            found = flat(consumer.metrics())
    assert found['kafwire_consumer_partition_position{topic="t",partition="0"}'] == 1
    assert found['kafwire_consumer_group_state{state="stable"}'] == 1
    assert found['kafwire_consumer_partition_paused{topic="t",partition="0"}'] == 0
    assert not any("failing_seconds" in name for name in found), "None is no value"


def test_errors_are_counters_by_name() -> None:
    snapshot = {
        "fetcher": {"errors": {"t-0": {"NOT_LEADER_OR_FOLLOWER": 2}}, "broker_fetchers": []},
        "partitions": {},
        "group": None,
    }
    assert flat(snapshot) == {'kafwire_consumer_fetcher_errors_total{place="t-0",error="NOT_LEADER_OR_FOLLOWER"}': 2.0}


def test_spark_queries_by_name_and_topic() -> None:
    query = {"query": "q", "rows_per_second": 5.0, "topics": {"t": {"lag": 3, "rate": None}}}
    expected = {
        'kafwire_spark_query_rows_per_second{query="q"}': 5.0,
        'kafwire_spark_topic_lag{query="q",topic="t"}': 3.0,
    }
    assert flat(query) == flat({"q": query}) == expected
    assert flat({}) == {}


def test_labels_of_the_caller_stand_first() -> None:
    (sample,) = samples({"acquired": 3}, {"client": "c"})
    assert sample.labels == {"client": "c"}


def test_a_dict_that_is_no_snapshot() -> None:
    with pytest.raises(ConfigError, match="not a snapshot of metrics"):
        list(samples({"lag": 3}))
