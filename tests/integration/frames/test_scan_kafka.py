"""`kafwire.polars.scan_kafka`: the rows that polars would keep of all records, from a read of fewer."""

from __future__ import annotations

import datetime as dt
import random
from functools import partial
from typing import Any

import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import kafwire
from kafwire.admin import ConfigResource
from kafwire.calls.client import ClientCalls
from kafwire.error_codes import ErrorCode
from kafwire.errors import BrokerError, ConfigError, broker_error
from kafwire.frames import append_time, dataset
from kafwire.frames.polars_filter import expression_of
from kafwire.frames.snapshot import Snapshot
from kafwire.polars import scan_kafka
from kafwire.scanner.row_filter import ExpressionFilter
from kafwire.testing.cluster import KafkaCluster
from tests.support.deadlines import until
from tests.support.frame_rows import RECORDS, START_MS, fill, time_at
from tests.support.seeds import examples, of_test

pytestmark = pytest.mark.either_kafka

OFFSET, PARTITION, AT, TOPIC = (pl.col(name) for name in ("offset", "partition", "timestamp", "topic"))


@pytest.fixture
def topic(cluster: KafkaCluster, topic_name: str) -> str:
    fill(cluster.bootstrap, topic_name, random.Random(1))
    return topic_name


def rows(frame: pl.DataFrame) -> list[Any]:
    return frame.sort("topic", "partition", "offset").rows()


def drawn(chance: random.Random, topic: str) -> pl.Expr:
    def one() -> pl.Expr:
        offset, ms = chance.randrange(-2, RECORDS + 5), START_MS + chance.randrange(-5000, 1000 * RECORDS)
        choices: list[Any] = [
            offset <= OFFSET,
            offset > OFFSET,
            chance.randrange(3) == PARTITION,
            PARTITION.is_in([0, 7]),
            time_at(ms) <= AT,
            time_at(ms) > AT,
            AT.is_between(time_at(ms), time_at(ms + 9000)),
            chance.choice([topic, "other"]) == TOPIC,
            pl.col("value") > b"5",
        ]
        found: pl.Expr = chance.choice(choices)
        return found

    first, second, third = one(), one(), one()
    return chance.choice([first & second, first | second, ~first, (first & second) | (third & one())])


def test_a_query_has_the_rows_of_all_records(cluster: KafkaCluster, topic: str) -> None:
    whole = pl.DataFrame(kafwire.scan(cluster.bootstrap, topic))
    lazy = scan_kafka(cluster.bootstrap, topic)
    assert lazy.collect_schema() == whole.schema
    assert rows(lazy.collect()) == rows(whole)
    first = of_test()
    for seed in range(first, first + examples(30)):
        chance = random.Random(seed)
        predicate = drawn(chance, topic)
        engine: Any = chance.choice(["in-memory", "streaming"])
        assert rows(lazy.filter(predicate).collect(engine=engine)) == rows(whole.filter(predicate)), (
            f"seed {seed}: {predicate}"
        )


@pytest.mark.parametrize(
    ("predicate", "expected"),
    [
        (PARTITION == 1, [(1, 0, 60)]),
        ((PARTITION == 1) & OFFSET.is_between(10, 12), [(1, 10, 13)]),
        (((PARTITION == 0) & (OFFSET < 3)) | ((PARTITION == 1) & (OFFSET > 50)), [(0, 0, 3), (1, 51, 60)]),
        (OFFSET > 1000, []),
        (TOPIC == "another", []),
        (pl.col("value") == b"7", [(0, 0, 60), (1, 0, 60)]),
    ],
)
def test_only_offsets_that_can_pass_are_read(
    cluster: KafkaCluster, topic: str, predicate: pl.Expr, expected: list[Any]
) -> None:
    snapshot = Snapshot.take(cluster.bootstrap, topic)
    with snapshot.scan(["value"], ExpressionFilter(expression_of(predicate, snapshot.filtered))) as scan:
        assert [(r.partition, r.start, r.end) for r in scan.ranges] == expected


