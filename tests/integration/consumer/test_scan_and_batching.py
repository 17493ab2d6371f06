"""The records of a scan (times, ranges, topics, empty ones), and the batches of a producer; on a real broker."""

import datetime as dt
import time
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.testing.cluster import KafkaCluster
from tests.support.time_limits import within

pytestmark = pytest.mark.either_kafka

NOW_MS = 1_760_000_000_000
DAY_MS = 24 * 3600 * 1000


def make_topic(cluster: KafkaCluster, name: str, partitions: int = 1, config: dict[str, str] | None = None) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(name, partitions=partitions, config=config)


def values(cluster: KafkaCluster, topics: str | list[str], **arguments: Any) -> list[bytes]:
    table = pa.table(kafwire.scan(cluster.bootstrap, topics, columns=["value"], **arguments))
    found: list[bytes] = table["value"].to_pylist()
    return found


def wire_batches(cluster: KafkaCluster, topic: str, partition: int = 0) -> list[int]:
    """Records in each batch of a log, as it is fetched."""
    with kafwire.Client(cluster.bootstrap) as client:
        info = client.topic(topic)
        request: Any = kafwire.protocol.FetchRequest
        part = request.FetchPartition(partition=partition, fetch_offset=0, partition_max_bytes=1 << 24)
        message = request(
            replica_id=-1,
            max_wait_ms=100,
            min_bytes=1,
            topics=[request.FetchTopic(topic=topic, topic_id=info.topic_id, partitions=[part])],
        )
        response = client.call(message, broker=info.partitions[partition].leader)
    data = response.responses[0].partitions[0].records
    return [len(batch) for batch in kafwire.records.decode_batches(data)]


# -- batches


def test_batch_size_1_makes_batches_of_one_record(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap, batch_size=1) as producer:
        for number in range(20):
            producer.send(topic_name, b"%d" % number)
        producer.send_batch(topic_name, pa.table({"value": [b"%d" % number for number in range(20, 40)]}))
    assert wire_batches(cluster, topic_name) == [1] * 40
    assert values(cluster, topic_name) == [b"%d" % number for number in range(40)]


