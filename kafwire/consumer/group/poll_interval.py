"""`max_poll_interval_ms`: a member that takes no records for this time leaves its group.

The interval is the time between two reads; for a stream, the age of its longest running call. The consumer joins again
with its next call, a stream when the long call has returned. Other members get the partitions meanwhile.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Protocol

from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.errors import KafkaError, PollIntervalError
from kafwire.runtime.interfaces import Engine

CALL_LOOK_MS = 250  # interval of the checks of a call that keeps a member out of its group

# The age in milliseconds and the name of the longest running call; None: no call runs. Any thread.
OldestCall = Callable[[], tuple[float, str] | None]


class Member(Protocol):
    """The member that leaves and joins."""

    group_id: str

    @property
    def is_joined(self) -> bool:
        """True if the consumer is a member, or joins."""

    @property
    def has_partitions(self) -> bool:
        """True if it has partitions."""

    async def drop_out(self, why: str, is_due: Callable[[], bool]) -> bool:
        """Leave the group and lose the partitions if joined and `is_due`; return True after leaving."""

    async def come_back(self, is_due: Callable[[], bool]) -> None:
        """Join again if `is_due`."""

    def fail(self, error: KafkaError) -> None:
        """Make the next read raise `error`."""


class PollInterval:
    """The interval of one member. `limit_ms` None: no limit. Lives on the engine, except `reads` and `watch_calls`."""

    def __init__(self, engine: Engine, tasks: FetchTasks, member: Member, limit_ms: int | None) -> None:
        self._engine = engine
        self._tasks = tasks
        self._member = member
        self._limit_ms = limit_ms
        # readers of the user that wait for records or decode them, with the begin of their reads
        self._reading: dict[int, float] = {}
        self._read_ms = 0.0  # the time of ended reads
        self._took_ms = engine.now_ms()
        self._timer: asyncio.TimerHandle | None = None
        self._oldest_call: OldestCall | None = None
        self._stays_out = False  # until a stream's call returns

    def reads(self, reader: object, *, begun: bool) -> None:
        """Note the begin or the end of a user's read by `reader`. Any thread."""
        now_ms = self._engine.now_ms()
        if begun:
            self._reading[id(reader)] = now_ms
        elif (since_ms := self._reading.pop(id(reader), None)) is not None:
            self._read_ms += now_ms - since_ms
        self._took_ms = now_ms

    def read_ms(self) -> float:
        """Return the time that readers have spent in reads so far."""
        now_ms = self._engine.now_ms()
        return self._read_ms + sum(now_ms - since_ms for since_ms in list(self._reading.values()))

    def watch_calls(self, oldest: OldestCall) -> None:
        """Measure the calls of a stream, and not the time between reads.

        A member leaves if one call runs for too long, and joins again when the call has returned.
        """
        self._oldest_call = oldest

    def begin(self) -> None:
        """Begin to measure: the member joins."""
        self.restart()
        self._stays_out = False
        self._watch()

    def restart(self) -> None:
        """Measure from now on."""
        self._took_ms = self._engine.now_ms()

    def end(self) -> None:
        """Do not join again: the user has unsubscribed."""
        self._stays_out = False

    def stop(self) -> None:
        """Cancel the timer: the consumer closes."""
        if self._timer is not None:
            self._timer.cancel()

    def _watch(self) -> None:
        if self._limit_ms is None or self._timer is not None:
            return
        limit_ms = self._limit_ms
        self._look_in(limit_ms if self._oldest_call is None else self._look_at_calls(None, limit_ms))

    def _look_in(self, wait_ms: float) -> None:
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._look)

    def _look(self) -> None:
        assert self._limit_ms is not None
        limit_ms, self._timer = self._limit_ms, None
        if self._oldest_call is not None:
            self._look_in(self._look_at_calls(self._oldest_call(), limit_ms))
            return
        if self._reading or not self._member.has_partitions:  # without partitions no read can take records
            self.restart()
        idle_ms = self._engine.now_ms() - self._took_ms
        if idle_ms < limit_ms:
            self._look_in(limit_ms - idle_ms)
        elif self._member.is_joined:
            self._tasks.begin(self._run_out(limit_ms))

    def _look_at_calls(self, oldest: tuple[float, str] | None, limit_ms: int) -> float:
        """Leave or join again if the calls require it. Return the milliseconds until the next check."""
        age_ms, name = oldest or (0.0, "")
        if self._stays_out and age_ms < limit_ms:
            self._tasks.begin(self._member.come_back(lambda: self._stays_out))
        elif self._member.is_joined and age_ms >= limit_ms:
            self._tasks.begin(self._stay_out(name, limit_ms))
        elif not self._stays_out:
            # With many short calls, a look sees only the current one: look several times within the limit.
            return max(CALL_LOOK_MS, min(limit_ms - age_ms, limit_ms / 4))
        return CALL_LOOK_MS

    async def _stay_out(self, name: str, limit_ms: int) -> None:
        def is_due() -> bool:
            self._stays_out = True
            return True

        await self._member.drop_out(
            f"this member leaves group {self._member.group_id!r}, as {name} has run for longer than "
            f"max_poll_interval_ms ({limit_ms}); it joins again when that call returns. The records in hand are not "
            "committed: another member processes them",
            is_due,
        )

    async def _run_out(self, limit_ms: int) -> None:
        def is_due() -> bool:
            if self._engine.now_ms() - self._took_ms >= limit_ms:
                return True
            self._watch()  # the user has subscribed again meanwhile
            return False

        text = (
            f"this member has left group {self._member.group_id!r}, as nothing was taken from the consumer for "
            f"max_poll_interval_ms ({limit_ms}); the next call joins again. Records in hand are not committed"
        )
        if await self._member.drop_out(text, is_due):
            self._member.fail(PollIntervalError(text))
