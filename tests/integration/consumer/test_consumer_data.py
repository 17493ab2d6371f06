"""Both flavours of the consumer on real logs: transactions, damage, huge batches; lag, ends and commits.

confluent-kafka and Kafka's own tools are the references.
"""

from __future__ import annotations

import random
import subprocess
import time
from collections.abc import Iterator
from typing import Any

import confluent_kafka as ck
import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import BrokerError, ConfigError, CorruptBatchError
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import DEFAULT_VERSION, class_path, java
from tests.support import seeds
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.deadlines import until
from tests.support.kafka_versions import CLUSTERS
from tests.support.known_topics import Seen, fill, make_topic, partitions_of, records, take, value_of
from tests.support.time_limits import within


@pytest.fixture(params=seeds.sampled(CLUSTERS, DEFAULT_VERSION))
def broker(request: pytest.FixtureRequest) -> KafkaCluster:
    found: KafkaCluster = request.getfixturevalue(CLUSTERS[request.param])
    return found


@pytest.fixture
def bootstrap(broker: KafkaCluster) -> str:
    return broker.bootstrap


@pytest.fixture(params=["blocking", "async"])
def flavour(request: pytest.FixtureRequest) -> Iterator[Flavour]:
    with flavour_named(request.param) as found:
        yield found


def confluent(bootstrap: str, group_id: str, **options: Any) -> ck.Consumer:
    known = {"bootstrap.servers": bootstrap, "group.id": group_id, "enable.auto.commit": False, "log_level": 0}
    return ck.Consumer({**known, **options})


# -- transactions


def write_transactions(bootstrap: str, topic: str, seed: int) -> tuple[dict[int, list[bytes]], dict[int, list[bytes]]]:
    """Three producers' transactions, mixed with one another: (values committed, all values) of both partitions."""
    chance = random.Random(seed)
    producers = []
    for number in range(3):
        options = {"bootstrap.servers": bootstrap, "transactional.id": f"{topic}-{number}", "linger.ms": 0}
        producer = ck.Producer(options)
        producer.init_transactions(60)
        producers.append(producer)
    committed: dict[int, list[bytes]] = {0: [], 1: []}
    everything: dict[int, list[bytes]] = {0: [], 1: []}
    pending: list[dict[int, list[bytes]]] = [{0: [], 1: []} for _ in producers]
    is_open = [False] * len(producers)
    for step in range(60):
        which = chance.randrange(len(producers))
        producer = producers[which]
        if not is_open[which]:
            producer.begin_transaction()
            is_open[which] = True
        for partition in (0, 1) if chance.random() < 0.8 else (chance.randrange(2),):
            value = b"%d-%d-%d" % (which, partition, step)
            producer.produce(topic, value, partition=partition)
            producer.flush(30)
            pending[which][partition].append(value)
            everything[partition].append(value)
        if chance.random() < 0.4 or step >= 57:
            if chance.random() < 0.5:
                producer.commit_transaction(60)
                for partition in (0, 1):
                    committed[partition] += pending[which][partition]
            else:
                producer.abort_transaction(60)
            pending[which] = {0: [], 1: []}
            is_open[which] = False
    for which, producer in enumerate(producers):
        if is_open[which]:
            producer.abort_transaction(60)
    # In the order of the log, as transactions overlap.
    sets = {partition: set(values) for partition, values in committed.items()}
    return {p: [value for value in everything[p] if value in sets[p]] for p in (0, 1)}, everything


