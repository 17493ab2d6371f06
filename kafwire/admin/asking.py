"""Requests about several keys: each key goes to its broker, is retried by its own error, and has its own outcome."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Hashable, Iterable, Mapping
from typing import Any, TypeVar

from kafwire.admin.outcomes import Outcomes
from kafwire.admin.routes import Route
from kafwire.cluster.cluster import Cluster
from kafwire.errors import BrokerError, KafkaConnectionError, KafkaError, KafkaTimeoutError, ProtocolError, broker_error

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

# Sends one request about these keys to a broker; returns a result or an error for each key.
Send = Callable[[int, list[K]], Awaitable[Mapping[K, V | KafkaError]]]

__all__ = ["Send", "ask", "error_of", "one_by_one"]


async def ask(
    cluster: Cluster,
    keys: Iterable[K],
    route: Route[K],
    send: Send[K, V],
    what: str,
    timeout_ms: float | None = None,
) -> Outcomes[K, V]:
    """Call `send` for each broker, at the same time, and again for keys whose error may pass, until the time limit.

    Args:
        cluster: the cluster.
        keys: the keys; a repeated key counts once.
        route: finds the broker of each key.
        send: one request. An error that it raises is that of all its keys.
        what: the call, for the text of a time-out: "deleting topics".
        timeout_ms: the limit of all attempts; None: `default_api_timeout_ms`.

    Returns:
        The outcome of each key, in the order of the keys.
    """
    left = dict.fromkeys(keys)
    order = list(left)
    outcomes: dict[K, V | KafkaError] = {}
    problems: dict[K, KafkaError] = {}
    sent: set[K] = set()
    limit_ms = cluster.config.default_api_timeout_ms if timeout_ms is None else timeout_ms

    def take(broker: int | None, found: Mapping[K, V | KafkaError], asked: Iterable[K]) -> None:
        for key in asked:
            outcome = found.get(key, MISSING)
            if outcome is MISSING:
                outcome = ProtocolError(f"{what}: broker {broker} sent a response without {key!r}")
            if isinstance(outcome, KafkaError) and may_pass(broker, outcome):
                problems[key] = outcome
                if broker is not None:
                    route.failed(key, broker, outcome)
            else:
                outcomes[key] = outcome
                del left[key]

    def may_pass(broker: int | None, error: KafkaError) -> bool:
        if isinstance(error, BrokerError):  # a look-up may find an error that no later look-up changes
            return error.code in route.retried and (broker is not None or error.retriable)
        return isinstance(error, KafkaConnectionError | KafkaTimeoutError) and not cluster.is_closed

    async def ask_broker(broker: int, asked: list[K]) -> None:
        found: Mapping[K, V | KafkaError]
        sent.update(asked)
        try:
            found = await send(broker, asked)
        except KafkaError as error:
            found = dict.fromkeys(asked, error)
        take(broker, found, asked)

    async def attempt() -> None:
        try:
            brokers, lost = await route.brokers(list(left))
        except KafkaError as error:
            brokers, lost = {}, dict.fromkeys(left, error)
        take(None, lost, list(lost))
        async with asyncio.TaskGroup() as group:
            for broker, asked in brokers.items():
                group.create_task(ask_broker(broker, asked))

    failures = 0
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(max(0.001, limit_ms / 1000)):
            while left:
                await attempt()
                if left:
                    failures += 1
                    await asyncio.sleep(cluster.backoff_ms(failures) / 1000)
    outcomes |= {key: _late(what, limit_ms, problems.get(key), was_sent=key in sent) for key in left}
    errors = {key: its for key in order if isinstance(its := outcomes[key], KafkaError)}
    return Outcomes({key: its for key in order if not isinstance(its := outcomes[key], KafkaError)}, errors)


def one_by_one(send_one: Callable[[int, K], Awaitable[V | KafkaError]]) -> Send[K, V]:
    """Return the `Send` of an API whose requests are about one key each: they are sent at the same time."""

    async def outcome(broker: int, key: K) -> V | KafkaError:
        try:
            return await send_one(broker, key)
        except KafkaError as error:
            return error

    async def send(broker: int, keys: list[K]) -> Mapping[K, V | KafkaError]:
        found = await asyncio.gather(*(outcome(broker, key) for key in keys))
        return dict(zip(keys, found, strict=True))

    return send


MISSING: Any = object()
UNCERTAIN = "the cluster may have made the change: look before you repeat the call"
_READS = ("describing", "listing")  # calls that change nothing


def _late(what: str, limit_ms: float, last: KafkaError | None, *, was_sent: bool) -> KafkaError:
    """Return the error of a key that has no outcome at the time limit."""
    kind = type(last) if isinstance(last, KafkaConnectionError) else KafkaTimeoutError
    text = f"{what} did not succeed within {round(limit_ms / 1000, 2):g} s: {last or 'no response'}"
    return kind(text if not was_sent or what.startswith(_READS) else f"{text}; {UNCERTAIN}")


def error_of(part: Any, what: str, api: str, **names: Any) -> KafkaError | None:
    """Return the error of a part of a response, with the broker's message; None if it has none.

    Args:
        part: a message with `error_code`, and perhaps `error_message`.
        what: the call and its key: "deleting topic 'orders'".
        api: the API, for the permission that is needed: "DeleteTopics".
        names: the names of the key's resources, as `broker_error` takes them: `topic=`, `group=`.
    """
    if not part.error_code:
        return None
    message = getattr(part, "error_message", None)
    return broker_error(part.error_code, f"{what}: {message}" if message else what, api=api, **names)
