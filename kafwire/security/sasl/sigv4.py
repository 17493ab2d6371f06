"""AWS Signature Version 4 of a presigned GET request: what Amazon MSK takes for a proof of identity."""

from __future__ import annotations

import hashlib
import hmac
from dataclasses import field
from datetime import UTC, datetime
from urllib.parse import quote

from kafwire.lazy_dataclass import dataclass
from kafwire.secret import Secret

ALGORITHM = "AWS4-HMAC-SHA256"
_EMPTY_SHA256 = hashlib.sha256(b"").hexdigest()


@dataclass(frozen=True, slots=True)
class AwsCredentials:
    """An access key, and the session token of temporary ones. `expires_at`: seconds since 1970, None if unknown."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None
    expires_at: float | None = field(default=None, compare=False)


def signing_key(secret_key: Secret, date: str, region: str, service: str) -> bytes:
    """The key of one day, region and service."""
    key = b"AWS4" + secret_key.reveal().encode()
    for part in (date, region, service, "aws4_request"):
        key = hmac.digest(key, part.encode(), "sha256")
    return key


def presigned(
    credentials: AwsCredentials,
    *,
    host: str,
    region: str,
    service: str,
    query: dict[str, str],
    now: float,
    expires_s: int,
) -> dict[str, str]:
    """The query parameters of a presigned `GET https://host/?query`, with those of the signature.

    Args:
        credentials: of whom the request is.
        host: the name in the request's Host header, the only one that is signed.
        region: the service's region.
        service: the service's name in signatures.
        query: what is asked for.
        now: seconds since 1970.
        expires_s: for how many seconds the signature is good.

    Returns:
        Names and values, not encoded, the signature last.
    """
    stamp = datetime.fromtimestamp(now, UTC).strftime("%Y%m%dT%H%M%SZ")
    scope = f"{stamp[:8]}/{region}/{service}/aws4_request"
    parameters = {
        **query,
        "X-Amz-Algorithm": ALGORITHM,
        "X-Amz-Credential": f"{credentials.access_key}/{scope}",
        "X-Amz-Date": stamp,
        "X-Amz-Expires": str(expires_s),
        "X-Amz-SignedHeaders": "host",
    }
    if credentials.session_token:
        parameters["X-Amz-Security-Token"] = credentials.session_token.reveal()
    canonical = f"GET\n/\n{encoded(parameters)}\nhost:{host}\n\nhost\n{_EMPTY_SHA256}"
    to_sign = "\n".join((ALGORITHM, stamp, scope, hashlib.sha256(canonical.encode()).hexdigest()))
    key = signing_key(credentials.secret_key, stamp[:8], region, service)
    parameters["X-Amz-Signature"] = hmac.digest(key, to_sign.encode(), "sha256").hex()
    return parameters


def encoded(parameters: dict[str, str]) -> str:
    """Query parameters as they are signed: percent-encoded, in the order of their names."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parameters.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
