"""Texts of the causes of bad values. The codes are those of `native/decode.h`, and of `native/encode.h`."""

from __future__ import annotations

from kafwire.errors import ConfigError

__all__ = ["cause", "wrong_value"]

_CAUSES = {
    1: "the value ends too early: {detail} bytes are needed here",
    2: "a number of more than {detail} bytes",
    3: "the boolean {detail} is neither 0 nor 1",
    4: "the length {detail} is negative",
    5: "a string that is not UTF-8",
    6: "a decimal of {detail} bytes that does not fit its precision",
    7: "the number {detail} is out of range",
    8: "the enum has no symbol {detail}",
    9: "the reader's enum has neither the symbol {detail} nor a default",
    10: "the union has no branch {detail}",
    11: "a branch of a union that the reader's schema does not match",
    12: "a block claims {detail} items, more than there are bytes for",
    13: "a block ends {detail} bytes after the size that it claims",
    14: "a block claims {detail} items without bytes, more than max_empty_items allows",
    15: "{detail} bytes are left after the value",
    16: "the first byte is {detail}, not the 0 of a value with a schema id",
    17: "{detail} bytes are too short for a schema id",
    18: "the value is null",
    21: "the schema id {detail} is negative",
    20: "the value alone takes more memory than max_bytes",
}
WITHOUT_PLACE = frozenset({16, 17, 18, 21})
NO_SCHEMA = 19  # the text is the schema's error


def cause(kind: int, *, place: str, at: int, detail: int) -> str:
    """Return the cause, with the field and the byte of the value if there are any."""
    text = _CAUSES[kind].format(detail=detail)
    where = f"{place}: " if place else ""
    return f"{where}{text}" + ("" if kind in WITHOUT_PLACE else f" (byte {at})")


_WRONG = {
    1: "a null, which the schema does not allow: make it a union with null, or fill the column's nulls",
    2: "the number {detail} is out of the schema's range",
    3: "the time {detail} is finer than the schema's unit: round the column",
    4: "{detail} bytes, which is not the size of the fixed",
    5: "a text of {detail} bytes that is none of the enum's symbols",
    6: "a decimal beyond the schema's precision",
    7: "a union with more than one member set",
    8: "an index outside the dictionary of the column",
    9: "the values exceed the 2 GiB of a binary column: encode fewer rows at once",
}
_WRONG_MEMORY = 10


def wrong_value(code: int, *, place: str, row: int, detail: int) -> Exception:
    """Return the error for a value that cannot be encoded, with the row and the field."""
    if code == _WRONG_MEMORY:
        return MemoryError("no memory for Avro values")
    return ConfigError(f"row {row}, {place or 'value'}: {_WRONG[code].format(detail=detail)}")
