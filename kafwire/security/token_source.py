"""The tokens of one client: fetched once for all its connections, and used for most of their lifetime."""

from __future__ import annotations

from collections.abc import Callable

from kafwire.errors import AuthenticationError
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import security_log as log
from kafwire.secret import Secret
from kafwire.security.oauth_token import OAuthToken
from kafwire.security.shared_call import SharedCall

# A token is used for this part of its remaining lifetime when it arrives; then the next one is fetched.
USED_PART = 0.8


class TokenSource:
    """Calls a token provider if it has no token to use, and shares the token it returns. On the engine only.

    Args:
        provider: called without arguments, in a thread, or awaited in the event loop for users' coroutines if it is a
            coroutine function. It returns an `OAuthToken` or a text.
        timeout_s: how long a connection waits for it.
        what: the provider's name in errors.
    """

    def __init__(
        self, provider: Callable[[], object], *, timeout_s: float, what: str = "the OAuth token provider"
    ) -> None:
        self._what = what
        self._provider = provider
        self._call = SharedCall(what, provider, self._accept, timeout_s)
        self._kept: OAuthToken | None = None
        self._refresh_at = 0.0

    async def token(self, engine: Engine) -> OAuthToken:
        """Return a token that has not expired.

        Raises:
            AuthenticationError: the provider raised, returned no token or an expired one, or took too long.
        """
        if self._kept is not None and _now(engine) < self._refresh_at:
            return self._kept
        try:
            return await self._call.result(engine)
        except AuthenticationError as problem:
            kept = self._kept
            if kept is None or kept.expires_at is None or kept.expires_at <= _now(engine):
                raise
            log.warning("no new OAuth token could be fetched, the current one stays in use: %s", problem, error=problem)
            return kept

    def forget(self) -> None:
        """Drop the current token, as a broker refused it. A provider with cached credentials drops them, too."""
        self._kept = None
        forget = getattr(self._provider, "forget", None)
        if callable(forget):
            forget()

    def _accept(self, engine: Engine, found: object) -> OAuthToken:
        """Convert the provider's return value to a token, and store it if its expiry is known."""
        if isinstance(found, OAuthToken):
            token = found
        elif isinstance(found, str | Secret):
            token = OAuthToken(found)
        else:
            raise AuthenticationError(f"{self._what} returned {_kind(found)} instead of a kafwire.OAuthToken or a text")
        if not token.value:
            raise AuthenticationError(f"{self._what} returned an empty token")
        now = _now(engine)
        if token.expires_at is not None:
            if token.expires_at <= now:
                raise AuthenticationError(
                    f"{self._what} returned a token that expired {now - token.expires_at:.0f} s ago"
                )
            self._kept = token
            self._refresh_at = now + USED_PART * (token.expires_at - now)
        return token


def _now(engine: Engine) -> float:
    return engine.clock.time_ns() / 1e9


def _kind(found: object) -> str:
    return "nothing" if found is None else f"{type(found).__name__!r}"
