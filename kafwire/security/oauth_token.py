"""An OAuth token, and what a token provider may return instead. Has no clock: callers pass the time."""

from __future__ import annotations

import base64
import json
import math
import operator
from collections.abc import Mapping
from dataclasses import field

from kafwire.errors import ConfigError
from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

__all__ = ["OAuthToken"]

# In seconds since 1970 this is the year 33658; in milliseconds, 2001.
_LATEST = 1e12


@dataclass(frozen=True)
class OAuthToken:
    """A token for SASL/OAUTHBEARER. A token provider returns it, or a plain text.

    Args:
        value: the token, a text or a `Secret`; `repr` does not show it.
        expires_at: when it expires, in seconds since 1970. None: the `exp` of a JWT, else unknown. A token without a
            known expiry is fetched again for every connection.
        principal: the token's user; None: unknown. It is not sent.
        scope: the token's scope. It is not sent.
        extensions: SASL extensions that are sent with it (KIP-342), such as `logicalCluster`.

    Raises:
        TypeError: `value` is not text, or `expires_at` is not a number.
        ConfigError: `expires_at` is not in seconds since 1970, but in milliseconds, for example.

    Example:
        >>> kafwire.OAuthToken("c2VjcmV0", expires_at=1_900_000_000)
        OAuthToken(value=Secret('***'), expires_at=1900000000.0, principal=None, scope=(), extensions={})
    """

    value: Secret
    expires_at: float | None
    principal: str | None
    scope: tuple[str, ...]
    extensions: Mapping[str, str] = field(hash=False)

    def __init__(
        self,
        value: str | Secret,
        expires_at: float | None = None,
        *,
        principal: str | None = None,
        scope: tuple[str, ...] = (),
        extensions: Mapping[str, str] | None = None,
    ) -> None:
        secret = Secret(value)
        ends = expiry_of_jwt(secret.reveal()) if expires_at is None else _seconds(expires_at)
        object.__setattr__(self, "value", secret)
        object.__setattr__(self, "expires_at", ends)
        object.__setattr__(self, "principal", principal)
        object.__setattr__(self, "scope", tuple(scope))
        object.__setattr__(self, "extensions", dict(extensions or {}))


OAuthToken.__module__ = "kafwire"


def _seconds(expires_at: object) -> float:
    if isinstance(expires_at, bool) or not isinstance(expires_at, int | float):
        if isinstance(expires_at, bool) or not hasattr(expires_at, "__index__"):  # (numpy's integers have it)
            raise TypeError(f"expires_at must be a number of seconds since 1970, not {type(expires_at).__name__!r}")
        expires_at = operator.index(expires_at)
    if math.isnan(expires_at) or _LATEST < expires_at < math.inf:
        raise ConfigError(
            f"expires_at={expires_at} is not in seconds since 1970: divide milliseconds by 1000, nanoseconds by 1e9"
        )
    return float(expires_at)


def expiry_of_jwt(token: str) -> float | None:
    """Return `exp` of a JWT, or None without one. The JWT is not verified: the broker does that."""
    parts = token.split(".")
    if len(parts) != 3:
        return None
    try:
        payload = base64.b64decode(parts[1] + "=" * (-len(parts[1]) % 4), altchars=b"-_", validate=True)
        claims = json.loads(payload)
    except (ValueError, RecursionError):
        return None
    ends = claims.get("exp") if isinstance(claims, dict) else None
    if isinstance(ends, bool) or not isinstance(ends, int | float):
        return None
    try:
        seconds = float(ends)
    except OverflowError:
        return None
    if seconds > _LATEST:  # an issuer that writes milliseconds, against RFC 7519
        seconds /= 1000
    return seconds if math.isfinite(seconds) else None
