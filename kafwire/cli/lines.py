"""The input of `kafwire produce`: files and standard input as pieces of whole lines, with any delimiter."""

import os
import select
import sys
from collections.abc import Iterator
from contextlib import suppress
from io import UnsupportedOperation
from pathlib import Path
from typing import BinaryIO, NamedTuple

import click

__all__ = ["STDIN", "Piece", "TooLong", "pieces", "sizes", "standard_input"]

STDIN = "-"
_READ_BYTES = 1 << 20
# How long to wait for input between checks of the records' outcomes.
_SILENCE_S = 0.25


class Piece(NamedTuple):
    """Consecutive lines, with delimiters between them and none after the last. Their bytes end at `end`."""

    number: int  # of the first line, from 1
    data: bytes
    end: int


class TooLong(NamedTuple):
    """A line that is longer than any record may be; its bytes are skipped."""

    number: int


def sizes(names: tuple[str, ...]) -> int | None:
    """Return the total size of the files, or None if it is unknown."""
    if STDIN in names:
        return None
    total = 0
    for name in names:
        path = Path(name)
        if not path.is_file():  # a pipe, a device
            return None
        total += path.stat().st_size
    return total


def pieces(file: BinaryIO, delimiter: bytes, limit: int) -> Iterator[Piece | TooLong | None]:
    """Yield the lines of `file` as they arrive; None if none arrived for a while.

    At most `limit` bytes of an incomplete line are buffered.
    """
    number = 1
    end = 0
    rest = b""
    skipping = False  # inside a line that is too long
    for read in _reads(file):
        if read is None:
            yield None
            continue
        end += len(read)
        data = rest + read
        if skipping:
            skipped, found, data = data.partition(delimiter)
            if not found:
                rest = _tail(skipped, delimiter)  # a delimiter may arrive byte by byte
                continue
            skipping = False
            number += 1
        whole, found, rest = data.rpartition(delimiter)
        if found:
            yield Piece(number, whole, end)
            number += whole.count(delimiter) + 1
        if len(rest) > limit:
            yield TooLong(number)
            skipping = True
            rest = _tail(rest, delimiter)
    if rest and not skipping:
        yield Piece(number, rest, end)


def _tail(data: bytes, delimiter: bytes) -> bytes:
    """Return the bytes that may begin a delimiter."""
    return data[max(0, len(data) - len(delimiter) + 1) :]


def _reads(file: BinaryIO) -> Iterator[bytes | None]:
    """Yield data as soon as it is available."""
    poll = None
    with suppress(UnsupportedOperation, OSError, ValueError):  # without a descriptor, as in tests
        descriptor = file.fileno()
        if not os.path.isfile(f"/dev/fd/{descriptor}"):  # noqa: PTH113 # a file is always readable
            poll = select.poll()
            poll.register(descriptor, select.POLLIN)
    while True:
        if poll is not None and not poll.poll(_SILENCE_S * 1000):
            yield None
            continue
        read = file.read1(_READ_BYTES) if hasattr(file, "read1") else file.read(_READ_BYTES)
        if not read:
            return
        yield read


def standard_input() -> BinaryIO:
    """Return standard input as bytes."""
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    return sys.stdin.buffer
