"""Scans of both faces, in the simulated world: read once, closed, divided, and told of the interpreter's end."""

from __future__ import annotations

import asyncio
import pickle
from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import BrokerError, ConfigError, KafkaError
from kafwire.scanner.fetcher import ScanFetcher
from kafwire.sync import scan as sync_scan
from tests.support.simulated_consumer import fill
from tests.support.simulated_flavours import Face, rows

ALL = {0: [0, 1, 2, 3, 4, 5], 1: [0, 1, 2, 3, 4, 5]}
blocking = pytest.mark.parametrize("face", ["sync"], indirect=True)
awaited = pytest.mark.parametrize("face", ["aio"], indirect=True)


@pytest.fixture
def face(face: Face) -> Face:
    fill(face.world, "t", partitions=2, batches=2, records=3)
    return face


def scanned(face: Face, **options: Any) -> Any:
    """A scan over a client's connections, of which all is fetched."""
    return fetched(face, face.get(face.client().scan("t", **options)))


def fetched(face: Face, scan: Any) -> Any:
    scan._start()
    face.world.pass_time(1)
    return scan


def read(face: Face, scan: Any) -> dict[int, list[int]]:
    return rows(face.all(fetched(face, scan).batches()))


def test_a_block_ends_the_read(face: Face) -> None:
    scan = face.get(face.client().scan("t"))
    assert face.enter(scan) is scan
    fetched(face, scan)
    face.leave(scan)
    assert face.all(scan.batches()) == []


@pytest.mark.parametrize("end", ["read", "closed", "block"])
def test_whatever_ends_the_read_ends_its_fetching(face: Face, end: str) -> None:
    scan = scanned(face)
    [fetcher] = [member for member in face.engine.members if isinstance(member, ScanFetcher)]
    if end == "read":
        assert rows(face.all(scan.batches())) == ALL
    elif end == "closed":
        face.get(scan.close())
    else:
        face.enter(scan)
        face.leave(scan)
    face.world.pass_time(0.1)
    assert fetcher._stopped


@blocking
def test_a_scan_is_divided_and_its_pieces_cover_it_exactly(face: Face) -> None:
    for pieces in (1, 2, 3, 5, 100):
        scan = sync_scan.scan(face.world.bootstrap, "t")
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
def test_a_scan_is_not_divided_into_nothing(face: Face, pieces: Any) -> None:
    scan = sync_scan.scan(face.world.bootstrap, "t")
    with pytest.raises(ConfigError, match="into one piece or more"):
        scan.split(pieces)
    assert read(face, scan) == ALL


@blocking
def test_a_scan_of_nothing_has_one_piece(face: Face) -> None:
    face.world.create_topic("empty")
    [piece] = sync_scan.scan(face.world.bootstrap, "empty").split(3)
    assert sum(r.end - r.start for r in piece.ranges) == 0
    assert read(face, piece.scan()) == {}
    assert repr(piece).endswith("at most 0 records>")


@blocking
def test_a_scan_that_is_read_or_from_before_a_fork_is_not_divided(face: Face) -> None:
    scan = sync_scan.scan(face.world.bootstrap, "t")
    face.engine.forked = True
    with pytest.raises(KafkaError, match="before a fork"):
        scan.split(2)
    face.engine.forked = False
    fetched(face, scan)
    with pytest.raises(KafkaError, match="is being read"):
        scan.split(2)
    assert rows(face.all(scan.batches())) == ALL


@blocking
def test_a_piece_is_read_by_whoever_has_it_as_often_as_wanted(face: Face) -> None:
    first, second = sync_scan.scan(face.world.bootstrap, "t", columns=["partition", "offset"]).split(2)
    again = pickle.loads(pickle.dumps(second))
    assert again.ranges == second.ranges
    face.world.pass_time(1)
    assert all(connection.closed for connection in face.world.connections), "the scan is over"
    for _ in range(2):
        table = pa.RecordBatchReader.from_stream(fetched(face, again.scan())).read_all()
        assert table.schema.names == ["partition", "offset"] == pa.schema(again).names
        covered = {(r.partition, offset) for r in again.ranges for offset in range(r.start, r.end)}
        assert set(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True)) == covered
    assert table.num_rows == 6
    assert {r.partition for r in first.ranges} | {r.partition for r in second.ranges} == {0, 1}
    face.world.pass_time(1)
    assert all(connection.closed for connection in face.world.connections), "those of a piece are its own"


