"""A record in the formats before record batches, as in Produce 0 to 2: magic 0, and 1 with a timestamp (KIP-32)."""

import struct
import zlib


def old_message(value: bytes, magic: int) -> bytes:
    """Return a message set of one message without a key, uncompressed; of magic 1 with the timestamp 0."""
    attributes = bytes(1)
    timestamp = bytes(8 if magic else 0)
    body = bytes([magic]) + attributes + timestamp + struct.pack(">ii", -1, len(value)) + value
    return struct.pack(">qiI", 0, 4 + len(body), zlib.crc32(body)) + body
