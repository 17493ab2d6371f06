"""Texts of the causes of bad values that all formats have. The codes are those of `native/columns.h`."""

from __future__ import annotations

from collections.abc import Mapping

__all__ = ["NO_SCHEMA", "described"]

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
