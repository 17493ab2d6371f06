"""Fetch responses as bytes."""

from __future__ import annotations

import struct

from kafwire.protocol import FetchResponse


def frame_of(message: FetchResponse, version: int, correlation_id: int = 77) -> bytes:
    header = struct.pack(">i", correlation_id) + (b"\0" if version >= 12 else b"")
    return header + message.encode(version)


EPOCH = struct.pack(">iq", 7, 1234) + b"\0"
LEADER = struct.pack(">ii", 3, 9) + b"\0"
NODE = struct.pack(">i", 3) + b"\5host" + struct.pack(">i", 9092) + b"\2r" + b"\0"


def tagged(*fields: tuple[int, bytes]) -> bytes:
    return bytes([len(fields)]) + b"".join(bytes([tag, len(body)]) + body for tag, body in fields)
