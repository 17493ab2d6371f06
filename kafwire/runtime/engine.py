"""The engine: a private asyncio loop in a thread of its own, one per process, started on first use.

All protocol decisions run on it. User threads submit work with `run` and `start`, and wait without the GIL. The engine
never outlives the interpreter's finalisation, and a forked child never touches its parent's.

The thread runs no user code, which could wait for it: log lines and metrics hooks run in the thread of `Reports`,
delivery callbacks in a `CallbackThread`, coroutines of token providers in a `ForeignLoop`. An exit or an interrupt
raised on the loop nevertheless is logged, and the loop continues. An error of the loop itself ends the engine: every
pending call and delivery fails with it, and the next client starts another engine.
"""

from __future__ import annotations

import asyncio
import atexit
import contextlib
import os
import random
import sys
import time
import weakref
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from types import FrameType
from typing import Any, ParamSpec, TypeVar

from kafwire.errors import FORKED, KafkaError
from kafwire.runtime._interfaces import Clock, Waiter
from kafwire.runtime._io import Loop
from kafwire.runtime.blocking_call import ENDED, BlockingCall
from kafwire.runtime.callbacks import CallbackThread
from kafwire.runtime.daemon_threads import DaemonThreads
from kafwire.runtime.foreign_loop import ForeignLoop
from kafwire.runtime.host_process import at_child_exit, check_runtime, quiet_daemon_threads
from kafwire.runtime.interfaces import Member, PendingCall
from kafwire.runtime.log import leave_by, log, muted
from kafwire.runtime.native_loop import new_event_loop
from kafwire.runtime.native_transport import NativeTransport
from kafwire.runtime.patched import allocate_lock, get_ident, new_thread
from kafwire.runtime.reports import Reports
from kafwire.runtime.resolver import SystemResolver
from kafwire.runtime.stream_threads import stream_threads

_T = TypeVar("_T")
_P = ParamSpec("_P")

# How long the interpreter's end waits for threads to return from Arrow streams, and for those of `in_thread`.
LEAVE_S = 1.0


