"""Rules about fetching.

- no client receives an error for the epoch of its session (KIP-227)
- the leader epochs that a client sends for a partition never go back (KIP-320)
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import Any

from kafwire.errors import ErrorCode
from kafwire.testing.simulation.conduct.sent import Notes, Place, Sent


class Fetching:
    """The Fetch requests of all clients."""

    def __init__(self, notes: Notes) -> None:
        self._notes = notes
        self._epochs: dict[tuple[Hashable, Place], int] = {}  # by client: the newest leader epoch that it sent

    def fetches(self, sent: Sent, place: Place, epoch: int) -> None:
        """Judge a requested partition."""
        last = self._epochs.get((sent.client, place), -1)
        if 0 <= epoch < last:
            self._notes.wrong(sent, f"leader epoch {epoch} of {place}, after {last}")
        self._epochs[sent.client, place] = max(epoch, last)

    def fetched(self, sent: Sent, response: Any) -> None:
        """Judge the response to a request."""
        if response.error_code == ErrorCode.INVALID_FETCH_SESSION_EPOCH:
            message = sent.message
            self._notes.wrong(sent, f"epoch {message.session_epoch} of session {message.session_id} was wrong")

    def begins(self, client: Hashable) -> None:
        """Note a response with committed offsets: a client that starts at them may know nothing of a partition."""
        for key in [key for key in self._epochs if key[0] == client]:
            del self._epochs[key]
