"""A client's telemetry subscription (KIP-714): when to request it, when to push, and the effect of errors. Pure.

wait_ms = machine.subscribed(response, random)   # then ask again, or push, after this time; None: never again
wait_ms = machine.pushed(error_code)
"""

from __future__ import annotations

import uuid
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, Final, NamedTuple

from kafwire.error_codes import ErrorCode

DEFAULT_INTERVAL_MS: Final = 300_000
LEAST_INTERVAL_MS: Final = 100  # of Kafka's option interval.ms
ALL: Final = "*"
NO_ID: Final = uuid.UUID(int=0)
# The first push comes after 50 to 150 % of the interval: clients that start together do not push together.
_EARLIEST = 0.5

_ASK_AT_ONCE = frozenset({ErrorCode.UNKNOWN_SUBSCRIPTION_ID, ErrorCode.UNSUPPORTED_COMPRESSION_TYPE})
_ASK_LATER = frozenset({ErrorCode.TELEMETRY_TOO_LARGE, ErrorCode.THROTTLING_QUOTA_EXCEEDED})


class Subscription(NamedTuple):
    """A broker's request for metrics: the prefixes of their names, and the form of a push.

    `wants` returns True if a metric is requested. It remembers each name, as a broker may send many prefixes.
    """

    subscription_id: int
    max_bytes: int
    is_delta: bool
    compression_types: tuple[int, ...]
    prefixes: tuple[str, ...]
    wants: Callable[[str], bool]

    def may_want(self, start: str) -> bool:
        """Return False if no metric whose name has this start is requested."""
        return start.startswith(self.prefixes) or any(prefix.startswith(start) for prefix in self.prefixes)


class SubscriptionMachine:
    """The state of one client. `supported`: numbers of the compression types that this process has."""

    def __init__(self, supported: Sequence[int]) -> None:
        self.client_instance_id = NO_ID
        self.subscription: Subscription | None = None  # the present one; None: it has to be asked for
        self._interval_ms = DEFAULT_INTERVAL_MS
        self._compressions = list(supported)

    @property
    def compression_type(self) -> int:
        """The first compression type of the broker's list that this client has; 0: none."""
        offered = () if self.subscription is None else self.subscription.compression_types
        return next((number for number in offered if number in self._compressions), 0)

    def without(self, compression_type: int) -> None:
        """Do not use a compression type any more: its library is missing, or the broker refused it."""
        if compression_type in self._compressions:
            self._compressions.remove(compression_type)

    def subscribed(self, response: Any, random: Callable[[], float]) -> float | None:
        """Take in the subscription, or an error; return the wait until the next request, in ms."""
        self.subscription = None
        if response.error_code:
            # Never at once: a broker that always refuses would be asked in a loop.
            return float(self._interval_ms) if response.error_code in _ASK_AT_ONCE | _ASK_LATER else None
        if response.client_instance_id == NO_ID:
            return None  # without an id no push is valid
        self.client_instance_id = response.client_instance_id
        interval_ms = response.push_interval_ms
        self._interval_ms = max(LEAST_INTERVAL_MS, interval_ms) if interval_ms > 0 else DEFAULT_INTERVAL_MS
        if not response.requested_metrics:
            return float(self._interval_ms)  # no metric is wanted; the next request may bring another subscription
        prefixes = ("",) if ALL in response.requested_metrics else tuple(response.requested_metrics)
        self.subscription = Subscription(
            response.subscription_id,
            response.telemetry_max_bytes,
            response.delta_temporality,
            tuple(response.accepted_compression_types),
            prefixes,
            cache(lambda name: name.startswith(prefixes)),
        )
        return self._interval_ms * (_EARLIEST + random())

    def pushed(self, error_code: int) -> float | None:
        """Take in the response to a push; return the wait until the next request, in ms."""
        if not error_code:
            return float(self._interval_ms)
        if error_code == ErrorCode.UNSUPPORTED_COMPRESSION_TYPE:
            self.without(self.compression_type)
        self.subscription = None
        if error_code in _ASK_AT_ONCE:
            return 0.0
        return float(self._interval_ms) if error_code in _ASK_LATER else None

    def failed(self) -> float:
        """Note a request without a response; return the wait until the next request, in ms."""
        self.subscription = None
        return float(self._interval_ms)
