"""Faults of brokers that a producer's retries mend, as handlers of the scripted broker."""

from typing import Any

from tests.support import scripted_broker as scripted

NOT_LEADER, NOT_ENOUGH_REPLICAS, TIMED_OUT, TOO_LARGE, INVALID_RECORD, OUT_OF_ORDER = 6, 19, 7, 10, 87, 45
# Short enough for a test, long enough for a busy machine.
QUICK: dict[str, Any] = {"retry_backoff_ms": 10, "retry_backoff_max_ms": 50, "reconnect_backoff_ms": 10, "linger_ms": 0}


def numbers(count: int, start: int = 0) -> list[bytes]:
    return [b"%d" % number for number in range(start, start + count)]


MENDED = {
    "close": scripted.close,
    "lose": scripted.lose_answer,
    "cut": scripted.close_in_mid_frame,
    "number": scripted.wrong_correlation_id,
    "short": scripted.truncated(1),
    "garbage": scripted.garbage(b"\xff" * 20),
    "giant": scripted.giant_frame(),
    "not leader": scripted.error(NOT_LEADER),
    "replicas": scripted.error(NOT_ENOUGH_REPLICAS),
    "timed out": scripted.error(TIMED_OUT),
}
