"""The format "json" of serializers: Python values as JSON text in UTF-8, and back.

Only the standard library's encoder and decoder are used, so the bytes do not depend on installed packages. NaN and
infinities are refused on writing, as JSON has none, and accepted on reading, as Python's `json` writes them. Times are
text of ISO 8601, UUID and Decimal are text, sets are arrays (sorted if the elements compare), an Enum is its value, a
dataclass an object. May not hold: how a serializer is called.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from json import encoder
from typing import Any

__all__ = ["decode", "encode"]


def _plain(value: Any) -> Any:
    """Return the JSON form of a value without a JSON type; `TypeError` if there is none."""
    from dataclasses import fields, is_dataclass
    from datetime import date, datetime, time
    from decimal import Decimal
    from enum import Enum
    from uuid import UUID

    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, UUID | Decimal):
        return str(value)
    if isinstance(value, set | frozenset):
        try:
            return sorted(value)
        except TypeError:
            return list(value)
    if isinstance(value, Enum):
        return value.value
    if is_dataclass(value) and not isinstance(value, type):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    raise TypeError(f"JSON has no form of {type(value).__name__}: convert it first, or give a function as serializer")


_ENCODER = json.JSONEncoder(ensure_ascii=False, separators=(",", ":"), allow_nan=False, default=_plain)
_DECODER = json.JSONDecoder()


def _pieces_of() -> Callable[[Any, int], Any]:
    """Return the encoder that `JSONEncoder.encode` makes in each call. One encoder for all calls halves the time."""
    make = getattr(encoder, "c_make_encoder", None)
    if make is None:
        return lambda value, _: (_ENCODER.encode(value),)
    text = getattr(encoder, "encode_basestring")  # noqa: B009  # which the stubs lack
    # No table of containers in progress: an entry that remains after an error would refuse a later value. A cycle ends
    # at the interpreter's recursion limit.
    pieces: Callable[[Any, int], Any] = make(None, _plain, text, None, ":", ",", False, False, False)
    return pieces


_pieces = _pieces_of()
_scan = getattr(_DECODER, "scan_once")  # noqa: B009  # which the stubs lack


def encode(value: Any) -> bytes:
    """Return a value as JSON.

    Raises:
        TypeError: JSON has no form for a value, or for an object's key.
        ValueError: NaN, an infinity, or text that is not Unicode.
        RecursionError: the value contains itself.

    Example:
        >>> from kafwire.json_values import encode
        >>> encode({"carrier": "UA", "stops": {"ORD", "DEN"}})
        b'{"carrier":"UA","stops":["DEN","ORD"]}'
    """
    return "".join(_pieces(value, 0)).encode()


def decode(data: bytes) -> Any:
    """Return the value of JSON.

    Raises:
        ValueError: `data` is not JSON in UTF-8.

    Example:
        >>> from kafwire.json_values import decode
        >>> decode(b'{"carrier": "UA"}')
        {'carrier': 'UA'}
    """
    text = data.decode()
    try:
        value, end = _scan(text, 0)
    except StopIteration:
        end = -1
    return value if end == len(text) else _DECODER.decode(text)  # skips white space; raises with the position
