"""Scans of both flavours, in the simulated world: read once, closed, divided, and ended with the interpreter."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any, Self

import pyarrow as pa
import pytest

from kafwire.consumer.fetch.engine import Fetcher
from kafwire.errors import BrokerError, ConfigError, KafkaError, SerializationError
from kafwire.sync import scan as sync_scan
from tests.support.simulated.consumer import fill
from tests.support.simulated.flavours import Flavour, rows

ALL = {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}
blocking = pytest.mark.parametrize("flavour", ["sync"], indirect=True)
awaited = pytest.mark.parametrize("flavour", ["aio"], indirect=True)


@pytest.fixture
def flavour(flavour: Flavour) -> Flavour:
    fill(flavour.world, "t", partitions=2, batches=2, records=3)
    return flavour


def scanned(flavour: Flavour, **options: Any) -> Any:
    """A scan over a client's connections, of which all is fetched."""
    return fetched(flavour, flavour.get(flavour.client().scan("t", **options)))


def fetched(flavour: Flavour, scan: Any) -> Any:
    scan._start()
    flavour.world.pass_time(1)
    return scan


def read(flavour: Flavour, scan: Any) -> dict[int, list[int]]:
    return rows(flavour.all(fetched(flavour, scan).batches()))


def test_a_block_ends_the_read(flavour: Flavour) -> None:
    scan = flavour.get(flavour.client().scan("t"))
    assert flavour.enter(scan) is scan
    fetched(flavour, scan)
    flavour.leave(scan)
    assert flavour.all(scan.batches()) == []


def test_records_come_one_by_one_and_a_second_loop_goes_on(flavour: Flavour) -> None:
    scan = scanned(flavour)
    first = flavour.some(aiter(scan) if hasattr(scan, "__aiter__") else iter(scan), 4)
    rest = flavour.all(scan)
    found: dict[int, list[int]] = {}
    for record in (*first, *rest):
        found.setdefault(record.partition, []).append(record.offset)
    assert found == ALL
    assert flavour.all(scan) == []


def test_a_record_that_cannot_be_deserialized_stays_the_next_one(flavour: Flavour) -> None:
    failing = [3]

    def deserialize(data: bytes) -> bytes:
        if failing and data.startswith(b"t-0-4"):
            failing.pop()
            raise ValueError("not now")
        return data

    scan = scanned(flavour, partitions=[0], value_deserializer=deserialize)
    records = aiter(scan) if hasattr(scan, "__aiter__") else iter(scan)
    found = flavour.some(records, 4)
    with pytest.raises(SerializationError, match="the value of t-0 at offset 4"):
        flavour.some(records, 1)
    found += flavour.all(scan)
    assert [record.offset for record in found] == ALL[0]


@awaited
def test_async_deserializers_are_awaited_record_by_record(flavour: Flavour) -> None:
    async def deserialize(data: bytes) -> str:
        await asyncio.sleep(0)
        return data.decode()

    scan = scanned(flavour, partitions=[0], value_deserializer=deserialize)
    assert [record.value[:5] for record in flavour.all(scan)] == [f"t-0-{n}" for n in range(6)]


@blocking
def test_a_running_iterator_keeps_its_scan_alive(flavour: Flavour) -> None:
    assert [record.offset for record in scanned(flavour, partitions=[0])] == ALL[0]


@pytest.mark.parametrize("end", ["read", "closed", "block"])
def test_whatever_ends_the_read_ends_its_fetching(flavour: Flavour, end: str) -> None:
    scan = scanned(flavour)
    [fetcher] = [member for member in flavour.engine.members if isinstance(member, Fetcher)]
    if end == "read":
        assert rows(flavour.all(scan.batches())) == ALL
    elif end == "closed":
        flavour.get(scan.close())
    else:
        flavour.enter(scan)
        flavour.leave(scan)
    flavour.world.pass_time(0.1)
    assert fetcher.stopped


