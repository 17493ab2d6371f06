"""An iterator that computes its next item in a thread while the caller works on the last one."""

from __future__ import annotations

from collections.abc import Generator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

T = TypeVar("T")


def run_ahead(items: Generator[T, None, None]) -> Generator[T, None, None]:
    """Yield `items` in order; at most one item is computed ahead.

    Spark's worker waits in a write to the JVM after each batch, without the GIL, and decoding needs no GIL either. An
    error of `items` is raised in its turn. A caller that stops early waits for the item that is being computed, since a
    generator that runs cannot be closed.
    """
    with ThreadPoolExecutor(1, thread_name_prefix="kafwire-spark") as thread:
        try:
            following = thread.submit(_next, items)
            while found := following.result():
                following = thread.submit(_next, items)
                yield found[0]
        finally:
            # In the same thread, after the item that is being computed.
            thread.submit(items.close).result()


def _next(items: Iterator[T]) -> tuple[T] | None:
    """The next item; None at the end, as a future cannot raise StopIteration into a generator."""
    for item in items:
        return (item,)
    return None
