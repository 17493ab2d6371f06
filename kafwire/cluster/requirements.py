"""Requests that a broker is too old for: the error names the Kafka version that has them. Pure."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from kafwire.errors import ProtocolError

__all__ = ["is_lacking", "needs", "newer_needed"]


def is_lacking(error: ProtocolError, request: type[Any]) -> bool:
    """True if the broker's versions of an API, or the lack of the API, make the request impossible."""
    return error.api == request.__name__


@contextmanager
def needs(request: type[Any], what: str, kafka: str) -> Iterator[None]:
    """Raise the error of a broker that is too old for a request as `ProtocolError` with the version that is needed.

    Args:
        request: the request's class.
        what: the call, or the argument that an old version cannot carry.
        kafka: the first Kafka release with it: "4.0".
    """
    try:
        yield
    except ProtocolError as error:
        if not is_lacking(error, request):
            raise
        raise newer_needed(error, what, kafka) from None


def newer_needed(error: ProtocolError, what: str, kafka: str) -> ProtocolError:
    """Return the error with the Kafka release that is needed; see `needs`."""
    text = f"{what} needs Kafka {kafka} or newer: {error.message}"
    return ProtocolError(text, api=error.api, version=error.version)
