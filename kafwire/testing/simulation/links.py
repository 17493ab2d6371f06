"""The network between clients and one broker: delays, and faults of bytes in transit. `events.py` changes it."""

from __future__ import annotations

from dataclasses import dataclass, field

LATENCY_S = 0.001  # one way


@dataclass(slots=True)
class Link:
    """All connections to one broker, in both directions.

    A cut in one direction holds bytes back, as TCP does. They go on when the cut heals, if the connection still exists.
    """

    latency_s: float = LATENCY_S
    bytes_per_s: float | None = None
    is_refusing: bool = False  # new connections
    holds_requests: bool = False
    holds_responses: bool = False
    runs_late: bool = False  # held requests are executed later, though the client closed their connection
    # A reset replaces the next response of each of these APIs ("" any): the broker executes the request, but the
    # response is lost.
    resets: list[str] = field(default_factory=list)

    def delay_s(self, size: int) -> float:
        """Return the seconds that this many bytes are in transit."""
        return self.latency_s + (size / self.bytes_per_s if self.bytes_per_s else 0.0)

    def takes_away(self, api: str) -> bool:
        """True if a reset replaces this response; removes the reset from the list."""
        wanted = next((name for name in self.resets if name in ("", api)), None)
        if wanted is not None:
            self.resets.remove(wanted)
        return wanted is not None

    def heal(self) -> None:
        """Return to the state without faults."""
        self.latency_s = LATENCY_S
        self.bytes_per_s = None
        self.is_refusing = self.holds_requests = self.holds_responses = self.runs_late = False
        self.resets.clear()
