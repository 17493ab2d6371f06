"""The state of a run of the soak: written down, resumed, and summed up in the end."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

from tests.soak import summary
from tests.soak.state import State, Tally


def long_run() -> State:
    counts = Counter(acked=12_345_678, committed=2_500, aborted=700)
    return State(
        7,
        60,
        segment=12,
        episode=240,
        seconds=3605.0,
        attempts=13,
        faults=Counter({"Delay": 900, "node killed": 40}),
        kafwire=Tally(counts, Counter(lost=0), Counter({"error KafkaTimeoutError": 3})),
        recovery_s=12.34,
    )


def test_a_saved_state_is_loaded_unchanged(tmp_path: Path) -> None:
    state = long_run()
    state.save(tmp_path)
    again = State.load(tmp_path)
    assert again == state
    again.kafwire.add(Tally(Counter(acked=1), Counter(lost=2), Counter()))
    again.faults.update(["Delay"])
    again.save(tmp_path)
    loaded = State.load(tmp_path)
    assert loaded.kafwire.counts["acked"] == 12_345_679
    assert loaded.kafwire.found["lost"] == 2
    assert loaded.faults["Delay"] == 901
    assert [file.name for file in tmp_path.iterdir()] == ["state.json"]


def test_without_a_run_there_is_none(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        State.load(tmp_path)


def test_a_run_is_over_when_its_time_is_or_something_was_found() -> None:
    state = long_run()
    assert state.finished
    state.seconds = 3599
    assert not state.finished
    state.violations = ["lost"]
    assert state.finished


def test_the_summary_has_the_counts() -> None:
    text = summary.text(long_run())
    for part in ("Seed 7", "12,345,678", "2,500", "700", "| **lost** | 0 | 0 |", "940", "node killed 40", "12.3 s"):
        assert part in text
    assert "KafkaTimeoutError 3" in text
    assert "1 more segment(s) were begun and cut off" in text


def test_violations_have_a_line_for_each_finding() -> None:
    state = long_run()
    assert summary.violations(state) == []
    state.violations = [
        "segment 0: acked=1\nlost=1\nlost t-0@5: it is nowhere\n    1.0 s invoked",
        "segment 0: the chain",
    ]
    assert summary.violations(state) == [
        "violated: segment 0: acked=1\n",
        "violated: lost=1\n",
        "violated: lost t-0@5: it is nowhere\n",
        "violated: segment 0: the chain\n",
    ]


@pytest.mark.parametrize(
    ("change", "written"),
    [({}, True), ({"seconds": 3599.0}, False), ({"violations": ["lost"]}, False), ({"minutes": 90}, False)],
)
def test_only_a_long_run_without_a_violation_is_written_down(
    tmp_path: Path, change: dict[str, object], written: bool
) -> None:
    file = tmp_path / "soak.md"
    before = f"# Before\n\n{summary.START}\nearlier figures\n{summary.END}\n\nafter\n"
    file.write_text(before)
    state = long_run()
    for name, value in change.items():
        setattr(state, name, value)
    assert summary.document(file, state) == written
    text = file.read_text()
    assert text.startswith("# Before\n")
    assert text.endswith(f"{summary.END}\n\nafter\n")
    assert ("12,345,678" in text) == written
    assert ("earlier figures" in text) != written
    if not written:
        assert text == before


def test_the_place_for_the_summary_is_there() -> None:
    text = (Path(__file__).parents[3] / "docs" / "internals" / "results" / "soak.md").read_text()
    assert text.count(summary.START) == text.count(summary.END) == 1
    assert text.index(summary.START) < text.index(summary.END)