class NativeEngine:
    """One event loop, one native I/O thread under it, and the thread that runs the loop."""

    def __init__(self, loop: asyncio.AbstractEventLoop | None = None) -> None:
        self._pid = os.getpid()
        self.clock = Clock()
        self.random = random.Random()
        self.resolver = SystemResolver(self)
        self.waiter = Waiter()
        self.reports = Reports()
        self.callbacks = CallbackThread(self.reports.take)
        self._foreign_loop = ForeignLoop()
        self._native = Loop()
        self._loop = new_event_loop() if loop is None else loop
        self._loop.set_debug(False)  # asyncio's debug mode would log slow steps from this thread
        self._loop.set_exception_handler(self._on_problem)
        self.transport = NativeTransport(self._native)
        self._loop.add_reader(self._native.fileno(), self.transport.dispatch)
        self._members: weakref.WeakSet[Member] = weakref.WeakSet()
        self._calls: set[weakref.ref[PendingCall]] = set()  # weak: a call is collected with a dropped task
        self._ending = False
        self._failure: BaseException | None = None  # the error that ended the engine
        self._threads = DaemonThreads()
        self._thread = new_thread(self._main, name="kafwire-engine")
        self._thread.start()

    @property
    def native(self) -> Loop:
        """The native I/O thread, for its statistics."""
        return self._native

    def now_ms(self) -> float:
        """Monotonic milliseconds: the only clock for decisions."""
        return self.clock.monotonic() * 1000.0

    def check_process(self) -> None:
        """Raise `KafkaError` in a forked child: it has no sockets and threads."""
        if os.getpid() != self._pid:
            raise KafkaError(FORKED)

    def check_caller(self) -> None:
        """Raise `KafkaError` if the caller must not wait for the engine: in a fork, at the end, in a callback."""
        self.check_process()
        if self._ending:
            raise KafkaError("the interpreter is ending: no more calls are possible")
        if self._failure is not None:
            raise self._ended()
        if self.callbacks.is_current or get_ident() == self._thread.ident:
            raise KafkaError("a blocking call was made from a delivery callback: make it in another thread")

    @property
    def is_foreign(self) -> bool:
        """True if this process is a fork of the engine's."""
        return os.getpid() != self._pid

    @property
    def has_failed(self) -> bool:
        """True if an error ended this engine."""
        return self._failure is not None

    @property
    def is_over(self) -> bool:
        """True if nothing needs to be closed here: in a fork, once the interpreter ends, or after the engine ended."""
        return self._ending or self.has_failed or self.is_foreign  # the end first: it clears modules

    def run(self, function: Callable[_P, Coroutine[Any, Any, _T]], /, *args: _P.args, **kwargs: _P.kwargs) -> _T:
        """Call `function` on the engine, and wait for its coroutine's result; an interrupt cancels it."""
        self.check_caller()
        call = BlockingCall(partial(function, *args, **kwargs), self._thread.is_alive)
        try:
            self.expect(call)
            if not self.start(call.begin):
                raise self._ended()
            return call.result()
        except BaseException:
            self.start(call.cancel)
            raise
        finally:
            self.forget(call)

    def expect(self, call: PendingCall) -> None:
        """Fail `call` if this engine ends before `forget`. Raises `KafkaError` if it has ended."""
        self._calls.add(weakref.ref(call, self._calls.discard))
        if self._failure is not None:  # checked second: the engine sets it before it reads the calls
            raise self._ended()

    def forget(self, call: PendingCall) -> None:
        """Forget a finished `call`."""
        self._calls.discard(weakref.ref(call))

    def start(self, function: Callable[..., object], *args: object) -> bool:
        """Schedule `function` on the engine; from any thread. False in a fork, or after the end."""
        if self.is_foreign:
            return False
        try:
            self._loop.call_soon_threadsafe(function, *args)
        except RuntimeError:  # the loop is closed
            return False
        return True

    def in_thread(self, name: str, function: Callable[..., _T], *args: object) -> asyncio.Future[_T]:
        """Run a function that may block in a daemon thread; only the caller that awaits the future waits for it.

        On the engine only. The future gets a `RuntimeError` if no thread can be started any more.
        """
        future: asyncio.Future[_T] = self._loop.create_future()

        def end(result: _T | None, error: BaseException | None) -> None:
            if future.done():
                return
            if error is not None:
                future.set_exception(error)
                future.exception()  # retrieved: not every caller awaits it
            else:
                future.set_result(result)  # type: ignore[arg-type]

        def work() -> None:
            result, error = None, None
            try:
                result = function(*args)
            except Exception as problem:  # noqa: BLE001 # the future delivers it
                error = problem
            with contextlib.suppress(RuntimeError):  # the engine has ended
                self._loop.call_soon_threadsafe(end, result, error)

        try:
            self._threads.run(name, work)
        except RuntimeError as error:
            end(None, error)
        return future

    def in_loop(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """Await `function()` in the loop for user coroutines; return (its result, its error).

        On the engine only. Cancelling the future cancels the coroutine. Raises `RuntimeError` if no thread can be
        started any more.
        """
        return self._foreign_loop.run(function)

    def join(self, member: Member) -> None:
        """Register `member` to be notified of the end or a fork; only a weak reference is kept."""
        self._members.add(member)

    def stop(self) -> None:
        """End all members, then stop and join both threads. After a failure, delivery callbacks still run."""
        if self.is_foreign or self._ending:
            return
        inside = {thread: _where(thread) for thread in stream_threads()}
        try:
            if not self.has_failed:
                self.run(self._end_members)
            _wait_for_leaving(inside)
        finally:
            self._ending = True
            self.start(self._loop.stop)
            self._thread.join()
            self._foreign_loop.stop()
            until = time.monotonic() + LEAVE_S
            self._threads.stop(LEAVE_S)
            self.callbacks.stop(max(0.0, until - time.monotonic()))
            self.reports.stop(max(0.0, until - time.monotonic()))  # last, as all others log

    def abandon(self) -> None:
        """In a forked child: mark all members unusable; this engine must not be used, nor its descriptors closed."""
        for member in list(self._members):
            member.abandon()

    async def _end_members(self) -> None:
        await asyncio.gather(*(member.end() for member in list(self._members)), return_exceptions=True)

    def _main(self) -> None:
        leave_by(self.reports.take)
        try:
            self._run_loop()
            self._loop.run_until_complete(self._end_tasks())
        except BaseException as error:  # noqa: BLE001 # every pending call raises it
            self._fail(error)
        finally:
            with contextlib.suppress(Exception):  # a failed selector may no longer know a descriptor
                self._loop.remove_reader(self._native.fileno())
            self._native.stop()
            with contextlib.suppress(Exception):
                self._loop.close()

    def _run_loop(self) -> None:
        """Run the loop until `stop`, even if a callback raises SystemExit or KeyboardInterrupt."""
        while not self._ending:
            try:
                self._loop.run_forever()
            except Exception:
                raise
            except BaseException as error:  # SystemExit or KeyboardInterrupt
                log.exception("kafwire: %s was raised on the engine; the engine continues", type(error).__name__)

    def _fail(self, error: BaseException) -> None:
        """Fail all calls that wait for this engine: its loop cannot continue."""
        self._failure = error
        log.error("kafwire: an error ended the engine, and with it all its clients", exc_info=error)
        for reference in list(self._calls):
            call = reference()
            if call is not None:
                call.fail(self._ended())
        asyncio._set_running_loop(self._loop)  # members cancel timers and tasks of this loop
        try:
            for member in list(self._members):
                try:
                    member.fail(self._ended())
                except Exception:
                    log.exception("kafwire: reporting the end of the engine to a client failed")
            for task in asyncio.all_tasks(self._loop):
                with contextlib.suppress(Exception):  # it will never be resumed, and may not have begun
                    task.get_coro().close()
        finally:
            asyncio._set_running_loop(None)

    def _ended(self) -> KafkaError:
        """Return the error of a call that needs this engine after its end."""
        if self._failure is None:
            return KafkaError(ENDED)
        error = KafkaError(f"{ENDED}; {type(self._failure).__name__}: {self._failure}")
        error.__cause__ = self._failure
        return error

    def _on_problem(self, loop: asyncio.AbstractEventLoop, context: dict[str, Any]) -> None:
        """Log an exception that no task and no callback of the loop handles."""
        del loop
        if not self.has_failed:  # tasks of an ended loop are never finished
            log.error("kafwire: %s", context["message"], exc_info=context.get("exception"))

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)


