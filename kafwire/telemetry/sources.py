"""Sources of metrics: clients, snapshots, or functions that return snapshots; each with a name."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from collections.abc import Set as AbstractSet
from typing import Any, Protocol

from kafwire.errors import ConfigError
from kafwire.telemetry.sampling import kind_of


class HasMetrics(Protocol):
    """A client, a stream's monitor, an outbox, or a listener of Spark's queries."""

    def metrics(self) -> Any:
        """Return a snapshot."""


Snapshot = Mapping[str, Any]
Source = HasMetrics | Snapshot | Callable[[], Snapshot]


def snapshots(
    sources: Iterable[Source | None],
    named: Mapping[str, Source],
    on_error: Callable[[Exception], object] | None = None,
    names: dict[int, str] | None = None,
) -> Iterator[tuple[str, Snapshot]]:
    """Yield each source's name and snapshot. A source without a name gets that of its kind, and a number from 2 on.

    `on_error` is called with the error of a source that fails; None: raise it. `names` keeps the given names, by the
    place in `sources`: else a source takes over the name of one that is gone, and its counters seem to begin again.
    """
    names = {} if names is None else names
    for place, source in enumerate(sources):
        found = None if source is None else _tried(source, on_error)
        if found is None:
            continue
        kind, snapshot = found
        names.setdefault(place, _free_name(kind.removesuffix("_queries"), {*named, *names.values()}))
        yield names[place], snapshot
    for name, source in named.items():
        found = _tried(source, on_error)
        if found is not None:
            yield name, found[1]


def _free_name(kind: str, taken: AbstractSet[str]) -> str:
    name, number = kind, 1
    while name in taken:
        number += 1
        name = f"{kind}_{number}"
    return name


def _tried(source: Source, on_error: Callable[[Exception], object] | None) -> tuple[str, Snapshot] | None:
    """Return the kind and the snapshot of a source; None: it failed."""
    try:
        snapshot = snapshot_of(source)
        return kind_of(snapshot), snapshot
    except Exception as error:  # that of a user's function too: it must not hide the other sources
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
