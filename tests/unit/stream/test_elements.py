"""Elements and the offsets that they cover."""

from __future__ import annotations

from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.consumer.offsets.completed_offsets import CompletedOffsets
from kafwire.records import Record
from kafwire.stream.elements import Element, Gathered, covers, end_of, first_of, records_of
from tests.support import seeds


class Owner:
    """Counts finished elements."""

    def __init__(self) -> None:
        self.finished = 0
        self.is_torn = False

    def on_finished(self, element: Element, *, succeeded: bool) -> None:
        del succeeded
        self.finished += 1


@settings(max_examples=seeds.examples(200), deadline=None)
@given(
    offsets=st.lists(st.integers(5, 30), unique=True, max_size=8).map(sorted),
    outputs=st.lists(st.integers(1, 3), min_size=8, max_size=8),
    data=st.data(),
)
def test_every_offset_is_covered_once(offsets: list[int], outputs: list[int], data: st.DataObject) -> None:
    completed, ranges = CompletedOffsets(5), []

    def complete(first: int, after: int) -> None:
        ranges.append((first, after))
        completed.complete(first, after)

    records = [Record(b"", offset=offset) for offset in offsets]
    origins = [record for record, count in zip(records, outputs, strict=False) for _ in range(count)]
    found = covers(complete, 5, origins, 40)
    pending = [(cover, origin.offset) for cover, origin in zip(found, origins, strict=True)]
    while pending:
        cover, _ = pending.pop(data.draw(st.integers(0, len(pending) - 1)))
        cover.finish()
        left = [offset for _, offset in pending]
        assert completed.committable <= min(left, default=40), "an offset is committed before its last value is stored"
    assert completed.committable == 40
    assert sorted(ranges) == [(first, after) for (first, after) in sorted(ranges) if first < after], (
        "an empty range is completed"
    )
    assert sum(after - first for first, after in ranges) == 35, "an offset is completed twice"


def test_an_element_is_finished_when_all_of_it_is() -> None:
    ranges: list[tuple[int, int]] = []
    owner, record = Owner(), Record(b"", offset=7)
    (cover,) = covers(lambda first, after: ranges.append((first, after)), 7, [record], 8)
    element = Element(b"", record, cover, owner)
    element.pending += 1
    element.finish()
    assert (ranges, owner.finished, element.is_done) == ([], 0, False)
    element.finish()
    assert (ranges, owner.finished, element.is_done) == ([(7, 8)], 1, True)


def test_an_abandoned_element_is_not_completed() -> None:
    ranges: list[tuple[int, int]] = []
    owner, record = Owner(), Record(b"", offset=7)
    (cover,) = covers(lambda first, after: ranges.append((first, after)), 7, [record], 8)
    element = Element(b"", record, cover, owner)
    element.abandon()
    element.abandon()
    element.finish()  # a delivery that was on its way
    assert (ranges, owner.finished, owner.is_torn) == ([], 1, True)


def test_records_of_a_list_come_once() -> None:
    first, second = Record(b"", offset=7), Record(b"", offset=9)
    gathered = Gathered([first, first, second], 10)
    assert list(records_of(gathered)) == [first, second]
    assert (first_of(gathered), end_of(gathered), end_of(second)) == (7, 10, 10)
