"""Proposals of names for a misspelt one, for errors. Imports nothing of kafwire."""

from __future__ import annotations

from collections.abc import Iterable

# The least ratio of difflib: three letters of ten may differ. A lower one would propose names with the same ending.
LEAST_RATIO = 0.7


def similar(name: str, known: Iterable[str], count: int = 1) -> list[str]:
    """Find the known names that differ from `name` by a few letters at most, the nearest first.

    Args:
        name: the user's text.
        known: the known names.
        count: the most names to return.

    Returns:
        The names; an empty list if no name is similar enough.

    Example:
        >>> similar("linger_m", ["linger_ms", "batch_size"]), similar("partitions", ["pretty"])
        (['linger_ms'], [])
    """
    import difflib

    return difflib.get_close_matches(name, list(known), count, LEAST_RATIO)
