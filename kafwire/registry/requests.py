"""`RegistryRequests`: requests to the registry's addresses, with credentials, failover and bounded retries.

Returns JSON as it came; schemas, caches and the meaning of paths belong to `client`.
"""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NoReturn, TypeAlias
from urllib.parse import urlsplit

from kafwire.errors import ConfigError, SchemaRegistryError, UnknownSchemaError
from kafwire.secret import Secret
from kafwire.security.https_client import (
    TOO_MANY_REQUESTS,
    HttpsClient,
    Refused,
    Response,
    Transient,
    is_loopback,
    retried,
    without,
)

if TYPE_CHECKING:
    from urllib.request import Request

    from kafwire.security.identity import Identity
    from kafwire.security.oauth_token import OAuthToken

__all__ = ["Credentials", "RegistryRequests", "Token"]

MAX_RESPONSE_BYTES = 8 << 20
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
CONTENT_TYPE = "application/vnd.schemaregistry.v1+json"
# Error codes of the registry: subject, version, schema not found; subject or version soft-deleted.
NOT_FOUND = frozenset({40401, 40402, 40403, 40404, 40406})

Token: TypeAlias = "str | Secret | Callable[[], str | Secret | OAuthToken]"  # noqa: S105 - a type


class Credentials:
    """The header Authorization: of a user's name and password, of a token, or none.

    Raises:
        ConfigError: a part is missing, both are given, or the name has a colon.
    """

    def __init__(self, username: str | None, password: str | Secret | None, token: Token | None) -> None:
        if (username is None) != (password is None):
            raise ConfigError("the schema registry takes username and password together")
        if username is not None and token is not None:
            raise ConfigError("the schema registry takes a token, or username and password: leave one out")
        self._token: Secret | Callable[[], str | Secret | OAuthToken] | None = None
        self._basic: tuple[Secret, ...] = ()
        if username is not None:
            word = Secret(password or "")
            self._basic = (word, _basic(username, word))
        elif token is not None:
            self._token = token if callable(token) else _checked(token)

    def __bool__(self) -> bool:
        return bool(self._basic) or self._token is not None

    def header(self) -> tuple[str, tuple[Secret, ...]]:
        """Return the scheme, and the secrets; the last of them is sent. The scheme is empty without credentials.

        Raises:
            SchemaRegistryError: the token's callable failed, or returned no token; its exception is the cause.
        """
        if self._basic:
            return "Basic", self._basic
        if self._token is None:
            return "", ()
        if isinstance(self._token, Secret):
            return "Bearer", (self._token,)
        try:
            found: Any = self._token()
            return "Bearer", (_checked(getattr(found, "value", found)),)
        except Exception as problem:
            raise SchemaRegistryError(
                f"the schema registry's token: its callable failed: {type(problem).__name__}", retriable=True
            ) from problem


class RegistryRequests:
    """Sends requests to the addresses of one registry: first to the last that responded, then to the others in turn.

    Args:
        urls: the addresses.
        credentials: the credentials; need https, or a registry on this machine.
        headers: headers of every request.
        ca_location: a file or folder of CA certificates; None: the system's.
        ca_pem: the same as text.
        identity: the client's certificate and key.
        timeout_s: the time limit of a call with its retries.
        attempt_timeout_s: the time limit of one request to one address.
        max_retries: how often all addresses are tried again after a failure.

    Raises:
        ConfigError: an address, a certificate or a header cannot be used.
    """

    def __init__(
        self,
        urls: Sequence[str],
        credentials: Credentials,
        headers: dict[str, str],
        *,
        ca_location: str | None,
        ca_pem: str | None,
        identity: Identity | None,
        timeout_s: float,
        attempt_timeout_s: float,
        max_retries: int,
    ) -> None:
        if not urls:
            raise ConfigError("the schema registry needs an address")
        self._servers = [
            (
                url.rstrip("/"),
                HttpsClient(
                    url,
                    "the schema registry",
                    max_bytes=MAX_RESPONSE_BYTES,
                    ca_location=ca_location,
                    ca_pem=ca_pem,
                    options=("ca_location", "ca_pem"),
                    plain=True,
                    identity=identity,
                ),
            )
            for url in urls
        ]
        for url in urls:
            _check_address(url, has_credentials=bool(credentials))
        _check_headers(headers)
        self._credentials = credentials
        self._headers = headers
        self._timeout_s = timeout_s
        self._attempt_timeout_s = attempt_timeout_s
        self._max_retries = max_retries
        self._last_good = 0

    @property
    def name(self) -> str:
        """The addresses as errors show them."""
        return ", ".join(client.name for _, client in self._servers)

    def call(self, method: str, path: str, what: str, body: dict[str, Any] | None = None) -> Any:
        """Send a request until a server responds to it; return the JSON of its response.

        Args:
            method: GET, POST, PUT or DELETE.
            path: the path after the registry's address, with its query.
            what: the subject of the request, for errors.
            body: the request's JSON object.

        Returns:
            The JSON of a response of status 200.

        Raises:
            UnknownSchemaError: the registry does not have it.
            SchemaRegistryError: no response in time, a refused request, or a response that is not JSON.
        """
        data = None if body is None else json.dumps(body).encode()

        def late(said: str) -> SchemaRegistryError:
            return SchemaRegistryError(
                f"{what}: no response from the schema registry at {self.name} within {self._timeout_s:g} s: {said}",
                retriable=True,
            )

        return retried(
            self._timeout_s,
            lambda deadline: self._round(method, path, what, data, deadline),
            late,
            max_retries=self._max_retries,
        )

    def _round(self, method: str, path: str, what: str, data: bytes | None, deadline: float) -> Any:
        """Try each address once; raise the last `Transient` with the longest pause that a server asks for."""
        count, first, pause_s = len(self._servers), self._last_good, 0.0
        for at in range(count):
            index = (first + at) % count
            until = min(deadline, time.monotonic() + self._attempt_timeout_s)
            try:
                found = self._attempt(index, method, path, what, data, until)
            except _Throttled:
                raise  # the other addresses are of the same registry, which asks for fewer requests
            except Transient as problem:
                pause_s = max(pause_s, problem.pause_s)
                if at + 1 == count or time.monotonic() >= deadline:
                    raise Transient(str(problem), pause_s) from None
            else:
                self._last_good = index
                return found
        raise AssertionError("unreachable: the last address returns or raises")

    def _attempt(self, index: int, method: str, path: str, what: str, data: bytes | None, deadline: float) -> Any:
        base, client = self._servers[index]
        request, secrets = self._request(base + path, method, data)
        try:
            response = client.send(request, deadline)
        except Refused as problem:
            raise self.invalid(what, str(problem), client.name) from None
        if response.status != 200:
            code, said = _explained(response, secrets)
            # The body may repeat the password, and a traceback shows this frame's locals.
            response = response._replace(body=b"")
            self._last_good = self._last_good if response.is_retriable else index
            _refuse(response, code, said, what, client.name)
        try:
            return json.loads(response.body)
        except (ValueError, RecursionError):
            response = response._replace(body=b"")
            raise self.invalid(
                what, "its response is not JSON: is this the address of a schema registry?", client.name
            ) from None

    def _request(self, url: str, method: str, data: bytes | None) -> tuple[Request, tuple[Secret, ...]]:
        """Make the request. No other frame has its credentials as text."""
        from urllib.request import Request

        headers = {"Accept": ACCEPT, "User-Agent": "kafwire", **self._headers}
        if data is not None:
            headers["Content-Type"] = CONTENT_TYPE
        scheme, secrets = self._credentials.header()
        if scheme:
            headers["Authorization"] = f"{scheme} {secrets[-1].reveal()}"
        return Request(url, data, headers, method=method), secrets  # noqa: S310 - its scheme was checked before

    def invalid(self, what: str, why: str, name: str | None = None) -> SchemaRegistryError:
        """Return the error of a response that is not valid."""
        return SchemaRegistryError(f"{what}: no schema from the schema registry at {name or self.name}: {why}")


