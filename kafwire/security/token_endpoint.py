"""Tokens from an OAuth token endpoint: client credentials (RFC 6749) and JWT-bearer (RFC 7523), over https.

It is a token provider: it blocks, and runs in a thread. Its errors name the endpoint, and no secret.
"""

from __future__ import annotations

import base64
import json
import time
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, quote_plus, urlencode

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.secret import Secret
from kafwire.security.https_client import HttpsClient, Refused, Response, Transient, retried, without
from kafwire.security.jwt_assertion import Assertion
from kafwire.security.oauth_token import OAuthToken

if TYPE_CHECKING:
    from urllib.request import Request

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_RESPONSE_BYTES = 1 << 20


class TokenEndpoint:
    """Fetches one token at each call.

    The client authenticates with its secret, in the header Authorization (`client_secret_basic`), or with an assertion.
    With the grant type JWT-bearer the assertion is the grant, else it replaces the secret (KIP-1258).

    Args:
        url: the endpoint; http is for this machine only.
        client_id: the client's id.
        client_secret: its secret.
        scope: the scope of the token, words separated by blanks.
        grant_type: `CLIENT_CREDENTIALS` or `JWT_BEARER`.
        assertion: makes the assertions.
        ca_location: a file or folder of certificates trusted for the endpoint; None: the system's.
        ca_pem: the trusted certificates as PEM text.
        timeout_s: for all attempts together.
        header_urlencode: whether id and secret are percent-encoded in the header, as in RFC 6749; Kafka's clients do
            not do that by default (KIP-1025).
    """

    def __init__(
        self,
        url: str,
        *,
        client_id: str | None = None,
        client_secret: Secret | None = None,
        scope: str | None = None,
        grant_type: str = CLIENT_CREDENTIALS,
        assertion: Assertion | None = None,
        ca_location: str | None = None,
        ca_pem: str | None = None,
        timeout_s: float = 30.0,
        header_urlencode: bool = False,
    ) -> None:
        self._url = url
        self._https = HttpsClient(
            url, "the OAuth token endpoint", max_bytes=MAX_RESPONSE_BYTES, ca_location=ca_location, ca_pem=ca_pem
        )
        self.name = self._https.name
        if grant_type not in (CLIENT_CREDENTIALS, JWT_BEARER):
            raise ConfigError(
                f"the OAuth grant type must be {CLIENT_CREDENTIALS!r} or {JWT_BEARER!r}, not {grant_type!r}"
            )
        if grant_type == JWT_BEARER and assertion is None:
            raise ConfigError("the OAuth grant type JWT-bearer needs an assertion: a file, or a private key")
        if assertion is None and not (client_id and client_secret):
            raise ConfigError("the OAuth grant type client_credentials needs a client's id and secret, or an assertion")
        self._client_id = client_id
        self._client_secret = client_secret
        self._scope = scope
        self._grant_type = grant_type
        self._assertion = assertion
        self._timeout_s = timeout_s
        self._header_urlencode = header_urlencode

    def __repr__(self) -> str:
        return f"TokenEndpoint({self.name!r})"

    def __call__(self) -> OAuthToken:
        """Fetch a new token. Raises `AuthenticationError`."""
        return retried(self._timeout_s, self._attempt, self._late)

    def _attempt(self, deadline: float) -> OAuthToken:
        begun = time.time()
        return self._token(self._ask(deadline), begun)

    def _late(self, said: str) -> AuthenticationError:
        return AuthenticationError(f"no token from {self.name} within {self._timeout_s:g} s: {said}")

    def _request(self) -> tuple[Request, list[Secret]]:
        """Return the request, and the secrets in it."""
        from urllib.request import Request

        form = {"grant_type": self._grant_type}
        headers = {"Accept": "application/json", "Cache-Control": "no-cache", "User-Agent": "kafwire"}
        secret: list[Secret] = []
        if self._assertion is not None:
            assertion = self._assertion.make()
            secret.append(assertion)
            if self._grant_type == JWT_BEARER:
                form["assertion"] = assertion.reveal()
            else:
                form |= {"client_assertion_type": CLIENT_ASSERTION, "client_assertion": assertion.reveal()}
                if self._client_id:
                    form["client_id"] = self._client_id
        elif self._client_id and self._client_secret:
            pair = [self._client_id, self._client_secret.reveal()]
            secret += [Secret(text) for text in (pair[1], quote(pair[1]), quote_plus(pair[1]))]
            if self._header_urlencode:
                pair = [quote_plus(word) for word in pair]
            basic = base64.b64encode(":".join(pair).encode()).decode()
            secret.append(Secret(basic))
            headers["Authorization"] = f"Basic {basic}"
        if self._scope:
            form["scope"] = self._scope
        # The URL's scheme was checked when the endpoint was created.
        return Request(self._url, urlencode(form).encode(), headers, method="POST"), secret  # noqa: S310

    def _ask(self, deadline: float) -> dict[str, Any]:
        """Make one attempt; return the endpoint's response as JSON."""
        request, secret = self._request()
        try:
            response = self._https.send(request, deadline)
        except Refused as problem:
            raise self._failed(str(problem)) from None
        if not 200 <= response.status < 300:
            explained = _explained(response.body, secret)
            # The body may contain the secret, and tracebacks show the local variables of this frame.
            response = response._replace(body=b"")
            self._refuse(response, explained)
        try:
            document = json.loads(response.body)
        except (ValueError, RecursionError):
            document = None
        if not isinstance(document, dict):
            raise self._failed("its response is not a JSON object")
        return document

    def _token(self, document: dict[str, Any], begun: float) -> OAuthToken:
        value = document.get("access_token")
        if not isinstance(value, str) or not value:
            raise self._failed("its response has no access_token")
        ends = OAuthToken(value).expires_at
        try:
            lasts = float(document["expires_in"])
        except (KeyError, TypeError, ValueError, OverflowError):
            lasts = float("nan")
        if 0 <= lasts < float("inf"):
            ends = min(begun + lasts, ends if ends is not None else float("inf"))
        scope = document.get("scope")
        return OAuthToken(value, ends, scope=tuple(scope.split()) if isinstance(scope, str) else ())

    def _refuse(self, response: Response, explained: str) -> NoReturn:
        """Raise the error of a response whose status is not 200."""
        status = response.status
        if 300 <= status < 400:
            raise self._failed(f"it redirects to another address (status {status}), which is not followed")
        said = f"status {status}{explained}"
        if response.is_retriable:
            raise Transient(said, response.retry_after_s)
        raise self._failed(said)

    def _failed(self, why: str) -> AuthenticationError:
        return AuthenticationError(f"no token from {self.name}: {why}")


def _explained(data: bytes, secret: list[Secret]) -> str:
    """Return the error in a response's body, with the secrets in it masked."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(document, dict):
        return ""
    names = [name for name in ("error", "error_description") if isinstance(document.get(name), str)]
    return "".join(f", {name} {without(secret, document[name])!r}" for name in names)
