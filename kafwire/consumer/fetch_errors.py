"""Errors that fetching meets and tries again: which of them may pass, and which were told already."""

from __future__ import annotations

import math
from collections.abc import Mapping

from kafwire.cluster.leader_errors import LEADER_ERRORS
from kafwire.error_codes import ErrorCode
from kafwire.errors import ERROR_CODES

# Of a whole answer too, nothing mends these but an operator.
UNAUTHORIZED = frozenset(
    {
        *(ErrorCode.TOPIC_AUTHORIZATION_FAILED, ErrorCode.GROUP_AUTHORIZATION_FAILED),
        ErrorCode.CLUSTER_AUTHORIZATION_FAILED,
    }
)
# What comes back is told again if it was gone for so long.
GONE_MS = 600_000
CAUSES = 1024  # so many are remembered


def may_pass(code: int) -> bool:
    """Whether a partition's error may be gone at the next try; of codes that nobody knows, it may.

    A batch that is corrupt on the broker's disk stays so, although Kafka calls that retriable.
    """
    known = ERROR_CODES.get(code)
    passes = known is None or known.retriable or code in LEADER_ERRORS or code == ErrorCode.UNKNOWN_SERVER_ERROR
    return passes and code != ErrorCode.CORRUPT_MESSAGE


class FetchErrors:
    """Counts errors by their cause: where (a partition or a broker), and what. Each is to be told once."""

    def __init__(self) -> None:
        self._seen: dict[tuple[str, str], tuple[int, float]] = {}  # how often, and when last

    def note(self, where: str, what: str, now_ms: float) -> bool:
        """One more; whether it is to be told: the first of its cause, or the first for ten minutes."""
        count, last_ms = self._seen.pop((where, what), (0, -math.inf))
        self._seen[where, what] = count + 1, now_ms
        if len(self._seen) > CAUSES:
            del self._seen[next(iter(self._seen))]
        return now_ms - last_ms >= GONE_MS

    def end(self, where: str) -> None:
        """It succeeds there again: the next error is told, however soon it comes."""
        self._seen |= {key: (count, -math.inf) for key, (count, _) in self._seen.items() if key[0] == where}

    @property
    def counts(self) -> Mapping[str, Mapping[str, int]]:
        """How many there were: by where, and by what."""
        found: dict[str, dict[str, int]] = {}
        for (where, what), (count, _) in self._seen.items():
            found.setdefault(where, {})[what] = count
        return found
