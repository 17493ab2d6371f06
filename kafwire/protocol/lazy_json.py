"""JSON values that are made while they are written: arrays element by element, long strings piece by piece.

So the JSON of a record, which may take six times its bytes, is never completely in memory. Pure: no I/O.
"""

import base64
import re
from codecs import getincrementaldecoder
from collections.abc import Iterable, Iterator
from typing import Any, Literal, get_args

__all__ = ["BYTES_FORMS", "LONG_BYTES", "BytesForm", "Elements", "Text", "plain_text"]

BytesForm = Literal["auto", "text", "base64", "hex"]
BYTES_FORMS: tuple[str, ...] = get_args(BytesForm)

LONG_BYTES = 1 << 16  # longer bytes become a `Text`
_PIECE = 3 << 16  # in bytes; a multiple of 3, so that pieces of base64 join
_Decoder = getincrementaldecoder("utf-8")
# Other control characters do not occur in text: bytes with one are binary, even if they are valid UTF-8.
_CONTROLS = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\x7f-\x9f]")


class Elements:
    """An array whose elements are made when they are written."""

    def __init__(self, elements: Iterable[Any]) -> None:
        self.elements = elements


class Text:
    """A string from bytes in one of the forms; invalid UTF-8 is replaced in "text"."""

    def __init__(self, data: "bytes | bytearray | memoryview", form: Literal["text", "base64", "hex"]) -> None:
        self._data = memoryview(data).cast("B")
        self._form = form

    def pieces(self) -> Iterator[str]:
        """Iterate over the parts of the string."""
        decoder = _Decoder("replace")
        for piece in _cut(self._data):
            match self._form:
                case "text":
                    yield decoder.decode(piece)
                case "base64":
                    yield base64.b64encode(piece).decode()
                case "hex":
                    yield piece.hex()
        yield decoder.decode(b"", final=True)


def plain_text(data: bytes) -> str | Text | None:
    """Return `data` as a string if it is UTF-8 without control characters other than tab and the ends of lines."""
    try:
        if len(data) <= LONG_BYTES:
            text = data.decode()
            return None if _CONTROLS.search(text) else text
        decoder = _Decoder()
        for piece in _cut(memoryview(data)):
            if _CONTROLS.search(decoder.decode(piece)):
                return None
        decoder.decode(b"", final=True)
    except UnicodeDecodeError:
        return None
    return Text(data, "text")


def _cut(view: memoryview) -> Iterator[memoryview]:
    return (view[start : start + _PIECE] for start in range(0, len(view), _PIECE))
