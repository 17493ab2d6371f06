"""An app that uses aiokafka, and its tests: it writes the mean of every few temperatures of a sensor."""

from __future__ import annotations

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from kafwire.testing import EmbeddedKafka

# --- the app


async def write_means(servers: str, *, every: int, count: int) -> None:
    """Write `count` means, each of so many temperatures, and commit what they are of."""
    consumer = AIOKafkaConsumer(
        "temperatures",
        bootstrap_servers=servers,
        client_id="means",
        group_id="means",
        enable_auto_commit=False,
        auto_offset_reset="earliest",
    )
    producer = AIOKafkaProducer(bootstrap_servers=servers, client_id="means", enable_idempotence=True)
    await consumer.start()
    await producer.start()
    try:
        values: list[float] = []
        async for record in consumer:
            values.append(float(record.value))
            if len(values) == every:
                await producer.send_and_wait("means", f"{sum(values) / every:.1f}".encode())
                await consumer.commit()
                values.clear()
                count -= 1
                if not count:
                    return
    finally:
        await producer.stop()
        await consumer.stop()


def run(kafka: EmbeddedKafka, *, count: int) -> list[bytes | None]:
    async def within() -> None:
        async with asyncio.timeout(30):
            await write_means(kafka.bootstrap, every=2, count=count)

    asyncio.run(within())
    return [record.value for record in kafka.records("means")]


# --- its tests


def test_means_are_written_and_committed(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("temperatures")
    kafka.append("temperatures", ["20", "22", "10", "11", "5"])
    assert run(kafka, count=2) == [b"21.0", b"10.5"]
    assert kafka.requests("OffsetCommit")[-1].message.topics[0].partitions[0].committed_offset == 4


def test_a_mean_is_written_once_although_its_response_is_lost(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("temperatures")
    kafka.append("temperatures", ["20", "22"])
    lost = kafka.drop_response("Produce")
    assert run(kafka, count=1) == [b"21.0"]
    assert lost.times == 1


def test_brokers_that_are_busy_are_asked_again(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("temperatures")
    kafka.append("temperatures", ["20", "22"])
    faults = [
        kafka.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2),
        kafka.fail_next("Produce", "NOT_ENOUGH_REPLICAS"),
        kafka.fail_next("OffsetCommit", "COORDINATOR_LOAD_IN_PROGRESS"),
    ]
    assert run(kafka, count=1) == [b"21.0"]
    assert [fault.times for fault in faults] == [2, 1, 1]
    assert kafka.committed("means") == {("temperatures", 0): 2}


def test_what_arrives_while_a_commit_hangs_is_written_after_it(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("temperatures")
    kafka.append("temperatures", ["20", "22", "10", "11"])

    async def both() -> None:
        writing = asyncio.create_task(write_means(kafka.bootstrap, every=2, count=2))
        with kafka.hold("OffsetCommit") as held:
            await asyncio.to_thread(kafka.wait_for_fault, held)
            assert [record.value for record in kafka.records("means")] == [b"21.0"]
        async with asyncio.timeout(30):
            await writing

    asyncio.run(both())
    assert [record.value for record in kafka.records("means")] == [b"21.0", b"10.5"]
