"""SASL on a broker connection: the first authentication and later ones (KIP-43, KIP-152, KIP-368)."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthenticationError, KafkaConnectionError, broker_error
from kafwire.foreign_text import printable
from kafwire.lazy_dataclass import dataclass
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.retrieval import retrieve

if TYPE_CHECKING:
    from kafwire.security.login import Login
    from kafwire.security.sasl.exchange import Exchange

# Sends a request in a given version, even on a held connection, and returns the decoded response.
Send = Callable[[Any, int], Awaitable[Any]]

# A session is renewed after this part of its lifetime, plus a random share of the next part, as in Java.
RENEW_AFTER, RENEW_WITHIN = 0.85, 0.10
# Brokers accept no second authentication within a second: they report it as an unexpected request.
LEAST_RENEWAL_MS = 1_100.0
THREAD = "kafwire-sasl"
# A thread cannot be stopped. With this many stuck threads, a connection starts no more.
MAX_HUNG = 4


@dataclass(slots=True)
class Prepared:
    """An exchange that has begun. Its next message is not shown in `repr`: with PLAIN, it is the password."""

    exchange: Exchange
    message: bytes | None = field(repr=False)
    epoch: int = 0


class Authentication:
    """Authenticates this client to one broker.

    Args:
        engine: the connection's engine.
        login: the client's credentials.
        host: the broker's host name, as the client knows it.
        timeout_ms: time limit of a step that asks another server than the broker, such as Kerberos' KDC.
    """

    def __init__(self, engine: Engine, login: Login, host: str, timeout_ms: float) -> None:
        self._engine = engine
        self._login = login
        self._host = host
        self._timeout_ms = timeout_ms
        self._hung = 0
        self._has_others = False

    @property
    def mechanism(self) -> str:
        """The mechanism's name."""
        return self._login.mechanism

    async def prepare(self) -> Prepared:
        """Start an exchange and make its first message: all steps that need no broker.

        Raises `AuthenticationError` if there is no token, ticket or credentials, or none in time.
        """
        self._has_others = False
        epoch = self._login.epoch
        exchange = await self._login.exchange(self._engine, self._host)
        return Prepared(exchange, await self._step(exchange, exchange.first), epoch)

    @property
    def has_other_credentials(self) -> bool:
        """True if the broker refused the last exchange, and the next one has other credentials."""
        return self._has_others

    async def run(self, prepared: Prepared, send: Send, versions: dict[int, tuple[int, int]], where: str) -> float:
        """Authenticate; return the session lifetime in milliseconds, 0 for no limit.

        Raises `AuthenticationError`, and the errors of `send`.
        """
        exchange = prepared.exchange
        await self._choose(exchange.mechanism, send, versions, where)
        request = protocol.SaslAuthenticateRequest
        low, high = versions.get(request.api_key, (request.min_version, request.max_version))
        version = min(high, request.max_version)
        if version < low:
            raise AuthenticationError(f"{where} supports no version of SaslAuthenticate that kafwire supports")
        try:
            lifetime_ms = await self._talk(prepared, send, version, where)
        except AuthenticationError as refusal:
            now = self._engine.clock.time_ns() / 1e9
            self._has_others = self._login.refused(self._host, prepared.epoch, now, str(refusal))
            raise
        if self._login.is_by_delegation_token and version >= request.SESSION_LIFETIME and lifetime_ms <= 0:
            # Brokers accept such a token, but close the connection at the first request.
            raise AuthenticationError(
                f"{where} reports that the delegation token {self._login.identity} has expired: get a new one"
            )
        self._login.accepted(self._host)
        return float(lifetime_ms)

    async def _talk(self, prepared: Prepared, send: Send, version: int, where: str) -> int:
        lifetime_ms = 0
        while prepared.message is not None:
            response = await send(protocol.SaslAuthenticateRequest(auth_bytes=prepared.message), version)
            if response.error_code:
                raise self._refusal(response.error_code, response.error_message, where)
            lifetime_ms = response.session_lifetime_ms
            prepared.message = await self._step(prepared.exchange, prepared.exchange.respond, response.auth_bytes)
        return lifetime_ms

    def renew_in_ms(self, lifetime_ms: float) -> float:
        """Return when to authenticate again: before the session ends, and not together with all other connections."""
        return max(LEAST_RENEWAL_MS, lifetime_ms * (RENEW_AFTER + RENEW_WITHIN * self._engine.random.random()))

    async def _choose(self, mechanism: str, send: Send, versions: dict[int, tuple[int, int]], where: str) -> None:
        request = protocol.SaslHandshakeRequest
        low, high = versions.get(request.api_key, (0, -1))
        version = request.IN_REQUESTS
        if not low <= version <= high:
            raise AuthenticationError(
                f"{where} does not support SaslHandshake version {version}: Kafka 1.0 or later is needed"
            )
        response = await send(request(mechanism=mechanism), version)
        if response.error_code == ErrorCode.UNSUPPORTED_SASL_MECHANISM:
            offered = printable(", ".join(response.mechanisms)) or "none"
            raise AuthenticationError(
                f"{where} does not offer sasl_mechanism={mechanism} on this listener; it offers {offered}"
            )
        if response.error_code == ErrorCode.ILLEGAL_SASL_STATE:
            raise AuthenticationError(
                f"{where} expects no SASL: set security_protocol to that of the listener, PLAINTEXT or SSL"
            )
        if response.error_code:
            raise self._refusal(response.error_code, None, where)

    def _refusal(self, code: int, message: str | None, where: str) -> Exception:
        if code == ErrorCode.SASL_AUTHENTICATION_FAILED:
            said = f": {printable(message)}" if message else ""
            return AuthenticationError(f"{where} refused {self._login.identity} by {self.mechanism}{said}")
        error = broker_error(code, f"{self.mechanism} with {where}" + (f": {message}" if message else ""))
        return KafkaConnectionError(str(error)) if error.retriable else AuthenticationError(str(error))

    async def _step(self, exchange: Exchange, function: Callable[..., Any], *arguments: bytes) -> Any:
        if not exchange.blocks(arguments[0] if arguments else None):
            return function(*arguments)
        asked = self._login.asks
        if self._hung >= MAX_HUNG:
            raise AuthenticationError(f"{asked} did not respond {self._hung} times; kafwire stopped asking")
        call = self._engine.in_thread(THREAD, function, *arguments)
        try:
            await asyncio.wait({call}, timeout=self._timeout_ms / 1000)
        finally:
            if not call.done():  # timed out, here or in the connection: the thread is left running
                self._hung += 1
                call.add_done_callback(self._on_late)
        if not call.done():
            raise AuthenticationError(
                f"{self.mechanism} with {self._host!r}: {asked} did not respond within "
                f"socket_connection_setup_timeout_ms ({self._timeout_ms:g})"
            )
        try:
            return call.result()
        except RuntimeError:
            raise AuthenticationError(f"{asked} cannot be called: the process cannot start a thread") from None
        finally:
            del call  # an error references this frame, and the call references the error

    def _on_late(self, call: asyncio.Future[Any]) -> None:
        self._hung -= 1
        retrieve(call)
