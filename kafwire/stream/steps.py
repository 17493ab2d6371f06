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
    """One value for each; with `batches`, of whole batches as the source has them."""

    function: Callable[[Any], Any]
    batches: bool = False


@dataclass(frozen=True, slots=True)
class Filter:
    """Only the values for which the function is true."""

    function: Callable[[Any], object]


@dataclass(frozen=True, slots=True)
class FlatMap:
    """Any number of values for each."""

    function: Callable[[Any], Iterable[Any]]


@dataclass(frozen=True, slots=True)
class Gather:
    """Lists of consecutive values of a partition. A list is full at `max_records`, or ends after `max_seconds`."""

    max_records: int
    max_seconds: float | None


@dataclass(frozen=True, slots=True)
class Reduce:
    """One value for the values of a key: until there are `max_values`, or `max_seconds` are over.

    `by` is the key of a value; None: its record's key.
    """

    function: Callable[[Any, Any], Any]
    initial: Callable[[], Any]
    by: Callable[[Any], Any] | None
    max_values: int | None
    max_seconds: float | None


@dataclass(frozen=True, slots=True)
class ForEach:
    """A handler that several workers call at once, in order within a lane."""

    handler: Callable[[Any], Any]
    workers: int
    by: Lane | Callable[[Any], Any] | None
    run_in: RunIn
    timeout_s: float | None


Transform = Map | Filter | FlatMap
Step = Transform | Gather | Reduce | ForEach


def name_of(step: Step) -> str:
    """The step as errors and dead letters name it: `map(parse)`, `for_each(bill)`, `batch`."""
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

    `before` what is gathered or reduced, `between` that and `for_each`, `after` it. Without these all that comes before
    `for_each` is `before`. With `is_batchwise` the elements are whole batches instead of records.
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

    Raises `ConfigError` for an order that a stream cannot have: it has at most one `batch` or `reduce`, before at most
    one `for_each`, and whole batches come first.
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
                    "a pipeline has one batch() or reduce(), before for_each(): begin another pipeline for a second"
                )
            if isinstance(step, Reduce) and is_batchwise:
                raise ConfigError("reduce() takes records: leave out map_batches(), or fold the rows with batch()")
            gather, reduce = (step, None) if isinstance(step, Gather) else (None, step)
            place = between
        elif isinstance(step, ForEach):
            if for_each is not None:
                raise ConfigError("a pipeline has one for_each(): begin another pipeline for a second")
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
