"""Faults of brokers that a producer's retries mend, as handlers of the scripted broker."""

from typing import Any

from kafwire.errors import ErrorCode
from tests.support.broker import scripted_broker as scripted

# Short enough for a test, long enough for a busy machine.
QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "reconnect_backoff_ms": 10, "linger_ms": 0}


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


MENDED = {
    "close": scripted.close,
    "lose": scripted.lose_response,
    "cut": scripted.close_in_mid_frame,
    "number": scripted.wrong_correlation_id,
    "short": scripted.truncated(1),
    "garbage": scripted.garbage(b"\xff" * 20),
    "giant": scripted.giant_frame(),
    "not leader": scripted.error(ErrorCode.NOT_LEADER_OR_FOLLOWER),
    "replicas": scripted.error(ErrorCode.NOT_ENOUGH_REPLICAS),
    "timed out": scripted.error(ErrorCode.REQUEST_TIMED_OUT),
}
