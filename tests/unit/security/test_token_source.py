"""Tokens of a provider: fetched once for all waiting connections, kept, renewed, and refused when they are none."""

from __future__ import annotations

import asyncio
import functools
import gc
import logging
import threading
from collections.abc import Callable
from typing import Any

import pytest

import kafwire
from kafwire.errors import AuthenticationError
from kafwire.runtime.engine import NativeEngine, default_engine
from kafwire.secret import Secret
from kafwire.security.shared_call import MAX_HUNG
from kafwire.security.token_source import TokenSource
from tests.support.deadlines import until
from tests.support.loop_engine import LoopEngine, run
from tests.support.sasl_traps import CANARY, reported
from tests.support.token_server import signed

NOW = 1_700_000_000.0


def once(provider: Callable[[], object], timeout_s: float = 30.0) -> kafwire.OAuthToken:
    """The first token of a provider."""

    async def ask() -> kafwire.OAuthToken:
        return await TokenSource(provider, timeout_s=timeout_s).token(LoopEngine(NOW).engine)

    return run(ask())


def refused(provider: Callable[[], object], said: str, timeout_s: float = 30.0) -> AuthenticationError:
    with pytest.raises(AuthenticationError, match=said) as error:
        once(provider, timeout_s)
    return error.value


async def alone() -> None:
    """Wait until no other task runs."""
    mine = asyncio.current_task()
    others = {task for task in asyncio.all_tasks() if task is not mine}
    if others:
        _, left = await asyncio.wait(others, timeout=30)
        assert not left
    await asyncio.sleep(0)


async def coroutine() -> str:
    await asyncio.sleep(0)
    return "abc"


class Provider:
    async def __call__(self) -> str:
        return await coroutine()


JWT = signed({"exp": NOW + 100})


@pytest.mark.parametrize(
    ("provider", "value", "ends"),
    [
        (lambda: "abc", "abc", None),
        (lambda: Secret("abc"), "abc", None),
        (lambda: JWT, JWT, NOW + 100),
        (lambda: kafwire.OAuthToken("abc", NOW + 7), "abc", NOW + 7),
        (coroutine, "abc", None),
        (functools.partial(coroutine), "abc", None),
        (Provider(), "abc", None),
        (lambda: asyncio.sleep(0, "abc"), "abc", None),
    ],
)
def test_tokens_that_a_provider_may_return(provider: Callable[[], object], value: str, ends: float | None) -> None:
    token = once(provider)
    assert (token.value.reveal(), token.expires_at) == (value, ends)


def test_a_function_runs_in_a_thread_and_a_coroutine_does_not() -> None:
    seen: list[threading.Thread] = []

    def function() -> str:
        seen.append(threading.current_thread())
        return "abc"

    async def awaited() -> str:
        return function()

    async def ask() -> None:
        engine = LoopEngine(NOW)
        await TokenSource(function, timeout_s=30).token(engine.engine)
        assert engine.started == 1
        await TokenSource(awaited, timeout_s=30).token(engine.engine)
        assert engine.started == 1

    run(ask())
    assert seen[0] is not threading.current_thread()
    assert seen[1] is threading.current_thread()


def test_all_waiting_connections_share_one_call() -> None:
    calls: list[int] = []
    gate = threading.Event()

    def provider() -> str:
        calls.append(1)
        assert gate.wait(30)
        return "abc"

    async def ask() -> None:
        engine, source = LoopEngine(NOW), TokenSource(provider, timeout_s=30)
        waiting = [asyncio.ensure_future(source.token(engine.engine)) for _ in range(50)]
        await asyncio.sleep(0)
        waiting[0].cancel()  # a connection that is closed meanwhile takes nothing from the others
        await asyncio.sleep(0)
        gate.set()
        tokens = await asyncio.gather(*waiting[1:])
        assert {token.value.reveal() for token in tokens} == {"abc"}
        assert len(calls) == engine.started == 1
        await source.token(engine.engine)
        assert len(calls) == 2  # its end is not known, so it is not kept

    run(ask())


def test_a_token_is_kept_for_four_fifths_of_its_life() -> None:
    async def ask() -> None:
        engine = LoopEngine(NOW)
        made: list[float] = []

        def provider() -> kafwire.OAuthToken:
            made.append(engine.clock.seconds)
            return kafwire.OAuthToken("abc", engine.clock.seconds + 100)

        source = TokenSource(provider, timeout_s=30)
        for after in (0, 1, 79.9, 80.1, 81, 160, 160.2):
            engine.clock.seconds = NOW + after
            await source.token(engine.engine)
        assert made == [NOW, NOW + 80.1, NOW + 160.2]

    run(ask())


