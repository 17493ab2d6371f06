"""The stream reader's methods on the embedded broker, called as Spark calls them, without a JVM."""

from __future__ import annotations

import json
import pickle
import socket
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.spark import AvailableNowError, DataLossError, KafwireDataSource
from kafwire.spark.byte_limit import Sample
from kafwire.spark.group_commits import GroupCommits
from kafwire.spark.lookup import ClusterLookup
from kafwire.spark.schema import full_schema, schema_of
from kafwire.spark.stream_reader import KafwireStreamReader
from kafwire.types import TopicPartition

Make = Callable[..., KafwireStreamReader]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def topic(kafka: EmbeddedKafka, request: pytest.FixtureRequest) -> str:
    name = str(request.node.name).replace("[", "-").replace("]", "")
    kafka.create_topic(name, partitions=2)
    return name


@pytest.fixture
def make(kafka: EmbeddedKafka) -> Iterator[Make]:
    made = []

    def reader(columns: list[str] | None = None, **options: str) -> KafwireStreamReader:
        given = {
            "kafka.bootstrap.servers": kafka.bootstrap,
            "startingOffsets": "earliest",
            "fetchOffset.retryIntervalMs": "0",
            **options,
        }
        schema = full_schema(include_headers=False) if columns is None else schema_of(columns)
        found = KafwireDataSource({name.lower(): value for name, value in given.items()}).streamReader(schema)
        assert isinstance(found, KafwireStreamReader)
        made.append(found)
        return found

    yield reader
    for each in made:
        each.stop()


def latest(reader: KafwireStreamReader, start: dict[str, Any]) -> dict[str, Any]:
    """The end of a batch, by way of JSON as in Spark."""
    found: dict[str, Any] = json.loads(json.dumps(reader.latestOffset(start, reader.getDefaultReadLimit())))
    return found


def read(reader: KafwireStreamReader, start: dict[str, Any], end: dict[str, Any]) -> list[bytes]:
    worker = pickle.loads(pickle.dumps(reader))
    batches = [batch for piece in reader.partitions(start, end) for batch in worker.read(piece)]
    return sorted(value for batch in batches for value in batch["value"].to_pylist())


