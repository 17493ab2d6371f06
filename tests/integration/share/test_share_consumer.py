"""Members of share groups, on an embedded broker, or on Apache Kafka with KAFKA=real."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import kafwire
from kafwire import AsyncShareConsumer, ShareBatch, ShareConsumer, protocol
from kafwire.errors import BrokerError, ConfigError, KafkaError
from tests.support.broker.either_kafka import either_kafka
from tests.support.deadlines import until

pytestmark = pytest.mark.either_kafka

RECORDS = 20
ONE_NODE: dict[str, object] = {
    "share.coordinator.state.topic.replication.factor": 1,
    "share.coordinator.state.topic.min.isr": 1,
    "group.share.heartbeat.interval.ms": 300,
    "group.share.min.heartbeat.interval.ms": 300,
    "group.share.min.record.lock.duration.ms": 1000,
}
EXPLICIT: dict[str, Any] = {"share_acknowledgement_mode": "explicit"}


@pytest.fixture(scope="module")
def bootstrap() -> Iterator[str]:
    with either_kafka(ONE_NODE) as kafka:
        yield kafka.bootstrap


@pytest.fixture
def topic(bootstrap: str, request: pytest.FixtureRequest) -> str:
    """A topic of one partition with records, and a share group of the same name that begins with the first."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    with kafwire.Client(bootstrap) as client:
        create = protocol.CreateTopicsRequest
        wanted = create.CreatableTopic(name=name, num_partitions=1, replication_factor=1)
        (made,) = client.call(create(topics=[wanted], timeout_ms=30_000)).topics
        assert made.error_code == 0
    configure(bootstrap, name, "share.auto.offset.reset", "earliest")
    write(bootstrap, name)
    return name


def configure(bootstrap: str, group: str, option: str, value: str) -> None:
    """Set an option of a group."""
    alter = protocol.IncrementalAlterConfigsRequest
    config = alter.AlterableConfig(name=option, config_operation=0, value=value)
    resource = alter.AlterConfigsResource(resource_type=32, resource_name=group, configs=[config])
    with kafwire.Client(bootstrap) as client:
        (altered,) = client.call(alter(resources=[resource])).responses
    assert altered.error_code == 0


def write(bootstrap: str, topic: str, count: int = RECORDS, **options: Any) -> None:
    with kafwire.Producer(bootstrap, **options) as producer:
        for number in range(count):
            producer.send(topic, b"%d" % number)


def read(consumer: ShareConsumer, count: int) -> dict[int, int]:
    """Read and process `count` records as they come; return each with its delivery count."""
    found: dict[int, int] = {}
    for batch in consumer.batches(timeout=20.0):
        found |= dict.fromkeys(values(batch), batch.delivery_count)
        if len(found) >= count:
            break
    consumer.poll(0.0)
    return found


def values(batch: ShareBatch) -> list[int]:
    return [int(record.value) for record in batch]


def test_delivered_records_are_accepted_by_the_next_read(bootstrap: str, topic: str) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as consumer:
        assert list(read(consumer, RECORDS)) == list(range(RECORDS))
        consumer.commit()
        assert consumer.metrics()["acknowledged"] == RECORDS
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as again:
        assert again.poll(0.7) == []


def test_a_consumer_that_leaves_by_an_exception_releases_its_records(bootstrap: str, topic: str) -> None:
    with (
        pytest.raises(ValueError, match="no"),
        ShareConsumer(
            bootstrap, topics=topic, group_id=topic, share_acquire_mode="record_limit", max_poll_records=5
        ) as consumer,
    ):
        for number, _ in enumerate(consumer.batches(timeout=10.0)):
            if number == 1:
                raise ValueError("no")
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as again:
        found = read(again, RECORDS - 5)
    assert sorted(found) == list(range(5, RECORDS))
    assert {found[value] for value in range(5, 10)} == {2}
    assert {found[value] for value in range(10, RECORDS)} == {1}


def test_records_one_by_one_go_on_where_the_last_loop_stopped(bootstrap: str, topic: str) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as consumer:
        for record in consumer:
            if record.offset == 2:
                break
        assert [next(iter(consumer)).offset for _ in range(2)] == [3, 4]
        rest = {value: batch.delivery_count for batch in consumer.poll(20.0) for value in values(batch)}
    assert rest == dict.fromkeys(range(5, RECORDS), 1), "the rest costs no delivery"


