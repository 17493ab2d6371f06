"""The records that `commit()` covers, by its caller: rows in hand of the reader, and none of another thread."""

from __future__ import annotations

import asyncio
import logging
import pickle
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire.errors import ConfigError
from kafwire.types import TopicPartition
from tests.support.group.committing_consumer import committed
from tests.support.simulated.consumer import fill, write
from tests.support.simulated.flavours import Flavour

T0, T1 = TopicPartition("t", 0), TopicPartition("t", 1)


def reading(flavour: Flavour, *, partitions: int = 1, batches: int = 2, records: int = 3, **options: Any) -> Any:
    """A consumer of full partitions, whose records are there."""
    fill(flavour.world, "t", partitions=partitions, batches=batches, records=records)
    options = {"group_id": "g", "start": "earliest", "enable_auto_commit": False, "chunk_bytes": 1, **options}
    return flavour.consumer(assign=[T0, T1][:partitions], **options)


def ready(flavour: Flavour, consumer: Any) -> Any:
    """The consumer, once it was asked for records and they are there."""
    flavour.get(consumer.poll())
    flavour.world.pass_time(1)
    return consumer


def take(flavour: Flavour, source: Any, count: int) -> list[Any]:
    """The next batches or records, asked for here, and not in a task of their own."""
    if flavour.blocks:
        return [next(source) for _ in range(count)]
    return [flavour.get(anext(source)) for _ in range(count)]


only_asyncio = pytest.mark.parametrize("flavour", ["aio"], indirect=True)


def test_commit_covers_all_of_the_last_poll(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour, partitions=2))
    assert len(flavour.get(consumer.poll())) == 4
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 6, 1: 6}


def test_commit_covers_the_batch_of_the_body(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour))
    batches = consumer.batches(timeout=0)
    take(flavour, batches, 1)
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 3}
    take(flavour, batches, 1)
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 6}


def test_commit_covers_records_up_to_the_current_one(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour))
    records = iter(consumer) if flavour.blocks else aiter(consumer)
    for count, last in ((2, 1), (1, 2), (2, 4)):
        assert take(flavour, records, count)[-1].offset == last
        flavour.get(consumer.commit())
        assert committed(flavour.world) == {0: last + 1}
    assert consumer.processed() == {T0: 5}, "committed by its reader: processed"


@pytest.mark.parametrize("way", ["poll", "batches", "records"])
def test_commit_elsewhere_leaves_out_records_in_hand(
    flavour: Flavour, way: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = ready(flavour, reading(flavour))
    if way == "poll":
        flavour.get(consumer.poll())
    elif way == "batches":
        take(flavour, consumer.batches(timeout=0), 1)
    else:
        take(flavour, iter(consumer) if flavour.blocks else aiter(consumer), 2)
    for _ in range(2):
        flavour.elsewhere(consumer.commit)
    assert committed(flavour.world) == {0: {"poll": 0, "batches": 0, "records": 1}[way]}
    warnings = [record.message for record in caplog.records if record.levelno == logging.WARNING]
    assert len(warnings) == 1, "one, however often"
    assert "give commit() the batches" in warnings[0]


def test_a_commit_without_rows_in_hand_warns_of_nothing(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    consumer = ready(flavour, reading(flavour))
    flavour.all(consumer.batches(timeout=0))
    flavour.elsewhere(consumer.commit)
    assert committed(flavour.world) == {0: 6}
    assert not caplog.records


def test_after_a_seek_nothing_of_the_partition_is_in_hand(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour, partitions=2))
    flavour.get(consumer.poll())
    flavour.get(consumer.seek(T0, 2))
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 2, 1: 6}


def test_another_reader_does_not_move_records_in_hand_after_a_seek(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour))
    flavour.get(consumer.poll())
    flavour.get(consumer.seek(T0, 1))
    stream = consumer.partition_stream(T0, timeout=0)
    flavour.world.pass_time(1)
    take(flavour, stream, 1)
    flavour.world.pass_time(1)
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 1}, "the stream's batch is in the stream's hand alone"


