"""`testing.history.record`: `move` of a live observer."""

from pathlib import Path

import pytest

from kafwire.testing.history import History, check
from kafwire.types import TopicPartition


@pytest.mark.parametrize("argument", ["reported", "told", None])
def test_only_records_that_the_client_reported_as_gone_may_be_skipped(tmp_path: Path, argument: str | None) -> None:
    path = tmp_path / "history"
    with History(path) as history:
        writer = history.producer(1)
        made = writer.invoke([1, 1, 1])
        writer.ok_all([sequence for sequence, _ in made], "t", 0, (0, 1, 2))
        reader, observer = history.view("reader", live=True), history.view("observer")
        reader.move("t", 0, 0, "begins")
        reader.add("t", 0, (0,), [made[0][1]])
        if argument == "told":
            with pytest.warns(DeprecationWarning, match="write reported="):
                reader.move("t", 0, 2, told=True)
        else:
            reader.move("t", 0, 2, reported=argument is not None)
        reader.add("t", 0, (2,), [made[2][1]])
        observer.add("t", 0, (0, 1, 2), [value for _, value in made])
        for seen in (reader, observer):
            seen.close({TopicPartition("t", 0): (0, 3)})
    assert {kind: number for kind, number in check(path).found.items() if number} == (
        {"skipped": 1} if argument is None else {}
    )
