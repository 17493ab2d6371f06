"""The rules that fetch sessions (KIP-227) and share sessions (KIP-932) have in common.

A session has an epoch, the number of its next request; both sides count. One request is in flight at a time. If a
request gets no response, or the counts differ, the client opens another session. Pure.
"""

from __future__ import annotations

from kafwire.cluster.backoff import Backoff
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError

OPEN = 0  # the epoch of a request that opens a session
CLOSE = -1  # the epoch of a request that ends one
LAST_EPOCH = 2**31 - 1
SESSION_ERRORS = frozenset(
    {
        *(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        *(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)


def next_epoch(epoch: int, last: int = LAST_EPOCH) -> int:
    """Return the epoch after this one: 1 after `OPEN`, and after the last."""
    return epoch % last + 1


def is_session_error(error: KafkaError) -> bool:
    """Return True if a broker does not have the session of a request, or has another epoch for it."""
    return getattr(error, "code", None) in SESSION_ERRORS


class SessionBackoff:
    """The back-off of one session's requests after errors of whole responses."""

    def __init__(self, base_ms: float, max_ms: float) -> None:
        self.not_before_ms = 0.0  # the time of the next request
        self._backoff = Backoff(base_ms, max_ms)

    def failed(self, error: KafkaError, now_ms: float, randomness: float) -> bool:
        """Wait longer after each error; return False for no wait.

        The first session error is retried at once: a broker may forget a session at any time.
        """
        wait_ms = self._backoff.failed(randomness)
        if self._backoff.failures == 1 and is_session_error(error):
            return False
        self.not_before_ms = now_ms + wait_ms
        return True

    def succeeded(self) -> None:
        """Reset the waits."""
        self._backoff.succeeded()
