"""Records one by one, across batches: what was handed out is counted, and reading goes on after it."""

from __future__ import annotations

import copy
import gc
import sys
from collections.abc import Iterator
from typing import Any

import pytest

from kafwire.errors import ProtocolError
from kafwire.records import Batch, Record, decode_batches, encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.records._records import RecordIterator
from tests.support.hostile_batches import large_record


def chunk(values: list[Any], base_offset: int, **options: Any) -> Batch:
    data = encode_batch(values, base_offset=base_offset)
    (batch,) = decode_chunks(data, Layout("t", 1, **options), topic="t", partition=1)
    return batch


def test_records_come_across_batches_and_are_counted() -> None:
    first, empty, second = chunk([b"a", b"b"], 5), chunk([], 7), chunk([b"c"], 8)
    records = RecordIterator([first, empty, second])
    assert (records.batch, records.row, records.next_offset) == (None, 0, -1)
    seen = []
    for record in records:
        assert records.batch is not None
        seen.append((record.value, records.batch.base_offset, records.row, records.next_offset))
    assert seen == [(b"a", 5, 1, 6), (b"b", 5, 2, 7), (b"c", 8, 1, 9)]


def test_the_end_of_a_batch_is_after_its_compacted_records() -> None:
    data = encode_batch([{"value": b"a"}, {"value": b"b", "offset": 7}]) + encode_batch([], base_offset=8)
    (batch,) = decode_chunks(data, Layout("t", 0))
    records = iter(batch)
    assert next(records).offset == 0
    assert records.next_offset == 1
    assert next(records).offset == 7
    assert records.next_offset == batch.next_offset == 9
    (wire,) = decode_batches(encode_batch([{"value": b"a"}, {"value": b"b", "offset": 7}]))
    one_by_one = iter(wire)
    list(one_by_one)
    assert one_by_one.next_offset == wire.last_offset + 1 == 8


def test_reading_goes_on_at_the_first_record_where_none_was_handed_out() -> None:
    data = encode_batch([b"a", b"b", b"c"], base_offset=5)
    (batch,) = decode_chunks(data, Layout("t", 0), start=7)
    assert (batch.base_offset, iter(batch).next_offset) == (5, 7)
    assert iter(chunk([], 7)).next_offset == 8
    assert iter(chunk([b"a"], 5, columns=["value"])).next_offset == -1


def test_without_offsets_only_the_end_is_known() -> None:
    records = iter(chunk([b"a", b"b"], 5, columns=["value"]))
    next(records)
    assert records.next_offset == -1
    next(records)
    assert records.next_offset == 7


def test_reading_goes_on_where_it_stopped() -> None:
    arrived: list[Batch] = [chunk([b"a"], 0)]

    class Arriving:
        def __iter__(self) -> Iterator[Batch]:
            return self

        def __next__(self) -> Batch:
            if not arrived:
                raise StopIteration
            return arrived.pop(0)

    records = RecordIterator(Arriving())
    assert [record.value for record in records] == [b"a"]
    assert (records.row, records.next_offset) == (1, 1)
    arrived.append(chunk([b"b"], 1))
    assert [record.value for record in records] == [b"b"]


def test_an_error_of_batches_is_raised_for_records() -> None:
    def batches() -> Iterator[Batch]:
        yield chunk([b"a"], 0)
        raise ProtocolError("broken")

    records = RecordIterator(batches())
    assert next(records).value == b"a"
    with pytest.raises(ProtocolError, match="broken"):
        next(records)
    assert records.next_offset == 1


def test_no_batches_are_named() -> None:
    with pytest.raises(TypeError):
        next(RecordIterator([b"no batch"]))  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        RecordIterator(1)  # type: ignore[arg-type]


def test_the_rest_of_a_batch_can_be_left_out() -> None:
    records = RecordIterator([chunk([b"a", b"b"], 0), chunk([b"c"], 2)])
    next(records)
    records.drop()
    assert (records.batch, records.row, records.next_offset) == (None, 0, -1)
    assert next(records).value == b"c"


def test_a_record_that_cannot_be_made_is_not_counted() -> None:
    (batch,) = decode_batches(large_record("lz4", "value", 40 << 20), max_decompressed=41 << 20)
    records = iter(batch)
    for _ in range(2):
        with pytest.raises(ProtocolError, match="as Python objects"):
            next(records)
        assert (records.row, records.next_offset) == (0, 0)


def test_how_many_are_left_is_known() -> None:
    records = iter(chunk([b"a", b"b", b"c"], 0))
    next(records)
    assert records.__length_hint__() == 2
    assert RecordIterator([]).__length_hint__() == 0


def test_records_are_no_work_for_the_collector() -> None:
    records = list(chunk([(b"k", b"v", None, [("h", b"1")])] * 3, 0))
    assert not any(map(gc.is_tracked, records))
    assert sys.getsizeof(records[0]) <= 80


def test_fields_are_members_and_cannot_be_set() -> None:
    record = Record(b"v", b"k", topic="t", partition=3)
    assert (record.value, record.key, record.topic, record.partition) == (b"v", b"k", "t", 3)
    for name in ("value", "key", "topic", "partition"):
        assert type(vars(Record)[name]).__name__ == "member_descriptor"
        with pytest.raises(AttributeError):
            setattr(record, name, b"")
    assert copy.copy(record) == copy.deepcopy(record) == record


def test_a_record_holds_its_own_references() -> None:
    topic, key, value = object(), object(), object()
    counts = [sys.getrefcount(x) for x in (topic, key, value)]
    record = Record(value, key, topic=topic)  # type: ignore[arg-type]
    assert [sys.getrefcount(x) for x in (topic, key, value)] == [count + 1 for count in counts]
    record.__init__(b"")
    assert [sys.getrefcount(x) for x in (topic, key, value)] == counts
    del record
    empty = Record.__new__(Record)
    assert (empty.topic, empty.partition, empty.key, empty.value) == (None, None, None, None)
