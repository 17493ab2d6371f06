"""A call that may take long, and fail in any way, made once for all who wait for its result, within a time limit."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Generic, TypeVar, cast

from kafwire.errors import AuthenticationError, KafkaError
from kafwire.runtime.interfaces import Engine

_T = TypeVar("_T")

# A thread cannot be ended. No more are begun while so many do not come back.
MAX_HUNG = 4


class SharedCall(Generic[_T]):
    """Calls `function` on behalf of all who ask meanwhile. On the engine only.

    A coroutine function runs in the loop for coroutines of the user's, and is cancelled when the time is over. Any
    other runs in a thread, which is left alone then: the next who asks gets another one.

    Args:
        what: what is called, as errors name it.
        function: without arguments; it may return something to await, too.
        accept: makes the result of what was returned, on the engine; it may raise `AuthenticationError`.
        timeout_s: for how long anybody waits.
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
        """Its result. Raises `AuthenticationError`, which says what went wrong, with the cause."""
        running = self._running
        if running is None:
            if self._hung >= MAX_HUNG:
                raise AuthenticationError(f"{self._what} did not answer {self._hung} times, and is not asked again")
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
        raise AuthenticationError(str(error)) from error.__cause__  # one for each who waits

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
        """What a coroutine of the user's returns, off the engine: it may block, and raise even what ends a program."""
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
        if not call.cancelled():
            call.exception()  # not everybody waited for it

    def _abandon(self, call: asyncio.Task[_T]) -> None:
        if self._running is call:
            self._running = None
            self._hung += 1

    def _late(self) -> AuthenticationError:
        return AuthenticationError(f"{self._what} did not answer within {self._timeout_s:g} s")

    def _no_thread(self) -> AuthenticationError:
        return AuthenticationError(f"{self._what} cannot be asked: no thread can be started")

    def _failed(self, error: BaseException) -> AuthenticationError:
        """The text of a foreign error is not repeated: it may name a secret. It is the cause."""
        if isinstance(error, KafkaError):  # kafwire's own texts show no secret
            return AuthenticationError(str(error))
        return AuthenticationError(f"{self._what} raised {type(error).__name__}")


def is_async(function: object) -> bool:
    """Whether a call only makes a coroutine: a coroutine function, or an object whose `__call__` is one."""
    return inspect.iscoroutinefunction(function) or inspect.iscoroutinefunction(
        cast("Callable[..., object]", getattr(function, "__call__", None))  # noqa: B004 # its function is looked at
    )


def _attempt(function: Callable[[], object]) -> tuple[object, BaseException | None]:
    """Whatever it raises is a result, even what a future does not take."""
    try:
        return function(), None
    except BaseException as problem:  # noqa: BLE001 # whoever waits is told
        return None, problem
