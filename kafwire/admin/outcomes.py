"""Outcomes by key: an administrative call about several keys has a result or an error for each of them. Pure."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from typing import Any, Generic, TypeVar

from kafwire.errors import AdminError, KafkaError
from kafwire.lazy_dataclass import dataclass

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

__all__ = ["Outcomes", "settle"]


@dataclass(frozen=True, slots=True)
class Outcomes(Generic[K, V]):
    """The results and the errors of a call. Each key is in one of them."""

    results: dict[K, V]
    errors: dict[K, KafkaError]

    def error(self, what: str = "") -> KafkaError:
        """Return the error to raise: that of the only key, or an `AdminError` with all of them."""
        if len(self.errors) == 1 and not self.results:
            return next(iter(self.errors.values()))
        return AdminError(self.results, self.errors)


def settle(outcomes: Outcomes[K, V], on_error: Callable[[K, KafkaError], object] | None) -> dict[K, V]:
    """Return the results. Errors are raised, or passed to `on_error`, in the caller's thread or event loop."""
    if outcomes.errors:
        if on_error is None:
            raise outcomes.error()
        for key, error in outcomes.errors.items():
            on_error(key, error)
    return outcomes.results
