"""`SectionRun` against a loop over each value, with steps that fail now and then."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kafwire.stream.steps import Filter, FlatMap, Map, Transform
from kafwire.stream.transforms import SectionRun, section
from tests.support import seeds

STEPS: list[Transform] = [
    Map(lambda value: value + 1),
    Map(lambda value: value * 3),
    Filter(lambda value: value % 2),
    FlatMap(lambda value: [value, value + 10] if value % 3 else []),
    FlatMap(lambda value: iter((value,))),
]


def plainly(steps: list[Transform], value: int, origin: str) -> list[tuple[int, str]]:
    found = [value]
    for step in steps:
        if isinstance(step, Map):
            found = [step.function(one) for one in found]
        elif isinstance(step, Filter):
            found = [one for one in found if step.function(one)]
        else:
            found = [each for one in found for each in step.function(one)]
    return [(one, origin) for one in found]


def failing(step: Transform, fails: Callable[[], bool]) -> Transform:
    def function(value: Any) -> Any:
        if fails():
            raise ValueError(value)
        return step.function(value)

    return type(step)(function)


@settings(max_examples=seeds.examples(200), deadline=None)
@given(
    steps=st.lists(st.sampled_from(STEPS), max_size=5),
    values=st.lists(st.integers(0, 20), max_size=8),
    failures=st.lists(st.booleans(), max_size=60),
)
def test_a_step_that_fails_is_called_again(steps: list[Transform], values: list[int], failures: list[bool]) -> None:
    script = iter(failures)
    origins = [f"record {number}" for number in range(len(values))]
    run = SectionRun(section([failing(step, lambda: next(script, False)) for step in steps]), values, list(origins))
    while not run.run():
        assert isinstance(run.error, ValueError)
    assert run.error is None
    expected = [pair for value, origin in zip(values, origins, strict=True) for pair in plainly(steps, value, origin)]
    assert list(zip(run.values, run.origins, strict=True)) == expected


@settings(max_examples=seeds.examples(200), deadline=None)
@given(steps=st.lists(st.sampled_from(STEPS), min_size=1, max_size=4), bad=st.sets(st.integers(0, 7)), data=st.data())
def test_a_dropped_value_leaves_the_others(steps: list[Transform], bad: set[int], data: st.DataObject) -> None:
    at = data.draw(st.integers(0, len(steps) - 1))
    values = list(range(8))
    origins = [f"record {value}" for value in values]
    dropped: list[str] = []

    def refuse(value: int) -> int:
        raise ValueError(value)

    made = [*steps[:at], Map(lambda value: refuse(value) if value % 8 in bad else value), *steps[at:]]
    run = SectionRun(section(made), values, list(origins))
    places = []
    while not run.run():
        places.append(run.place)
        dropped.append(str(run.origin))
        run.drop()
    assert places == sorted(places)
    before = [pair for value, one in zip(values, origins, strict=True) for pair in plainly(steps[:at], value, one)]
    assert dropped == [one for value, one in before if value % 8 in bad]
    expected = [pair for value, one in before if value % 8 not in bad for pair in plainly(steps[at:], value, one)]
    assert list(zip(run.values, run.origins, strict=True)) == expected


def test_the_lists_that_it_is_given_stay() -> None:
    values, origins = [1, 2], ["a", "b"]
    run = SectionRun(section([Map(lambda value: 1 // 0)]), values, origins)
    assert not run.run()
    run.drop()
    assert (values, origins, run.values) == ([1, 2], ["a", "b"], [2])


@pytest.mark.parametrize("failing_step", [0, 1, 2])
def test_a_failed_step_has_its_name(failing_step: int) -> None:
    def first(value: int) -> int:
        return value // (failing_step != 0)

    def second(value: int) -> int:
        return value // (failing_step != 1)

    def third(value: int) -> int:
        return value // (failing_step != 2)

    run = SectionRun(section([Map(first), Map(second), Map(third)]), [1], [(0, 0)])
    assert not run.run()
    assert run.step == ["map(first)", "map(second)", "map(third)"][failing_step]


def test_a_run_that_is_over_has_the_name_of_its_last_step() -> None:
    """Another thread may ask at any moment."""
    run = SectionRun(section([Map(lambda value: value), Map(abs)]), [1], [(0, 0)])
    assert run.run()
    assert run.step == "map(abs)"
