"""Objects that own connections, threads or locks: a copy would share and close them. Imports nothing of kafwire."""

from __future__ import annotations

from typing import NoReturn, SupportsIndex

__all__ = ["refuse_copy"]


def refuse_copy(self: object, protocol: SupportsIndex, /) -> NoReturn:  # noqa: ARG001  # the signature of __reduce_ex__
    """Stand as `__reduce_ex__` of a class: `copy`, `deepcopy` and `pickle` of its objects are a TypeError."""
    raise TypeError(
        f"{type(self).__name__} objects cannot be copied or pickled: they own connections or threads; make one in each "
        "process, from the same options"
    )
