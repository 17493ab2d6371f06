"""Event loops, sockets and pools for kafwire's native threads, even in a process patched by `gevent.monkey`."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING

from kafwire.runtime.patched import SimpleQueue, is_patched, original


def new_event_loop() -> asyncio.AbstractEventLoop:
    """Return an event loop for a native thread."""
    return _NativeEventLoop(original("selectors", "DefaultSelector")()) if is_patched() else asyncio.new_event_loop()


def new_socket(family: int, kind: int) -> socket.socket:
    """Return a socket for such a loop."""
    it: socket.socket = original("socket", "socket")(family, kind)
    return it


def new_executor(workers: int, *, thread_name_prefix: str) -> ThreadPoolExecutor:
    """Return a pool of threads that call user functions: greenlets if gevent patched threads."""
    pool = ThreadPoolExecutor(workers, thread_name_prefix=thread_name_prefix)
    if is_patched() and not sys.modules["gevent.monkey"].is_module_patched("threading"):
        # the module's queue is patched, but the pool's threads are native, and have no hub
        pool._work_queue = SimpleQueue()
    return pool


class _NativeEventLoop(asyncio.SelectorEventLoop):
    """A loop with the original selector, woken over original sockets."""

    if TYPE_CHECKING:
        _internal_fds: int
        _add_reader: Callable[[int, Callable[[], object]], object]
        _read_from_self: Callable[[], object]

    def _make_self_pipe(self) -> None:
        # `socket.socketpair()`, which asyncio uses here, would make cooperative sockets.
        kind = original("socket", "socket")
        self._ssock, self._csock = (kind(fileno=it.detach()) for it in original("_socket", "socketpair")())
        self._ssock.setblocking(False)
        self._csock.setblocking(False)
        self._internal_fds += 1
        self._add_reader(self._ssock.fileno(), self._read_from_self)
