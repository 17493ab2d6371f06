"""`StreamMonitor`: observes a running stream, from any thread."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from kafwire.errors import ConfigError
from kafwire.runtime.interfaces import Clock
from kafwire.runtime.log import stream_log as log
from kafwire.stream.argument_checks import is_seconds
from kafwire.stream.failed_record import text_of
from kafwire.stream.status import OldestRecord, PartitionStatus, Sightings, State, StreamStatus, stuck
from kafwire.stream.summary import Counters, StreamSummary

if TYPE_CHECKING:
    from kafwire.stream.partition_run import PartitionRun
    from kafwire.stream.runner import StreamRun


LONGEST_INTERVAL_S = 1.0


class StreamMonitor:
    """Observes a running stream: its status, its metrics, and whether it is alive. It watches one run at a time.

    All calls return at once, from any thread, even while a step blocks the event loop. A stuck stream is logged once,
    with the record at which it is stuck.

    Args:
        stuck_after_s: a stream is stuck when its oldest record has been in one step for so many seconds, when a
            transaction has been open for that long, or when a step has blocked the event loop for that long. Deliberate
            waits (for a worker, the next attempt, `NotNow`, a list of `batch`) do not count.

    Raises:
        ConfigError: `stuck_after_s` is not a number above 0.

    Example:
        >>> monitor = kafwire.stream.StreamMonitor(stuck_after_s=60)
        >>> source = kafwire.stream.MemorySource({"orders": [b"2 books"]})
        >>> pipeline = kafwire.stream.Pipeline().map(lambda order: print(monitor.is_alive, monitor.status().state))
        >>> summary = pipeline.run(source, monitor=monitor)
        True running
        >>> monitor.is_alive, monitor.problem()
        (False, 'the stream has ended')
        >>> monitor.metrics()["records"]
        1
    """

    __module__ = "kafwire.stream"

    def __init__(self, *, stuck_after_s: float = 300.0) -> None:
        if not is_seconds(stuck_after_s) or not stuck_after_s:
            raise ConfigError(f"StreamMonitor(stuck_after_s={stuck_after_s!r}): it must be a number of seconds above 0")
        self.stuck_after_s = stuck_after_s
        self._interval_s = min(LONGEST_INTERVAL_S, stuck_after_s / 10)
        self._stream: StreamRun | None = None
        self._clock: Clock | None = None
        self._sightings = Sightings()
        self._state: State = "new"  # before and after a run
        self._error = ""
        self._counters = Counters()
        self._looked_at = 0.0
        self._logged: str | None = None

    # --- for users --------------------------------------------------------------------------------------------------

    def status(self) -> StreamStatus:
        """Return the current state of the stream.

        Returns:
            Its state, counts and partitions.
        """
        stream, clock, counts = self._stream, self._clock, StreamSummary(**asdict(self._counters))
        if stream is None or clock is None:
            return StreamStatus(self._state, self._end(), counts, 0, None, ())
        now, wall_ms = clock.monotonic(), clock.time_ns() // 1_000_000
        status = StreamStatus(
            "stopping" if stream.is_stopping else "running",
            None,
            counts,
            0 if stream.pool is None else stream.pool.postponed,
            stream.transaction_s(),
            tuple(self._partition(run, now, wall_ms) for run in tuple(stream.partitions)),
        )
        return replace(status, problem=self._problem(status, now))

    def metrics(self) -> dict[str, float]:
        """Return numbers for a metrics system.

        Returns:
            The counts of `StreamSummary`, and `in_flight`, `uncommitted`, `retrying`, `partitions`,
            `waiting_partitions`, `oldest_s` (the age of the oldest record), `lag_s`, `transaction_s` (0.0 if there is
            none) and `is_alive` (0 or 1).
        """
        status = self.status()
        oldest = status.oldest
        return {
            **asdict(status.counts),
            "in_flight": status.in_flight,
            "uncommitted": sum(one.uncommitted for one in status.partitions),
            "retrying": status.retrying,
            "partitions": len(status.partitions),
            "waiting_partitions": status.waiting_partitions,
            "oldest_s": 0.0 if oldest is None else oldest.age_s,
            "lag_s": status.lag_s or 0.0,
            "transaction_s": status.transaction_s or 0.0,
            "is_alive": int(status.problem is None),
        }

    def problem(self) -> str | None:
        """Return why the stream is not alive, for the response of a liveness probe.

        Returns:
            None: the stream runs, or has not begun. Otherwise a text: it has ended, has failed, or is stuck, and where.
        """
        return self.status().problem

    @property
    def is_alive(self) -> bool:
        """True if the stream has no `problem()`."""
        return self.problem() is None

    # --- for the run ------------------------------------------------------------------------------------------------

    async def _watch(self, stream: StreamRun, run: Coroutine[Any, Any, StreamSummary], clock: Clock) -> StreamSummary:
        """Run a stream, and observe it until it ends."""
        self._stream, self._clock, self._sightings = stream, clock, Sightings()
        self._counters, self._logged = stream.counters, None
        self._looked_at = clock.monotonic()
        looking = asyncio.ensure_future(self._look_again())
        try:
            summary = await run
        except BaseException as error:
            self._state, self._error = "failed", f"{type(error).__name__}: {text_of(error)}"
            raise
        else:
            self._state = "ended"
            return summary
        finally:
            looking.cancel()
            self._stream = None
            await asyncio.wait({looking})

    @classmethod
    def _unseen(cls) -> StreamMonitor:
        """Make a monitor for a stream without one: it checks rarely, and only logs that the stream is stuck."""
        monitor = cls()
        monitor._interval_s = monitor.stuck_after_s / 10
        return monitor

    def _check_is_free(self) -> None:
        if self._stream is not None:
            raise ConfigError("this StreamMonitor already watches a running stream: give each stream its own monitor")

    async def _look_again(self) -> None:
        while True:
            self._look()
            await asyncio.sleep(self._interval_s)

    def _look(self) -> None:
        stream, clock = self._stream, self._clock
        if stream is None or clock is None:
            return
        now = clock.monotonic()
        blocked_s, self._looked_at = now - self._looked_at, now
        if blocked_s >= self.stuck_after_s:
            log.warning("kafwire: a step blocked a stream's event loop for %.0f s", blocked_s)
        for run in stream.partitions:
            self._sightings.look(run.where, *_oldest(run), now)
        self._sightings.keep({run.where for run in stream.partitions})
        place, seconds = self._stuck(self.status()) or (None, 0.0)
        if place == self._logged:
            return
        self._logged = place
        if place is None:
            log.info("kafwire: a stream that was stuck continues")
        else:
            log.warning("kafwire: a stream is stuck: %s, for %.0f s so far", place, seconds)

    # --- looking ----------------------------------------------------------------------------------------------------

    def _partition(self, run: PartitionRun, now: float, wall_ms: int) -> PartitionStatus:
        offset, step, is_waiting = _oldest(run)
        offsets, stamp = run.offsets, run.oldest_timestamp_ms()
        oldest, lag_s = None, None if offsets is None else 0.0
        if offset is not None:
            age_s, step_s = self._sightings.age(run.where, offset, step, is_waiting, now)
            oldest = OldestRecord(*run.where, offset, age_s, step, step_s, is_waiting)
            lag_s = None if stamp is None else max(0.0, (wall_ms - stamp) / 1000)
        return PartitionStatus(
            *run.where,
            run.in_flight,
            0 if offsets is None else offsets.uncommitted,
            None if offsets is None else offsets.committable,
            run.is_waiting,
            lag_s,
            oldest,
        )

    def _end(self) -> str | None:
        if self._state == "failed":
            return f"the stream has failed: {self._error}"
        return "the stream has ended" if self._state == "ended" else None

    def _problem(self, status: StreamStatus, now: float) -> str | None:
        blocked_s = now - self._looked_at
        if blocked_s >= self.stuck_after_s:
            call = None if self._stream is None else self._stream.calls.oldest()
            longest = "" if call is None else f"; the longest call is {call[1]}"
            return f"the stream is stuck: its event loop has been blocked for {blocked_s:.0f} s{longest}"
        place, seconds = self._stuck(status) or (None, 0.0)
        return None if place is None else f"the stream is stuck: {place}, for {seconds:.0f} s so far"

    def _stuck(self, status: StreamStatus) -> tuple[str, float] | None:
        """Return where the stream is stuck, and the seconds: at the oldest record of a partition, or in another call.

        The monitor may see an oldest record one interval after its call began. So it reports calls one interval later
        than records.
        """
        found = stuck(status, self.stuck_after_s)
        if found is not None:
            return found
        call = None if self._stream is None else self._stream.calls.oldest()
        longest_s = 0.0 if call is None else call[0] / 1000
        return None if call is None or longest_s < self.stuck_after_s + self._interval_s else (call[1], longest_s)


def _oldest(run: PartitionRun) -> tuple[int | None, str, bool]:
    """Return a partition's oldest uncommitted offset, its step, and whether it waits deliberately."""
    offsets = run.offsets
    if offsets is None or not offsets.uncommitted:
        return None, "", False
    offset = offsets.committable
    return offset, *run.place_of(offset)
