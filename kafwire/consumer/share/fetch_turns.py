"""`FetchTurns`: from which brokers a member fetches next, how many records, and how long each broker may wait. Pure.

A fetch from all brokers at once is the quickest, but the user processes the records of one response while those of the
others wait with their locks running. As long as locks are renewed, this costs no delivery. Otherwise one broker at a
time fetches: in a group that allows no renewal, after a lock was over before its records were handed out, and with
`share_acquire_mode="record_limit"`, whose limit is one for all brokers, as in Java's client.

A response may have several ranges, too. Once one of them is handed out with less than half of its lock, a fetch asks
for one record, which is one range, and for twice as many each time the user returns within half a lock.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafwire.config import ShareConsumerConfig

TURN_MS = 5_000.0  # a broker that has not responded by then does not hold up the others


class FetchTurns:
    """Of one share consumer."""

    def __init__(self, config: ShareConsumerConfig) -> None:
        self.may_renew = True  # until a broker refuses to renew a lock
        self.records = config.max_poll_records  # that the next fetch asks for
        self._max_records = config.max_poll_records
        self._is_strict = config.share_acquire_mode == "record_limit"
        self._max_wait_ms = config.fetch_max_wait_ms
        self._began_ms: dict[int, float] = {}  # of the fetches under way, by broker
        self._last = -1
        self._empty = 0  # fetches in a row without records

    def is_wide(self, leaders: Collection[int]) -> bool:
        """Whether all brokers fetch at once."""
        is_safe = self.may_renew and not self._is_strict and self.records == self._max_records
        return is_safe or len(leaders) < 2

    def choose(self, leaders: Collection[int], idle: Iterable[int], now_ms: float) -> set[int]:
        """The brokers that fetch now. `idle` ones have no request under way, and no back-off to wait for."""
        if self.is_wide(leaders):
            return set(leaders)
        if any(now_ms - began_ms < TURN_MS for began_ms in self._began_ms.values()):
            return set()
        free = sorted(set(idle) - self._began_ms.keys())
        return {next((number for number in free if number > self._last), free[0])} if free else set()

    def begin(self, number: int, leaders: Collection[int], now_ms: float) -> int:
        """A fetch from a broker begins. Returns how long the broker may wait for records, in ms.

        In turns this is no time at all, until no broker has any records.
        """
        self._began_ms[number] = now_ms
        self._last = number
        if self.is_wide(leaders):
            return self._max_wait_ms
        return self._max_wait_ms // len(leaders) if self._empty >= len(leaders) else 0

    def end(self, number: int, records: int | None) -> None:
        """A fetch from a broker has ended, with so many records; None: no response came."""
        self._began_ms.pop(number, None)
        if records is not None:
            self._empty = 0 if records else self._empty + 1

    def returned(self, took_ms: float, lock_ms: float) -> None:
        """The user asks for more, so long after the last records were handed out."""
        if took_ms < lock_ms / 2:
            self.records = min(2 * self.records, self._max_records)

    def narrow(self) -> None:
        """Locks were over, or nearly so, before their records were handed out."""
        self.records = 1
