"""Hedged requests: the first broker to respond wins, so that a broker that hangs delays no call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeGuard, TypeVar

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError

_T = TypeVar("_T")

# A broker without a response by then may hang: the next one is asked too.
PATIENCE_S = 0.3


async def first_response(
    connections: Iterable[BrokerConnection],
    ask: Callable[[BrokerConnection], Awaitable[_T]],
    problems: list[KafkaError],
    *,
    patience_s: float = PATIENCE_S,
) -> _T | None:
    """Return the result of `ask` for the first connection that responds; None if none did, with errors in `problems`.

    Connections are asked in order, each `patience_s` after the one before, or as soon as one cannot be reached or sends
    a damaged response: another broker's may be undamaged. Any other error ends the call. `ask` may be cancelled at any
    time. `failure_of` makes the error to raise.
    """
    waiting = list(connections)
    asked: set[asyncio.Future[_T]] = set()
    try:
        while waiting or asked:
            if waiting:
                asked.add(asyncio.ensure_future(ask(waiting.pop(0))))
            done, asked = await asyncio.wait(
                asked, timeout=patience_s if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            ended: asyncio.Future[_T] | None = None
            for task in done:
                error = task.exception()
                if isinstance(error, KafkaConnectionError | KafkaTimeoutError) or _is_damaged_response(error):
                    problems.append(error)
                elif ended is None or ended.exception() is not None:
                    ended = task
            if ended is not None:
                return ended.result()
        return None
    finally:
        for task in asked:
            task.cancel()


def failure_of(problems: list[KafkaError], before: str) -> KafkaError:
    """Return the error of a request that no broker served: the last damaged response, or `before` and all reasons."""
    damaged = [problem for problem in problems if isinstance(problem, ProtocolError)]
    if damaged:
        return damaged[-1]
    return KafkaConnectionError(f"{before} {'; '.join(dict.fromkeys(map(str, problems)))}")


def _is_damaged_response(error: BaseException | None) -> TypeGuard[ProtocolError]:
    """True unless, for example, the request cannot be encoded: no broker could serve it."""
    return isinstance(error, ProtocolError) and (error.api or "").endswith("Response")
