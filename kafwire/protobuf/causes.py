"""Texts of the causes of bad Protobuf values, and of wrong ones (codes of `native/decode.h` and `native/encode.h`)."""

from __future__ import annotations

from kafwire.value_columns.causes import described, wrong

__all__ = ["cause", "wrong_value"]

_CAUSES = {
    32: "the value ends too early: {detail} bytes are needed here",
    33: "a number of more than {detail} bytes",
    34: "no field begins with the byte {detail}",
    35: "a group of field {detail} has no begin or no end",
    36: "groups are nested more than {detail} deep",
    37: "a string that is not UTF-8",
    38: "the time is out of range: {detail}",
    39: "the value is another message of its schema, with the index {detail}",
    40: "the value is an outer message of its schema: its indexes lack {detail}",
}


def cause(kind: int, *, place: str, at: int, detail: int) -> str:
    """Return the cause, with the field and the byte of the value."""
    return described(_CAUSES, kind, place=place, at=at, detail=detail)


_WRONG = {
    1: "a null, which the message does not allow here: fill the column's nulls",
    32: "two fields of a oneof are set: make one of them null",
}


def wrong_value(code: int, *, place: str, row: int, detail: int) -> Exception:
    """Return the error for a value that cannot be encoded, with the row and the field."""
    return wrong(_WRONG, code, place=place, row=row, detail=detail)
