"""`WholeRequests`: calls with one outcome, such as the description of a cluster."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Mapping
from typing import Any, TypeVar

from kafwire.admin.requests import AdminRequests
from kafwire.admin.routes import AnyBroker, Route
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Work

V = TypeVar("V")

__all__ = ["WholeRequests"]


class WholeRequests(AdminRequests):
    """A part of `AdminCalls` whose calls have one result or one error."""

    def _any_also(self, codes: Iterable[int]) -> AnyBroker[Any]:
        """Return the route to any broker, with more error codes after which a request is tried again."""
        route = self._any()
        route.retried = route.retried.union(codes)
        return route

    def _whole(
        self,
        route: Route[str],
        send: Callable[[int], Awaitable[V | KafkaError]],
        what: str,
        timeout_ms: float | None,
    ) -> Work[V]:
        """Return the work of a call with one outcome; `send` makes one attempt at a broker."""

        async def send_all(broker: int, keys: list[str]) -> Mapping[str, V | KafkaError]:
            return {keys[0]: await send(broker)}

        work = self._work([what], route, send_all, what, timeout_ms)

        async def run() -> V:
            outcomes = await work()
            if outcomes.errors:
                raise outcomes.error()
            return outcomes.results[what]

        return run
