"""`AdminRequests`: the base of the classes with the administrative calls."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from kafwire.admin.asking import Send, ask
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.routes import AnyBroker, Coordinators, GivenBrokers, Leaders, Route
from kafwire.cluster.cluster import Cluster
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

    def _any(self) -> AnyBroker[Any]:
        return AnyBroker(self._cluster)

    def _everywhere(
        self, route: Route[int], send: Send[int, V], what: str, timeout_ms: float | None
    ) -> Work[Outcomes[int, V]]:
        """Return the work of a call to all brokers; its keys are their ids."""

        async def run() -> Outcomes[int, V]:
            started_ms = self._cluster.engine.now_ms()
            limit_ms = self._cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
            await self._cluster.retrying(partial(self._cluster.refresh, at_once=True), what, limit_ms)
            left_ms = limit_ms - (self._cluster.engine.now_ms() - started_ms)
            return await ask(self._cluster, sorted(self._cluster.metadata.brokers), route, send, what, left_ms)

        return run

    def _given(self, broker_of: Callable[[K], int], *, also: Iterable[int] = ()) -> GivenBrokers[K]:
        return GivenBrokers(self._cluster, broker_of, also=also)

    def _coordinators(
        self, key_type: int, name_of: Callable[[K], str] = str, *, also: Iterable[int] = ()
    ) -> Coordinators[K]:
        return Coordinators(self._cluster, key_type, name_of, also=also)

    def _leaders(self, partition_of: Callable[[K], tuple[str, int]]) -> Leaders[K]:
        return Leaders(self._cluster, partition_of)
