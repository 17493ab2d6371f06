"""Tokens from an OAuth token endpoint: client credentials (RFC 6749) and JWT-bearer (RFC 7523), over https.

It is a token provider: it blocks, and runs in a thread. What it raises names the endpoint, and no secret.
"""

from __future__ import annotations

import base64
import ipaddress
import json
import random
import time
from http.client import HTTPException, HTTPMessage
from typing import IO, TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, quote_plus, urlencode, urlsplit

from kafwire.errors import AuthenticationError, ConfigError
from kafwire.runtime.log import log
from kafwire.secret import Secret
from kafwire.security.jwt_assertion import Assertion
from kafwire.security.oauth_token import OAuthToken
from kafwire.security.sasl.text import show

if TYPE_CHECKING:
    import ssl
    from urllib.request import OpenerDirector, Request

CLIENT_CREDENTIALS = "client_credentials"
JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
MAX_ANSWER_BYTES = 1 << 20
BACKOFF_S, MAX_BACKOFF_S = 0.1, 10.0
TOO_MANY_REQUESTS = 429


class _Transient(Exception):
    """What another attempt may mend."""


class TokenEndpoint:
    """Fetches one token at each call.

    The client proves itself by its secret, in the header Authorization (`client_secret_basic`), or by an assertion:
    with the grant type JWT-bearer the assertion is the grant, else it stands for the secret (KIP-1258).

    Args:
        url: the endpoint; http is for this machine only.
        client_id: the client's id.
        client_secret: its secret.
        scope: what the token is to be for, words separated by blanks.
        grant_type: `CLIENT_CREDENTIALS` or `JWT_BEARER`.
        assertion: makes the assertions.
        ca_location: a file or folder of certificates that the endpoint's may be signed by; None: the system's.
        ca_pem: the same as a text.
        timeout_s: for all attempts together.
        header_urlencode: whether id and secret are percent-encoded in the header, as RFC 6749 has it and Kafka's
            clients by default have not (KIP-1025).
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
        self.name = _check_url(url)
        if grant_type not in (CLIENT_CREDENTIALS, JWT_BEARER):
            raise ConfigError(f"the OAuth grant type is {CLIENT_CREDENTIALS!r} or {JWT_BEARER!r}, not {grant_type!r}")
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
        self._opener = _opener(url, ca_location, ca_pem)

    def __repr__(self) -> str:
        return f"TokenEndpoint({self.name!r})"

    def __call__(self) -> OAuthToken:
        """A new token. Raises `AuthenticationError`."""
        deadline = time.monotonic() + self._timeout_s
        backoff = BACKOFF_S
        while True:
            begun = time.time()
            try:
                return self._token(self._ask(deadline), begun)
            except _Transient as problem:
                said = str(problem)
            pause = backoff * random.uniform(0.8, 1.2)
            if time.monotonic() + pause >= deadline:
                raise AuthenticationError(f"no token from {self.name} within {self._timeout_s:g} s: {said}")
            time.sleep(pause)
            backoff = min(2 * backoff, MAX_BACKOFF_S)

    def _request(self) -> tuple[Request, list[Secret]]:
        """The request, and what of it must not be shown."""
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
        # Its scheme was looked at when the endpoint was made.
        return Request(self._url, urlencode(form).encode(), headers, method="POST"), secret  # noqa: S310

    def _ask(self, deadline: float) -> dict[str, Any]:
        """One attempt: the endpoint's answer."""
        import ssl
        from urllib.error import HTTPError, URLError

        request, secret = self._request()
        left = deadline - time.monotonic()
        if left <= 0:
            raise _Transient("there was no time left to ask")
        try:
            with self._opener.open(request, timeout=left) as response:
                data = _body(response, deadline)
        except HTTPError as refused:
            with refused:
                self._refuse(refused.code, _explained(_told(refused, deadline), secret))
        except URLError as problem:
            reason = problem.reason
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise self._failed(f"its certificate is not accepted: {reason.verify_message}") from None
            raise _Transient(_reason(reason)) from None
        except ssl.SSLCertVerificationError as problem:
            raise self._failed(f"its certificate is not accepted: {problem.verify_message}") from None
        except (OSError, HTTPException) as problem:
            raise _Transient(_reason(problem)) from None
        if len(data) > MAX_ANSWER_BYTES:
            raise self._failed(f"its answer is larger than {MAX_ANSWER_BYTES} bytes")
        try:
            answer = json.loads(data)
        except (ValueError, RecursionError):
            answer = None
        if not isinstance(answer, dict):
            raise self._failed("its answer is no JSON object")
        return answer

    def _token(self, answer: dict[str, Any], begun: float) -> OAuthToken:
        value = answer.get("access_token")
        if not isinstance(value, str) or not value:
            raise self._failed("its answer has no access_token")
        ends = OAuthToken(value).expires_at
        try:
            lasts = float(answer["expires_in"])
        except (KeyError, TypeError, ValueError, OverflowError):
            lasts = float("nan")
        if 0 <= lasts < float("inf"):
            ends = min(begun + lasts, ends if ends is not None else float("inf"))
        scope = answer.get("scope")
        return OAuthToken(value, ends, scope=tuple(scope.split()) if isinstance(scope, str) else ())

    def _refuse(self, status: int, explained: str) -> NoReturn:
        """Raise for an answer that is no 200."""
        if 300 <= status < 400:
            raise self._failed(f"it redirects to another address (status {status}), which is not followed")
        said = f"status {status}{explained}"
        if status >= 500 or status == TOO_MANY_REQUESTS:
            raise _Transient(said)
        raise self._failed(said)

    def _failed(self, why: str) -> AuthenticationError:
        return AuthenticationError(f"no token from {self.name}: {why}")


