"""Kafka's compression codecs: their names and numbers, where their code comes from, and each as a plain call."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import ConfigError
from kafwire.records._compress import NAMES, compress_bytes, decompress_bytes, origin
from kafwire.records._compress import codec_id as _codec_id

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CODECS", "budget", "codec_id", "compress", "decompress", "info", "set_budget"]

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


def budget() -> tuple[int, int]:
    """Return the process's budget for decompression in bytes, and how much of it is in use at this moment."""
    from kafwire.memory._buffer import budget

    return budget()


def set_budget(limit_bytes: int) -> None:
    """Set how much memory all decompression of this process may take at the same time (default: 1 GiB).

    What decompresses to less than about 16 MiB is free: it neither waits nor counts. A larger batch that finds the
    budget used up by other threads waits for them, so it is late but never lost. One that is larger than the whole
    budget is a ProtocolError, as it is with `max_decompressed`.
    """
    if not isinstance(limit_bytes, int) or not 0 <= limit_bytes < 1 << 63:
        raise ConfigError(f"a budget of {limit_bytes!r} bytes: expected a number from 0 on")
    from kafwire.memory._buffer import set_budget

    set_budget(limit_bytes)
