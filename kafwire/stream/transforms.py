"""`SectionRun`: passes values through `map`, `filter` and `flat_map`, each of which may fail."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from itertools import compress, islice, repeat
from typing import Any

from kafwire.stream.elements import Origin
from kafwire.stream.steps import Filter, FlatMap, Map, Transform, name_of

Combine = Callable[[list[Any], list[Any], list[Any]], tuple[list[Any], list[Any]]]
Section = tuple[tuple[Callable[[Any], Any], Combine, str], ...]


def section(steps: Sequence[Transform], name: str | None = None) -> Section:
    """List for each step: the function for each value, the function that combines the results, and the name."""
    return tuple((*_compiled(step), name or name_of(step)) for step in steps)


def _compiled(step: Transform) -> tuple[Callable[[Any], Any], Combine]:
    if isinstance(step, Map):
        return step.function, _mapped
    if isinstance(step, Filter):
        return step.function, _filtered
    return _listing(step), _flattened


def _listing(step: FlatMap) -> Callable[[Any], list[Any]]:
    function: Callable[[Any], Iterable[Any]] = step.function
    return lambda value: list(function(value))


def _mapped(values: list[Any], origins: list[Any], results: list[Any]) -> tuple[list[Any], list[Any]]:
    del values
    return results, origins


def _filtered(values: list[Any], origins: list[Any], results: list[Any]) -> tuple[list[Any], list[Any]]:
    return list(compress(values, results)), list(compress(origins, results))


def _flattened(values: list[Any], origins: list[Any], results: list[Any]) -> tuple[list[Any], list[Any]]:
    del values
    flat = [value for result in results for value in result]
    return flat, [one for origin, found in zip(origins, results, strict=True) for one in repeat(origin, len(found))]


class SectionRun:
    """Values in a series of steps. Each step processes all values before the next one begins.

    `run` continues until it is over, or a step raises. Then `error` has the exception, and `origin` the record; the
    next `run` calls the same step with the same value again, unless `drop` leaves it out.
    """

    __slots__ = ("_results", "_section", "_step", "error", "origins", "values")

    def __init__(self, steps: Section, values: list[Any], origins: list[Any]) -> None:
        self._section = steps
        self._step = 0
        self._results: list[Any] = []
        self.values = values
        self.origins = origins
        self.error: Exception | None = None

    def run(self) -> bool:
        """Continue; True if it is over: `values` and `origins` are the results."""
        while self._step < len(self._section):
            function, combine, _ = self._section[self._step]
            results = self._results
            append = results.append
            try:
                for value in islice(self.values, len(results), None):
                    append(function(value))
            except Exception as error:  # noqa: BLE001  # whatever a user's function raises
                self.error = error
                return False
            self.values, self.origins = combine(self.values, self.origins, results)
            self._results = []
            self._step += 1
        self.error = None
        return True

    @property
    def origin(self) -> Origin:
        """The origin of the value for which a step failed."""
        found: Origin = self.origins[len(self._results)]
        return found

    @property
    def place(self) -> tuple[int, int]:
        """The index of the failed step, and of its value."""
        return self._step, len(self._results)

    @property
    def step(self) -> str:
        """The name of the failed or running step."""
        at = min(self._step, len(self._section) - 1)
        return self._section[at][2]

    def drop(self) -> None:
        """Leave out the value for which a step failed."""
        at = len(self._results)
        self.values = [*self.values[:at], *self.values[at + 1 :]]
        self.origins = [*self.origins[:at], *self.origins[at + 1 :]]
