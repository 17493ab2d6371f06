"""A message decodes or raises ProtocolError; what decodes must encode, and decode to the same again.

Input: three bytes that choose message, version and manner (`fuzz.native.choice`), then its bytes.
"""
from libc.stdint cimport uint8_t

import traceback

from fuzz.native import choice
from kafwire.errors import ProtocolError

cdef list runs = []


def prepare():
    """Import every message, and compile every version of it."""
    runs[:] = choice.runs()


cdef public const char *fuzz_one(const uint8_t *data, size_t size) noexcept:
    try:
        choice.check((<const char *>data)[:size], runs)
    except choice.Broken as broken:
        print(f"INVARIANT BROKEN: {broken}", flush=True)
        return b"a message"
    except BaseException:
        traceback.print_exc()
        return b"something else than ProtocolError escaped"
    return NULL