def test_a_streams_reader_commits_its_batch_and_the_consumer_does_not(flavour: Flavour) -> None:
    consumer = reading(flavour)
    stream = consumer.partition_stream(T0, timeout=10)
    if flavour.blocks:
        flavour.world.run(consumer._core.assignment.ask(stream._claim))
        flavour.world.pass_time(1)
    take(flavour, stream, 1)
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 0}
    flavour.get(stream.commit())
    assert committed(flavour.world) == {0: 3}


def test_an_explicit_stream_commits_up_to_the_first_gap(flavour: Flavour) -> None:
    consumer = reading(flavour)
    stream = consumer.partition_stream(T0, timeout=10, explicit=True)
    if flavour.blocks:
        flavour.world.run(consumer._core.assignment.ask(stream._claim))
        flavour.world.pass_time(1)
    take(flavour, stream, 1)
    stream.complete(0, 1)
    stream.complete(2, 3)
    flavour.get(stream.commit())
    flavour.get(consumer.commit())
    assert committed(flavour.world) == {0: 1}


def test_batches_and_records_are_committed_to_the_highest_of_each_partition(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour, partitions=2))
    found = flavour.get(consumer.poll())
    flavour.get(consumer.commit(found[0][1]))
    assert committed(flavour.world) == {found[0].partition: 2}
    flavour.get(consumer.commit(list(reversed(found))))
    assert committed(flavour.world) == {0: 6, 1: 6}
    flavour.get(consumer.commit([found[0], found[0][0]]))
    assert committed(flavour.world)[found[0].partition] == found[0].next_offset
    flavour.get(consumer.commit([]))


def test_a_text_is_committed_with_an_offset(flavour: Flavour) -> None:
    consumer = reading(flavour)
    flavour.get(consumer.commit({T0: (2, "host a")}))
    found = flavour.get(consumer.committed())
    assert found == {T0: 2}
    assert found[T0].metadata == "host a"
    flavour.get(consumer.commit({T0: 3}))
    found = pickle.loads(pickle.dumps(flavour.get(consumer.committed())))
    assert (found[T0], found[T0].metadata, type(found[T0])) == (3, "", kafwire.CommittedOffset)


@pytest.mark.parametrize(
    ("what", "text"),
    [
        ("t", "a list of these"),
        (3, "not 3"),
        ([3], "one of the list is 3"),
        ({T0: (1, 2)}, "the text to commit with t-0 is 2"),
        ({T0: (1, "a", "b")}, "a number from 0"),
    ],
)
def test_other_things_are_not_committed(flavour: Flavour, what: Any, text: str) -> None:
    consumer = reading(flavour)
    with pytest.raises(ConfigError, match=text):
        flavour.get(consumer.commit(what))


def test_processed_follows_commit(flavour: Flavour) -> None:
    consumer = ready(flavour, reading(flavour))
    take(flavour, consumer.batches(timeout=0), 1)
    assert consumer.processed() == {T0: 0}
    assert consumer.processed(in_hand=True) == {T0: 3}
    assert consumer.processed() == {T0: 0}, "asking does not process"
    assert flavour.elsewhere(lambda: consumer.processed(in_hand=True)) == {T0: 0}


def test_automatic_commits_leave_out_records_in_hand(flavour: Flavour, caplog: pytest.LogCaptureFixture) -> None:
    consumer = ready(flavour, reading(flavour, enable_auto_commit=True))
    take(flavour, consumer.batches(timeout=0), 1)
    flavour.world.pass_time(20)
    assert committed(flavour.world) == {0: 0}
    flavour.get(consumer.close())
    assert committed(flavour.world) == {0: 0}
    [warning] = [record.message for record in caplog.records]
    assert (
        warning == "closed with 3 rows of t-0 in hand, which are not committed: call commit() once they are processed"
    )


