"""`AdminRequests`: the base of the classes with the administrative calls."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Hashable, Iterable
from functools import partial
from typing import Any, TypeVar

from kafwire.admin.arguments import timeout_ms_of
from kafwire.admin.asking import Send, ask, error_of
from kafwire.admin.outcomes import Outcomes
from kafwire.admin.routes import AnyBroker, Coordinators, GivenBrokers, Leaders, Route
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.requirements import needs
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

    def _command(
        self, message: Any, what: str, needed: tuple[str, str], timeout: float | None, *, also: Iterable[int] = ()
    ) -> Work[None]:
        """Return the work of a request to any broker, whose response has nothing but an error.

        Args:
            message: the request.
            what: the call and its object: "unregistering broker 3".
            needed: the name of the call, and the first Kafka release with it.
            timeout: the limit of all attempts in seconds.
            also: error codes after which the request is sent again too.
        """
        request = type(message)

        async def send(broker: int) -> KafkaError | None:
            with needs(request, *needed):
                response = await route.call(broker, message)
            return error_of(response, what, request.__name__.removesuffix("Request"))

        route = self._any(also=also)
        return self._single(route, send, what, timeout_ms_of(timeout))

    def _any(self, *, also: Iterable[int] = ()) -> AnyBroker[Any]:
        return AnyBroker(self._cluster, also=also)

    def _everywhere(
        self, route: Route[int], send: Send[int, V], what: str, timeout_ms: float | None
    ) -> Work[Outcomes[int, V]]:
        """Return the work of a call to all brokers; its keys are their ids."""

        async def run() -> Outcomes[int, V]:
            left_ms = self._time_limit(timeout_ms)
            await self._cluster.retrying(partial(self._cluster.refresh, at_once=True), what, left_ms())
            return await ask(self._cluster, sorted(self._cluster.metadata.brokers), route, send, what, left_ms())

        return run

    def _time_limit(self, timeout_ms: float | None) -> Callable[[], float]:
        """Start the time limit of a call with several steps: a function that returns the milliseconds left."""
        now_ms = self._cluster.engine.now_ms
        deadline = now_ms() + (self._cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms)
        return lambda: deadline - now_ms()

    def _given(self, broker_of: Callable[[K], int], *, also: Iterable[int] = ()) -> GivenBrokers[K]:
        return GivenBrokers(self._cluster, broker_of, also=also)

    def _coordinators(
        self, key_type: int, name_of: Callable[[K], str] = str, *, also: Iterable[int] = ()
    ) -> Coordinators[K]:
        return Coordinators(self._cluster, key_type, name_of, also=also)

    def _leaders(self, partition_of: Callable[[K], tuple[str, int]]) -> Leaders[K]:
        return Leaders(self._cluster, partition_of)