class _Throttled(Transient):
    """The registry asks for fewer requests."""


def _refuse(response: Response, code: int | None, said: str, what: str, name: str) -> NoReturn:
    """Raise for a failed response."""
    if response.status == TOO_MANY_REQUESTS:
        raise _Throttled(said, response.retry_after_s)
    if response.is_retriable:
        raise Transient(said, response.retry_after_s)
    if response.status == 404 and code in NOT_FOUND:
        raise UnknownSchemaError(
            f"{what}: the schema registry at {name} does not have it: {said}", status=404, code=code
        )
    if response.status in (401, 403):
        said += ": check username and password, the token or the client certificate, and their permissions"
    elif 300 <= response.status < 400:
        said += ": redirects are not followed, as they would send credentials elsewhere: use the final address"
    elif response.status == 409:
        said += ": the schema is not compatible with earlier versions: compatibility() has the differences"
    elif code is None:
        said += ": is this the address of a schema registry?"
    raise SchemaRegistryError(
        f"{what}: the schema registry at {name} refuses the request: {said}", status=response.status, code=code
    )


def _explained(response: Response, secrets: tuple[Secret, ...]) -> tuple[int | None, str]:
    """Return the error code of a failed response, and its text without repeated credentials."""
    try:
        found = json.loads(response.body)
    except (ValueError, RecursionError):
        found = None
    fields = found if isinstance(found, dict) else {}
    code, message = fields.get("error_code"), fields.get("message")
    said = f"status {response.status}"
    if isinstance(code, int):
        said += f", error code {code}"
    if isinstance(message, str):
        said += f", {without(secrets, message)[:400]!r}"
    return (code if isinstance(code, int) else None), said


def _basic(username: str, password: Secret) -> Secret:
    if ":" in username:
        raise ConfigError("the schema registry's username must not have a colon")
    return Secret(base64.b64encode(f"{username}:{password.reveal()}".encode()).decode())


def _checked(token: str | Secret) -> Secret:
    secret = Secret(token)
    text = secret.reveal()
    if not text or not text.isascii() or not text.isprintable() or " " in text:
        raise ConfigError("the schema registry's token is empty, or has characters that no header allows")
    return secret


def _check_address(url: str, *, has_credentials: bool) -> None:
    parts = urlsplit(url)
    if parts.query or parts.fragment:
        raise ConfigError("the schema registry's address must have no query and no fragment")
    if has_credentials and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
        raise ConfigError("the schema registry's password or token needs an address that begins with https://")


def _check_headers(headers: dict[str, str]) -> None:
    for name, value in headers.items():
        if not (
            name and name.replace("-", "").isalnum() and name.isascii() and value.isascii() and value.isprintable()
        ):
            raise ConfigError(f"header {name!r} for the schema registry has characters that no header allows")
        if name.lower() in ("authorization", "content-length", "content-type", "host"):
            raise ConfigError(f"header {name!r} for the schema registry is kafwire's own: use username or token")
