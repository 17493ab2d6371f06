"""How many records come at once: `max_poll_records` and `poll(max_records=)`, of both flavours."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

import kafwire
from kafwire.config import ConsumerConfig, ShareConsumerConfig, from_config
from kafwire.errors import ConfigError
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import fill
from tests.support.simulated.flavours import Flavour, rows

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)
ALL = list(range(12))


def fetched(flavour: Flavour, **options: Any) -> Any:
    """A consumer of two partitions with three batches of four records each, and all of it fetched."""
    fill(flavour.world, "t", partitions=2, batches=3, records=4)
    options = {"assign": [T0, T1], "group_id": "g", "start": "earliest", "enable_auto_commit": False} | options
    consumer = flavour.consumer(**options)
    assert flavour.get(consumer.poll()) == []
    flavour.world.pass_time(1)
    return consumer


def committed(flavour: Flavour) -> dict[int, int]:
    return {where[1]: kept.offset for where, kept in flavour.world.committed.get("g", {}).items()}


def polls(flavour: Flavour, consumer: Any, *limits: int | None) -> list[dict[int, list[int]]]:
    return [rows(flavour.get(consumer.poll(max_records=limit))) for limit in limits]


def test_poll_returns_no_more_than_it_should_and_loses_nothing(flavour: Flavour) -> None:
    consumer = fetched(flavour)
    found = polls(flavour, consumer, 5, 1, 8, 7, 1000, 1)
    assert [sum(map(len, each.values())) for each in found] == [5, 1, 8, 7, 3, 0]
    for number in (0, 1):
        assert [offset for each in found for offset in each.get(number, [])] == ALL


def test_the_option_is_the_default_of_poll(flavour: Flavour) -> None:
    consumer = fetched(flavour, max_poll_records=5)
    assert [sum(map(len, each.values())) for each in polls(flavour, consumer, None, 7, None, 1000)] == [5, 7, 5, 7]


@pytest.mark.parametrize("value", [0, -1, True, 1.5, "5", 1 << 70])
def test_a_value_that_is_no_limit_is_refused(flavour: Flavour, value: Any) -> None:
    consumer = fetched(flavour)
    with pytest.raises(ConfigError, match=r"max_records=.*: a whole number from 1 on is needed, or None"):
        flavour.get(consumer.poll(max_records=value))


def test_withheld_records_are_neither_committed_nor_processed(flavour: Flavour) -> None:
    consumer = fetched(flavour)
    polls(flavour, consumer, 3)
    assert flavour.get(consumer.position(T0)) == 3
    assert consumer.processed() == {T0: 0, T1: 0}
    assert consumer.processed(in_hand=True) == {T0: 3, T1: 0}
    flavour.get(consumer.commit())
    assert committed(flavour) == {0: 3, 1: 0}
    polls(flavour, consumer, 2)
    assert consumer.processed() == {T0: 3, T1: 0}
    flavour.get(consumer.commit())
    assert committed(flavour) == {0: 5, 1: 0}
    assert consumer.lag(T0) == 7


def test_seek_pause_and_records_go_on_from_there(flavour: Flavour) -> None:
    consumer = fetched(flavour)
    assert polls(flavour, consumer, 2) == [{0: [0, 1]}]
    flavour.get(consumer.pause(T0))
    assert polls(flavour, consumer, 2) == [{1: [0, 1]}]
    flavour.get(consumer.resume(T0))
    flavour.get(consumer.pause(T1))
    assert [record.offset for record in flavour.some(each_of(consumer), 2)] == [2, 3]
    flavour.get(consumer.seek(T0, 1))
    assert polls(flavour, consumer, 2) == [{}]
    flavour.world.pass_time(1)
    assert polls(flavour, consumer, 3, 2) == [{0: [1, 2, 3]}, {0: [4, 5]}]


def each_of(consumer: Any) -> Any:
    return aiter(consumer) if hasattr(consumer, "__aiter__") else iter(consumer)


def test_batches_and_streams_have_the_option_s_limit(flavour: Flavour) -> None:
    consumer = fetched(flavour, max_poll_records=5)
    assert [len(batch) for batch in flavour.some(consumer.batches(), 6)] == [5, 5, 2, 5, 5, 2]
    flavour.get(consumer.seek_to_beginning())
    stream = consumer.partition_stream(T1)
    flavour.world.pass_time(1)
    batches = flavour.some(stream, 1)
    flavour.world.pass_time(1)
    batches += flavour.some(stream, 2)
    assert [record.offset for batch in batches for record in batch] == ALL
    assert max(map(len, batches)) == 5
    flavour.get(stream.close() if flavour.blocks else stream.aclose())


def test_records_one_by_one_need_no_limit(flavour: Flavour) -> None:
    consumer = fetched(flavour, max_poll_records=5)
    found = flavour.some(each_of(consumer), 24)
    assert sorted((record.partition, record.offset) for record in found) == [(n, o) for n in (0, 1) for o in ALL]


def test_an_explicit_stream_completes_its_records(flavour: Flavour) -> None:
    consumer = fetched(flavour, max_poll_records=5)
    stream = consumer.partition_stream(T0, explicit=True)
    flavour.world.pass_time(1)
    [first] = flavour.some(stream, 1)
    flavour.world.pass_time(1)
    stream.complete(first.base_offset, 100)  # rows that were not delivered are not completed
    flavour.get(stream.commit())
    assert committed(flavour) == {0: first.next_offset}
    flavour.get(stream.close() if flavour.blocks else stream.aclose())


def test_java_s_option_limits_poll_alone(flavour: Flavour) -> None:
    options = from_config(ConsumerConfig, {"bootstrap.servers": "h:1", "max.poll.records": "5"})
    consumer = fetched(flavour, max_poll_records=options["max_poll_records"])
    assert [sum(map(len, each.values())) for each in polls(flavour, consumer, None, 1)] == [5, 1]
    assert max(len(batch) for batch in flavour.some(consumer.batches(), 2)) > 5


@pytest.mark.parametrize("value", ["many", 0, True, 1.5, 1 << 40])
def test_a_bad_value_is_refused_in_either_spelling(value: Any) -> None:
    for name in ("max.poll.records", "max_poll_records"):
        with pytest.raises(ConfigError, match=f"option {name}="):
            kafwire.Consumer.from_config({"bootstrap.servers": "h:1", "topics": "t", name: value})


def test_other_clients_have_the_name_too() -> None:
    made = from_config(ShareConsumerConfig, {"bootstrap.servers": "h:1", "group.id": "g", "max.poll.records": 7})
    assert made["max_poll_records"] == 7
    with pytest.raises(ConfigError, match="unknown option 'max_poll_records', which would have no effect here"):
        kafwire.Producer("h:1", max_poll_records=5)  # type: ignore[call-arg]


@pytest.mark.parametrize("flavour", ["aio"], indirect=True)
def test_a_batch_that_a_cancelled_poll_decoded_is_not_above_the_next_one_s_limit(
    flavour: Flavour, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kafwire.aio.batch_reader.INLINE_BYTES", 0)
    consumer = fetched(flavour)

    def in_a_while(_: Any, function: Any, *arguments: Any) -> Any:
        async def call() -> Any:
            await asyncio.sleep(0.01)
            return function(*arguments)

        return asyncio.ensure_future(call())

    monkeypatch.setattr(flavour.world.loop, "run_in_executor", in_a_while)

    async def run() -> list[tuple[int, int]]:
        polling = asyncio.ensure_future(consumer.poll(1.0))
        await asyncio.sleep(0.005)
        polling.cancel()
        await asyncio.gather(polling, return_exceptions=True)
        await asyncio.sleep(0.1)
        assert len(consumer._reading._decoding.result()) == len(ALL)
        found = []
        for _ in range(30):
            batches = await consumer.poll(0.5, max_records=2)
            assert sum(map(len, batches)) <= 2
            found += [(batch.partition, record.offset) for batch in batches for record in batch]
        return found

    assert sorted(flavour.world.run(run())) == [(number, offset) for number in (0, 1) for offset in ALL]
