"""The input of `kafwire decode`: raw bytes, hex or base64, and the frames in them."""

import base64
import binascii
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedReader
from pathlib import Path
from typing import BinaryIO, NamedTuple, cast

import click

from kafwire.cli.lines import STDIN
from kafwire.protocol.dump import requests_by_key
from kafwire.protocol.stream import SIZE_BYTES

__all__ = ["FORMS", "STDIN", "Frame", "cut_frames", "opened", "read_bytes", "read_input"]

FORMS = ("auto", "raw", "hex", "base64")

_HEX = re.compile(rb"(?:[0-9a-fA-F]{2})+")
_HALF_HEX = re.compile(rb"[0-9a-fA-F](?:[0-9a-fA-F]{2})*")
# A frame or message begins with six zero bits: its size, key or version is small. So the misspelt name of a file is
# hardly ever taken for base64.
_BASE64 = re.compile(rb"A[A-Za-z0-9+/_-]*={0,2}")
_BETWEEN = b" \t\r\n:"


class Frame(NamedTuple):
    """A frame without its size; `position` is its start, including the size.

    `missing` is the number of missing bytes.
    """

    position: int
    data: bytes
    missing: int = 0


@contextmanager
def opened(name: str) -> Iterator[BufferedReader]:
    """Open a file, or standard input for "-". Its `read1` returns available data, without waiting for more."""
    if name == STDIN:
        yield cast("BufferedReader", sys.stdin.buffer)
    else:
        with Path(name).open("rb") as file:
            yield file


def read_input(given: str | None, form: str, limit: int) -> bytes:
    """Return the bytes of a file, of standard input, or of the argument itself in hex or base64."""
    if given is None:
        if sys.stdin.isatty():
            raise click.UsageError("nothing to decode: give a file, hex or base64, or pipe data in")
        given = STDIN
    if given == STDIN or _is_file(given):
        with opened(given) as file:
            return read_bytes(_all_of(file, 3 * limit, given), form)
    text = given.encode(errors="replace")
    if form == "raw" or (
        form == "auto" and not (_HALF_HEX.fullmatch(_plain(text)) or _is_hex(text) or _is_base64(text))
    ):
        raise click.UsageError(f"{given[:80]!r} is neither an existing file, nor hex, nor base64")
    return read_bytes(text, form)


def read_bytes(data: bytes, form: str) -> bytes:
    """Return `data`, decoded from hex or base64; "auto" decodes data that can be one of them."""
    if not data:
        raise click.ClickException("the input is empty")
    if form == "auto" and _HALF_HEX.fullmatch(_plain(data)):
        raise click.ClickException("an odd number of hex digits: is one missing? (for base64, set --input base64)")
    if form == "hex" or (form == "auto" and _is_hex(data)):
        try:
            return bytes.fromhex(_plain(data).decode())
        except ValueError as error:
            raise click.ClickException(f"the input is not hex: {error}") from None
    if form == "base64" or (form == "auto" and _is_base64(data)):
        try:
            text = _plain(data).rstrip(b"=").translate(bytes.maketrans(b"-_", b"+/"))
            return base64.b64decode(text + b"=" * (-len(text) % 4), validate=True)
        except binascii.Error as error:
            raise click.ClickException(f"the input is not base64: {error}") from None
    return data


def cut_frames(data: bytes, prefix: bool | None, limit: int, *, requests: bool) -> list[Frame]:
    """Return the frames in `data`: one without a size, or several with sizes; with `prefix` None, detect it.

    A truncated last frame has `missing` bytes. No size is above `limit`.
    """
    frames = _sized(data, limit)
    if prefix is None:
        prefix = frames is not None and (
            not frames[-1].missing or (requests and _begins_request(data, SIZE_BYTES) and not _begins_request(data, 0))
        )
    if not prefix:
        return [Frame(0, data)]
    if frames is None:
        raise click.ClickException(
            "the bytes do not begin with a frame's size; --no-size-prefix takes them as they are"
        )
    return frames


def _sized(data: bytes, limit: int) -> list[Frame] | None:
    """Return the frames if each begins with a possible size, else None."""
    frames = []
    at = 0
    while at < len(data):
        size = int.from_bytes(data[at : at + SIZE_BYTES], "big", signed=True)
        if len(data) - at < SIZE_BYTES:
            frames.append(Frame(at, b"", SIZE_BYTES - (len(data) - at)))
            break
        if not 0 < size <= limit:
            return None
        frame = data[at + SIZE_BYTES : at + SIZE_BYTES + size]
        frames.append(Frame(at, frame, size - len(frame)))
        at += SIZE_BYTES + size
    return frames or None


def _begins_request(data: bytes, at: int) -> bool:
    cls = requests_by_key().get(int.from_bytes(data[at : at + 2], "big", signed=True))
    return cls is not None and cls.oldest_version <= int.from_bytes(data[at + 2 : at + 4], "big") <= cls.max_version


def _is_file(name: str) -> bool:
    try:
        return Path(name).exists()
    except OSError:
        return False  # longer than a name may be


def _plain(text: bytes) -> bytes:
    return text.translate(None, _BETWEEN).removeprefix(b"0x")


def _is_hex(data: bytes) -> bool:
    return _HEX.fullmatch(_plain(data)) is not None


def _is_base64(data: bytes) -> bool:
    text = data.translate(None, b" \t\r\n")
    return len(text) % 4 != 1 and _BASE64.fullmatch(text) is not None


def _all_of(file: BinaryIO, limit: int, name: str) -> bytes:
    parts = bytearray()
    while data := file.read(1 << 20):
        parts += data
        if len(parts) > limit:
            raise click.ClickException(
                f"{name}: more than {limit} bytes; --connection and --log read files of any size"
            )
    return bytes(parts)
