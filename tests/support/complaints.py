"""The text of programs on standard error."""

from __future__ import annotations

import re
from typing import AnyStr


def complaints(stderr: AnyStr) -> AnyStr:
    """All of it but that a client is still connecting: where a machine is busy, it says so, and then goes on."""
    if isinstance(stderr, bytes):
        return re.sub(rb"(?m)^kafwire: still connecting to .*\n", b"", stderr)
    return re.sub(r"(?m)^kafwire: still connecting to .*\n", "", stderr)
