"""Texts of the causes that all formats have: bad values to decode (codes of `native/columns.h`), and wrong values to
encode (codes of `native/encode.h`).
"""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.errors import ConfigError

__all__ = ["NO_SCHEMA", "described", "wrong"]

_CAUSES = {
    16: "the first byte is {detail}, not the 0 of a value with a schema id",
    17: "{detail} bytes are too short for a schema id",
    18: "the value is null",
    20: "the value alone takes more memory than max_bytes",
    21: "the schema id {detail} is negative",
}
_WITHOUT_PLACE = frozenset({16, 17, 18, 21})
NO_SCHEMA = 19  # the text is the schema's error


def described(own: Mapping[int, str], kind: int, *, place: str, at: int, detail: int) -> str:
    """Return the text of a cause, of all formats or of a format's `own`, with the field and the byte if it has them."""
    text = (_CAUSES.get(kind) or own[kind]).format(detail=detail)
    where = f"{place}: " if place else ""
    return f"{where}{text}" + ("" if kind in _WITHOUT_PLACE else f" (byte {at})")


_WRONG = {
    2: "the number {detail} is out of the schema's range",
    3: "the time {detail} is finer than the schema's unit: round the column",
    5: "a text of {detail} bytes that is none of the enum's symbols",
    8: "an index outside the dictionary of the column",
    9: "the values exceed the 2 GiB of a binary column: encode fewer rows at once",
}
_NO_MEMORY = 10


def wrong(own: Mapping[int, str], kind: int, *, place: str, row: int, detail: int) -> Exception:
    """Return the error for a value that cannot be encoded, with the row and the field."""
    if kind == _NO_MEMORY:
        return MemoryError("no memory for encoded values")
    text = (_WRONG.get(kind) or own[kind]).format(detail=detail)
    return ConfigError(f"row {row}, {place or 'value'}: {text}")
