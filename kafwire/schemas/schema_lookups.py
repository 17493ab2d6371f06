"""`SchemaLookups`: the requests of a format to its registry, sent before an event loop converts records.

An async client finds the schema ids of a batch that a format does not know, and lets another thread look them up. The
conversion of the records sends no request then: neither for a schema that was found, nor for one whose lookup failed.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any, TypeVar

from kafwire.errors import FramingError, SchemaRegistryError
from kafwire.records._records import Batch, Record, heads
from kafwire.registry.framing import Framing, SchemaId
from kafwire.registry.shared_lookups import own_copy
from kafwire.serialization import SerializationContext

__all__ = ["SchemaLookups", "Unresolved"]

_T = TypeVar("_T")

# The schema ids of a batch that are not known, each with the context of a record.
Unresolved = dict[SchemaId, SerializationContext]

FAILED_S = 10.0  # so long an event loop gets the error of a lookup again, without another request
MAX_RESOLVED = 10_000  # ids of one topic's keys or values
MAX_FAILED = 1_000


class SchemaLookups:
    """The lookups of one format. Any thread may use them.

    Args:
        framing: the place of the schema id.
        look_up: sends the requests that a record with this id and context needs.
    """

    def __init__(self, framing: Framing, look_up: Callable[[SchemaId, SerializationContext], object]) -> None:
        self._framing = framing
        self._look_up = look_up
        self._resolved: dict[tuple[str | None, str], set[SchemaId]] = {}
        self._failed: dict[tuple[Any, ...], tuple[float, SchemaRegistryError]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return SchemaLookups, (self._framing, self._look_up)

    def unresolved(self, rows: Batch | Record, part: str) -> Unresolved:
        """Return the unknown schema ids of the keys or values of a batch, or of a record of bytes."""
        found = self._of_records([rows], part) if isinstance(rows, Record) else self._of_batch(rows, part)
        known = self._resolved.get((rows.topic, part), ())
        return {each: ctx for each, ctx in found.items() if each not in known}

    def _of_records(self, records: Iterable[Record], part: str) -> Unresolved:
        found: Unresolved = {}
        for each in records:
            data = each.key if part == "key" else each.value
            if data is not None:
                ctx = SerializationContext(each.topic or "", part, each.headers, each.partition, each.offset)
                self._add(found, data, ctx)
        return found

    def _of_batch(self, batch: Batch, part: str) -> Unresolved:
        sizes: dict[int, int] | None = getattr(self._framing, "head_sizes", None)
        if sizes is None:
            return self._of_records(_raw(batch), part)
        found: Unresolved = {}
        ctx = SerializationContext(batch.topic or "", part, [], batch.partition)
        kinds = {head[0] for head in heads(batch, part == "key", 1) if head}
        for kind in kinds & sizes.keys():
            for head in heads(batch, part == "key", sizes[kind]):
                if head[:1] == bytes([kind]):
                    self._add(found, head, ctx)
        return found

    def _add(self, found: Unresolved, data: bytes, ctx: SerializationContext) -> None:
        with contextlib.suppress(FramingError):
            found.setdefault(self._framing.read(data, ctx)[0], ctx)

    def resolve(self, topic: str | None, part: str, ids: Unresolved) -> None:
        """Look up schema ids of `unresolved`. It blocks, and raises no error: the conversion of a record does."""
        known = self._resolved.setdefault((topic, part), set())
        for schema_id, ctx in ids.items():
            with contextlib.suppress(Exception):
                self._look_up(schema_id, ctx)
                if len(known) >= MAX_RESOLVED:
                    known.clear()
                known.add(schema_id)

    def call(self, function: Callable[..., _T], *args: Any) -> _T:
        """Send a request. In an event loop, raise the error of the same request that failed a moment ago instead."""
        if self._failed:
            until, failure = self._failed.get((function.__name__, *args), (0.0, None))
            if failure is not None and time.monotonic() < until and _is_in_loop():
                raise own_copy(failure)
        try:
            made = function(*args)
        except SchemaRegistryError as error:
            if not _is_in_loop():
                if len(self._failed) >= MAX_FAILED:
                    self._failed.clear()
                self._failed[(function.__name__, *args)] = (time.monotonic() + FAILED_S, error)
            raise
        if self._failed:
            self._failed.pop((function.__name__, *args), None)
        return made


def _raw(batch: Batch) -> Iterator[Record]:
    """Iterate over a batch's records, with keys and values as bytes."""
    records = iter(batch)
    for _ in range(len(batch)):
        yield records.peek()
        records.skip()


def _is_in_loop() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