def test_linger_ms_gathers_single_records(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        first = producer.send(topic_name, b"0")
        deliveries = [first, *(producer.send(topic_name, b"%d" % number) for number in range(1, 500))]
        assert not any(delivery.done() for delivery in deliveries)
        producer.flush(20)  # does not wait for linger_ms
        assert all(delivery.done() for delivery in deliveries)
    assert wire_batches(cluster, topic_name) == [500]


def test_linger_ms_sends_by_itself_when_it_is_over(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap, linger_ms=400) as producer:
        producer.send(topic_name, b"warm").result(20)
        with within(10, at_least=0.35):
            assert producer.send(topic_name, b"x").result(10).offset == 1


def test_a_full_batch_does_not_wait_for_linger_ms(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap, linger_ms=60_000, batch_size=10_000) as producer:
        deliveries = [producer.send(topic_name, bytes(1000)) for _ in range(25)]
        with within(20):
            assert deliveries[0].result(20).offset == 0
            assert deliveries[10].result(20).offset == 10
        assert not deliveries[-1].done()
        producer.flush(20)
    assert wire_batches(cluster, topic_name) == [9, 9, 7]


def test_batch_size_bounds_batches_of_rows(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap, batch_size=10_000) as producer:
        producer.send_batch(topic_name, pa.table({"value": [bytes(1000)] * 100})).result(20)
    counts = wire_batches(cluster, topic_name)
    assert sum(counts) == 100
    assert set(counts[:-1]) == {9}


def test_rows_and_records_share_a_batch(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap, linger_ms=60_000) as producer:
        producer.send(topic_name, b"one")
        rows = producer.send_batch(topic_name, pa.table({"value": [b"two", b"three"]}))
        four = producer.send(topic_name, b"four")
        producer.flush(20)
        assert rows.result(0) == [(topic_name, 0, 1, 2)]
        assert four.result(0).offset == 3
    assert wire_batches(cluster, topic_name) == [4]
    assert values(cluster, topic_name) == [b"one", b"two", b"three", b"four"]


@pytest.mark.parametrize(("acks", "offset"), [("all", 0), (1, 0), (0, -1)])
def test_acks(cluster: KafkaCluster, topic_name: str, acks: Any, offset: int) -> None:
    make_topic(cluster, topic_name)
    with within(30), kafwire.Producer(cluster.bootstrap, acks=acks) as producer:
        delivery = producer.send(topic_name, b"x", timestamp_ms=NOW_MS)
        assert delivery.result(20) == (topic_name, 0, offset, NOW_MS)
    deadline = time.monotonic() + 20
    while values(cluster, topic_name) != [b"x"]:  # without acks no response says when it is there
        assert acks == 0
        assert time.monotonic() < deadline


def test_a_hundred_partitions(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, 100)
    rows = 20_000
    table = pa.table(
        {"value": [b"%d" % number for number in range(rows)], "partition": [number % 100 for number in range(rows)]}
    )
    with within(60), kafwire.Producer(cluster.bootstrap) as producer:
        ranges = producer.send_batch(topic_name, table).result(30)
        singles = [producer.send(topic_name, b"last", partition=partition) for partition in range(100)]
        producer.flush(30)
    assert sorted(ranges) == [(topic_name, partition, 0, rows // 100) for partition in range(100)]
    assert [single.result(0).offset for single in singles] == [rows // 100] * 100
    found: dict[int | None, list[bytes | None]] = {}
    with within(30):
        for batch in kafwire.scan(cluster.bootstrap, topic_name).batches():
            found.setdefault(batch.partition, []).extend(record.value for record in batch)
    assert found == {
        partition: [*(b"%d" % number for number in range(partition, rows, 100)), b"last"] for partition in range(100)
    }


def test_keys_go_where_java_puts_them_by_record_and_by_row(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, 7)
    keys = [b"%d" % number for number in range(50)]
    with kafwire.Producer(cluster.bootstrap) as producer:
        one_by_one = [producer.send(topic_name, b"x", key=key) for key in keys]
        producer.send_batch(topic_name, pa.table({"key": keys, "value": keys})).result(20)
        by_record = {key: delivery.result(20).partition for key, delivery in zip(keys, one_by_one, strict=True)}
    table = pa.table(kafwire.scan(cluster.bootstrap, topic_name, columns=["partition", "key"]))
    for row in table.to_pylist():
        assert row["partition"] == by_record[row["key"]]


# -- what a scan covers


def test_empty_topics_and_empty_ranges(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, 3)
    where = TopicPartition(topic_name, 1)
    with within(20):
        table = pa.table(kafwire.scan(cluster.bootstrap, topic_name))
        assert table.num_rows == 0
        assert table.schema.names == [
            *("topic", "partition", "offset", "timestamp", "timestamp_type", "key", "value", "headers")
        ]
        assert list(kafwire.scan(cluster.bootstrap, topic_name).batches()) == []
        assert values(cluster, topic_name, partitions=[]) == []
        with kafwire.Producer(cluster.bootstrap) as producer:
            producer.send_batch(topic_name, pa.table({"value": pa.array([], pa.binary())})).result(20)
            for number in range(5):
                producer.send(topic_name, b"%d" % number, partition=1)
        assert values(cluster, topic_name, start="latest") == []
        assert values(cluster, topic_name, start={where: 2}, end={where: 2}) == []
        assert values(cluster, topic_name, start={where: 5}) == []
        assert values(cluster, topic_name, end={where: 0}) == []
        assert values(cluster, topic_name, partitions=[0, 2]) == []
        assert values(cluster, topic_name) == [b"0", b"1", b"2", b"3", b"4"]


@pytest.mark.parametrize("batch_size", [1, 1 << 20], ids=["batch each", "one batch"])
def test_ranges_of_offsets_are_exact(cluster: KafkaCluster, topic_name: str, batch_size: int) -> None:
    make_topic(cluster, topic_name, 2)
    with kafwire.Producer(cluster.bootstrap, batch_size=batch_size, linger_ms=50) as producer:
        for number in range(20):
            producer.send(topic_name, b"%d" % number, partition=0)
    where = TopicPartition(topic_name, 0)
    for start, end in ((0, 20), (3, 7), (0, 1), (19, 20), (7, 7)):
        expected = [b"%d" % number for number in range(start, end)]
        scan = kafwire.scan(cluster.bootstrap, topic_name, start={where: start}, end={where: end})
        assert scan.ranges == [(topic_name, 0, start, end)]
        assert pa.table(scan)["value"].to_pylist() == expected
    assert values(cluster, topic_name, start={where: "earliest"}, end={where: 3}) == [b"0", b"1", b"2"]
    assert values(cluster, topic_name, start={where: 18}, end={where: "latest"}) == [b"18", b"19"]


def test_a_scan_ends_where_the_topic_ended_when_it_was_made(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap) as producer:
        producer.send(topic_name, b"before").result(20)
        scan = kafwire.scan(cluster.bootstrap, topic_name)
        producer.send(topic_name, b"after").result(20)
    assert pa.table(scan)["value"].to_pylist() == [b"before"]


def of(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


def test_ranges_of_time(cluster: KafkaCluster, topic_name: str) -> None:
    """A record is in the range when its partition has no later one before it: the first offset at or after the time."""
    make_topic(cluster, topic_name, 2)
    with kafwire.Producer(cluster.bootstrap, batch_size=1) as producer:
        for day in range(10):
            for partition in range(2):
                producer.send(topic_name, b"%d" % day, partition=partition, timestamp_ms=NOW_MS + day * DAY_MS)

    def days(**arguments: Any) -> list[int]:
        return sorted(int(value) for value in values(cluster, topic_name, **arguments))

    assert days(start=of(NOW_MS + 3 * DAY_MS)) == sorted([*range(3, 10)] * 2)
    assert days(start=of(NOW_MS + 3 * DAY_MS + 1)) == sorted([*range(4, 10)] * 2)
    assert days(end=of(NOW_MS + 3 * DAY_MS)) == sorted([*range(3)] * 2)
    assert days(start=of(NOW_MS + 2 * DAY_MS), end=of(NOW_MS + 4 * DAY_MS), partitions=[1]) == [2, 3]
    assert days(start=of(NOW_MS + 99 * DAY_MS)) == []
    assert days(end=of(0)) == []
    assert days(start=of(0), end=of(NOW_MS + 99 * DAY_MS)) == sorted([*range(10)] * 2)
    assert days(start=of(NOW_MS + 5 * DAY_MS), end=of(NOW_MS + 2 * DAY_MS)) == []


def test_the_last_of_each_partition(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, 2)
    with kafwire.Producer(cluster.bootstrap) as producer:
        for number in range(10):
            producer.send(topic_name, b"%d" % number, partition=number % 2)
    assert sorted(values(cluster, topic_name, start=kafwire.Tail(2))) == [b"6", b"7", b"8", b"9"]
    assert sorted(values(cluster, topic_name, start=kafwire.Offset(4))) == [b"8", b"9"]
    assert values(cluster, topic_name, start=kafwire.Tail(2), end=kafwire.Tail(1), partitions=[1]) == [b"7"]
    with pytest.raises(kafwire.ConfigError, match=r"start=1: .* write kafwire.Offset\(1\), kafwire.Tail\(1\)"):
        values(cluster, topic_name, start=1)


def test_two_topics_at_once(cluster: KafkaCluster, topic_name: str) -> None:
    names = [topic_name + "-a", topic_name + "-b"]
    for number, name in enumerate(names):
        make_topic(cluster, name, number + 1)
    with kafwire.Producer(cluster.bootstrap) as producer:
        for name in names:
            producer.send(name, name.encode(), partition=0)
        producer.send(names[1], b"other", partition=1)
    table = pa.table(kafwire.scan(cluster.bootstrap, names, columns=["topic", "partition", "value"]))
    rows = sorted((row["topic"], row["partition"], row["value"]) for row in table.to_pylist())
    assert rows == [(names[0], 0, names[0].encode()), (names[1], 0, names[1].encode()), (names[1], 1, b"other")]
    where = TopicPartition(names[1], 1)
    assert values(cluster, names, start={where: 0}) == [b"other"]


def test_log_append_time(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, config={"message.timestamp.type": "LogAppendTime"})
    before = int(time.time() * 1000)
    with kafwire.Producer(cluster.bootstrap) as producer:
        meta = producer.send(topic_name, b"x", timestamp_ms=NOW_MS).result(20)
    after = int(time.time() * 1000)
    assert meta.timestamp_ms is not None
    assert before <= meta.timestamp_ms <= after
    table = pa.table(kafwire.scan(cluster.bootstrap, topic_name, columns=["timestamp", "timestamp_type"]))
    (row,) = table.to_pylist()
    assert row["timestamp_type"] == 1
    assert round(row["timestamp"].timestamp() * 1000) == meta.timestamp_ms


def test_columns_in_the_order_asked_for(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name)
    with kafwire.Producer(cluster.bootstrap) as producer:
        producer.send(topic_name, b"v", key=b"k", headers=[("h", b"1"), ("n", None)], timestamp_ms=NOW_MS)
        producer.send(topic_name, None)
    table = pa.table(kafwire.scan(cluster.bootstrap, topic_name, columns=["headers", "value", "offset", "key"]))
    assert table.column_names == ["headers", "value", "offset", "key"]
    first, second = table.to_pylist()
    assert first == {
        "headers": [{"key": "h", "value": b"1"}, {"key": "n", "value": None}],
        "value": b"v",
        "offset": 0,
        "key": b"k",
    }
    assert (second["value"], second["key"], second["offset"]) == (None, None, 1)