def test_close_after_an_error_names_records_that_will_be_delivered_again(
    flavour: Flavour, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = ready(flavour, reading(flavour, enable_auto_commit=True))
    take(flavour, iter(consumer) if flavour.blocks else aiter(consumer), 2)
    if flavour.blocks:
        consumer.__exit__(ValueError, ValueError(), None)
    else:
        flavour.world.run(consumer.__aexit__(ValueError, ValueError(), None))
    assert committed(flavour.world) == {0: 1}
    [warning] = [record.message for record in caplog.records]
    assert warning.startswith("closed after an error with 1 rows of t-0 in hand")
    assert warning.endswith("they will be delivered again")


@pytest.mark.parametrize("leave", ["assign", "unsubscribe"])
def test_a_member_that_leaves_commits_the_records_before_the_one_in_hand(flavour: Flavour, leave: str) -> None:
    fill(flavour.world, "t", batches=1)
    consumer = flavour.consumer(topics="t", group_id="g", start="earliest", enable_auto_commit=True)
    take(flavour, iter(consumer) if flavour.blocks else aiter(consumer), 2)
    flavour.get(consumer.assign([T0]) if leave == "assign" else consumer.unsubscribe())
    assert committed(flavour.world) == {0: 1}


@pytest.mark.parametrize("settles", ["commit", "processed", "manual"])
def test_close_is_silent_about_committed_or_returned_offsets(
    flavour: Flavour, settles: str, caplog: pytest.LogCaptureFixture
) -> None:
    consumer = ready(flavour, reading(flavour, enable_auto_commit=settles != "manual"))
    flavour.get(consumer.poll())
    if settles == "commit":
        flavour.get(consumer.commit())
    elif settles == "processed":
        consumer.processed(in_hand=True)
    flavour.get(consumer.close())
    assert not caplog.records


@only_asyncio
@pytest.mark.parametrize("wrap", ["wait_for", "shield", "task"])
def test_the_task_that_calls_is_the_reader(flavour: Flavour, wrap: str) -> None:
    wraps: dict[str, Callable[[Any], Any]] = {
        "wait_for": lambda call: asyncio.wait_for(call, 60),
        "shield": asyncio.shield,
        "task": asyncio.ensure_future,
    }
    around = wraps[wrap]
    consumer = reading(flavour)

    async def main() -> None:
        batches = consumer.batches()
        await around(anext(batches))
        await around(consumer.commit())
        assert committed(flavour.world) == {0: 3}
        await around(consumer.poll(10))
        await around(consumer.commit())
        assert committed(flavour.world) == {0: 6}
        await consumer.seek(T0, 0)
        records = aiter(consumer)
        assert (await around(anext(records))).offset == 0
        await around(consumer.commit())
        assert committed(flavour.world) == {0: 1}

    flavour.world.run(main())


@only_asyncio
@pytest.mark.parametrize("pauses", [False, True])
def test_a_record_belongs_to_the_task_that_asked_for_it(flavour: Flavour, *, pauses: bool) -> None:
    consumer = reading(flavour)

    async def main() -> None:
        records = aiter(consumer)

        async def take() -> int:
            return int((await anext(records)).offset)

        assert await take() == 0
        assert await asyncio.create_task(take()) == 1
        if pauses:
            await consumer.pause(T0)
        await consumer.commit()
        assert committed(flavour.world) == {0: 1}, "record 1 is another task's"
        if pauses:
            await consumer.resume(T0)
        assert await take() == 2
        await consumer.commit()
        assert committed(flavour.world) == {0: 3}

    flavour.world.run(main())


@only_asyncio
def test_a_cancelled_anext_does_not_end_batches(flavour: Flavour) -> None:
    consumer = reading(flavour)

    async def main() -> None:
        batches = consumer.batches()
        for _ in range(2):
            await anext(batches)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(anext(batches), 1)
        write(flavour.world, "t")
        assert (await anext(batches)).base_offset == 6

    flavour.world.run(main())
