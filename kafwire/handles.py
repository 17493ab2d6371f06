"""Objects that own connections, threads or locks: a copy would share and close them. Imports nothing of kafwire."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn, SupportsIndex

__all__ = ["refuse_copies", "refuse_copy"]


def refuse_copies(why: str) -> Callable[[Any, SupportsIndex], NoReturn]:
    """Return the `__reduce_ex__` of a class: `copy`, `deepcopy` and `pickle` of its objects raise a TypeError.

    Args:
        why: the reason, and the objects to pass instead.
    """

    def refuse(self: object, protocol: SupportsIndex, /) -> NoReturn:  # noqa: ARG001  # the signature of __reduce_ex__
        raise TypeError(f"{type(self).__name__} objects cannot be copied or pickled: {why}")

    return refuse


refuse_copy = refuse_copies("they own connections or threads; make one in each process, from the same options")
