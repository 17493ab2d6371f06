"""Kafka's compression codecs: their names and numbers, where their code comes from, and each as a plain call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire._compress import NAMES, compress_bytes, decompress_bytes, origin
from kafwire._compress import codec_id as _codec_id
from kafwire.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CODECS", "codec_id", "compress", "decompress", "info"]

CODECS: tuple[str, ...] = NAMES
"""Names in the order of Kafka's numbers."""


def codec_id(name: str) -> int:
    """Return Kafka's number of the codec `name`; ConfigError for an unknown one."""
    return _codec_id(name)


def info() -> dict[str, str]:
    """Return where the code of each codec comes from, or why it cannot be had.

    "Python: ..." means that no C library was found and that the codec is slow and holds the GIL.
    """
    found = {}
    for name in CODECS:
        try:
            found[name] = origin(name)
        except ConfigError as error:
            found[name] = f"missing: {error}"
    return found


def compress(codec: str, data: Buffer, level: int | None = None) -> bytes:
    """Return `data` in the framing of Kafka's Java client (snappy: xerial's; lz4: frames of independent 64 KiB
    blocks).
    """
    return compress_bytes(codec, memoryview(data).cast("B"), level)


def decompress(codec: str, data: Buffer, *, max_decompressed: int = 256 << 20) -> bytes:
    """Return the content of `data`; ProtocolError if it is corrupt or passes `max_decompressed` bytes."""
    return decompress_bytes(codec, memoryview(data).cast("B"), max_decompressed)
