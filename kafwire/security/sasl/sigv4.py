"""AWS Signature Version 4 of a presigned GET request, which authenticates a client at Amazon MSK."""

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
    """An access key, with a session token if it is temporary. `expires_at`: seconds since 1970, None if unknown."""

    access_key: str
    secret_key: Secret
    session_token: Secret | None = None
    expires_at: float | None = field(default=None, compare=False)


def signing_key(secret_key: Secret, date: str, region: str, service: str) -> bytes:
    """Return the signing key for one day, region and service."""
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
    """Return the query parameters of a presigned `GET https://host/?query`, including those of the signature.

    Args:
        credentials: the client's credentials.
        host: the name in the request's Host header, the only signed header.
        region: the service's region.
        service: the service's name in signatures.
        query: the parameters of the request.
        now: seconds since 1970.
        expires_s: for how many seconds the signature is valid.

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
    """Return query parameters in the signed form: percent-encoded, sorted by name."""
    pairs = sorted((quote(name, safe="-_.~"), quote(value, safe="-_.~")) for name, value in parameters.items())
    return "&".join(f"{name}={value}" for name, value in pairs)
