"""Texts of the causes of bad Protobuf values. The codes are those of `native/decode.h`."""

from __future__ import annotations

from kafwire.value_columns.causes import described

__all__ = ["cause"]

_CAUSES = {
    32: "the value ends too early: {detail} bytes are needed here",
    33: "a number of more than {detail} bytes",
    34: "no field begins with the byte {detail}",
    35: "a group of field {detail} has no begin or no end",
    36: "groups are nested more than {detail} deep",
    37: "a string that is not UTF-8",
    38: "the time is out of range: {detail}",
    39: "the value is another message of its schema, with the index {detail}",
}


def cause(kind: int, *, place: str, at: int, detail: int) -> str:
    """Return the cause, with the field and the byte of the value."""
    return described(_CAUSES, kind, place=place, at=at, detail=detail)
