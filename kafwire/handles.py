"""Objects that own connections, threads or locks: their end, and no copies. Imports nothing of kafwire."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType
from typing import Any, NoReturn, Self, SupportsIndex

__all__ = ["Closing", "refuse_copies", "refuse_copy"]


def refuse_copies(why: str) -> Callable[[Any, SupportsIndex], NoReturn]:
    """Return the `__reduce_ex__` of a class: `copy`, `deepcopy` and `pickle` of its objects raise a TypeError.

    Args:
        why: the reason, and the objects to pass instead.
    """

    def refuse(self: object, protocol: SupportsIndex, /) -> NoReturn:  # noqa: ARG001  # the signature of __reduce_ex__
        raise TypeError(f"{type(self).__name__} objects cannot be copied or pickled: {why}")

    return refuse


refuse_copy = refuse_copies("they own connections or threads; make one in each process, from the same options")


class Closing:
    """A context manager whose end closes it."""

    def close(self) -> None:
        """Close it."""

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