def test_a_time_bounds_a_read_from_below_only(cluster: KafkaCluster, topic: str) -> None:
    since, before = START_MS + 30_000, START_MS + 40_000
    predicate = AT.is_between(time_at(since), time_at(before), closed="left")
    snapshot = Snapshot.take(cluster.bootstrap, topic)
    with snapshot.scan(["timestamp"], ExpressionFilter(expression_of(predicate, snapshot.filtered))) as scan:
        starts, ends = [r.start for r in scan.ranges], [r.end for r in scan.ranges]
        found = [record.timestamp_ms for record in scan]
    assert all(20 <= start <= 34 for start in starts)
    assert ends == [RECORDS, RECORDS]
    assert found
    assert all(since <= ms < before for ms in found if ms is not None)


def test_a_record_of_the_latest_time_of_all_passes(cluster: KafkaCluster, topic_name: str) -> None:
    latest = (1 << 63) - 1
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, config={"message.timestamp.after.max.ms": str(latest)})
    with kafwire.Producer(cluster.bootstrap) as producer:
        for ms in (0, 5, latest, 7):
            producer.send(topic_name, b"", timestamp_ms=ms)
    five, last = (pl.lit(ms).cast(pl.Datetime("ms", "UTC")) for ms in (5, latest))
    for predicate, offsets in (
        (five <= AT, [1, 2, 3]),
        (last == AT, [2]),
        (last > AT, [0, 1, 3]),
        (five != AT, [0, 2, 3]),
    ):
        found = scan_kafka(cluster.bootstrap, topic_name).filter(predicate).collect()
        assert found["offset"].to_list() == offsets, str(predicate)
    after = pc.field("timestamp") >= pa.scalar(5, pa.timestamp("ms", "UTC"))
    assert dataset(cluster.bootstrap, topic_name).to_table(filter=after)["offset"].to_pylist() == [1, 2, 3]


def test_columns_rows_and_names(cluster: KafkaCluster, topic: str) -> None:
    layout = {"names": {"timestamp": "at", "partition": "number"}, "timestamp_unit": "us"}
    lazy = scan_kafka(cluster.bootstrap, topic, layout=layout, columns=["partition", "timestamp", "offset"])
    assert lazy.collect_schema() == {"number": pl.Int32(), "at": pl.Datetime("us", "UTC"), "offset": pl.Int64()}
    chosen = lazy.filter((pl.col("number") == 1) & (pl.col("at") >= time_at(START_MS))).select("offset").collect()
    assert 50 < chosen.height <= RECORDS
    assert chosen.columns == ["offset"]
    assert lazy.select(pl.len()).collect().item() == 2 * RECORDS
    assert lazy.select("number").collect()["number"].sort().to_list() == [0] * RECORDS + [1] * RECORDS
    assert lazy.head(7).collect().height == 7
    assert lazy.head(0).collect().height == 0
    assert lazy.filter(pl.col("offset") >= 50).head(3).collect().height == 3
    one = scan_kafka(cluster.bootstrap, topic, partitions=[1])
    assert one.head(30).filter(OFFSET >= 5).collect()["offset"].to_list() == list(range(5, 30))
    with pytest.raises(ConfigError, match="column"):
        scan_kafka(cluster.bootstrap, topic, columns=["valu"])


def test_each_collect_reads_the_same_records(cluster: KafkaCluster, topic: str) -> None:
    lazy = scan_kafka(cluster.bootstrap, topic, partitions=[0])
    with kafwire.Producer(cluster.bootstrap) as producer:
        producer.send(topic, b"later", partition=0).result(30)
    assert lazy.collect().height == lazy.collect().height == RECORDS
    assert scan_kafka(cluster.bootstrap, topic, partitions=[0]).collect().height == RECORDS + 1
    joined = lazy.join(lazy, on="offset").collect()
    assert joined.height == RECORDS


