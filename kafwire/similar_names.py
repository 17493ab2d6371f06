"""The name that a misspelt one stands for, as errors propose it. Imports nothing of kafwire."""

from __future__ import annotations

from collections.abc import Iterable

# Of difflib's ratio: three letters of ten may be wrong. Below it, names that share an ending would be proposed.
LEAST_RATIO = 0.7


def similar(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Find the known names that differ from `name` by a few letters at most, the nearest first.

    Args:
        name: what the user wrote.
        known: the names there are.
        count: how many to return at most.

    Returns:
        The names; none where nothing is similar enough to be meant.

    Example:
        >>> similar("linger_m", ["linger_ms", "batch_size"]), similar("partitions", ["pretty"])
        (['linger_ms'], [])
    """
    import difflib

    return difflib.get_close_matches(name, list(known), count, LEAST_RATIO)