def test_a_kept_token_serves_while_no_other_comes(caplog: pytest.LogCaptureFixture) -> None:
    async def ask() -> None:
        engine = LoopEngine(NOW)
        responses: list[Any] = [kafwire.OAuthToken(CANARY, NOW + 100), KeyError(CANARY), KeyError(CANARY), "new"]

        def provider() -> object:
            response = responses.pop(0)
            if isinstance(response, Exception):
                raise response
            return response

        source = TokenSource(provider, timeout_s=30)
        await source.token(engine.engine)
        engine.clock.seconds = NOW + 90
        with caplog.at_level(logging.DEBUG):
            assert (await source.token(engine.engine)).value.reveal() == CANARY
        assert "the current one stays in use: the OAuth token provider raised KeyError" in caplog.text
        assert CANARY not in caplog.text
        engine.clock.seconds = NOW + 100
        with pytest.raises(AuthenticationError, match="raised KeyError"):
            await source.token(engine.engine)
        assert (await source.token(engine.engine)).value.reveal() == "new"

    run(ask())


@pytest.mark.parametrize(
    ("found", "said"),
    [
        (None, "returned nothing instead of a kafwire.OAuthToken or a text"),
        (("abc", 3), "returned 'tuple' instead"),
        ({"access_token": CANARY}, "returned 'dict' instead"),
        (CANARY.encode(), "returned 'bytes' instead"),
        ("", "returned an empty token"),
        (kafwire.OAuthToken(""), "returned an empty token"),
        (kafwire.OAuthToken(CANARY, NOW - 30), "returned a token that expired 30 s ago"),
        (kafwire.OAuthToken(CANARY, NOW), "returned a token that expired 0 s ago"),
        (signed({"exp": NOW - 5, "sub": CANARY}), "expired 5 s ago"),
    ],
)
def test_results_that_are_no_token(found: object, said: str) -> None:
    assert CANARY not in reported(refused(lambda: found, said))


class Odd(BaseException):
    pass


@pytest.mark.parametrize("error", [KeyError("x"), StopIteration(3), SystemExit(1), Odd(), TimeoutError("x"), OSError()])
def test_a_provider_that_raises(error: BaseException) -> None:
    def function() -> str:
        raise error

    problem = refused(function, f"^the OAuth token provider raised {type(error).__name__}$")
    assert problem.__cause__ is error


@pytest.mark.parametrize("error", [KeyError("x"), TimeoutError("x"), OSError()])
def test_a_coroutine_that_raises(error: Exception) -> None:
    async def function() -> str:
        raise error

    problem = refused(function, f"^the OAuth token provider raised {type(error).__name__}$")
    assert problem.__cause__ is error


def test_a_coroutine_that_is_cancelled() -> None:
    async def function() -> str:
        raise asyncio.CancelledError

    refused(function, "the OAuth token provider was cancelled")


def test_its_own_error_is_passed_on() -> None:
    def function() -> str:
        raise AuthenticationError("the vault is sealed")

    refused(function, "^the vault is sealed$")


def test_a_provider_that_hangs_is_given_up_and_asked_again() -> None:
    gate = threading.Event()
    calls: list[int] = []

    def provider() -> str:
        calls.append(1)
        if len(calls) == 1:
            assert gate.wait(30)
        return f"token{len(calls)}"

    async def ask() -> None:
        engine, source = LoopEngine(NOW), TokenSource(provider, timeout_s=0.05)
        with pytest.raises(AuthenticationError, match="the OAuth token provider did not respond within 0.05 s"):
            await source.token(engine.engine)
        assert (await source.token(engine.engine)).value.reveal() == "token2"
        gate.set()

    run(ask())


