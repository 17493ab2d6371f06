"""The steps of a pipeline, as data."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any, Literal

from kafwire.errors import ConfigError

RunIn = Literal["tasks", "threads", "processes"]
Lane = Literal["key", "partition"]


@dataclass(frozen=True, slots=True)
class Map:
    """Replaces each value by one value; with `batches`, whole batches of the source."""

    function: Callable[[Any], Any]
    batches: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Keeps the values for which the function returns true."""

    function: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Replaces each value by any number of values."""

    function: Callable[[Any], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Gather:
    """Gathers consecutive values of a partition into lists: full at `max_records`, or after `max_seconds`."""

    max_records: int
    max_seconds: float | None


@dataclass(frozen=True, slots=True)
class Reduce:
    """Folds the values of a key into one value, until there are `max_values`, or `max_seconds` are over.

    `by` returns the key of a value; None: its record's key.
    """

    function: Callable[[Any, Any], Any]
    initial: Callable[[], Any]
    by: Callable[[Any], Any] | None
    max_values: int | None
    max_seconds: float | None


@dataclass(frozen=True, slots=True)
class ForEach:
    """Calls a handler by several workers at once, in order within a lane."""

    handler: Callable[[Any], Any]
    workers: int
    by: Lane | Callable[[Any], Any] | None
    run_in: RunIn
    timeout_s: float | None


Transform = Map | Filter | FlatMap
Step = Transform | Gather | Reduce | ForEach


def name_of(step: Step) -> str:
    """Return the step's name for errors and dead letters: `map(parse)`, `for_each(bill)`, `batch`."""
    if isinstance(step, Gather):
        return "batch"
    kinds = {Filter: "filter", FlatMap: "flat_map", ForEach: "for_each", Reduce: "reduce"}
    kind = kinds.get(type(step)) or ("map_batches" if isinstance(step, Map) and step.batches else "map")
    function: Any = step.handler if isinstance(step, ForEach) else step.function
    while isinstance(function, partial):
        function = function.func
    return f"{kind}({getattr(function, '__name__', type(function).__name__)})"


@dataclass(frozen=True, slots=True)
class Plan:
    """The steps of a pipeline by their place.

    `before` comes before `gather` or `reduce`, `between` is between that and `for_each`, `after` comes after it.
    Without `gather` and `reduce`, all steps before `for_each` are in `before`. With `is_batchwise` the elements are
    whole batches instead of records.
    """

    before: tuple[Transform, ...]
    gather: Gather | None
    between: tuple[Transform, ...]
    for_each: ForEach | None
    after: tuple[Transform, ...]
    is_batchwise: bool
    reduce: Reduce | None = None


def plan(steps: Iterable[Step]) -> Plan:
    """Sort steps by their place.

    Raises `ConfigError` for an impossible order: a stream has at most one `batch` or `reduce`, before at most one
    `for_each`, and whole batches come first.
    """
    before: list[Transform] = []
    between: list[Transform] = []
    after: list[Transform] = []
    gather: Gather | None = None
    reduce: Reduce | None = None
    for_each: ForEach | None = None
    place = before
    is_batchwise = False
    for number, step in enumerate(steps):
        if isinstance(step, Gather | Reduce):
            if gather is not None or reduce is not None or for_each is not None:
                raise ConfigError(
                    "a pipeline has one batch() or reduce(), before for_each(): use another pipeline for a second"
                )
            if isinstance(step, Reduce) and is_batchwise:
                raise ConfigError("reduce() takes records: remove map_batches(), or fold the rows with batch()")
            gather, reduce = (step, None) if isinstance(step, Gather) else (None, step)
            place = between
        elif isinstance(step, ForEach):
            if for_each is not None:
                raise ConfigError("a pipeline has one for_each(): use another pipeline for a second")
            if step.by == "key" and (gather is not None or is_batchwise):
                raise ConfigError('a batch has no key: for_each(by="key") takes records, by="partition" batches')
            if step.by == "key" and reduce is not None:
                raise ConfigError("reduce() has keys of its own: give for_each a function, by=lambda one: one.key")
            for_each, place = step, after
        else:
            if isinstance(step, Map) and step.batches:
                if number and not is_batchwise:
                    raise ConfigError("map_batches() comes first: the steps before it make records of the batches")
                is_batchwise = True
            place.append(step)
    return Plan(tuple(before), gather, tuple(between), for_each, tuple(after), is_batchwise, reduce)