def test_records_one_by_one_are_acknowledged_each_by_itself(bootstrap: str, topic: str) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
        for record in consumer:
            consumer.acknowledge(record, "release" if record.offset % 5 == 0 else "accept")
            if record.offset == RECORDS - 1:
                break
        consumer.commit()
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as again:
        assert read(again, RECORDS // 5) == dict.fromkeys(range(0, RECORDS, 5), 2)


def test_a_commit_does_not_wait_for_records(bootstrap: str, topic: str) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
        (batch,) = consumer.poll(10.0)
        reader = threading.Thread(target=consumer.poll, args=(20.0,))
        reader.start()
        until(lambda: any(node.is_busy for node in consumer._core.fetcher._nodes.values()))
        batch.accept()
        consumer.commit(10.0)
        assert consumer.metrics()["acknowledged"] == RECORDS
        write(bootstrap, topic, 1)
        reader.join(30)


@pytest.mark.parametrize(
    "column",
    [pa.array, np.array, list, lambda kinds: pa.array(kinds, pa.int8()), lambda kinds: np.array(kinds, np.int8)],
    ids=["arrow", "numpy", "list", "arrow-int8", "numpy-int8"],
)
def test_a_whole_batch_is_acknowledged_by_a_column(bootstrap: str, topic: str, column: Any) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
        (batch,) = consumer.poll(10.0)
        assert batch.to_arrow().num_rows == RECORDS
        kinds = [(1, 2, 3, 1)[value % 4] for value in values(batch)]
        batch.acknowledge(column(kinds))
        assert batch.is_acknowledged
        consumer.commit()
        again = list(read(consumer, RECORDS // 4))
        assert again == [value for value in range(RECORDS) if value % 4 == 1], "released records come again"


def test_a_column_that_does_not_fit_says_nothing(bootstrap: str, topic: str) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
        (batch,) = consumer.poll(10.0)
        for wrong in ([1], [1] * (RECORDS - 1) + [9]):
            with pytest.raises(ConfigError):
                batch.acknowledge(wrong)
        batch.accept(batch[0])
        with pytest.raises(KafkaError, match="acknowledged already"):
            batch.release(batch[0])
        batch.accept()
        consumer.commit()
        assert consumer.metrics()["acknowledged"] == RECORDS


def test_members_share_one_partition_and_each_record_is_processed_once(bootstrap: str, topic: str) -> None:
    limits: dict[str, Any] = {"share_acquire_mode": "record_limit", "max_poll_records": 3}
    seen: Counter[int] = Counter()
    with (
        ShareConsumer(bootstrap, topics=topic, group_id=topic, **limits) as one,
        ShareConsumer(bootstrap, topics=topic, group_id=topic, **limits) as other,
    ):
        took = {one: 0, other: 0}
        while sum(seen.values()) < RECORDS:
            for member in took:
                for batch in member.poll(0.5):
                    seen.update(values(batch))
                    took[member] += len(batch)
        assert min(took.values()) > 0
    assert seen == Counter(range(RECORDS))


def test_a_lock_that_runs_out_gives_the_records_to_others_and_is_reported(bootstrap: str, topic: str) -> None:
    configure(bootstrap, topic, "share.record.lock.duration.ms", "2000")
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as slow:
        (batch,) = slow.poll(10.0)
        assert batch.lock_ms <= 2000
        with ShareConsumer(bootstrap, topics=topic, group_id=topic) as quick:
            (again,) = quick.poll(20.0)  # once the locks are over
            assert again.delivery_count == 2
            assert values(again) == list(range(RECORDS))
            batch.accept()
            with pytest.raises(BrokerError, match="other members get them"):
                slow.commit()


def test_acknowledgements_in_a_lost_session_are_reported(topic: str, bootstrap: str) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
        (batch,) = consumer.poll(10.0)
        for connection in consumer._core.cluster.connections:
            if connection.role == "share":
                connection.fail("a test breaks it")
        batch.accept()
        with pytest.raises(BrokerError, match="session with the broker was lost"):
            consumer.commit()
        (again,) = consumer.poll(20.0)
        assert (again.delivery_count, values(again)) == (2, values(batch))


def test_a_renewed_lock_lasts(bootstrap: str, topic: str) -> None:
    configure(bootstrap, topic, "share.record.lock.duration.ms", "3000")
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
        (batch,) = consumer.poll(10.0)
        with ShareConsumer(bootstrap, topics=topic, group_id=topic) as other:
            for _ in range(4):
                batch.renew()
                consumer.commit()
                assert batch.lock_ms > 1000
                assert other.poll(0.9) == []
        batch.accept()
        consumer.commit()


def test_a_record_that_was_delivered_too_often_is_rejected(
    bootstrap: str, topic: str, caplog: pytest.LogCaptureFixture
) -> None:
    with ShareConsumer(bootstrap, topics=topic, group_id=topic, max_deliveries=2, **EXPLICIT) as consumer:
        counts = []

        def is_rejected() -> bool:
            for batch in consumer.poll(0.1):
                counts.append(batch.delivery_count)
                batch.release()
            return "max_deliveries" in caplog.text

        until(is_rejected, "the third delivery is rejected")
        assert counts == [1, 2]


def are_over(batches: list[ShareBatch]) -> bool:
    return all(batch.lock_ms <= 0 for batch in batches)


@pytest.mark.parametrize("way", ["release", "leave", "lock"])
def test_each_way_to_give_a_record_back_costs_a_delivery(bootstrap: str, topic: str, way: str) -> None:
    """Kafka 4.3.1 and 4.4.0 take nothing off the delivery count: the last delivery archives the record."""
    configure(bootstrap, topic, "share.delivery.count.limit", "2")
    if way == "lock":
        configure(bootstrap, topic, "share.record.lock.duration.ms", "1000")
        configure(bootstrap, topic, "share.renew.acknowledge.enable", "false")
    for count in (1, 2):
        with ShareConsumer(bootstrap, topics=topic, group_id=topic, **EXPLICIT) as consumer:
            batches = consumer.poll(20.0)
            assert {batch.delivery_count for batch in batches} == {count}
            assert sum(len(values(batch)) for batch in batches) == RECORDS
            if way == "release":
                for batch in batches:
                    batch.release()
                consumer.commit()
            if way == "lock":
                until(partial(are_over, batches))
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as again:
        assert again.poll(0.7) == []


def test_awaited(bootstrap: str, topic: str) -> None:
    async def main() -> list[int]:
        found: list[int] = []
        async with AsyncShareConsumer(bootstrap, topics=topic, group_id=topic) as consumer:
            async for record in consumer:
                found.append(int(record.value))
                if found[-1] == 1:
                    consumer.acknowledge(record, "reject")
                if len(found) == RECORDS // 2:
                    break
            await consumer.commit()
            assert (await consumer.metrics())["acknowledged"] == RECORDS // 2 - 1
        async with AsyncShareConsumer(bootstrap, topics=topic, group_id=topic) as consumer:
            async for batch in consumer.batches(timeout=20.0):
                found += values(batch)
                if found[-1] == RECORDS - 1:
                    break
        return found

    found = asyncio.run(main())
    # The record in hand when the loop was left is not accepted.
    assert found == [*range(RECORDS // 2), *range(RECORDS // 2 - 1, RECORDS)]


@pytest.mark.parametrize(("isolation", "sees"), [("read_uncommitted", [100, 200]), ("read_committed", [200])])
def test_the_group_says_which_transactions_are_read(
    bootstrap: str, topic: str, isolation: str, sees: list[int]
) -> None:
    configure(bootstrap, topic, "share.isolation.level", isolation)
    with kafwire.Producer(bootstrap, transactional_id=topic) as producer:
        with pytest.raises(ValueError, match="no"), producer.transaction():
            producer.send(topic, b"100")
            producer.flush()
            raise ValueError("no")
        with producer.transaction():
            producer.send(topic, b"200")
    with ShareConsumer(bootstrap, topics=topic, group_id=topic) as consumer:
        assert list(read(consumer, RECORDS + len(sees))) == [*range(RECORDS), *sees]


def test_a_topic_that_does_not_exist_and_a_group_without_a_name(bootstrap: str) -> None:
    with pytest.raises(BrokerError, match="missing"):
        ShareConsumer(bootstrap, topics="missing", group_id="g")
    with pytest.raises(ConfigError, match="group_id"):
        ShareConsumer(bootstrap, topics="missing")
