"""The names of partitions in a message: the first ones, and the number of the others."""

from __future__ import annotations

from collections.abc import Sequence

NAMED = 10  # most partitions that one message names


def listed(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - NAMED} more partitions" if len(names) > NAMED else ""
    return ", ".join(names[:NAMED]) + more
