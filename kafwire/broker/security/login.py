"""The progress of a connection's SASL authentication, and the requests that it allows. See KIP-43, KIP-152, KIP-368.

    ApiVersions at most once, SaslHandshake, tokens, then anything; SaslHandshake again, when sessions end.

`ClientConnection.is_ready` is True once the client is authenticated. The connection keeps its `principal` to its end.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.broker.request import HANG_UP, LATER, ClientConnection, Request, Response
from kafwire.broker.security.credentials import Credentials
from kafwire.broker.security.delegation_tokens import DelegationTokens
from kafwire.broker.security.sasl_server import PlainServer, SaslRefusedError, SaslServer, ScramServer, TokenLogin
from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.state import ClusterState

REAUTHENTICATION_INTERVAL_MS = 1000.0


class Login:
    """The authentication of one connection: `ClientConnection.login`."""

    def __init__(self) -> None:
        self.mechanism = ""
        self.exchange: SaslServer | None = None  # the present exchange
        self.is_bare = False  # True if tokens come without a request around them (SaslHandshake 0)
        self.has_versions = False
        self.is_other_mechanism = False
        self.began_again_ms: float | None = None

    @property
    def expects_bare_token(self) -> bool:
        """True if the next frame is a token, and no request."""
        return self.is_bare and (self.exchange is not None or self.is_other_mechanism)


def login_of(connection: ClientConnection) -> Login:
    """Return the login of a connection, created at the first call."""
    if connection.login is None:
        connection.login = Login()
    found: Login = connection.login
    return found


def refuse(state: ClusterState, request: Request, api: str) -> Response | None:
    """Return the response to a request that the connection's authentication does not allow; None: it may go on."""
    connection = request.connection
    login: Login | None = connection.login
    if login is not None and login.is_other_mechanism:
        return HANG_UP
    if login is not None and login.exchange is not None:
        if api == "SaslAuthenticate":
            return None
        from kafwire.broker.error_responses import ErrorPlace, error_response

        return close_after(state, request, error_response(state, request, ErrorPlace(ErrorCode.ILLEGAL_SASL_STATE)))
    if not connection.is_ready:
        if api == "ApiVersions" and not login_of(connection).has_versions:
            login_of(connection).has_versions = request.version >= 0
            return None
        return None if api == "SaslHandshake" else HANG_UP
    ends_ms = connection.session_ends_ms
    if ends_ms is None or state.now_ms <= ends_ms:
        return None
    return None if api == "SaslHandshake" and may_begin_again(state, connection) else HANG_UP


def close_after(state: ClusterState, request: Request, response: Response) -> Response:
    """Respond to a client that failed to authenticate after a delay, and close its connection then."""
    if response is HANG_UP:
        return HANG_UP
    request.connection.closes = True
    state.after(state.config_int("connection.failed.authentication.delay.ms"), lambda: state.reply(request, response))
    return LATER


def may_begin_again(state: ClusterState, connection: ClientConnection) -> bool:
    """True if a connection may authenticate again: if its session ends at all, and once a second."""
    began_ms = login_of(connection).began_again_ms
    return connection.session_ends_ms is not None and (
        began_ms is None or state.now_ms - began_ms >= REAUTHENTICATION_INTERVAL_MS
    )


def begin(state: ClusterState, connection: ClientConnection, mechanism: str, *, is_bare: bool) -> None:
    """Begin an exchange with a mechanism that the listener has."""
    login = login_of(connection)
    login.is_bare = is_bare
    if connection.is_ready:
        login.began_again_ms = state.now_ms
        if mechanism != login.mechanism:
            login.is_other_mechanism = True  # the client learns it by the outcome of its next token
            return
    login.mechanism = mechanism
    credentials: Credentials = state.part(Credentials)
    if mechanism == "PLAIN":
        login.exchange = PlainServer(credentials.listener(connection.listener).passwords)
    else:
        login.exchange = ScramServer(
            mechanism,
            lambda user: credentials.scram.get((mechanism, user)),
            state.random,
            lambda token_id: _token_login(state, mechanism, token_id),
        )


def _token_login(state: ClusterState, mechanism: str, token_id: str) -> TokenLogin | None:
    tokens: DelegationTokens = state.part(DelegationTokens)
    found = tokens.credential(mechanism, token_id)
    if found is None:
        return None
    token, credential = found
    return TokenLogin(credential, token.owner.partition(":")[2], token.expires_ms)


def advance(state: ClusterState, connection: ClientConnection, token: bytes) -> tuple[bytes, int]:
    """Process a client's token. Return the response token, and the session's lifetime in milliseconds, 0: for ever.

    Raises `SaslRefusedError` with the text for the client.
    """
    login = login_of(connection)
    assert login.exchange is not None
    again = connection.is_ready
    try:
        response = login.exchange.evaluate(token)
    except SaslRefusedError as error:
        raise SaslRefusedError(
            str(error)
            or f"Authentication failed during {'re-' if again else ''}authentication due to invalid credentials with "
            f"SASL mechanism {login.mechanism}"
        ) from None
    if login.exchange.user is None:
        return response, 0
    principal = f"User:{login.exchange.user}"
    if again and principal != connection.principal:
        raise SaslRefusedError(
            "Cannot change principals during re-authentication from "
            f"{connection.principal.replace(':', '.', 1)}: {principal.replace(':', '.', 1)}"
        )
    by_token, login.exchange = login.exchange.token, None
    connection.principal = principal
    connection.is_by_token = by_token is not None
    connection.is_ready = True
    return response, _begin_session(state, connection, by_token)


def _begin_session(state: ClusterState, connection: ClientConnection, token: TokenLogin | None) -> int:
    """Set the end of a session; that of a delegation token ends it, too. Return its milliseconds, 0: for ever."""
    lasts_ms = state.part(Credentials).listener(connection.listener).max_reauth_ms
    lasts_ms = state.config_int("connections.max.reauth.ms") if lasts_ms is None else lasts_ms
    if token is not None:
        left_ms = max(0, token.expires_ms - state.wall_ms)
        lasts_ms = min(left_ms, lasts_ms) if lasts_ms > 0 else left_ms
        if not lasts_ms:
            connection.session_ends_ms = state.now_ms - 1  # over already: Kafka lets the client in, and serves nothing
            return 0
    connection.session_ends_ms = state.now_ms + lasts_ms if lasts_ms > 0 else None
    return max(lasts_ms, 0)
