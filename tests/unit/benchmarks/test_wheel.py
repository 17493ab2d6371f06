"""A wheel beside this tree's build: least times, turns, and the rows that are called slow."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager

import pytest

from benchmarks.wheel import MOST_PAIRS, PAIRS, TURNS, Figures, Measure, compare, render
from benchmarks.workers.compiled import ROWS, least


class Scripted:
    """A library whose repeats take the times of a script; the last one goes on."""

    def __init__(self, **times: list[float]) -> None:
        self.times = times
        self.asked: list[str] = []
        self.processes = 0

    @contextmanager
    def open(self) -> Iterator[Measure]:
        self.processes += 1
        yield self.measure

    def measure(self, name: str) -> float:
        self.asked.append(name)
        times = self.times[name]
        return times.pop(0) if len(times) > 1 else times[0]


def test_the_least_time_of_each_library_counts() -> None:
    tree, wheel = Scripted(row=[5.0, 2.0, 9.0]), Scripted(row=[9.0, 4.0, 8.0])
    (found,) = compare(["row"], tree.open, wheel.open, 0.5)
    assert (found.tree, found.wheel) == ([2.0, 9.0], [4.0, 8.0])
    assert found.ratio == max(2.0 / 4.0, 5.5 / 6.0)
    assert len(tree.asked) == len(wheel.asked) == PAIRS * TURNS
    assert tree.processes == wheel.processes == PAIRS


def test_only_a_row_that_looks_slow_gets_more_processes() -> None:
    late = [2.0] * (PAIRS * TURNS) + [1.0]
    tree = Scripted(fast=[1.0], late=[1.0], slow=[1.0])
    wheel = Scripted(fast=[1.0], late=late, slow=[2.0])
    found = compare(["fast", "late", "slow"], tree.open, wheel.open, 0.97)
    assert [one.ratio for one in found] == [1.0, 1.0, 0.5]
    asked = [wheel.asked.count(name) // TURNS for name in ("fast", "late", "slow")]
    assert asked == [PAIRS, PAIRS + 1, MOST_PAIRS]
    assert tree.processes == wheel.processes == MOST_PAIRS


@pytest.mark.parametrize(
    ("fast", "ratio"),
    [((0,), 1.0), ((0, 3, 5), 1.0), (range(MOST_PAIRS), 0.8)],
    ids=["one", "three", "all"],
)
def test_a_row_is_slower_only_beside_mostly_faster_processes(fast: Sequence[int], ratio: float) -> None:
    """The same library on both sides had a rare process that encoded lz4 a fifth faster: 830 us, not 1010 us."""
    times = [0.8 if pair in fast else 1.0 for pair in range(MOST_PAIRS) for _ in range(TURNS)]
    (found,) = compare(["row"], Scripted(row=times).open, Scripted(row=[1.0]).open, 0.95)
    assert found.ratio == pytest.approx(ratio)


def test_libraries_take_turns_in_being_first() -> None:
    order: list[str] = []

    @contextmanager
    def side(name: str) -> Iterator[Measure]:
        def measure(_row: str) -> float:
            order.append(name)
            return 1.0

        yield measure

    compare(["row"], lambda: side("tree"), lambda: side("wheel"), 0.97)
    assert order[:4] == ["tree", "wheel", "wheel", "tree"]


def test_the_table_names_the_slower_rows() -> None:
    text = render([Figures("even", [1e-6], [1e-6]), Figures("behind", [1e-6], [2e-6])], 0.97)
    assert "| even | 1.0 | 1.0 | 1.000 |  |" in text
    assert "| behind | 1.0 | 2.0 | 0.500 | SLOWER |" in text
    assert text.endswith("below 97% of this tree's build: behind\n")
    assert render([Figures("even", [1.0], [1.0])], 0.97).endswith(": none\n")


@pytest.mark.parametrize("name", ROWS)
def test_every_row_repeats(name: str) -> None:
    once = ROWS[name]()
    assert once() is not None
    assert 0 < least(once, 0) < float("inf")