def _where(thread: int) -> tuple[FrameType | None, int]:
    """Return the current frame of a thread, and its instruction index."""
    frame = sys._current_frames().get(thread)
    return frame, frame.f_lasti if frame is not None else -1


def _wait_for_leaving(inside: Mapping[int, tuple[FrameType | None, int]]) -> None:
    """Wait until threads inside a reader's C++ code have returned to Python code, where they may be ended.

    A thread that asks for the GIL once the interpreter is finalised is unwound before Python 3.14, and unwinding C++
    code that does not expect it aborts the process.
    """
    until = time.monotonic() + LEAVE_S
    while time.monotonic() < until and (
        stream_threads() or any(where == _where(thread) != (None, -1) for thread, where in inside.items())
    ):
        time.sleep(0.001)


# By process: a thread of the parent may hold the parent's lock at the fork.
_locks = {os.getpid(): allocate_lock()}
_engine: NativeEngine | None = None
# Parents' engines, kept forever in the child: closing their loop would unregister the parent's descriptors.
_abandoned: list[NativeEngine] = []


def default_engine() -> NativeEngine:
    """Return this process's engine, started if there is none, or if an error ended the last one."""
    global _engine
    lock = _locks.setdefault(os.getpid(), allocate_lock())  # one atomic step
    with lock:
        _abandon_foreign()
        if _engine is not None and not _engine.has_failed:
            return _engine
    check_runtime()
    with muted("asyncio"):  # not under `_lock`: a log handler may make a client, and the module `logging` has a lock
        loop = new_event_loop()
    with lock:
        if _engine is not None and not _engine.has_failed:  # another thread was first
            loop.close()
        else:
            _engine = NativeEngine(loop)
            atexit.register(_stop_at_exit, _engine)
            at_child_exit(_engine.stop)
        return _engine


def _stop_at_exit(engine: NativeEngine) -> None:
    if not engine.is_foreign:
        quiet_daemon_threads(KafkaError)
    engine.stop()


def _abandon_foreign() -> None:
    """Leave a parent's engine to the parent. Servers that fork in C, such as uWSGI, run no hook of Python's."""
    global _engine
    if _engine is not None and _engine.is_foreign:
        _abandoned.append(_engine)
        _engine.abandon()
        _engine = None


os.register_at_fork(after_in_child=_abandon_foreign)
