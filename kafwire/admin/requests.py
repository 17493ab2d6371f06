"""`AdminRequests`: the base of the classes with the administrative calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from kafwire.admin.asking import Send, ask
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.routes import AnyBroker, Coordinators, GivenBrokers, Leaders, Route
from kafwire.cluster.cluster import Cluster
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Work

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

__all__ = ["AdminRequests"]

# The part of the time limit that a broker has for its own waits, such as for the controller.
BROKER_TIMEOUT_MS = 30_000


class AdminRequests:
    """A part of `AdminCalls`: the cluster, and the one way in which requests are sent.

    Each call of a subclass checks its arguments in the caller's thread, and returns the function that the engine calls.
    """

    _cluster: Cluster

    def _work(
        self,
        keys: Iterable[K],
        route: Route[K],
        send: Send[K, V],
        what: str,
        timeout_ms: float | None,
    ) -> Work[Outcomes[K, V]]:
        """Return the work of a call about keys."""
        return partial(ask, self._cluster, list(keys), route, send, what, timeout_ms)

    def _single(
        self, route: Route[str], send: Callable[[int], Awaitable[V | KafkaError]], what: str, timeout_ms: float | None
    ) -> Work[V]:
        """Return the work of a call without keys: its result or error; `send` makes one attempt at a broker."""

        async def send_one(broker: int, _: list[str]) -> dict[str, V | KafkaError]:
            return {what: await send(broker)}

        async def run() -> V:
            outcomes: Outcomes[str, V] = await ask(self._cluster, [what], route, send_one, what, timeout_ms)
            if outcomes.errors:
                raise outcomes.error()
            return outcomes.results[what]

        return run

    def _any(self) -> AnyBroker[Any]:
        return AnyBroker(self._cluster)

    def _any_also(self, codes: Iterable[int]) -> AnyBroker[Any]:
        """Return the route to any broker, with more error codes after which a request is tried again."""
        route = self._any()
        route.retried = route.retried.union(codes)
        return route

    def _given(self, broker_of: Callable[[K], int]) -> GivenBrokers[K]:
        return GivenBrokers(self._cluster, broker_of)

    def _coordinators(self, key_type: int, name_of: Callable[[K], str] = str) -> Coordinators[K]:
        return Coordinators(self._cluster, key_type, name_of)

    def _leaders(self, partition_of: Callable[[K], tuple[str, int]]) -> Leaders[K]:
        return Leaders(self._cluster, partition_of)
