"""A consumer and damaged bytes: in logs, and in responses."""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Any

import pytest

from kafwire import protocol
from kafwire.errors import CorruptBatchError, KafkaError, ProtocolError
from kafwire.records import Record, encode_batch
from kafwire.testing.simulation.calls import Call
from tests.support.broker.damaged_log import BAD, BASE_OFFSET, CRC, LENGTH, MAGIC, PAYLOAD, damage
from tests.support.simulated.consumer import STRATEGIES, Consuming, fill, log_of, write
from tests.support.simulated.world import World

# Requests and errors are counted here: not among 1,000 partitions.
pytestmark = [pytest.mark.usefixtures("shape"), pytest.mark.shapes("as_written", "single_records")]
# Of tests that count batches of several records.
by_batches = pytest.mark.shapes("as_written")

BATCHES = 8


def read_all(consuming: Consuming, turns: int = 30) -> list[KafkaError]:
    """Read on through every error; the errors."""
    errors: list[KafkaError] = []
    for _ in range(turns):
        try:
            if consuming.take() is None:
                consuming.idle(0.2)
        except KafkaError as error:
            errors.append(error)
    return errors


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize("records", [1, 3])
@by_batches
def test_a_wrong_checksum(records: int, strategy: dict[str, Any]) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=BATCHES, records=records)
        damage(world, PAYLOAD, b"\x7f")
        with Consuming(world, topics="t", **strategy) as consuming:
            errors = read_all(consuming)
            first = BAD * records
            assert errors
            for error in errors:
                assert isinstance(error, CorruptBatchError)
                assert (error.topic, error.partition, error.base_offset) == ("t", 0, first)
                assert error.next_offset == first + records
                assert f"t-0, batch at offset {first}, from broker 1 at 10.0.0.1:9092" in str(error)
            assert consuming.rows == {("t", 0): rows["t", 0][:first], ("t", 1): rows["t", 1]}
            consuming.seek(first + records)
            assert not read_all(consuming)
            assert consuming.rows["t", 0] == rows["t", 0][:first] + rows["t", 0][first + records :]