def test_two_batches(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    kafka.append(topic, [b"0", b"1", b"2"])
    kafka.append(topic, [b"3"], partition=1)
    reader = make(["value"], subscribe=topic, maxOffsetsPerTrigger="2")
    start = reader.initialOffset()
    assert reader.reportLatestOffset() is None
    first = latest(reader, start)
    assert (start, first) == ({topic: {"0": 0, "1": 0}}, {topic: {"0": 1, "1": 1}})
    assert reader.reportLatestOffset() == {topic: {"0": 3, "1": 1}}
    assert read(reader, start, first) == [b"0", b"3"]
    rest = json.loads(json.dumps(reader.latestOffset(first, ReadAllAvailable())))
    assert read(reader, first, rest) == [b"1", b"2"]
    assert reader.partitions(rest, rest) == []
    assert latest(reader, rest) == rest


def test_a_plan_of_a_warm_reader_takes_two_requests(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    reader = make(subscribe=topic)
    start = latest(reader, reader.initialOffset())
    kafka.forget_requests()
    kafka.append(topic, [b"0"])
    end = latest(reader, start)
    assert len(reader.partitions(start, end)) == 1
    assert [seen.api for seen in kafka.requests()] == ["Metadata", "ListOffsets"]


def test_a_reader_goes_on_after_its_broker_was_away(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    kafka.append(topic, [b"0"])
    reader = make(["value"], subscribe=topic)
    start = reader.initialOffset()
    end = latest(reader, start)
    pieces = reader.partitions(start, end)
    kafka.stop_node(1)
    kafka.start_node(1)
    assert [value for piece in pieces for batch in reader.read(piece) for value in batch["value"].to_pylist()] == [b"0"]
    kafka.append(topic, [b"1"])
    assert read(reader, end, latest(reader, end)) == [b"1"]


def test_tasks_name_the_rack_of_their_host(
    kafka: EmbeddedKafka, make: Make, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    kafka.append(topic, [b"0"])

    def rack(**options: str) -> str:
        reader = make(["value"], subscribe=topic, **options)
        kafka.forget_requests()
        assert read(reader, reader.initialOffset(), latest(reader, reader.initialOffset())) == [b"0"]
        (found,) = {seen.message.rack_id for seen in kafka.requests() if seen.api == "Fetch"}
        return str(found)

    monkeypatch.setattr(socket, "gethostname", lambda: "worker-1.example.org")
    by_host = '{"worker-1": "short", "worker-2": "other"}'
    assert rack(**{"kafka.client.rack": "everywhere"}) == "everywhere"
    monkeypatch.setenv("KAFWIRE_CLIENT_RACK", "of the host")
    assert rack(**{"kafka.client.rack": "everywhere"}) == "of the host"
    assert rack(clientRackByHost=by_host) == "short"
    assert rack(clientRackByHost='{"worker-1.example.org": "whole", "worker-1": "short"}') == "whole"
    assert rack(clientRackByHost='{"worker-2": "other"}') == "of the host"


def test_topics_of_a_pattern_come_and_go(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    reader = make(["value"], subscribePattern=f"^{topic}(-more)?$", failOnDataLoss="false")
    start = latest(reader, reader.initialOffset())
    kafka.create_topic(f"{topic}-more")
    kafka.append(f"{topic}-more", [b"new"])
    end = latest(reader, start)
    assert end == {topic: {"0": 0, "1": 0}, f"{topic}-more": {"0": 1}}
    assert read(reader, start, end) == [b"new"]
    kafka.delete_topic(f"{topic}-more")
    after = latest(reader, end)
    assert after == {topic: {"0": 0, "1": 0}}
    assert read(reader, end, after) == []


def test_a_recreated_topic_is_a_loss(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    kafka.append(topic, [b"old"])
    strict, lenient = make(subscribe=topic), make(["value"], subscribe=topic, failOnDataLoss="false")
    end = latest(strict, strict.initialOffset())
    assert latest(lenient, lenient.initialOffset()) == end
    kafka.delete_topic(topic)
    kafka.create_topic(topic, partitions=2)
    kafka.append(topic, [b"new", b"newer"])
    with pytest.raises(DataLossError, match=f"PARTITIONS_RECREATED. topic {topic} was deleted and created again"):
        latest(strict, end)
    pinned = latest(lenient, end)
    assert read(lenient, end, pinned) == []
    assert read(lenient, pinned, latest(lenient, pinned)) == [b"new", b"newer"]


def test_a_topic_deleted_between_two_lookups_of_a_plan_is_missing(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    lookup = ClusterLookup(make(subscribe=topic).options.read)
    places = [TopicPartition(topic, 0), TopicPartition(topic, 1)]
    try:
        assert lookup.latest(places) == lookup.earliest(places) == dict.fromkeys(places, 0)
        kafka.delete_topic(topic)
        assert lookup.latest(places) == {}
        kafka.create_topic(topic, partitions=1)
        assert lookup.earliest(places) == {places[0]: 0}
    finally:
        lookup.close()


@pytest.mark.parametrize("comes_back", [False, True])
def test_a_topic_deleted_between_plan_and_read_is_a_loss(
    kafka: EmbeddedKafka, make: Make, topic: str, comes_back: bool
) -> None:
    kafka.append(topic, [b"old"])
    strict, lenient = make(subscribe=topic), make(subscribe=topic, failOnDataLoss="false")
    planned = [
        (reader, reader.partitions(reader.initialOffset(), latest(reader, reader.initialOffset())))
        for reader in (strict, lenient)
    ]
    kafka.delete_topic(topic)
    if comes_back:
        kafka.create_topic(topic)
        kafka.append(topic, [b"new", b"newer"])
    said = "PARTITIONS_RECREATED" if comes_back else "COULD_NOT_READ_OFFSET_RANGE. topic .* was deleted after"
    for reader, (piece,) in planned:
        if reader is strict:
            with pytest.raises(DataLossError, match=said):
                list(reader.read(piece))
        else:
            assert list(reader.read(piece)) == []


def delete_before(kafka: EmbeddedKafka, topic: str, offset: int) -> None:
    request: Any = kafwire.protocol.DeleteRecordsRequest
    part = request.DeleteRecordsPartition(partition_index=0, offset=offset)
    with kafwire.Client(kafka.bootstrap) as client:
        client.call(request(topics=[request.DeleteRecordsTopic(name=topic, partitions=[part])], timeout_ms=10_000))


def test_records_deleted_before_a_task_reads_them_are_a_loss(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    kafka.append(topic, [b"%d" % number for number in range(10)])
    strict, lenient = make(subscribe=topic), make(["value"], subscribe=topic, failOnDataLoss="false")
    start, end = strict.initialOffset(), latest(strict, strict.initialOffset())
    delete_before(kafka, topic, 7)
    with pytest.raises(DataLossError, match=rf"KAFKA_DATA_LOSS.START_OFFSET_RESET\] {topic}-0 \[0, 10\) was planned"):
        read(strict, start, end)
    assert read(lenient, start, end) == [b"7", b"8", b"9"]


def test_available_now_sees_a_deleted_topic(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    kafka.append(topic, [b"0"])
    reader = make(subscribe=topic)
    reader.prepareForTriggerAvailableNow()
    start = reader.initialOffset()
    end = latest(reader, start)
    kafka.append(topic, [b"1"])
    assert latest(reader, start) == end
    kafka.delete_topic(topic)
    with pytest.raises(AvailableNowError, match="LOST_TOPIC_PARTITIONS_IN_END_OFFSET_WITH_TRIGGER_AVAILABLENOW"):
        reader.partitions(start, end)


def test_a_stream_starts_from_a_group_and_commits_for_one(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    kafka.append(topic, [b"%d" % number for number in range(10)])
    start_group = GroupCommits(f"{topic}-from", {"bootstrap_servers": kafka.bootstrap})
    start_group.commit({TopicPartition(topic, 0): 4})
    start_group.close()
    reader = make(["value"], subscribe=topic, startingOffsets=f"group:{topic}-from", commitGroup=f"{topic}-to")
    start = reader.initialOffset()
    assert start == {topic: {"0": 4, "1": 0}}
    assert latest(reader, start) == start
    end = latest(reader, start)
    assert read(reader, start, end) == [b"%d" % number for number in range(4, 10)]
    assert kafka.committed(f"{topic}-to") == {}
    latest(reader, end)
    assert kafka.committed(f"{topic}-to") == {(topic, 0): 10, (topic, 1): 0}


@pytest.mark.parametrize("size", [100, 20_000])
def test_a_batch_is_bounded_by_bytes(kafka: EmbeddedKafka, make: Make, topic: str, size: int) -> None:
    count = 40_000_000 // size // 10
    for partition in range(2):
        for _ in range(10):
            kafka.append(topic, [b"x" * size] * (count // 20), partition=partition)
    limit = 800_000
    reader = make(["value"], subscribe=topic, maxBytesPerTrigger=str(limit))
    position, batches = reader.initialOffset(), 0
    while (end := latest(reader, position)) != position:
        read_bytes = sum(map(len, read(reader, position, end)))
        assert read_bytes <= 2 * limit
        if end != reader.reportLatestOffset():
            assert read_bytes >= limit / 2
        position, batches = end, batches + 1
    assert position == {topic: {"0": count // 2, "1": count // 2}}
    assert batches >= 3


def test_a_limit_by_bytes_passes_over_records_and_topics_that_are_gone(
    kafka: EmbeddedKafka, make: Make, topic: str
) -> None:
    kafka.append(topic, [b"x" * 1000] * 100)
    kafka.create_topic(f"{topic}-2")
    kafka.append(f"{topic}-2", [b"x" * 1000] * 100)
    options = {"maxBytesPerTrigger": "100000", "failOnDataLoss": "false"}
    reader = make(["value"], subscribePattern=f"^{topic}", **options)
    start = reader.initialOffset()
    delete_before(kafka, topic, 90)
    end = latest(reader, start)
    assert len(read(reader, start, end)) <= 110
    lookup = ClusterLookup(reader.options.read)
    try:
        kafka.delete_topic(f"{topic}-2")
        at = {TopicPartition(topic, 0): (0, 100), TopicPartition(f"{topic}-2", 0): (0, 100)}
        assert lookup.samples(at) == {TopicPartition(topic, 0): Sample(100, 10_000)}
    finally:
        lookup.close()


def test_holes_of_compaction_and_transactions_are_no_loss(kafka: EmbeddedKafka, make: Make, topic: str) -> None:
    with kafwire.Producer(kafka.bootstrap, transactional_id=topic) as producer:
        for number in range(3):
            with producer.transaction():
                producer.send(topic, b"%d" % number, partition=0)
    reader = make(["value"], subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    start = reader.initialOffset()
    end = latest(reader, start)
    assert end == {topic: {"0": 6, "1": 0}}
    assert read(reader, start, end) == [b"0", b"1", b"2"]


def test_an_open_transaction_ends_a_batch_at_the_last_stable_offset(
    kafka: EmbeddedKafka, make: Make, topic: str
) -> None:
    kafka.append(topic, [b"0"])
    reader = make(["value"], subscribe=topic, **{"kafka.isolation.level": "read_committed"})
    with kafwire.Producer(kafka.bootstrap, transactional_id=topic) as producer, producer.transaction():
        producer.send(topic, b"1", partition=0).result(10)
        kafka.append(topic, [b"2"])
        start = reader.initialOffset()
        end = latest(reader, start)
        assert end == {topic: {"0": 1, "1": 0}}
        assert read(reader, start, end) == [b"0"]
    assert read(reader, end, latest(reader, end)) == [b"1", b"2"]