def test_a_topic_that_is_recreated_is_an_error(cluster: KafkaCluster, topic: str) -> None:
    lazy = scan_kafka(cluster.bootstrap, topic)
    with kafwire.Client(cluster.bootstrap) as client:
        client.delete_topic(topic)
        until(lambda: topic not in {each.name for each in client.metadata().topics}, "the topic is gone")
        client.create_topic(topic, partitions=2)
    with pytest.raises((BrokerError, pl.exceptions.PolarsError), match="deleted and recreated since the scan was made"):
        lazy.collect()


def test_bad_arguments_are_errors_of_the_call(cluster: KafkaCluster) -> None:
    with pytest.raises(ConfigError, match="number alone"):
        scan_kafka(cluster.bootstrap, "t", start=5)  # type: ignore[arg-type]
    with pytest.raises(BrokerError, match="no-such-topic"):
        scan_kafka(cluster.bootstrap, "no-such-topic")


@pytest.fixture
def exact_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_time, "CLOCKS_DIFFER_MS", 0)


def ranges_before(cluster: KafkaCluster, topic: str, before_ms: int, end: int | None = None) -> list[tuple[int, int]]:
    snapshot = Snapshot.take(cluster.bootstrap, topic, end="latest" if end is None else kafwire.Offset(end))
    predicate = time_at(before_ms) > AT
    with snapshot.scan(["value"], ExpressionFilter(expression_of(predicate, snapshot.filtered))) as scan:
        return [(r.start, r.end) for r in scan.ranges]


def refuse(*_: object) -> None:
    raise broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "not described")


def _is_over(ms: int) -> bool:
    return now_ms() > ms


def now_ms() -> int:
    return round(dt.datetime.now(dt.UTC).timestamp() * 1000)


@pytest.mark.usefixtures("exact_clocks")
def test_times_of_brokers_bound_a_read_from_above_too(
    cluster: KafkaCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, config={"message.timestamp.type": "LogAppendTime"})
    with kafwire.Producer(cluster.bootstrap, linger_ms=0) as producer:
        for _ in range(3):
            written = producer.send(topic_name, b"").result(30)
            until(partial(_is_over, now_ms() + 1), "another millisecond")
    [times] = [pl.DataFrame(kafwire.scan(cluster.bootstrap, topic_name))["timestamp"].dt.epoch("ms").to_list()]
    assert written.offset == 2
    assert ranges_before(cluster, topic_name, times[1]) == [(0, 1)]
    assert ranges_before(cluster, topic_name, times[2] + 1) == [(0, 3)]
    assert ranges_before(cluster, topic_name, times[2], end=1) == [(0, 1)]
    kept = scan_kafka(cluster.bootstrap, topic_name).filter(time_at(times[1]) > AT).collect()
    assert kept["offset"].to_list() == [0]
    monkeypatch.setattr(ClientCalls, "topic_config", refuse)
    assert ranges_before(cluster, topic_name, times[1]) == [(0, 3)]
    monkeypatch.undo()  # clocks differ by a minute again
    assert ranges_before(cluster, topic_name, times[1]) == [(0, 3)]


@pytest.mark.usefixtures("exact_clocks")
def test_a_record_with_the_time_of_a_producer_ends_no_read(cluster: KafkaCluster, topic_name: str) -> None:
    """The topic had producers' times first, and one is of the next hour."""
    with kafwire.Client(cluster.bootstrap) as client, kafwire.Producer(cluster.bootstrap, linger_ms=0) as producer:
        client.create_topic(topic_name)
        producer.send(topic_name, b"", timestamp_ms=now_ms() + 3_600_000).result(30)
        with kafwire.Admin(cluster.bootstrap) as admin:
            admin.alter_configs({ConfigResource.topic(topic_name): {"message.timestamp.type": "LogAppendTime"}})
        until(lambda: client.topic_config(topic_name)["message.timestamp.type"] == "LogAppendTime")
        producer.send(topic_name, b"").result(30)
    soon = now_ms() + 60_000
    assert ranges_before(cluster, topic_name, soon) == [(0, 2)]
    assert scan_kafka(cluster.bootstrap, topic_name).filter(time_at(soon) > AT).collect()["offset"].to_list() == [1]
