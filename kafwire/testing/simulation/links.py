"""The network between clients and one broker: how long bytes take, and what becomes of them. `events.py` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field

LATENCY_S = 0.001  # one way


@dataclass(slots=True)
class Link:
    """All connections to one broker, in both directions.

    What is cut off one way is held back, as by TCP, and goes on when the cut heals, if the connection is still there.
    """

    latency_s: float = LATENCY_S
    bytes_per_s: float | None = None
    is_refusing: bool = False  # new connections
    holds_requests: bool = False
    holds_responses: bool = False
    runs_late: bool = False  # requests that are held are executed later, though their connection was given up
    # The next response of each of these APIs, "" any, is replaced by a reset: executed, and not answered.
    resets: list[str] = field(default_factory=list)

    def delay_s(self, size: int) -> float:
        """How long so many bytes are on their way."""
        return self.latency_s + (size / self.bytes_per_s if self.bytes_per_s else 0.0)

    def takes_away(self, api: str) -> bool:
        """Whether this response is to be replaced by a reset, which then is done."""
        wanted = next((name for name in self.resets if name in ("", api)), None)
        if wanted is not None:
            self.resets.remove(wanted)
        return wanted is not None

    def heal(self) -> None:
        """Be as it was at first."""
        self.latency_s = LATENCY_S
        self.bytes_per_s = None
        self.is_refusing = self.holds_requests = self.holds_responses = self.runs_late = False
        self.resets.clear()
