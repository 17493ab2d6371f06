"""The engine: a private asyncio loop in a thread of kafwire's own, one per process, started on first use.

Everything under `net/` runs on it. User threads hand work over with `run` and `start`, and wait without the GIL. The
engine never outlives the interpreter's finalisation, and a forked child never touches its parent's.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
import time
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

from kafwire._io import Loop
from kafwire.errors import KafkaError
from kafwire.net.transport import NativeTransport

_T = TypeVar("_T")


class Engine:
    """One event loop, one native I/O thread under it, and the thread that runs the loop."""

    def __init__(self) -> None:
        self._pid = os.getpid()
        self._native = Loop()
        self._loop = asyncio.new_event_loop()
        self.transport = NativeTransport(self._native)
        self._loop.add_reader(self._native.fileno(), self.transport.dispatch)
        self._thread = threading.Thread(target=self._main, name="kafwire-engine", daemon=True)
        self._thread.start()

    @property
    def native(self) -> Loop:
        """The native I/O thread; other extensions submit to it without the GIL."""
        return self._native

    def now_ms(self) -> float:
        """Monotonic milliseconds: the only clock that decisions are made on."""
        return time.monotonic() * 1000.0

    def check_process(self) -> None:
        """Raise `KafkaError` in a forked child: sockets and threads did not come along."""
        if os.getpid() != self._pid:
            raise KafkaError("this client was made before a fork: make a new one in the child process")

    @property
    def is_foreign(self) -> bool:
        """Whether this process is a fork of the engine's."""
        return os.getpid() != self._pid

    def run(self, coroutine: Coroutine[Any, Any, _T]) -> _T:
        """Run `coroutine` on the engine and wait for what it returns; an interrupt cancels it."""
        try:
            self.check_process()
            if threading.current_thread() is self._thread:
                raise KafkaError("a blocking call was made from a delivery callback: hand the work to another thread")
        except KafkaError:
            coroutine.close()
            raise
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def start(self, function: Callable[..., object], *args: object) -> None:
        """Call `function` on the engine soon; from any thread. Does nothing once the engine has ended."""
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(function, *args)

    def stop(self) -> None:
        """Stop and join both threads."""
        if self.is_foreign or not self._thread.is_alive():
            return
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()

    def _main(self) -> None:
        try:
            self._loop.run_forever()
            self._loop.run_until_complete(self._end_tasks())
        finally:
            self._loop.remove_reader(self._native.fileno())
            self._native.stop()
            self._loop.close()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._loop.shutdown_default_executor()


_lock = threading.Lock()
_engine: Engine | None = None
# Parents' engines, kept for ever in the child: closing their loop would unregister the parent's descriptors.
_abandoned: list[Engine | None] = []


def engine() -> Engine:
    """This process's engine, started if need be."""
    global _engine
    with _lock:
        if _engine is None:
            _engine = Engine()
            atexit.register(_engine.stop)
        return _engine


def _after_fork_in_child() -> None:
    global _engine, _lock
    _abandoned.append(_engine)
    _engine = None
    _lock = threading.Lock()


os.register_at_fork(after_in_child=_after_fork_in_child)
