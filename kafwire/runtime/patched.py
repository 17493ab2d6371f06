"""Threads, locks and waits of kafwire, even in a process patched by `gevent.monkey`.

The engine's thread and kafwire's other threads are native in any process, and so are their locks and queues: this
module has the originals, `native_loop` those of selectors and sockets. A greenlet that waits for one of them yields to
its hub. Without gevent each name here is the standard library's, and a wait costs one look into `sys.modules`. kafwire
never imports gevent.
"""

from __future__ import annotations

import sys
import threading
import time
from _queue import SimpleQueue  # gevent patches the module `queue`, not `_queue`
from collections import deque
from collections.abc import Callable
from importlib import import_module
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

from kafwire.runtime._interfaces import Waiter

__all__ = [
    "Lock",
    "SimpleQueue",
    "Thread",
    "allocate_lock",
    "allocate_reentrant_lock",
    "get_ident",
    "is_patched",
    "main_ident",
    "new_thread",
    "original",
    "reader_waiter",
    "thread_local",
    "thread_name",
    "wait_lock",
]

_T = TypeVar("_T")

_MODULES = ("_thread", "threading", "select", "selectors", "socket", "time")
# The longest wait of a greenlet before it checks again. Its timer keeps the hub alive meanwhile.
_SLICE_S = 1.0


class Lock(Protocol):
    """The common part of both kinds of locks."""

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # as `_thread.lock`
        """Take the lock; return whether it was taken."""

    def release(self) -> None:
        """Release the lock; from any thread."""


class Thread(Protocol):
    """The part of `threading.Thread` that kafwire uses."""

    name: str

    @property
    def ident(self) -> int | None:
        """The native identifier; None before `start`."""

    def start(self) -> None:
        """Start the thread. Raises `RuntimeError` if no thread can be started any more."""

    def join(self, timeout: float | None = None) -> None:
        """Wait for the thread's end, at most `timeout` seconds."""

    def is_alive(self) -> bool:
        """Return whether the thread runs."""


def is_patched() -> bool:
    """Return whether gevent has patched threads, selectors or sockets."""
    monkey = sys.modules.get("gevent.monkey")
    return monkey is not None and any(map(monkey.is_module_patched, _MODULES))


def original(module: str, name: str) -> Any:
    """Return a name of the standard library as it was before gevent patched it."""
    monkey = sys.modules.get("gevent.monkey")
    return getattr(import_module(module), name) if monkey is None else monkey.get_original(module, name)


allocate_lock: Callable[[], Any] = original("_thread", "allocate_lock")
allocate_reentrant_lock: Callable[[], Any] = original("_thread", "RLock")
get_ident: Callable[[], int] = original("_thread", "get_ident")
if TYPE_CHECKING:
    thread_local = threading.local
else:
    thread_local = original("_thread", "_local")

_names: dict[int, str] = {}  # of native threads in a patched process, unknown to `threading`
_patched_main = get_ident() if is_patched() and threading.main_thread().native_id == threading.get_native_id() else 0


def main_ident() -> int:
    """Return the native identifier of the main thread; 0: unknown."""
    return _patched_main if is_patched() else threading.main_thread().ident or 0


def thread_name() -> str:
    """Return the name of the current thread."""
    return _names.get(get_ident()) or threading.current_thread().name


def new_thread(target: Callable[..., object], args: tuple[Any, ...] = (), *, name: str) -> Thread:
    """Return a native daemon thread, not yet started."""
    if is_patched():
        return _NativeThread(target, args, name)
    return threading.Thread(target=target, args=args, name=name, daemon=True)


def wait_lock() -> Lock:
    """Return a locked lock: one caller waits for it, and any thread releases it."""
    lock: Lock = _GreenletLock() if is_patched() else allocate_lock()
    lock.acquire()
    return lock


