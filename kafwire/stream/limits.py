"""The limits of a stream's unfinished records, and of the time to stop."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of unfinished records, and of the time to stop."""

    max_in_flight: int = 10_000
    max_uncommitted: int = 100_000
    stop_timeout_s: float = 20.0
