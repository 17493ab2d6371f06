"""Values that cannot be decoded: the choices for their rows, and their list."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from kafwire.errors import ConfigError, DecodeError

__all__ = ["BadRecord", "OnBad"]

# "error": a `DecodeError`. "null": a null row. "drop": no row. The last two list the value with the cause.
OnBad: TypeAlias = Literal["error", "null", "drop"]


class BadRecord(NamedTuple):
    """A value that cannot be decoded.

    A function as `on_bad` of a format gets all fields; lists of decoders have the first three.

    Args:
        row: its number among the given values.
        cause: the mistake, and its place.
        schema_id: the id in its first bytes or in its headers; None if there is none.
        data: the bytes.
        topic: the record's topic.
        field: "key" or "value".
        partition: the record's partition; None if it is not known.
        offset: the record's offset; -1 if it is not known.

    Example:
        >>> from kafwire.bad_records import BadRecord
        >>> BadRecord(3, "the value is null").cause
        'the value is null'
    """

    row: int
    cause: str
    schema_id: Any = None  # an int or UUID
    data: bytes | None = None
    topic: str = ""
    field: str = ""
    partition: int | None = None
    offset: int = -1

    def error(self) -> DecodeError:
        """Return the error that reports this value.

        Returns:
            The error.

        Example:
            >>> from kafwire.bad_records import BadRecord
            >>> str(BadRecord(3, "the value is null").error())
            'row 3: the value is null'
        """
        return DecodeError(f"row {self.row}: {self.cause}", row=self.row, cause=self.cause, schema_id=self.schema_id)


def check_on_bad(on_bad: str) -> None:
    """Raise `ConfigError` unless `on_bad` is one of the choices."""
    if on_bad not in get_args(OnBad):
        choices = ", ".join(map(repr, get_args(OnBad)))
        raise ConfigError(f"on_bad is one of {choices}, not {on_bad!r}")


def good_rows(rows: int, bad: Sequence[BadRecord]) -> bytearray:
    """Return a bitmap, least bit first, with a bit for each row: 1 unless the row is bad."""
    bits = bytearray(b"\xff" * ((rows + 7) // 8))
    for each in bad:
        bits[each.row >> 3] &= ~(1 << (each.row & 7))
    return bits
