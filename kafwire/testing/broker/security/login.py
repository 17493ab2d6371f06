"""How far a connection has authenticated by SASL, and which requests that allows. See KIP-43, KIP-152, KIP-368.

    ApiVersions at most once, SaslHandshake, tokens, then anything; SaslHandshake again, when sessions end.

Its `Connection` has `is_ready` once somebody is known, who is `principal` until the connection ends.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode
from kafwire.testing.broker.request import HANG_UP, LATER, Answer, Connection, Request
from kafwire.testing.broker.security.credentials import Credentials
from kafwire.testing.broker.security.sasl_server import PlainServer, SaslRefusedError, SaslServer, ScramServer

if TYPE_CHECKING:
    from kafwire.testing.broker.state import ClusterState

REAUTHENTICATION_INTERVAL_MS = 1000.0


class Login:
    """The authentication of one connection: `Connection.login`."""

    def __init__(self) -> None:
        self.mechanism = ""
        self.exchange: SaslServer | None = None  # that is under way
        self.is_bare = False  # whether tokens come without a request around them (SaslHandshake 0)
        self.has_versions = False
        self.is_other_mechanism = False
        self.began_again_ms: float | None = None

    @property
    def expects_bare_token(self) -> bool:
        """Whether the next frame is a token, and no request."""
        return self.is_bare and (self.exchange is not None or self.is_other_mechanism)


def login_of(connection: Connection) -> Login:
    """The login of a connection, made when it is first asked for."""
    if connection.login is None:
        connection.login = Login()
    found: Login = connection.login
    return found


def refuse(state: ClusterState, request: Request, api: str) -> Answer | None:
    """What a request is answered that has no place in the connection's authentication; None: it may go on."""
    connection = request.connection
    login: Login | None = connection.login
    if login is not None and login.is_other_mechanism:
        return HANG_UP
    if login is not None and login.exchange is not None:
        if api == "SaslAuthenticate":
            return None
        from kafwire.testing.broker.error_answers import ErrorPlace, error_answer

        return close_after(state, request, error_answer(state, request, ErrorPlace(ErrorCode.ILLEGAL_SASL_STATE)))
    if not connection.is_ready:
        if api == "ApiVersions" and not login_of(connection).has_versions:
            login_of(connection).has_versions = request.version >= 0
            return None
        return None if api == "SaslHandshake" else HANG_UP
    ends_ms = connection.session_ends_ms
    if ends_ms is None or state.now_ms <= ends_ms:
        return None
    return None if api == "SaslHandshake" and may_begin_again(state, connection) else HANG_UP


def close_after(state: ClusterState, request: Request, answer: Answer) -> Answer:
    """Answer a client that has failed to authenticate somewhat later, and close its connection then."""
    if answer is HANG_UP:
        return HANG_UP
    request.connection.closes = True
    state.after(state.config_int("connection.failed.authentication.delay.ms"), lambda: state.reply(request, answer))
    return LATER


def may_begin_again(state: ClusterState, connection: Connection) -> bool:
    """Whether a connection may authenticate again: if its session ends at all, and once in a second."""
    began_ms = login_of(connection).began_again_ms
    return connection.session_ends_ms is not None and (
        began_ms is None or state.now_ms - began_ms >= REAUTHENTICATION_INTERVAL_MS
    )


def begin(state: ClusterState, connection: Connection, mechanism: str, *, is_bare: bool) -> None:
    """A client has chosen a mechanism that its listener has."""
    login = login_of(connection)
    login.is_bare = is_bare
    if connection.is_ready:
        login.began_again_ms = state.now_ms
        if mechanism != login.mechanism:
            login.is_other_mechanism = True  # which the client is told by its next token's fate
            return
    login.mechanism = mechanism
    credentials: Credentials = state.part(Credentials)
    if mechanism == "PLAIN":
        login.exchange = PlainServer(credentials.listener(connection.listener).passwords)
    else:
        login.exchange = ScramServer(mechanism, lambda user: credentials.scram.get((mechanism, user)), state.random)


def advance(state: ClusterState, connection: Connection, token: bytes) -> tuple[bytes, int]:
    """A client's token: what it is answered, and how many milliseconds its session lasts, 0: for ever.

    Raises `SaslRefusedError` with the text that the client is told.
    """
    login = login_of(connection)
    assert login.exchange is not None
    again = connection.is_ready
    try:
        answer = login.exchange.evaluate(token)
    except SaslRefusedError as error:
        raise SaslRefusedError(
            str(error)
            or f"Authentication failed during {'re-' if again else ''}authentication due to invalid credentials with "
            f"SASL mechanism {login.mechanism}"
        ) from None
    if login.exchange.user is None:
        return answer, 0
    principal = f"User:{login.exchange.user}"
    if again and principal != connection.principal:
        raise SaslRefusedError(
            "Cannot change principals during re-authentication from "
            f"{connection.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
        )
    login.exchange = None
    connection.principal = principal
    connection.is_ready = True
    lasts_ms = state.part(Credentials).listener(connection.listener).max_reauth_ms
    lasts_ms = state.config_int("connections.max.reauth.ms") if lasts_ms is None else lasts_ms
    connection.session_ends_ms = state.now_ms + lasts_ms if lasts_ms > 0 else None
    return answer, max(lasts_ms, 0)
