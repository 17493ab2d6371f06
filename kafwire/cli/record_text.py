"""From a line to a record, as kcat's users know it: [headers,] [key,] value, with delimiters between them.

Pure: bytes in, a record out.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import click

__all__ = ["Form", "Header", "parse_header"]

Header = tuple[str, bytes | None]
Parsed = tuple[bytes | None, bytes | None, list[Header]]

# What `consume` prints of a header without a value.
_NULL_HEADER = b"NULL"


@dataclass(frozen=True, slots=True)
class Form:
    """How a line is read. A delimiter that is not in the line has nothing before it."""

    key_delimiter: bytes | None = None
    headers_delimiter: bytes | None = None
    header_separator: bytes = b","
    key: bytes | None = None
    headers: Sequence[Header] = ()
    null: bytes | None = None  # keys and values that are this are null

    @property
    def is_plain(self) -> bool:
        """Whether a line is its value."""
        return self.key_delimiter is None and self.headers_delimiter is None and self.null is None

    @property
    def size(self) -> int:
        """Bytes that every record has beside its line, at most."""
        return len(self.key or b"") + sum(len(name) * 4 + len(value or b"") + 8 for name, value in self.headers)

    def parse(self, line: bytes) -> Parsed:
        """Return value, key and headers."""
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
    """Return the header of NAME=VALUE; without the sign it has no value."""
    name, equals, value = text.partition("=")
    if not name:
        raise click.UsageError(f"-H {text!r}: a header has a name, NAME=VALUE")
    return name, value.encode(errors="surrogateescape") if equals else None