@blocking
def test_a_scan_is_divided_and_its_pieces_cover_it_exactly(flavour: Flavour) -> None:
    for pieces in (1, 2, 3, 5, 100):
        scan = sync_scan.scan(flavour.world.bootstrap, "t", engine=flavour.engine)
        found = scan.split(pieces)
        assert len(found) == min(pieces, 12)
        covered = sorted(
            (r.partition, offset) for piece in found for r in piece.ranges for offset in range(r.start, r.end)
        )
        assert covered == [(partition, offset) for partition in (0, 1) for offset in range(6)]
        assert scan.batches() is not None
        with pytest.raises(KafkaError, match="is being read, or is closed: split a new one"):
            scan.split(2)


@blocking
@pytest.mark.parametrize("pieces", [0, -1, True, 1.5, "2"])
def test_a_scan_is_not_divided_into_nothing(flavour: Flavour, pieces: Any) -> None:
    scan = sync_scan.scan(flavour.world.bootstrap, "t", engine=flavour.engine)
    with pytest.raises(ConfigError, match="into one piece or more"):
        scan.split(pieces)
    assert read(flavour, scan) == ALL


@blocking
def test_a_scan_of_nothing_has_one_piece(flavour: Flavour) -> None:
    flavour.world.create_topic("empty")
    [piece] = sync_scan.scan(flavour.world.bootstrap, "empty", engine=flavour.engine).split(3)
    assert sum(r.end - r.start for r in piece.ranges) == 0
    assert read(flavour, piece.scan(engine=flavour.engine)) == {}
    assert repr(piece).endswith("at most 0 records>")


@blocking
def test_a_scan_that_is_read_or_from_before_a_fork_is_not_divided(flavour: Flavour) -> None:
    scan = sync_scan.scan(flavour.world.bootstrap, "t", engine=flavour.engine)
    flavour.engine.forked = True
    with pytest.raises(KafkaError, match="before a fork"):
        scan.split(2)
    flavour.engine.forked = False
    fetched(flavour, scan)
    with pytest.raises(KafkaError, match="is being read"):
        scan.split(2)
    assert rows(flavour.all(scan.batches())) == ALL


