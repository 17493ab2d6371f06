"""`FetchTurns`: the brokers of the next fetches, the number of records, and the brokers' longest wait. Pure.

Fetching from all brokers at once is the fastest, but the locks of one response's records run while the user processes
those of another. As long as locks are renewed, this costs no delivery. Otherwise the member fetches from one broker at
a time: in a group that allows no renewal, after a lock expired before its records were delivered, and with
`share_acquire_mode="record_limit"`, whose limit is one for all brokers, as in the Java client.

A response may also have several ranges. Once a range is delivered with less than half of its lock time left, the next
fetch requests one record, which is one range; and twice as many each time the user returns within half a lock time.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from kafwire.config import ShareConsumerConfig

TURN_MS = 5_000.0  # after this time without a response, the next broker gets its turn


class FetchTurns:
    """The turns of one share consumer."""

    def __init__(self, config: ShareConsumerConfig) -> None:
        self.may_renew = True  # until a broker refuses to renew a lock
        self.records = config.max_poll_records  # number of records of the next fetch
        self._max_records = config.max_poll_records
        self._is_strict = config.share_acquire_mode == "record_limit"
        self._max_wait_ms = config.fetch_max_wait_ms
        self._began_ms: dict[int, float] = {}  # begin of each fetch in flight, by broker
        self._last = -1
        self._empty = 0  # fetches in a row without records

    def is_wide(self, leaders: Collection[int]) -> bool:
        """Return True if the member fetches from all brokers at once."""
        is_safe = self.may_renew and not self._is_strict and self.records == self._max_records
        return is_safe or len(leaders) < 2

    def choose(self, leaders: Collection[int], idle: Iterable[int], now_ms: float) -> set[int]:
        """Return the brokers to fetch from now. `idle` ones have no request in flight."""
        if self.is_wide(leaders):
            return set(leaders)
        if any(now_ms - began_ms < TURN_MS for began_ms in self._began_ms.values()):
            return set()
        free = sorted(set(idle) - self._began_ms.keys())
        return {next((number for number in free if number > self._last), free[0])} if free else set()

    def begin(self, number: int, leaders: Collection[int], now_ms: float) -> int:
        """Begin a fetch from a broker. Return how long the broker may wait for records, in ms.

        With one broker at a time this is 0, until a turn of all brokers brought no records.
        """
        self._began_ms[number] = now_ms
        self._last = number
        if self.is_wide(leaders):
            return self._max_wait_ms
        return self._max_wait_ms // len(leaders) if self._empty >= len(leaders) else 0

    def end(self, number: int, records: int | None) -> None:
        """End a fetch from a broker, with the number of records; None: no response came."""
        self._began_ms.pop(number, None)
        if records is not None:
            self._empty = 0 if records else self._empty + 1

    def returned(self, took_ms: float, lock_ms: float) -> None:
        """Handle a read that comes `took_ms` after the last delivery, whose locks last `lock_ms`."""
        if took_ms < lock_ms / 2:
            self.records = min(2 * self.records, self._max_records)

    def narrow(self) -> None:
        """Fetch one record next: locks expired, or nearly so, before their records were delivered."""
        self.records = 1
