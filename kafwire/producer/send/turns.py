"""The timer and the background tasks that make a sender run again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Hashable
from typing import Any

from kafwire.cluster.backoff import delay_ms
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import producer_log as log

SHORTEST_WAIT_MS = 0.1


class Turns:
    """The timer and the tasks of one sender; `on_turn` is called when the sender should run."""

    def __init__(self, engine: Engine, config: ProducerConfig, on_turn: Callable[[], object]) -> None:
        self._engine = engine
        self._config = config
        self._on_turn = on_turn
        self._tasks: dict[Hashable, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._timer_due = 0.0
        self._failures = 0
        self.last_problem = ""
        self.is_stopped = False

    def wake_in(self, wait_ms: float) -> None:
        """Call `on_turn` within `wait_ms`."""
        wait_ms = max(wait_ms, SHORTEST_WAIT_MS)  # timers fire a little early: the rest would take many iterations
        due = self._engine.now_ms() + wait_ms
        if self._timer is not None:
            if self._timer_due <= due:
                return
            self._timer.cancel()
        self._timer_due = due
        self._timer = asyncio.get_running_loop().call_later(wait_ms / 1000, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._on_turn()

    def run(self, name: Hashable, coroutine: Any, on_error: Callable[[BaseException], object] | None = None) -> None:
        """Run one task per name at a time, and call `on_turn` when it is done, or after a back-off if it failed."""
        if name in self._tasks or self.is_stopped:
            coroutine.close()
            return
        task = self._tasks[name] = asyncio.ensure_future(coroutine)

        def done(task: asyncio.Task[None]) -> None:
            self._tasks.pop(name, None)
            if task.cancelled() or self.is_stopped:
                return
            error = task.exception()
            if error is None:
                self._failures = 0
                self._on_turn()
                return
            if not isinstance(error, KafkaError) and str(error) != self.last_problem:
                log.error("kafwire: a task of a producer failed, and will be retried", exc_info=error)
            self.last_problem = str(error)
            if on_error is not None:
                on_error(error)
            self._failures += 1
            wait = delay_ms(
                self._failures,
                self._config.retry_backoff_ms,
                self._config.retry_backoff_max_ms,
                self._engine.random.random(),
            )
            self.wake_in(wait)

        task.add_done_callback(done)

    def all_is_well(self) -> None:
        """Reset the back-off: brokers accept batches."""
        self._failures = 0

    def stop(self) -> None:
        """Stop the timer and cancel all tasks."""
        self.is_stopped = True
        if self._timer is not None:
            self._timer.cancel()
        for task in list(self._tasks.values()):
            task.cancel()