@blocking
def test_a_piece_is_read_as_often_as_wanted(flavour: Flavour) -> None:
    first, second = sync_scan.scan(
        flavour.world.bootstrap, "t", columns=["partition", "offset"], engine=flavour.engine
    ).split(2)
    again = pickle.loads(pickle.dumps(second))
    assert again.ranges == second.ranges
    flavour.world.pass_time(1)
    assert all(connection.closed for connection in flavour.world.connections), "the scan is over"
    for _ in range(2):
        table = pa.RecordBatchReader.from_stream(fetched(flavour, again.scan(engine=flavour.engine))).read_all()
        assert table.schema.names == ["partition", "offset"] == pa.schema(again).names
        covered = {(r.partition, offset) for r in again.ranges for offset in range(r.start, r.end)}
        assert set(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == covered
    assert table.num_rows == 6
    assert {r.partition for r in first.ranges} | {r.partition for r in second.ranges} == {0, 1}
    flavour.world.pass_time(1)
    assert all(connection.closed for connection in flavour.world.connections), "those of a piece are its own"


@blocking
def test_a_piece_of_a_recreated_topic_is_refused(flavour: Flavour) -> None:
    fill(flavour.world, "u", batches=1)
    pieces = sync_scan.scan(flavour.world.bootstrap, ["t", "u"], engine=flavour.engine).split(3)
    flavour.world.create_topic("u")
    refused = 0
    for piece in pieces:
        if any(r.topic == "u" for r in piece.ranges):
            with pytest.raises(BrokerError, match="'u' was deleted and recreated since the scan was split") as caught:
                piece.scan(engine=flavour.engine)
            assert caught.value.code == 100
            refused += 1
        else:
            piece.scan(engine=flavour.engine).close()
    assert refused
    flavour.world.pass_time(1)
    assert all(connection.closed for connection in flavour.world.connections)


@blocking
def test_a_scan_has_connections_of_its_own_and_closes_them(flavour: Flavour) -> None:
    for end in ("read", "closed", "dropped", "failed"):
        if end == "failed":
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                sync_scan.scan(flavour.world.bootstrap, "nowhere", engine=flavour.engine)
        else:
            scan = sync_scan.scan(flavour.world.bootstrap, "t", engine=flavour.engine)
            assert any(not connection.closed for connection in flavour.world.connections)
            if end == "read":
                assert read(flavour, scan) == ALL
            elif end == "closed":
                scan.close()
            del scan
        flavour.world.pass_time(1)
        assert all(connection.closed for connection in flavour.world.connections), end


def test_the_interpreters_end_ends_a_read(flavour: Flavour) -> None:
    scan = flavour.get(flavour.client().scan("t"))
    scan._start()
    for member in flavour.engine.members:
        if isinstance(member, Fetcher):
            flavour.world.run(member.end())
            flavour.world.run(member.end())
    with pytest.raises(KafkaError, match="the interpreter is ending"):
        flavour.all(scan.batches())


def test_the_interpreters_end_lets_go_a_consumers_reader(flavour: Flavour) -> None:
    consumer = flavour.consumer(topics="t", start="earliest")
    flavour.get(consumer.poll())
    for member in flavour.engine.members:
        if type(member).__name__ == "Fetcher":
            flavour.world.run(member.end())  # type: ignore[attr-defined]
    with pytest.raises(KafkaError, match="the interpreter is ending"):
        for _ in range(2):
            flavour.get(consumer.poll())


class Gate:
    """Work of a loop in other threads waits until the gate is opened; `calls` of it were made."""

    def __init__(self, loop: Any) -> None:
        self.calls = 0
        self._loop = loop
        self._opened = loop.create_future()
        self._run = loop.run_in_executor

    def __enter__(self) -> Self:
        self._loop.run_in_executor = self._held
        return self

    def __exit__(self, *_: object) -> None:
        self._loop.run_in_executor = self._run

    def open(self) -> None:
        self._opened.set_result(None)

    def _held(self, executor: Any, function: Any, *args: Any) -> Any:
        self.calls += 1

        async def later() -> Any:
            await self._opened
            return await self._run(executor, function, *args)

        return asyncio.ensure_future(later())


@awaited
def test_a_scan_is_read_by_one_task_at_a_time(flavour: Flavour) -> None:
    scan = scanned(flavour)

    async def both() -> list[Any]:
        with Gate(flavour.world.loop) as gate:
            first = asyncio.ensure_future(anext(scan.batches()))
            await asyncio.sleep(0.1)
            with pytest.raises(KafkaError, match="a scan is read by one task at a time"):
                await anext(scan.batches())
            first.cancel()
            await asyncio.wait([first])
            second = asyncio.ensure_future(anext(scan.batches()))  # what the first had begun
            await asyncio.sleep(0.1)
            gate.open()
            found = [await second]
            assert gate.calls == 1
        return found + [batch async for batch in scan.batches()]

    assert rows(flavour.world.run(both())) == ALL


@awaited
def test_a_close_waits_for_a_batch_that_is_being_decoded(flavour: Flavour) -> None:
    scan = scanned(flavour)

    async def close() -> None:
        with Gate(flavour.world.loop) as gate:
            reading = asyncio.ensure_future(anext(scan.batches()))
            await asyncio.sleep(0.1)
            reading.cancel()
            await asyncio.wait([reading])
            closing = asyncio.ensure_future(scan.close())
            await asyncio.sleep(1)
            assert gate.calls == 1
            assert not closing.done()
            gate.open()
            await closing

    flavour.world.run(close())
    assert scan._reader.ended


@blocking
@pytest.mark.parametrize("columns", [["partition"], ["topic"], ["topic", "partition"]], ids="-".join)
def test_rows_without_a_column_of_records_are_rows(flavour: Flavour, columns: list[str]) -> None:
    table = pa.table(scanned(flavour, columns=columns))
    assert (table.num_rows, table.column_names) == (12, columns)
    if "partition" in columns:
        assert sorted(table["partition"].to_pylist()) == [0] * 6 + [1] * 6