def _check_url(url: str) -> str:
    """The address as it may be shown. Raises `ConfigError`, which shows less."""
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError("the OAuth token endpoint is no valid address") from None
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError("the OAuth token endpoint is an address that begins with https://")
    if parts.username is not None or parts.password is not None:
        raise ConfigError("the OAuth token endpoint has no user name or password in its address")
    if parts.scheme == "http" and not _is_loopback(host):
        raise ConfigError(f"the OAuth token endpoint at {host!r} is not this machine: its address begins with https://")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path}"


def _is_loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _opener(url: str, ca_location: str | None, ca_pem: str | None) -> OpenerDirector:
    """What opens addresses, without following them elsewhere."""
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(
            self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
        ) -> None:
            del req, fp, code, msg, headers, newurl

    if urlsplit(url).scheme == "http":  # this machine: no proxy is between
        return build_opener(NoRedirects(), ProxyHandler({}))
    return build_opener(NoRedirects(), HTTPSHandler(context=_tls(ca_location, ca_pem)))


def _tls(ca_location: str | None, ca_pem: str | None) -> ssl.SSLContext:
    import ssl
    from pathlib import Path

    context = ssl.create_default_context() if not (ca_location or ca_pem) else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any certificate that is trusted is an anchor
    try:
        if ca_location:
            if Path(ca_location).is_dir():
                context.load_verify_locations(capath=ca_location)
            else:
                _trust(context, Path(ca_location).read_bytes(), f"https_ca_location {ca_location!r}")
        if ca_pem:
            _trust(context, ca_pem.encode(), "https_ca_pem")
    except OSError as problem:
        where = f"https_ca_location {ca_location!r}" if ca_location else "https_ca_pem"
        raise ConfigError(f"{where} has no certificates that can be read: {_reason(problem)}") from None
    return context


def _trust(context: ssl.SSLContext, text: bytes, where: str) -> None:
    from kafwire.security.python_tls import trust

    bad = trust(context, text)
    if bad is None:
        raise ConfigError(f"{where} has no certificates that can be read")
    for at, reason in bad:
        log.warning("%s: certificate %d cannot be read (%s): it is left out", where, at + 1, reason)


def _body(response: Any, deadline: float) -> bytes:
    """What it says, up to one byte more than is allowed, and no longer than there is time."""
    found = bytearray()
    while len(found) <= MAX_ANSWER_BYTES:
        if time.monotonic() > deadline:
            raise _Transient("its answer did not end in time")
        part = response.read1(min(65_536, MAX_ANSWER_BYTES + 1 - len(found)))
        if not part:
            break
        found += part
    return bytes(found)


def _told(refused: Any, deadline: float) -> bytes:
    """The body of an answer that is an error, if it has one."""
    try:
        return _body(refused.fp, deadline)
    except (OSError, HTTPException, _Transient, AttributeError):
        return b""


def _reason(problem: object) -> str:
    """An error of the network in a few words."""
    if isinstance(problem, TimeoutError):
        return "it did not answer in time"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return show(str(problem).encode(errors="replace")) or type(problem).__name__


def _explained(data: bytes, secret: list[Secret]) -> str:
    """What an answer says of a refusal, without the secrets that it repeats."""
    try:
        answer = json.loads(data)
    except (ValueError, RecursionError):
        return ""
    if not isinstance(answer, dict):
        return ""
    names = [name for name in ("error", "error_description") if isinstance(answer.get(name), str)]
    return "".join(f", {name} {_without(secret, answer[name])!r}" for name in names)


def _without(secret: list[Secret], text: str) -> str:
    """What an endpoint says, without secrets that it repeats."""
    for word in secret:
        text = text.replace(word.reveal(), "***")
    return show(text.encode(errors="replace"))
