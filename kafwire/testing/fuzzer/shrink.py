"""A search for a smaller case that breaks the same promise: greedy, over its steps, damages and fields."""

import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

from kafwire.protocol.spec import Struct
from kafwire.testing.fuzzer import case as cases
from kafwire.testing.fuzzer import paths
from kafwire.testing.fuzzer.case import Case, Step

_LONG_TEXT = 8


def shrink(case: Case, reproduces: Callable[[Case], bool], *, attempts: int = 200, seconds: float = 40.0) -> Case:
    """Return the smallest case found by `attempts` runs of `reproduces`, in `seconds`; `case` itself satisfies it."""
    left = attempts
    deadline = time.monotonic() + seconds
    progress = True
    while progress and left > 0:
        progress = False
        for candidate in _smaller(case):
            if left <= 0 or time.monotonic() > deadline:
                left = 0
                break
            left -= 1
            if reproduces(candidate):
                case = candidate
                progress = True
                break
    return case


def _smaller(case: Case) -> Iterator[Case]:
    for index in range(len(case.steps)):
        if len(case.steps) > 1:
            yield case.with_steps(_without(case.steps, index))
    if case.delivery != cases.TURNS:
        yield replace(case, delivery=cases.TURNS, pieces=())
    for index in range(len(case.pieces)):
        yield replace(case, pieces=case.pieces[:index] + case.pieces[index + 1 :])
    for index in reversed(range(len(case.steps))):
        step = case.steps[index]
        for smaller in _smaller_step(step):
            yield case.with_steps((*case.steps[:index], smaller, *case.steps[index + 1 :]))


def _without(steps: tuple[Step, ...], gone: int) -> tuple[Step, ...]:
    kept = []
    for index, step in enumerate(steps):
        if index == gone:
            continue
        binds = tuple(replace(bind, step=bind.step - (bind.step > gone)) for bind in step.binds if bind.step != gone)
        kept.append(replace(step, binds=binds))
    return tuple(kept)


def _smaller_step(step: Step) -> Iterator[Step]:
    for index in range(len(step.damage)):
        if len(step.damage) > 1:
            yield replace(step, damage=step.damage[:index] + step.damage[index + 1 :])
    for index in range(len(step.binds)):
        yield replace(step, binds=step.binds[:index] + step.binds[index + 1 :])
    for message in smaller_messages(step.message, step.version):
        yield replace(step, message=message)


def smaller_messages(message: Any, version: int) -> Iterator[Any]:
    """Yield smaller messages: fewer elements, fields at their defaults, shorter texts."""
    if message.unknown_tagged_fields:
        yield _with(message, (), "unknown_tagged_fields", ())
    for path, field, value in paths.places(message, version):
        blank = _default(message, path)
        if field.array:
            if value:
                yield _put(message, path, [])
            for index in range(len(value or ())):
                if len(value) > 1:
                    yield _put(message, path, [*value[:index], *value[index + 1 :]])
            for index, element in enumerate(value or ()):
                if isinstance(element, Struct) and element.unknown_tagged_fields:
                    yield _with(message, (*path, index), "unknown_tagged_fields", ())
        elif value != blank:
            yield _put(message, path, blank)
            if isinstance(value, str | bytes) and len(value) > _LONG_TEXT:
                yield _put(message, path, value[: len(value) // 2])


def _default(message: Any, path: paths.Path) -> Any:
    holder = paths.get(message, path[:-1])
    return getattr(type(holder)(), str(path[-1]))


def _put(message: Any, path: paths.Path, value: Any) -> Any:
    smaller = paths.clone(message)
    paths.put(smaller, path, value)
    return smaller


def _with(message: Any, path: paths.Path, name: str, value: Any) -> Any:
    smaller = paths.clone(message)
    setattr(paths.get(smaller, path), name, value)
    return smaller


def features(case: Case) -> tuple[str, ...]:
    """Return the features of a small case: fields that differ from their defaults, or its kinds of damage."""
    target = case.target
    found = {change.shape for change in target.damage}
    if not found:
        for path, field, value in paths.places(target.message, target.version):
            if field.struct is None and value != _default(target.message, path):
                found.add(".".join(step for step in path if isinstance(step, str)))
    return tuple(sorted(found))
