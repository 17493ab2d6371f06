"""Errors of fetching: their effect on a partition, retries of sessions, and those that were logged already. Pure."""

from __future__ import annotations

import enum
import math
from collections.abc import Mapping

from kafwire.cluster.backoff import Backoff
from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES, KafkaError

# Only an operator can resolve these, also as the error of a whole response.
UNAUTHORIZED = frozenset(
    {
        *(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
SESSION_ERRORS = frozenset(
    {
        *(ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH),
        *(ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR, ErrorCode.SHARE_SESSION_NOT_FOUND),
        ErrorCode.INVALID_SHARE_SESSION_EPOCH,
    }
)
# Errors of a read replica that the leader may not have: the replica lags behind, or is damaged.
REPLICA_ERRORS = LEADER_ERRORS | {ErrorCode.OFFSET_OUT_OF_RANGE, ErrorCode.CORRUPT_MESSAGE}
# Responses in a row that cannot be decoded: with this many, not one connection but the broker is at fault.
UNREADABLE = 3
# An error that recurs is logged again if it was absent for this time.
GONE_MS = 600_000
CAUSES = 1024  # most causes that are remembered


class FetchDisposition(enum.Enum):
    """The effect of a response's partition on its cursor."""

    TAKE = enum.auto()  # take its records, if any
    FOLLOW = enum.auto()  # fetch from the read replica that the leader prefers
    RETURN = enum.auto()  # fetch from the leader again: the read replica cannot serve the cursor
    DOUBT = enum.auto()  # the read replica's log differs from the fetched records: validate at the leader
    FIND_LEADER = enum.auto()  # look up the leader, then retry; also after an unknown error code
    TRUNCATED = enum.auto()  # the log was truncated below the position
    OUT_OF_RANGE = enum.auto()  # the log does not have the position
    FAILED = enum.auto()  # an error that no retry fixes


def may_pass(code: int) -> bool:
    """Return True if a retry may succeed after a partition's error, as after an unknown code.

    A batch that is corrupt on the broker's disk stays so, although Kafka marks that error as retriable.
    """
    known = ERROR_CODES.get(code)
    passes = known is None or known.retriable or code in LEADER_ERRORS or code == ErrorCode.UNKNOWN_SERVER_ERROR
    return passes and code != ErrorCode.CORRUPT_MESSAGE


def after_error(code: int, *, from_replica: bool) -> FetchDisposition:
    """Return the effect of a partition's error code on its cursor.

    A read replica may be behind the leader, or gone: records that it lacks are not lost, so the leader decides.
    """
    if from_replica and code in REPLICA_ERRORS:
        return FetchDisposition.RETURN
    if code == ErrorCode.OFFSET_OUT_OF_RANGE:
        return FetchDisposition.OUT_OF_RANGE
    return FetchDisposition.FIND_LEADER if may_pass(code) else FetchDisposition.FAILED


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


class FetchErrors:
    """Counts of errors by cause: a place (partition or broker) and an error name. Each cause is logged once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[int, float]] = {}  # count, and time of the last

    def note(self, where: str, what: str, now_ms: float) -> bool:
        """Count an error. Return True if it must be logged: the first of its cause, or the first in ten minutes."""
        count, last_ms = self._seen.pop((where, what), (0, -math.inf))
        self._seen[where, what] = count + 1, now_ms
        if len(self._seen) > CAUSES:
            del self._seen[next(iter(self._seen))]
        return now_ms - last_ms >= GONE_MS

    def end(self, where: str) -> None:
        """Note a success at `where`: the next error there is logged, however soon it comes."""
        self._seen |= {key: (count, -math.inf) for key, (count, _) in self._seen.items() if key[0] == where}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """The count of errors by place, then by error name."""
        found: dict[str, dict[str, int]] = {}
        for (where, what), (count, _) in self._seen.items():
            found.setdefault(where, {})[what] = count
        return found