def reader_waiter(waiter: Waiter, await_news: Callable[[float | None], object]) -> Waiter:
    """Return the waiter of a caller that reads records: `waiter`, or one for greenlets.

    `await_news(timeout_ms)` waits, cooperatively, until there may be something to read (None: no limit).
    """
    return _GreenletWaiter(await_news) if is_patched() and type(waiter) is Waiter else waiter


class _GreenletWaiter(Waiter):
    """Waits for records outside the attempt to read, which blocks in C and would block the hub."""

    def __init__(self, await_news: Callable[[float | None], object]) -> None:
        self._await_news = await_news

    def wait(self, attempt: Callable[[float | None], _T], timeout_s: float | None) -> _T:
        until = None if timeout_s is None else time.monotonic() + timeout_s
        while (found := attempt(0.0)) is None:
            left_s = None if until is None else until - time.monotonic()
            if left_s is not None and left_s <= 0:
                break
            self._await_news(None if left_s is None else left_s * 1000)
        return found


class _GreenletLock:
    """A lock that a greenlet waits for while its hub runs other greenlets. A thread without greenlets may wait too."""

    __slots__ = ("_lock", "_waiting")

    def __init__(self) -> None:
        self._lock = allocate_lock()
        self._waiting: deque[Callable[[], object]] = deque()  # functions that wake the waiters

    def acquire(self, blocking: bool = True, timeout: float = -1) -> bool:  # as `_thread.lock`
        if self._lock.acquire(False):
            return True
        if not blocking or timeout == 0:
            return False
        until = None if timeout < 0 else time.monotonic() + timeout
        loop, news = _gevent("gevent").get_hub().loop, _gevent("gevent.event").Event()

        def wake() -> None:
            loop.run_callback_threadsafe(news.set)

        self._waiting.append(wake)
        try:
            # The waiter registers before it tries, and a release wakes after it released: no release is missed.
            while not self._lock.acquire(False):
                left = _SLICE_S if until is None else min(_SLICE_S, until - time.monotonic())
                if left <= 0:
                    return False
                news.wait(left)
                news.clear()
            return True
        finally:
            self._waiting.remove(wake)

    def release(self) -> None:
        self._lock.release()
        for wake in list(self._waiting):
            wake()


class _NativeThread:
    """A native thread unknown to `threading`, whose threads are greenlets after the patch."""

    def __init__(self, target: Callable[..., object], args: tuple[Any, ...], name: str) -> None:
        self._target, self._args, self._name = target, args, name
        self._ident: int | None = None
        self._begun = allocate_lock()
        self._end = _GreenletLock()
        self._end.acquire()
        self._is_over = False

    @property
    def name(self) -> str:
        return self._name

    @name.setter
    def name(self, name: str) -> None:
        self._name = name
        if self._ident is not None:
            _names[self._ident] = name

    @property
    def ident(self) -> int | None:
        return self._ident

    def start(self) -> None:
        self._begun.acquire()
        try:
            original("_thread", "start_new_thread")(self._main, ())
        except BaseException:
            self._is_over = True
            raise
        self._begun.acquire()  # takes microseconds; no other greenlet runs meanwhile

    def _main(self) -> None:
        self._ident = get_ident()
        _names[self._ident] = self._name
        target, args = self._target, self._args
        del self._target, self._args
        self._begun.release()
        try:
            target(*args)
        finally:
            del target, args
            self._is_over = True
            _names.pop(self._ident, None)
            _drop_hub()
            self._end.release()

    def is_alive(self) -> bool:
        return self._ident is not None and not self._is_over

    def join(self, timeout: float | None = None) -> None:
        if self._end.acquire(timeout=-1 if timeout is None else max(0.0, timeout)):
            self._end.release()


def _drop_hub() -> None:
    """Destroy gevent's hub of the current thread, which used patched sockets or locks."""
    hub = _gevent("gevent._hub_local").get_hub_if_exists()
    if hub is not None:
        hub.destroy(destroy_loop=True)


def _gevent(module: str) -> Any:
    """Return a gevent module, in a process that gevent patched."""
    return import_module(module)
