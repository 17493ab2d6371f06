"""The progress of a copy in the summaries of snapshots."""

from __future__ import annotations

import uuid
from types import SimpleNamespace

import pytest

from kafwire.errors import KafkaError
from kafwire.lake.copy_progress import Progress
from kafwire.lake.snapshot_offsets import Found, newest, property_of

PROGRESS = Progress.new("orders", uuid.UUID(int=7), {1: 5, 0: 3})


class Metadata:
    """Of a table whose snapshots have these properties, in order; None stands for an expired snapshot."""

    def __init__(self, *properties: dict[str, str] | None, first: int | None = 1) -> None:
        self._snapshots = {
            number: SimpleNamespace(
                snapshot_id=number,
                parent_snapshot_id=number - 1 if number else None,
                sequence_number=None if first is None else first + number,
                summary=SimpleNamespace(additional_properties=found),
            )
            for number, found in enumerate(properties)
            if found is not None
        }

    def snapshot_by_id(self, number: int) -> object:
        return self._snapshots.get(number)

    def current_snapshot(self) -> object:
        return self._snapshots[max(self._snapshots)] if self._snapshots else None


def test_the_newest_snapshot_of_the_name_counts() -> None:
    mine = {property_of("a"): PROGRESS.text}
    old = {property_of("a"): Progress.new("orders", uuid.UUID(int=7), {0: 1}).text}
    assert newest(Metadata(old, mine, {property_of("b"): "{}"}, {}), "a") == Found(PROGRESS, expired=False)
    assert newest(Metadata(None, mine, {}), "a") == Found(PROGRESS, expired=False)
    assert newest(Metadata({}, mine), "b") == Found(None, expired=False)
    assert newest(Metadata(), "a") == Found(None, expired=False)


def test_an_expired_snapshot_is_known_by_what_is_left() -> None:
    assert newest(Metadata({}, None, {}), "a").expired, "the parent is missing"
    assert newest(Metadata({}, first=2), "a").expired, "pyiceberg removed the parent's id"
    assert not newest(Metadata({"total-records": "3", "added-records": "3"}, first=None), "a").expired
    assert newest(Metadata({"total-records": "3", "added-records": "2"}, first=None), "a").expired


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"topic":"t","topic_id":"","commit":"","offsets":{"x":1}}'])
def test_a_damaged_property_names_its_snapshot(text: str) -> None:
    with pytest.raises(KafkaError, match=r"snapshot 0: kafwire\.a\.offsets is damaged"):
        newest(Metadata({property_of("a"): text}), "a")
