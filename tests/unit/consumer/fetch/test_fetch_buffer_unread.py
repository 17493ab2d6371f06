"""Rows that no reader could get are not passed over: they come again, and are not committed before."""

from __future__ import annotations

import _thread
import operator
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa
import pytest

from kafwire.consumer.delivery.arrow_stream import ArrowStream
from kafwire.errors import ProtocolError
from kafwire.records import encode_batch
from kafwire.types import TopicPartition
from tests.support.simulated.consumer import Consuming, fill, log_of, write
from tests.support.simulated.world import World

T0 = TopicPartition("t", 0)
NO_MICROSECONDS = 1 << 62  # ms


def stream(consuming: Consuming) -> pa.RecordBatchReader:
    """All that is there as an Arrow stream."""
    return ArrowStream(consuming.core.reader(silence_ms=0)).to_reader()


def offsets(batch: Any) -> list[int]:
    return [record.offset for record in batch]


def test_rows_that_do_not_fit_into_arrow_stay_before_the_position() -> None:
    with World() as world:
        rows = fill(world, "t", batches=1)["t", 0]
        log_of(world).append(encode_batch([{"value": b"odd", "timestamp_ms": NO_MICROSECONDS}, b"next to it"]))
        rows += [(3, b"odd"), (4, b"next to it")]
        rows += write(world, "t", batches=2)
        consuming = Consuming(
            world,
            assign=[("t", 0)],
            group_id="g",
            enable_auto_commit=False,
            layout={"timestamp_unit": "us"},
        )
        for _ in range(3):
            consuming.idle()
            reader = stream(consuming)
            found = []
            with pytest.raises(pa.ArrowInvalid, match=r"t-0, offsets 3 to 4, do not fit Arrow columns.*timestamp"):
                while True:
                    found += reader.read_next_batch().column("offset").to_pylist()
            assert found in ([0, 1, 2], []), "each row comes once"
            consuming.reader.settle()  # as another reader does
            assert world.run(consuming.core.positions.position(T0)) == 3
            world.run(consuming.core.commits.commit(None))
            assert world.committed["g"]["t", 0].offset == 3
        consuming.idle()
        batch = consuming.take()
        assert batch is not None
        with pytest.raises(ProtocolError, match=r"t-0, offsets 3 to 4, do not fit Arrow columns.*iterate over the rec"):
            batch.to_arrow()
        with pytest.raises(ProtocolError, match=r"t-0, offsets 3 to 4, do not fit"):
            pa.record_batch(batch)
        consuming.until_read({("t", 0): rows[3:]})
        consuming.reader.settle()
        world.run(consuming.core.commits.commit(None))
        assert world.committed["g"]["t", 0].offset == 7
        consuming.close()


def test_a_seek_wins_over_refused_rows() -> None:
    with World() as world:
        log = log_of(world, fill(world, "t", batches=0).popitem()[0][0])
        log.append(encode_batch([{"value": b"odd", "timestamp_ms": NO_MICROSECONDS}]))
        rows = write(world, "t", batches=3)
        with Consuming(world, topics="t", layout={"timestamp_unit": "us"}) as consuming:
            consuming.idle()
            with pytest.raises(pa.ArrowInvalid):
                stream(consuming).read_next_batch()
            consuming.seek(2)
            consuming.until_read({("t", 0): rows[1:]})


@pytest.mark.parametrize("claimed", [False, True])
def test_ctrl_c_while_a_batch_is_decoded_loses_none(claimed: bool) -> None:
    with World() as world:
        rows = fill(world, "t", batches=6)
        with Consuming(world, topics="t", asks=not claimed) as consuming:
            reader = consuming.stream(0) if claimed else consuming.reader
            for turn in range(4):
                consuming.idle()
                if turn % 2:
                    consuming.take(reader)
                    consuming.idle()
                reader.settle()
                # No bytecode runs between the two: the signal is there when decoding begins.
                calls: list[Callable[[], object]] = [_thread.interrupt_main, partial(reader.read, 0)]
                with pytest.raises(KeyboardInterrupt):
                    list(map(operator.call, calls))
                reader.settle()
                taken = consuming.rows.get(("t", 0), [])
                assert consuming.queue.position(0) == len(taken)
                assert consuming.queue.processed(0) == len(taken)
            consuming.until(lambda: consuming.take(reader) is None)
            while sum(map(len, consuming.rows.values())) < 18:
                consuming.idle()
                while consuming.take(reader):
                    pass
            assert consuming.rows == rows
