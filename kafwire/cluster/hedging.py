"""Hedged requests: the first broker to respond wins, so that a broker that hangs delays no call."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable
from typing import TypeVar

from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.errors import KafkaConnectionError, KafkaTimeoutError, ProtocolError

_T = TypeVar("_T")

# A broker without a response by then may hang: the next one is asked too.
PATIENCE_S = 0.3


async def first_response(
    connections: Iterable[BrokerConnection],
    ask: Callable[[BrokerConnection], Awaitable[_T]],
    problems: list[str],
    *,
    patience_s: float = PATIENCE_S,
) -> _T | None:
    """Return the result of `ask` for the first connection that responds; None if none did, with reasons in `problems`.

    Connections are asked in order, each `patience_s` after the one before, or as soon as one cannot be reached. `ask`
    may be cancelled at any time. After a `ProtocolError` the next one is asked too, as another broker's response may be
    undamaged; if no connection responds, the call raises it. Any other error ends the call.
    """
    malformed: ProtocolError | None = None
    waiting = list(connections)
    asked: set[asyncio.Future[_T]] = set()
    try:
        while waiting or asked:
            if waiting:
                asked.add(asyncio.ensure_future(ask(waiting.pop(0))))
            done, asked = await asyncio.wait(
                asked, timeout=patience_s if waiting else None, return_when=asyncio.FIRST_COMPLETED
            )
            response: asyncio.Future[_T] | None = None
            for task in done:
                error = task.exception()
                if isinstance(error, KafkaConnectionError | KafkaTimeoutError):
                    problems.append(str(error))
                elif isinstance(error, ProtocolError):
                    malformed = error
                elif response is None or response.exception() is not None:
                    response = task
            if response is not None:
                return response.result()
        if malformed is not None:
            raise malformed
        return None
    finally:
        for task in asked:
            task.cancel()
