"""A call that may take long or fail, made once for all coroutines that wait for its result, with a time limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from kafwire.errors import AuthenticationError, KafkaError
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.retrieval import retrieve

_T = TypeVar("_T")

# Threads cannot be killed: with this many calls hung, no more are started.
MAX_HUNG = 4


class SharedCall(Generic[_T]):
    """Calls `function` once for all coroutines that want its result meanwhile. On the engine only.

    A coroutine function runs in the event loop for users' coroutines, and is cancelled after the timeout. Any other
    function runs in a thread; after the timeout that thread is abandoned, and the next caller starts another one.

    Args:
        what: the function's name in errors.
        function: takes no arguments; it may also return an awaitable.
        accept: converts the returned value to the result, on the engine; it may raise `AuthenticationError`.
        timeout_s: how long callers wait.
    """

    def __init__(
        self, what: str, function: Callable[[], object], accept: Callable[[Engine, object], _T], timeout_s: float
    ) -> None:
        self._what = what
        self._function = function
        self._accept = accept
        self._timeout_s = timeout_s
        self._running: asyncio.Task[_T] | None = None
        self._hung = 0

    async def result(self, engine: Engine) -> _T:
        """Return the result. Raises `AuthenticationError` with the reason, and with the cause."""
        running = self._running
        if running is None:
            if self._hung >= MAX_HUNG:
                raise AuthenticationError(f"{self._what} did not respond {self._hung} times, and is not called again")
            running = self._running = asyncio.ensure_future(self._call(engine))
            running.add_done_callback(self._on_done)
        done, _ = await asyncio.wait({running}, timeout=self._timeout_s)
        if not done:
            self._abandon(running)
            raise self._late()
        if running.cancelled():
            raise AuthenticationError(f"{self._what} was cancelled")
        error = running.exception()
        if error is None:
            return running.result()
        if not isinstance(error, AuthenticationError):
            raise error
        raise AuthenticationError(str(error)) from error.__cause__  # a new error for each waiting coroutine

    async def _call(self, engine: Engine) -> _T:
        if is_async(self._function):
            found: object = await self._awaited(engine, cast("Callable[[], Awaitable[object]]", self._function))
        else:
            try:
                found, error = await engine.in_thread("kafwire-login", _attempt, self._function)
            except RuntimeError:
                raise self._no_thread() from None
            if error is not None:
                raise self._failed(error) from error
            if inspect.isawaitable(found):
                made = found
                found = await self._awaited(engine, lambda: made)
        return self._accept(engine, found)

    async def _awaited(self, engine: Engine, function: Callable[[], Awaitable[object]]) -> object:
        """Return a user's coroutine's result, off the engine: it may block, or raise SystemExit."""
        try:
            async with asyncio.timeout(self._timeout_s):
                found, error = await engine.in_loop(function)
        except TimeoutError:
            raise self._late() from None
        except RuntimeError:
            raise self._no_thread() from None
        if isinstance(error, asyncio.CancelledError):
            raise AuthenticationError(f"{self._what} was cancelled") from error
        if error is not None:
            raise self._failed(error) from error
        return found

    def _on_done(self, call: asyncio.Task[_T]) -> None:
        if self._running is call:
            self._running = None
        else:
            self._hung -= 1
        retrieve(call)

    def _abandon(self, call: asyncio.Task[_T]) -> None:
        if self._running is call:
            self._running = None
            self._hung += 1

    def _late(self) -> AuthenticationError:
        return AuthenticationError(f"{self._what} did not respond within {self._timeout_s:g} s")

    def _no_thread(self) -> AuthenticationError:
        return AuthenticationError(f"{self._what} cannot be called: no thread can be started")

    def _failed(self, error: BaseException) -> AuthenticationError:
        """Return an error without the text of a foreign error, which may contain a secret.

        The caller sets the cause.
        """
        if isinstance(error, KafkaError):  # kafwire's own texts contain no secret
            return AuthenticationError(str(error))
        return AuthenticationError(f"{self._what} raised {type(error).__name__}")


def is_async(function: object) -> bool:
    """Return whether a call only creates a coroutine: a coroutine function, or an object with such a `__call__`."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        cast("Callable[..., object]", getattr(function, "__call__", None))  # noqa: B004 # its function is inspected
    )


def _attempt(function: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Return an exception as a result, even one that a future does not accept."""
    try:
        return function(), None
    except BaseException as problem:  # noqa: BLE001 # the waiting coroutines raise it
        return None, problem
