"""Splits PEM texts into their objects, so that an unreadable one does not hide the next. Imports nothing."""

from __future__ import annotations

import re
from typing import NamedTuple

CERTIFICATES = (b"CERTIFICATE", b"X509 CERTIFICATE", b"TRUSTED CERTIFICATE")
REVOCATION_LISTS = (b"X509 CRL",)

_EDGE = re.compile(rb"-----(BEGIN|END) ([A-Z0-9 ]+)-----")


class PemObject(NamedTuple):
    """One object: its text including the first and last line, and the number of its first line."""

    text: bytes
    line: int


def objects(text: bytes, kinds: tuple[bytes, ...]) -> tuple[PemObject, ...]:
    r"""Find the objects of some kinds, regardless of text between them.

    Args:
        text: PEM.
        kinds: the words after BEGIN.

    Returns:
        The objects in order; an object without an END line extends to the next BEGIN.

    Example:
        >>> text = b"a comment\n-----BEGIN X509 CRL-----\nAAAA\n-----END X509 CRL-----\n"
        >>> objects(text, REVOCATION_LISTS)[0].line, objects(text, CERTIFICATES)
        (2, ())
    """
    found = []
    edges = [*_EDGE.finditer(text)]
    line, counted = 1, 0
    for at, edge in enumerate(edges):
        if edge[1] != b"BEGIN" or edge[2] not in kinds:
            continue
        following = edges[at + 1] if at + 1 < len(edges) else None
        end = len(text)
        if following is not None:
            end = following.end() if following[1] == b"END" else following.start()
        line += text.count(b"\n", counted, edge.start())
        counted = edge.start()
        found.append(PemObject(text[edge.start() : end] + b"\n", line))
    return tuple(found)
