"""Kafka's compression codecs: names, numbers, the libraries that implement them, and functions to call them."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import ConfigError
from kafwire.integers import integer, natural
from kafwire.records._compress import NAMES, compress_bytes, decompress_bytes, origin
from kafwire.records._compress import codec_id as _codec_id

if TYPE_CHECKING:
    from typing_extensions import Buffer

__all__ = ["CODECS", "budget", "codec_id", "compress", "decompress", "info", "set_budget"]

CODECS: tuple[str, ...] = NAMES
"""The codecs' names, in the order of Kafka's numbers."""


def codec_id(name: str) -> int:
    """Return Kafka's number of a codec.

    Args:
        name: one of `CODECS`.

    Returns:
        The number.

    Raises:
        ConfigError: there is no such codec.

    Example:
        >>> from kafwire import compression
        >>> compression.codec_id("zstd")
        4
    """
    return _codec_id(name)


def info() -> dict[str, str]:
    """Return the library that implements each codec.

    Returns:
        For each of `CODECS` the library, or why it is missing. "Python: ..." means that no C library was found: the
        codec is slow and holds the GIL.

    Example:
        >>> from kafwire import compression
        >>> list(compression.info())
        ['none', 'gzip', 'snappy', 'lz4', 'zstd']
    """
    found = {}
    for name in CODECS:
        try:
            found[name] = origin(name)
        except ConfigError as error:
            found[name] = f"missing: {error}"
    return found


def compress(codec: str, data: Buffer, level: int | None = None) -> bytes:
    """Compress bytes with the framing of Kafka's Java client.

    Snappy has xerial's framing; lz4 has frames of independent 64 KiB blocks.

    Args:
        codec: one of `CODECS`.
        data: any contiguous bytes-like object.
        level: the codec's own level; None: its default.

    Returns:
        The compressed bytes.

    Raises:
        ConfigError: there is no such codec or level, or its library is missing.

    Example:
        >>> from kafwire import compression
        >>> packed = compression.compress("lz4", b"EWR-IAH" * 1000)
        >>> compression.decompress("lz4", packed) == b"EWR-IAH" * 1000
        True
    """
    number = integer(level)
    if number is None and level is not None:
        raise ConfigError(f"level={level!r}: a whole number is needed, or None")
    return compress_bytes(codec, memoryview(data).cast("B"), number)


def decompress(codec: str, data: Buffer, *, max_decompressed: int = 256 << 20) -> bytes:
    """Decompress bytes that have the framing of Kafka's Java client.

    Args:
        codec: one of `CODECS`.
        data: any contiguous bytes-like object.
        max_decompressed: the most decompressed bytes; 256 MiB by default.

    Returns:
        The decompressed bytes.

    Raises:
        ConfigError: there is no such codec, or its library is missing.
        ProtocolError: the data is corrupt, or decompresses to more than `max_decompressed` bytes.

    Example:
        >>> from kafwire import compression
        >>> compression.decompress("gzip", compression.compress("gzip", b"EWR-IAH"))
        b'EWR-IAH'
    """
    limit = natural(max_decompressed)
    if limit is None:
        raise ConfigError(f"max_decompressed={max_decompressed!r}: a whole number of bytes from 0 is needed")
    return decompress_bytes(codec, memoryview(data).cast("B"), limit)


def budget() -> tuple[int, int]:
    """Return the process's memory budget for decompression.

    Returns:
        The budget in bytes, and the bytes in use now.

    Example:
        >>> from kafwire import compression
        >>> compression.budget()
        (1073741824, 0)
    """
    from kafwire.memory._buffer import budget

    return budget()


def set_budget(limit_bytes: int) -> None:
    """Limit the memory that all decompression of this process takes at one time. The default is 1 GiB.

    Batches that decompress to less than about 16 MiB are exempt: they neither wait nor count. A larger batch waits
    while other threads use up the budget. A batch that is larger than the whole budget fails with `ProtocolError`, as
    with `max_decompressed`.

    Args:
        limit_bytes: the budget in bytes, from 0 on.

    Raises:
        ConfigError: `limit_bytes` is not a whole number from 0 on.

    Example:
        >>> from kafwire import compression
        >>> compression.set_budget(1 << 30)
    """
    limit = natural(limit_bytes)
    if limit is None:
        raise ConfigError(f"a budget of {limit_bytes!r} bytes: expected a number from 0 on")
    from kafwire.memory._buffer import set_budget

    set_budget(limit)