def test_0098_0129_transactions(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    seed = seeds.of_test()
    make_topic(bootstrap, topic_name, 2)
    committed, everything = write_transactions(bootstrap, topic_name, seed)
    where = partitions_of(topic_name, 2)
    for options in ({}, {"fetch_max_bytes": 1, "max_partition_fetch_bytes": 1}, {"chunk_bytes": 1}):
        with flavour.consumer(
            bootstrap, topics=topic_name, start="earliest", isolation_level="read_committed", **options
        ) as consumer:
            seen = take(consumer, sum(map(len, committed.values())))
            assert seen.values == {p: values for p, values in committed.items() if values}
            # Aborted records and markers behind the last one are passed without being handed out.
            assert consumer.poll(0.1) == []
            ends = consumer.end_offsets()
            with within(20):
                while {one: consumer.position(one) for one in where} != ends:
                    assert consumer.poll(0.1) == []
            until(lambda: consumer.lag() == dict.fromkeys(where, 0))
    with flavour.consumer(bootstrap, topics=topic_name, start="earliest") as consumer:
        assert take(consumer, sum(map(len, everything.values()))).values == everything


def test_an_open_transaction_is_the_end_of_the_committed_records(
    flavour: Flavour, bootstrap: str, topic_name: str
) -> None:
    make_topic(bootstrap, topic_name)
    where = TopicPartition(topic_name, 0)
    producer = ck.Producer({"bootstrap.servers": bootstrap, "transactional.id": topic_name})
    producer.init_transactions(60)
    fill(bootstrap, topic_name, 1, 3)
    producer.begin_transaction()
    producer.produce(topic_name, b"open", partition=0)
    producer.flush(30)
    fill(bootstrap, topic_name, 1, 2, first=4)
    with (
        flavour.consumer(bootstrap, assign=[where], start="earliest", isolation_level="read_committed") as careful,
        flavour.consumer(bootstrap, assign=[where], start="earliest") as other,
    ):
        assert take(careful, 3).offsets == {0: [0, 1, 2]}
        assert careful.poll(0.2) == []
        assert careful.end_offsets() == {where: 3}
        assert careful.position(where) == 3
        assert careful.lag(where) == 0
        assert take(other, 6).offsets == {0: [0, 1, 2, 3, 4, 5]}
        assert other.end_offsets() == {where: 6}
        producer.commit_transaction(60)
        assert take(careful, 3).offsets == {0: [3, 4, 5]}
        assert careful.end_offsets() == {where: 7}


# -- lag, ends


def test_lag_and_ends_are_those_that_others_see(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, 2)
    zero, one = partitions_of(topic_name, 2)
    fill(bootstrap, topic_name, 2, 50)
    with kafwire.Client(bootstrap) as client:
        request = kafwire.protocol.DeleteRecordsRequest(timeout_ms=10_000)
        cut = request.DeleteRecordsPartition(partition_index=1, offset=20)
        request.topics = [request.DeleteRecordsTopic(name=topic_name, partitions=[cut])]
        client.call(request, broker=client.topic(topic_name).partitions[1].leader)
    other = confluent(bootstrap, topic_name)
    with flavour.consumer(bootstrap, topics=topic_name, start="earliest", chunk_bytes=1) as consumer:
        assert consumer.lag() == {zero: None, one: None}
        for find, which in ((consumer.beginning_offsets, 0), (consumer.end_offsets, 1)):
            expected = [
                other.get_watermark_offsets(ck.TopicPartition(*w), 20, cached=False)[which] for w in (zero, one)
            ]
            assert find() == dict(zip((zero, one), expected, strict=True))
        seen = take(consumer, 10)
        requests = sum(
            connection["requests"]
            for connection in consumer.metrics()["connections"]
            if connection["role"] == "control"
        )
        lags = {where: lag for where, lag in consumer.lag().items() if lag is not None}
        assert lags
        assert lags == {where: 50 - consumer.position(where) for where in lags}
        seen2 = take(consumer, 80 - seen.count)
        assert seen.count + seen2.count == 80
        assert consumer.lag() == {zero: 0, one: 0}
        assert (
            sum(
                connection["requests"]
                for connection in consumer.metrics()["connections"]
                if connection["role"] == "control"
            )
            == requests
        ), "nothing was asked of a broker"
    other.close()


def test_deleted_records_are_passed_over_by_policy(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    """Offsets below the log's start: confluent-kafka #1787 skips them in silence."""
    make_topic(bootstrap, topic_name)
    where = TopicPartition(topic_name, 0)
    fill(bootstrap, topic_name, 1, 30)
    with kafwire.Client(bootstrap) as client:
        request = kafwire.protocol.DeleteRecordsRequest(timeout_ms=10_000)
        cut = request.DeleteRecordsPartition(partition_index=0, offset=10)
        request.topics = [request.DeleteRecordsTopic(name=topic_name, partitions=[cut])]
        client.call(request, broker=client.topic(topic_name).partitions[0].leader)
    options = {"assign": [where], "start": {where: 5}}
    with flavour.consumer(bootstrap, **options, auto_offset_reset="earliest") as consumer:
        assert take(consumer, 20).offsets == {0: list(range(10, 30))}
        assert consumer.metrics()["fetcher"]["position_resets"] == 1
    with flavour.consumer(bootstrap, **options, auto_offset_reset="latest") as consumer:
        assert consumer.poll(0.3) == []
        assert consumer.position(where) == 30
    with (
        flavour.consumer(bootstrap, **options, auto_offset_reset="error") as consumer,
        pytest.raises(BrokerError, match=rf"OFFSET_OUT_OF_RANGE.*{topic_name}-0.* 5\b"),
    ):
        consumer.poll(10)
    with flavour.consumer(bootstrap, **options, auto_offset_reset="by_duration:PT1H") as consumer:
        # The records' times are years ago: there is none of the last hour.
        assert consumer.poll(0.3) == []
        assert consumer.position(where) == 30


# -- commits


def test_commits_are_seen_by_others_and_the_reverse(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name, 2)
    zero, one = partitions_of(topic_name, 2)
    fill(bootstrap, topic_name, 2, 20)
    other = confluent(bootstrap, topic_name)
    theirs = [ck.TopicPartition(topic_name, number) for number in range(2)]
    options = {"assign": [zero, one], "group_id": topic_name, "auto_offset_reset": "earliest"}
    with flavour.consumer(bootstrap, **options, enable_auto_commit=False) as consumer:
        assert consumer.committed() == {zero: None, one: None}
        assert records(consumer, 3)[0].offset == 0
        consumer.commit({zero: 7})
        assert [each.offset for each in other.committed(theirs, 20)] == [7, ck.OFFSET_INVALID]
        other.commit(offsets=[ck.TopicPartition(topic_name, 1, 9)], asynchronous=False)
        assert consumer.committed([one, zero]) == {one: 9, zero: 7}
    with flavour.consumer(bootstrap, **options, enable_auto_commit=False) as consumer:
        seen = Seen()
        batches = consumer.batches(timeout=20)
        while seen.count < 13 + 11:
            batch = next(batches)
            seen.add(batch)
            consumer.commit(batch)
        assert seen.values == {
            0: [value_of(0, number) for number in range(7, 20)],
            1: [value_of(1, number) for number in range(9, 20)],
        }
        assert [each.offset for each in other.committed(theirs, 20)] == [20, 20]
    other.close()


def test_auto_commit_passes_nothing_that_was_not_processed(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    where = TopicPartition(topic_name, 0)
    fill(bootstrap, topic_name, 1, 20, singly=True)
    options = {"assign": [where], "group_id": topic_name, "auto_offset_reset": "earliest", "chunk_bytes": 1}
    with flavour.consumer(bootstrap, **options) as consumer:
        for _ in range(5):
            last = next(consumer.batches(timeout=20))
        assert last.next_offset < 20
    with flavour.consumer(bootstrap, **options) as consumer:
        assert consumer.committed() == {where: last.base_offset}, "the last one was handed out, and no other asked for"
        seen = records(consumer, 4)
        assert seen[0].offset == last.base_offset
    with flavour.consumer(bootstrap, **options, auto_commit_interval_ms=50) as consumer:
        assert consumer.committed() == {where: seen[-1].offset}
        take(consumer, 20 - seen[-1].offset)
        consumer.poll(0.0)
        until(lambda: consumer.committed() == {where: 20}, "committed")


def test_javas_tool_sees_the_commits(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster.bootstrap, topic_name, 2)
    fill(cluster.bootstrap, topic_name, 2, 10)
    zero, one = partitions_of(topic_name, 2)
    with kafwire.Consumer(cluster.bootstrap, assign=[zero, one], group_id=topic_name, start="earliest") as consumer:
        consumer.commit({zero: 4, one: 10})
    tool = "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand"
    command = [java(), "-XX:TieredStopAtLevel=1", "-cp", class_path(), tool]
    command += ["--bootstrap-server", cluster.bootstrap, "--describe", "--offsets", "--group", topic_name]
    out = subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout
    rows = [line.split() for line in out.splitlines() if line.startswith(topic_name)]
    assert sorted(row[2:6] for row in rows) == [["0", "4", "10", "6"], ["1", "10", "10", "0"]], out


def test_a_commit_without_a_group_is_refused(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    make_topic(bootstrap, topic_name)
    with flavour.consumer(bootstrap, topics=topic_name) as consumer, pytest.raises(ConfigError, match="group_id"):
        consumer.commit()


# -- huge, partial and damaged batches


def test_0036_a_batch_above_every_limit(flavour: Flavour, bootstrap: str, topic_name: str) -> None:
    """A batch larger than fetch_max_bytes and fetch_memory comes whole, between small ones, of which none is lost."""
    make_topic(bootstrap, topic_name, 2, config={"max.message.bytes": str(20 << 20)})
    huge = random.Random(1).randbytes(12 << 20)
    fill(bootstrap, topic_name, 2, 10)
    with kafwire.Producer(bootstrap, max_request_size=20 << 20) as producer:
        producer.send(topic_name, huge, partition=0).result(60)
    expected = fill(bootstrap, topic_name, 2, 10, first=11)
    options = {"fetch_max_bytes": 1 << 20, "max_partition_fetch_bytes": 1 << 19, "fetch_memory": 2 << 20}
    with flavour.consumer(bootstrap, topics=topic_name, start="earliest", **options) as consumer:
        seen = take(consumer, 41)
    first = {partition: [value_of(partition, number) for number in range(10)] for partition in (0, 1)}
    assert seen.values == {0: [*first[0], huge, *expected[0]], 1: [*first[1], *expected[1]]}


@pytest.mark.parametrize("damage", ["records", "checksum"])
def test_a_damaged_segment(flavour: Flavour, broker: KafkaCluster, topic_name: str, damage: str) -> None:
    """A byte flipped on the broker's disk: an error with partition, offset and broker; or skipped and counted."""
    bootstrap = broker.bootstrap
    make_topic(bootstrap, topic_name)
    where = TopicPartition(topic_name, 0)
    fill(bootstrap, topic_name, 1, 9, singly=True)
    segment = broker.node(1).data / f"{topic_name}-0" / "00000000000000000000.log"
    data = segment.read_bytes()
    at = data.index(value_of(0, 4)) if damage == "records" else begin_of_batch(data, 4) + 17
    with segment.open("r+b") as file:
        file.seek(at)
        file.write(bytes([data[at] ^ 1]))
    with flavour.consumer(bootstrap, assign=[where], start="earliest", chunk_bytes=1) as consumer:
        seen = Seen()
        with pytest.raises(CorruptBatchError, match=rf"{topic_name}-0.*offset 4.*{bootstrap}") as raised:
            for batch in consumer.batches(timeout=20):
                seen.add(batch)
        error = raised.value
        assert (error.topic, error.partition, error.base_offset, error.next_offset) == (topic_name, 0, 4, 5)
        assert seen.offsets == {0: [0, 1, 2, 3]}, "the records before it came first"
        with pytest.raises(CorruptBatchError, match="offset 4"):
            consumer.poll(10)
        consumer.seek(where, 5)
        assert take(consumer, 4).offsets == {0: [5, 6, 7, 8]}
    with flavour.consumer(bootstrap, assign=[where], start="earliest", on_corrupt="skip") as consumer:
        assert take(consumer, 8).offsets == {0: [0, 1, 2, 3, 5, 6, 7, 8]}
        assert consumer.metrics()["partitions"][f"{topic_name}-0"]["skipped_batches"] == 1
        assert consumer.position(where) == 9
    with pytest.raises(CorruptBatchError, match=f"{topic_name}-0.*offset 4"):
        list(kafwire.scan(bootstrap, topic_name, chunk_bytes=1).batches())
    found = kafwire.scan(bootstrap, topic_name, on_corrupt="skip").batches()
    assert [record.offset for batch in found for record in batch] == [0, 1, 2, 3, 5, 6, 7, 8]


def begin_of_batch(data: bytes, offset: int) -> int:
    """Where the batch with that base offset begins in a segment."""
    at = 0
    while int.from_bytes(data[at : at + 8], "big") != offset:
        at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")
    return at


# -- quotas


def test_a_quota_is_obeyed(flavour: Flavour, cluster: KafkaCluster, topic_name: str) -> None:
    """The broker says how long it will not listen (KIP-219), and meanwhile nothing is sent to it."""
    bootstrap = cluster.bootstrap
    make_topic(bootstrap, topic_name)
    with kafwire.Producer(bootstrap, batch_size=1) as producer:
        for _ in range(40):
            producer.send(topic_name, bytes(50_000))

    def set_quota(*, remove: bool = False) -> None:
        request = kafwire.protocol.AlterClientQuotasRequest()
        entity = [request.EntityData(entity_type="client-id", entity_name=topic_name)]
        # Averaged over some 10 s: a rate above 750 kB has to wait.
        quota = request.OpData(key="consumer_byte_rate", value=75_000.0, remove=remove)
        request.entries = [request.EntryData(entity=entity, ops=[quota])]
        with kafwire.Client(bootstrap) as client:
            response = client.call(request, broker=client.metadata().controller_id)
            assert response.entries[0].error_code == 0

    set_quota()
    options = {"client_id": topic_name, "fetch_max_bytes": 512 << 10}
    with flavour.consumer(bootstrap, topics=topic_name, start="earliest", **options) as consumer:

        def fetching() -> tuple[int, int]:
            """How long to wait in all, and requests in flight."""
            connections = [
                connection for connection in consumer.metrics()["connections"] if connection["role"] == "fetch"
            ]
            return sum(connection["throttle_ms"] for connection in connections), sum(
                connection["in_flight"] for connection in connections
            )

        count = 0
        with within(60):
            while not (throttled := fetching())[0]:
                if count == 40:  # all was read before the leader knew of the quota
                    consumer.seek(TopicPartition(topic_name, 0), 0)
                    count = 0
                count += sum(len(batch) for batch in consumer.poll(0.05))
            begin = time.monotonic()
            assert throttled[0] > 1500, "the test needs a longer silence"
            assert throttled[1] == 0
            while time.monotonic() - begin < 1:
                count += sum(len(batch) for batch in consumer.poll(0.05))
                assert fetching() == throttled, "a request was sent while the broker did not listen"
            assert count < 40
            set_quota(remove=True)
            assert count + take(consumer, 40 - count).count == 40
            assert time.monotonic() - begin > throttled[0] / 1000 - 0.2