@pytest.mark.parametrize("chunk_bytes", [1, 1 << 20])
@by_batches
def test_a_wrong_checksum_is_passed_over_if_so_wanted(chunk_bytes: int, caplog: pytest.LogCaptureFixture) -> None:
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=BATCHES)
        for bad in (0, 4, 5, 7):
            damage(world, PAYLOAD, b"\x7f", batch=bad)
        with Consuming(world, topics="t", on_corrupt="skip", chunk_bytes=chunk_bytes) as consuming:
            assert not read_all(consuming)
            good = [row for row in rows["t", 0] if row[0] // 3 not in (0, 4, 5, 7)]
            assert consuming.rows == {("t", 0): good, ("t", 1): rows["t", 1]}
            assert consuming.queue.place(consuming.cursor().number).skipped == 4
            lines = [each for each in caplog.records if "a batch is skipped" in each.getMessage()]
            assert [(each.name, each.kafwire["topic"]) for each in lines] == 4 * [("kafwire.consumer", "t")]  # type: ignore[attr-defined]
            where = next(iter(consuming.core.assignment.partitions))
            assert world.run(consuming.core.positions.position(where)) == 24
            more = write(world, "t")
            assert not read_all(consuming)
            assert consuming.rows["t", 0] == good + more


def test_checksums_that_are_not_checked() -> None:
    with World() as world:
        rows = fill(world, "t", batches=BATCHES)
        damage(world, CRC, b"\0\0\0\0")
        with Consuming(world, topics="t", check_crcs=False) as consuming:
            consuming.until_read(rows)


@pytest.mark.parametrize("on_corrupt", ["error", "skip"])
@pytest.mark.parametrize(
    ("at", "data"),
    [
        (BASE_OFFSET, struct.pack(">q", 1 << 40)),
        (BASE_OFFSET, struct.pack(">q", -5)),
        (BASE_OFFSET, struct.pack(">q", 3)),
        (LENGTH, struct.pack(">i", -1)),
        (LENGTH, struct.pack(">i", 5)),
        (LENGTH, struct.pack(">i", 1 << 30)),
        (MAGIC, b"\x09"),
    ],
    ids=str,
)
@by_batches
def test_damaged_heads(at: int, data: bytes, on_corrupt: str) -> None:
    """No checksum covers them. Whatever is before is read; what follows cannot be found, so that is never skipped."""
    with World() as world:
        rows = fill(world, "t", partitions=2, batches=BATCHES)
        damage(world, at, data)
        with Consuming(world, topics="t", on_corrupt=on_corrupt) as consuming:
            errors = read_all(consuming)
            assert consuming.rows == {("t", 0): rows["t", 0][: BAD * 3], ("t", 1): rows["t", 1]}
            assert errors
            assert all("t-0" in str(error) and "broker 1" in str(error) for error in errors)
            reported = "no whole batch" if data == struct.pack(">i", 1 << 30) else "next batch begins is not known"
            assert all(reported in str(error) for error in errors)
            before = len(consuming.fetches())
            consuming.idle(10)
            assert len(consuming.fetches()) - before <= 21
            consuming.seek(15)
            assert not read_all(consuming)
            assert consuming.rows["t", 0] == rows["t", 0][: BAD * 3] + rows["t", 0][15:]


def test_more_than_may_be_decompressed() -> None:
    with World() as world:
        rows = fill(world, "t", batches=2)
        log_of(world).append(encode_batch([b"\0" * 100_000], compression="gzip"))
        rows["t", 0].append((6, b"\0" * 100_000))
        with Consuming(world, topics="t", max_decompressed=50_000) as consuming:
            errors = read_all(consuming)
            assert "raise it to read on" in str(errors[0])
            assert consuming.rows == {("t", 0): rows["t", 0][:6]}
        with Consuming(world, topics="t", max_decompressed=200_000) as consuming:
            consuming.until_read(rows)


# --- responses ------------------------------------------------------------------------------------------------------


def some_responses(world: World, count: int, change: Callable[[bytes], bytes]) -> None:
    """The next responses to Fetch are those of the broker, changed on their way."""
    left = [change] * count

    async def respond(call: Call) -> Any:
        if not left:
            return None
        whole = await world.response_to(call)
        return left.pop()(b"\0" + whole.encode(call.version) if call.version >= 12 else whole.encode(call.version))

    world.on("Fetch", respond)


@pytest.mark.parametrize("strategy", STRATEGIES, ids=str)
@pytest.mark.parametrize(
    "change",
    [lambda data: data[: len(data) // 2], lambda _: b"", lambda _: b"\xff" * 300, lambda data: data + b"\0"],
    ids=["half", "nothing", "garbage", "more"],
)
def test_responses_that_cannot_be_read(change: Callable[[bytes], bytes], strategy: dict[str, Any]) -> None:
    """Once or twice: on another connection it is read again. Again and again: the consumer raises it, and may go on."""
    with World() as world:
        rows = fill(world, "t", partitions=2)
        with Consuming(world, topics="t", **strategy) as consuming:
            some_responses(world, 2, change)
            consuming.until_read(rows)
            world.off("Fetch")
            some_responses(world, 1000, change)
            errors = read_all(consuming)
            assert errors
            assert all(isinstance(error, ProtocolError) for error in errors)
            assert "broker 1 at 10.0.0.1:9092 sent a fetch response that cannot be parsed" in str(errors[0])
            world.off("Fetch")
            for number in range(2):
                rows["t", number] += write(world, "t", number)
                consuming.seek(12, "t", number)
            consuming.until_read(rows)


def test_responses_for_partitions_that_were_not_requested() -> None:
    with World() as world:
        rows = fill(world, "t", partitions=3)
        fill(world, "u")
        stray = [True, True]

        async def respond(call: Call) -> Any:
            response = await world.response_to(call)
            if stray:
                stray.pop()
                part = protocol.FetchResponse.PartitionData(
                    partition_index=2, high_watermark=99, records=encode_batch([b"no"])
                )
                topic = world.topics["t"].topic_id
                response.responses.append(
                    protocol.FetchResponse.FetchableTopicResponse(topic_id=topic, partitions=[part])
                )
            return response

        world.on("Fetch", respond)
        with Consuming(world, assign=[("t", 0), ("t", 1)]) as consuming:
            consuming.until_read({where: rows[where] for where in (("t", 0), ("t", 1))})


def test_a_part_of_a_batch_alone_is_an_error() -> None:
    with World() as world:
        fill(world, "t", batches=1, size=1000)

        async def respond(call: Call) -> Any:
            response = await world.response_to(call)
            for topic in response.responses:
                for part in topic.partitions:
                    part.records = bytes(part.records)[:500]
            return response

        world.on("Fetch", respond)
        with Consuming(world, topics="t") as consuming:
            errors = read_all(consuming)
            assert "no whole batch, not even the first" in str(errors[0])
            before = len(consuming.fetches())
            consuming.idle(10)
            assert len(consuming.fetches()) <= before + 1


@by_batches
@pytest.mark.parametrize("good", [0, 1, 9])
@pytest.mark.parametrize("bad", [1, 2, 12])
def test_nulls_of_a_damaged_batch_do_not_appear_in_the_next(good: int, bad: int) -> None:
    """Rows of the next one come where its rows were. Its nulls, up to the damaged record's, are none of theirs."""
    with World() as world:
        world.create_topic("t")
        log = log_of(world)
        full = [Record(b"v", b"k", timestamp_ms=7, headers=[("h", b"1"), ("i", b"2")]) for _ in range(15)]
        bare = [Record(None, None, timestamp_ms=-1, headers=[("h", None), ("i", None)]) for _ in range(bad)]
        for records in (full[:good], bare, [*full, bare[0]]):
            if records:
                log.append(encode_batch(records))
        damage(world, -1, b"\x7e", batch=int(good > 0))  # the last header's value, or so it says, goes on
        options: dict[str, Any] = {"check_crcs": False, "on_corrupt": "skip", "chunk_bytes": 1 << 20}
        with Consuming(world, topics="t", **options) as consuming:
            consuming.idle()
            found = [record for batch in iter(consuming.take, None) for record in batch]
            assert [record.offset for record in found] == [*range(good), *range(good + bad, good + bad + 16)]
            last = found.pop()  # one of its own: without any, the columns are not read
            assert (last.key, last.value, list(last.headers)) == (None, None, [("h", None), ("i", None)])
            for record in found:
                assert (record.key, record.value, record.timestamp_ms) == (b"k", b"v", 7)
                assert list(record.headers) == [("h", b"1"), ("i", b"2")]
