"""Parses lines to records in kcat's form: [headers,] [key,] value, with delimiters between them.

Pure: bytes in, a record out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import click

__all__ = ["Form", "Header", "parse_header"]

Header = tuple[str, bytes | None]
Parsed = tuple[bytes | None, bytes | None, list[Header]]

# `consume` prints a header without a value as this.
_NULL_HEADER = b"NULL"


@dataclass(frozen=True, slots=True)
class Form:
    """The format of a line. If a delimiter is missing, so is the part before it."""

    key_delimiter: bytes | None = None
    headers_delimiter: bytes | None = None
    header_separator: bytes = b","
    key: bytes | None = None
    headers: Sequence[Header] = ()
    null: bytes | None = None  # keys and values equal to this are null

    @property
    def is_plain(self) -> bool:
        """True if a line consists of the value alone."""
        return self.key_delimiter is None and self.headers_delimiter is None and self.null is None

    @property
    def size(self) -> int:
        """The maximum number of bytes that each record has in addition to its line."""
        return len(self.key or b"") + sum(len(name) * 4 + len(value or b"") + 8 for name, value in self.headers)

    def parse(self, line: bytes) -> Parsed:
        """Parse a line; return value, key and headers."""
        key: bytes | None = None
        headers = list(self.headers)
        if self.headers_delimiter is not None:
            before, found, after = line.partition(self.headers_delimiter)
            if found:
                line = after
                headers += [self._header(text) for text in before.split(self.header_separator) if text]
        value: bytes | None = line
        has_key = False
        if self.key_delimiter is not None:
            before, found, after = line.partition(self.key_delimiter)
            if found:
                key, value, has_key = before, after, True
        if self.null is not None:
            value = None if value == self.null else value
            key = None if key == self.null else key
        return value, key if has_key else self.key, headers

    @staticmethod
    def _header(text: bytes) -> Header:
        name, equals, value = text.partition(b"=")
        return name.decode(errors="surrogateescape"), None if not equals or value == _NULL_HEADER else value


def parse_header(text: str) -> Header:
    """Parse NAME=VALUE to a header; without the equals sign it has no value."""
    name, equals, value = text.partition("=")
    if not name:
        raise click.UsageError(f"-H {text!r}: a header must have a name, NAME=VALUE")
    return name, value.encode(errors="surrogateescape") if equals else None