@blocking
def test_a_piece_of_a_topic_that_was_made_anew_is_refused(face: Face) -> None:
    fill(face.world, "u", batches=1)
    pieces = sync_scan.scan(face.world.bootstrap, ["t", "u"]).split(3)
    face.world.create_topic("u")
    refused = 0
    for piece in pieces:
        if any(r.topic == "u" for r in piece.ranges):
            with pytest.raises(BrokerError, match="'u' was deleted and made anew since the scan was split") as caught:
                piece.scan()
            assert caught.value.code == 100
            refused += 1
        else:
            piece.scan().close()
    assert refused
    face.world.pass_time(1)
    assert all(connection.closed for connection in face.world.connections)


@blocking
def test_a_scan_has_connections_of_its_own_and_closes_them(face: Face) -> None:
    for end in ("read", "closed", "dropped", "failed"):
        if end == "failed":
            with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
                sync_scan.scan(face.world.bootstrap, "nowhere")
        else:
            scan = sync_scan.scan(face.world.bootstrap, "t")
            assert any(not connection.closed for connection in face.world.connections)
            if end == "read":
                assert read(face, scan) == ALL
            elif end == "closed":
                scan.close()
            del scan
        face.world.pass_time(1)
        assert all(connection.closed for connection in face.world.connections), end


def test_the_interpreters_end_lets_go_whoever_reads(face: Face) -> None:
    scan = face.get(face.client().scan("t"))
    scan._start()
    for member in face.engine.members:
        if type(member).__name__ == "ScanFetcher":
            face.world.run(member.end())  # type: ignore[attr-defined]
            face.world.run(member.end())  # type: ignore[attr-defined]
    with pytest.raises(KafkaError, match="the interpreter is ending"):
        face.all(scan.batches())


def test_the_interpreters_end_lets_go_a_consumers_reader(face: Face) -> None:
    consumer = face.consumer(topics="t", start="earliest")
    face.get(consumer.poll())
    for member in face.engine.members:
        if type(member).__name__ == "Fetcher":
            face.world.run(member.end())  # type: ignore[attr-defined]
    with pytest.raises(KafkaError, match="the interpreter is ending"):
        for _ in range(2):
            face.get(consumer.poll())


@awaited
def test_a_scan_is_read_by_one_task_at_a_time(face: Face) -> None:
    scan = scanned(face)
    gate: list[asyncio.Future[None]] = []
    real = face.world.loop.run_in_executor

    def slow(executor: Any, function: Any, *args: Any) -> Any:
        gate.append(face.world.loop.create_future())

        async def later() -> Any:
            await gate[-1]
            return await real(executor, function, *args)

        return asyncio.ensure_future(later())

    async def both() -> list[Any]:
        face.world.loop.run_in_executor = slow  # type: ignore[method-assign, assignment]
        first = asyncio.ensure_future(anext(scan.batches()))
        await asyncio.sleep(0.1)
        with pytest.raises(KafkaError, match="a scan is read by one task at a time"):
            await anext(scan.batches())
        first.cancel()
        await asyncio.wait([first])
        second = asyncio.ensure_future(anext(scan.batches()))  # what the first had begun
        await asyncio.sleep(0.1)
        gate[0].set_result(None)
        found = [await second]
        assert len(gate) == 1
        face.world.loop.run_in_executor = real  # type: ignore[method-assign]
        return found + [batch async for batch in scan.batches()]

    assert rows(face.world.run(both())) == ALL


@awaited
def test_a_close_waits_for_what_is_being_decoded(face: Face) -> None:
    scan = scanned(face)

    async def close() -> None:
        scan._decoding = face.world.loop.create_future()
        closing = asyncio.ensure_future(scan.close())
        await asyncio.sleep(1)
        assert not closing.done()
        scan._decoding.set_result(None)
        await closing

    face.world.run(close())
    assert scan._reader.ended
