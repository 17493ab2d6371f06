"""The compression levels of each codec, and the check of `compression_level`. Data and a function of it, no I/O."""

from __future__ import annotations

from kafwire.errors import ConfigError

# Lowest and highest: those of gzip and zstd are Java's too; lz4's above 12 are the same as 12.
LEVELS = {"gzip": (1, 9), "lz4": (0, 17), "zstd": (-131_072, 22)}
GZIP_DEFAULT = -1  # as Java and zlib name the default level of gzip


def check_level(codec: str, level: int) -> None:
    """Raise `ConfigError` for a level that `codec` does not have."""
    if codec == "gzip" and level == GZIP_DEFAULT:
        return
    if codec not in LEVELS:
        raise ConfigError(
            f"option compression_level={level}: compression_type={codec!r} has no levels: leave it out"
            + (f", or choose {', '.join(LEVELS)}" if codec == "none" else "")
        )
    low, high = LEVELS[codec]
    if not low <= level <= high:
        default = f", or {GZIP_DEFAULT} for the default" if codec == "gzip" else ""
        raise ConfigError(
            f"option compression_level={level}: allowed with compression_type={codec!r}: {low} to {high}{default}"
        )
