"""Refused credentials: when a login may use new ones. Has no clock: callers pass times."""

from __future__ import annotations

from kafwire.errors import AuthenticationError
from kafwire.lazy_dataclass import dataclass

# After the first refusal, new credentials are used at once; after later ones, following a pause that doubles.
BACKOFF_S, MAX_BACKOFF_S = 0.5, 10.0


@dataclass
class _Host:
    """The refusals of one broker since it last accepted this client."""

    count: int
    not_before: float
    why: str


class Refusals:
    """Counts refusals of one login by broker.

    `epoch` grows when credentials become invalid. A refusal of an exchange from an earlier epoch concerns credentials
    that another connection has already reported, so it does not count again.
    """

    def __init__(self) -> None:
        self.epoch = 0
        self._hosts: dict[str, _Host] = {}

    def check(self, host: str, now: float) -> None:
        """Raise `AuthenticationError` during the pause after repeated refusals of this broker."""
        refused = self._hosts.get(host)
        if refused is not None and now < refused.not_before:
            raise AuthenticationError(
                f"{refused.why}; this client fetches new credentials in {refused.not_before - now:.1f} s"
            )

    def add(self, host: str, epoch: int, now: float, why: str) -> bool:
        """Note a refusal of credentials from `epoch`. Return whether this made them invalid."""
        if epoch != self.epoch:
            return False
        self.epoch += 1
        before = self._hosts.get(host)
        count = 1 if before is None else before.count + 1
        pause = 0.0 if count == 1 else min(MAX_BACKOFF_S, BACKOFF_S * 2.0 ** min(count - 2, 30))
        self._hosts[host] = _Host(count, now + pause, why)
        return True

    def clear(self, host: str) -> None:
        """Note that the broker has accepted this client."""
        self._hosts.pop(host, None)
