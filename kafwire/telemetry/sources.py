"""Sources of metrics: clients, snapshots, or functions that return snapshots; each with a name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Mapping
from typing import Any, Protocol

from kafwire.errors import ConfigError, KafkaError
from kafwire.telemetry.sampling import kind_of


class HasMetrics(Protocol):
    """A client, a stream's monitor, an outbox, or a listener of Spark's queries."""

    def metrics(self) -> Any:
        """Return a snapshot."""


Snapshot = Mapping[str, Any]
Source = HasMetrics | Snapshot | Callable[[], Snapshot]


def snapshots(
    sources: tuple[Source, ...],
    named: Mapping[str, Source],
    on_error: Callable[[KafkaError], object] | None = None,
) -> Iterator[tuple[str, Snapshot]]:
    """Yield each source's name and snapshot. A source without a name gets that of its kind, and a number from 2 on.

    `on_error` is called with the error of a source that fails; None: raise it.
    """
    taken = {*named}
    for source in sources:
        snapshot = _tried(source, on_error)
        if snapshot is None:
            continue
        kind = kind_of(snapshot).removesuffix("_queries")
        name, number = kind, 1
        while name in taken:
            number += 1
            name = f"{kind}_{number}"
        taken.add(name)
        yield name, snapshot
    for name, source in named.items():
        snapshot = _tried(source, on_error)
        if snapshot is not None:
            yield name, snapshot


def _tried(source: Source, on_error: Callable[[KafkaError], object] | None) -> Snapshot | None:
    try:
        return snapshot_of(source)
    except KafkaError as error:
        if on_error is None:
            raise
        on_error(error)
        return None


def snapshot_of(source: Source) -> Snapshot:
    """Return a source's snapshot.

    Raises:
        ConfigError: it has none, or only for `await`.
        KafkaError: the client is closed.
    """
    if isinstance(source, Mapping):
        return source
    take: Callable[[], Any] | None = getattr(source, "metrics", source if callable(source) else None)
    kind = type(source).__name__
    if take is None:
        raise ConfigError(f"{kind} has no metrics(): give a client, or a snapshot of its metrics()")
    snapshot = take()
    if isinstance(snapshot, Awaitable):
        close = getattr(snapshot, "close", None)
        if close is not None:
            close()  # else Python warns that it was never awaited
        raise ConfigError(f"{kind}.metrics() is a coroutine: give its result, `await client.metrics()`")
    if not isinstance(snapshot, Mapping):
        raise ConfigError(f"{kind} returned no dict of metrics()")
    return snapshot