def test_no_more_threads_hang_than_the_limit() -> None:
    gate = threading.Event()
    calls: list[int] = []

    def provider() -> str:
        calls.append(1)
        assert gate.wait(30)
        return "abc"

    async def ask() -> None:
        engine, source = LoopEngine(NOW), TokenSource(provider, timeout_s=0.03)
        for _ in range(MAX_HUNG):
            with pytest.raises(AuthenticationError, match="did not respond within"):
                await source.token(engine.engine)
        with pytest.raises(AuthenticationError, match=f"did not respond {MAX_HUNG} times, and is not called again"):
            await source.token(engine.engine)
        assert len(calls) == MAX_HUNG
        gate.set()
        async with asyncio.timeout(30):
            while True:  # those that come back make room
                try:
                    token = await source.token(engine.engine)
                except AuthenticationError:
                    await asyncio.sleep(0.01)
                else:
                    assert token.value.reveal() == "abc"
                    return

    run(ask())


def test_a_coroutine_that_hangs_is_cancelled() -> None:
    ended: list[str] = []

    async def provider() -> str:
        try:
            await asyncio.sleep(100)
        finally:
            ended.append("cancelled")
        return "abc"

    async def ask() -> None:
        with pytest.raises(AuthenticationError, match="did not respond within 0.05 s"):
            await TokenSource(provider, timeout_s=0.05).token(LoopEngine(NOW).engine)
        await alone()
        assert ended == ["cancelled"]

    run(ask())


def test_an_error_without_a_waiting_connection_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    gate = threading.Event()

    def provider() -> str:
        assert gate.wait(30)
        raise KeyError("x")

    async def ask() -> None:
        engine, source = LoopEngine(NOW), TokenSource(provider, timeout_s=0.02)
        with pytest.raises(AuthenticationError):
            await source.token(engine.engine)
        gate.set()
        await alone()
        gc.collect()

    run(ask())
    assert not caplog.records


def test_on_the_real_engine() -> None:
    source = TokenSource(lambda: JWT, timeout_s=30)
    engine = default_engine()
    with pytest.raises(AuthenticationError, match="returned a token that expired"):
        engine.run(source.token, engine)
    good = TokenSource(lambda: kafwire.OAuthToken("abc", 4e9), timeout_s=30)
    assert engine.run(good.token, engine) is engine.run(good.token, engine)
    seen: list[str] = []

    def stops() -> str:
        seen.append(threading.current_thread().name)
        raise StopIteration

    with pytest.raises(AuthenticationError, match="raised StopIteration"):
        engine.run(TokenSource(stops, timeout_s=30).token, engine)
    until(lambda: seen == ["kafwire-login"])


def test_a_fetch_that_comes_late_is_kept() -> None:
    gate = threading.Event()
    calls: list[int] = []

    def provider() -> kafwire.OAuthToken:
        calls.append(1)
        assert gate.wait(30)
        return kafwire.OAuthToken("abc", NOW + 100)

    async def ask() -> None:
        engine, source = LoopEngine(NOW), TokenSource(provider, timeout_s=0.02)
        with pytest.raises(AuthenticationError):
            await source.token(engine.engine)
        gate.set()
        await alone()
        assert (await source.token(engine.engine)).value.reveal() == "abc"
        assert len(calls) == 1

    run(ask())


def test_a_coroutine_that_blocks_does_not_hold_up_the_engine() -> None:
    """The coroutine may log by a handler that sends to Kafka, and so wait for the engine."""
    may_return, entered = threading.Event(), threading.Event()

    async def blocks() -> str:
        entered.set()
        may_return.wait(30)
        return "token"

    engine = NativeEngine()
    source = TokenSource(blocks, timeout_s=30)
    found: list[str] = []
    asking = threading.Thread(target=lambda: found.append(engine.run(source.token, engine).value.reveal()))
    asking.start()
    assert entered.wait(30)
    assert engine.run(asyncio.sleep, 0, "alive") == "alive"
    may_return.set()
    asking.join(30)
    assert found == ["token"]
    engine.stop()


@pytest.mark.parametrize("error", [SystemExit("no credentials"), KeyboardInterrupt()], ids=["exit", "interrupt"])
def test_a_coroutine_that_ends_the_program_is_an_error_of_its_connection(error: BaseException) -> None:
    async def leaves() -> str:
        raise error

    engine = NativeEngine()
    source = TokenSource(leaves, timeout_s=30)
    for _ in range(2):
        with pytest.raises(AuthenticationError, match=f"provider raised {type(error).__name__}") as raised:
            engine.run(source.token, engine)
        assert raised.value.__cause__ is error
    assert engine.run(asyncio.sleep, 0, "alive") == "alive"
    engine.stop()
