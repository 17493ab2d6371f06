"""HTTP requests with a deadline, for endpoints other than brokers: an OAuth token endpoint, a schema registry.

Uses Python's `urllib`: these requests are few, and may block a thread. Redirects are not followed, the size of
responses is limited, and errors name the endpoint but no secret.
"""

from __future__ import annotations

import ipaddress
import random
import time
from collections.abc import Callable, Iterable
from email.utils import parsedate_to_datetime
from http.client import HTTPException, HTTPMessage
from typing import IO, TYPE_CHECKING, Any, NamedTuple, TypeVar
from urllib.parse import urlsplit

from kafwire.errors import ConfigError
from kafwire.runtime.log import security_log as log
from kafwire.secret import Secret
from kafwire.security.identity import Identity
from kafwire.security.sasl.text import show

if TYPE_CHECKING:
    import ssl
    from urllib.request import OpenerDirector, Request

__all__ = ["HttpsClient", "Refused", "Response", "Transient"]

BACKOFF_S, MAX_BACKOFF_S = 0.1, 10.0
TOO_MANY_REQUESTS = 429
MAX_RETRY_AFTER_DIGITS, MAX_RETRY_AFTER_S = 9, 86_400

_T = TypeVar("_T")


class Transient(Exception):
    """A failure that a retry may fix.

    Args:
        said: the failure in words.
        pause_s: the shortest pause before a retry, from the server; 0 without one.
    """

    def __init__(self, said: str, pause_s: float = 0.0) -> None:
        super().__init__(said)
        self.pause_s = pause_s


class Refused(Exception):
    """A failure that a retry would not fix."""


class Response(NamedTuple):
    """A response of any status."""

    status: int
    body: bytes
    retry_after_s: float = 0.0  # the pause that the server asks for

    @property
    def is_retriable(self) -> bool:
        """True if the same request may succeed later."""
        return self.status >= 500 or self.status == TOO_MANY_REQUESTS


class HttpsClient:
    """Sends requests to one endpoint.

    Args:
        url: its URL.
        what: the endpoint as errors name it, for example "the OAuth token endpoint".
        max_bytes: the longest response.
        ca_location: a file or folder of trusted certificates; None: the system's.
        ca_pem: the trusted certificates as PEM text.
        options: the names of the two options above, for errors.
        plain: True: http is allowed for any host, not only for this machine.
        identity: the client's certificate and key, for an endpoint that asks for them (mTLS).

    Raises:
        ConfigError: the address, the certificates or the key cannot be used.
    """

    def __init__(
        self,
        url: str,
        what: str,
        *,
        max_bytes: int,
        ca_location: str | None = None,
        ca_pem: str | None = None,
        options: tuple[str, str] = ("https_ca_location", "https_ca_pem"),
        plain: bool = False,
        identity: Identity | None = None,
    ) -> None:
        self.name = _check_url(url, what, plain=plain)
        self._max_bytes = max_bytes
        if identity is not None and urlsplit(url).scheme == "http":
            raise ConfigError(f"{what} takes a client certificate only at an address that begins with https://")
        self._opener = _opener(url, ca_location, ca_pem, options, identity)

    def send(self, request: Request, deadline: float) -> Response:
        """Send a request, and read the response.

        Raises:
            Transient: the endpoint cannot be reached, or is too slow.
            Refused: its certificate is rejected, or its response is too long.
        """
        import ssl
        from urllib.error import HTTPError, URLError

        left = deadline - time.monotonic()
        if left <= 0:
            raise Transient("there was no time left for a request")
        try:
            with self._opener.open(request, timeout=left) as response:
                status, data = response.status, self._body(response, deadline)
        except HTTPError as refused:
            with refused:
                pause_s = retry_after_s(refused.headers.get("Retry-After"), time.time())
                return Response(refused.code, self._error_body(refused, deadline), pause_s)
        except URLError as problem:
            reason = problem.reason
            if isinstance(reason, ssl.SSLCertVerificationError):
                raise Refused(f"its certificate is not accepted: {reason.verify_message}") from None
            raise Transient(_reason(reason)) from None
        except ssl.SSLCertVerificationError as problem:
            raise Refused(f"its certificate is not accepted: {problem.verify_message}") from None
        except (OSError, HTTPException) as problem:
            raise Transient(_reason(problem)) from None
        if len(data) > self._max_bytes:
            raise Refused(f"its response is larger than {self._max_bytes} bytes")
        return Response(status, data)

    def _body(self, response: Any, deadline: float) -> bytes:
        """Return the body, at most one byte more than the limit. Raises `Transient` at the deadline."""
        found = bytearray()
        while len(found) <= self._max_bytes:
            if time.monotonic() > deadline:
                raise Transient("its response did not end in time")
            part = response.read1(min(65_536, self._max_bytes + 1 - len(found)))
            if not part:
                break
            found += part
        return bytes(found)

    def _error_body(self, refused: Any, deadline: float) -> bytes:
        """Return the body of an error response, or b"" without one."""
        try:
            return self._body(refused.fp, deadline)
        except (OSError, HTTPException, Transient, AttributeError):
            return b""


def retried(
    timeout_s: float,
    attempt: Callable[[float], _T],
    late: Callable[[str], Exception],
    *,
    max_retries: int | None = None,
) -> _T:
    """Call `attempt(deadline)` until it raises no `Transient`, with growing pauses, or those that a server asks for.

    Raises:
        Exception: the result of `late` for the last failure, when the time is over, or a pause would end after it, or
            after `max_retries`; any other error of the attempt.
    """
    deadline = time.monotonic() + timeout_s
    backoff, retries = BACKOFF_S, 0
    while True:
        try:
            return attempt(deadline)
        except Transient as problem:
            said, asked = str(problem), problem.pause_s
        pause = max(backoff * random.uniform(0.8, 1.2), asked)
        if asked:
            said += f"; it asks for a pause of {asked:.3g} s"
        if time.monotonic() + pause >= deadline or retries == max_retries:
            raise late(said)
        retries += 1
        time.sleep(pause)
        backoff = min(2 * backoff, MAX_BACKOFF_S)


def without(secrets: Iterable[Secret], text: str) -> str:
    """Return a text of an endpoint, with the secrets in it masked."""
    for secret in secrets:
        text = text.replace(secret.reveal(), "***")
    return show(text.encode(errors="replace"))


def retry_after_s(text: str | None, now: float) -> float:
    """Return the seconds of a header Retry-After: a number, or a date after `now`; 0 if it is missing or neither."""
    if text is None:
        return 0.0
    text = text.strip()
    if text.isascii() and text.isdigit():
        return float(min(int(text[:MAX_RETRY_AFTER_DIGITS]), MAX_RETRY_AFTER_S))
    try:
        until = parsedate_to_datetime(text).timestamp()
    except (ValueError, TypeError, OverflowError, IndexError):
        return 0.0
    return min(max(until - now, 0.0), float(MAX_RETRY_AFTER_S))


def is_loopback(host: str) -> bool:
    """True if a host is this machine."""
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _check_url(url: str, what: str, *, plain: bool) -> str:
    """Check the URL, and return it as logs may show it. Raises `ConfigError`, which shows even less of it."""
    schemes = "http:// or https://" if plain else "https://"
    try:
        parts = urlsplit(url)
        port = parts.port
    except ValueError:
        raise ConfigError(f"{what} is not a valid address") from None
    host = parts.hostname
    if parts.scheme not in ("http", "https") or not host or not url.isascii() or not url.isprintable() or " " in url:
        raise ConfigError(f"{what} must be an address that begins with {schemes}")
    if parts.username is not None or parts.password is not None:
        raise ConfigError(f"{what} must not have a user name or password in its address")
    if parts.scheme == "http" and not plain and not is_loopback(host):
        raise ConfigError(f"{what} at {host!r} is not this machine: its address must begin with https://")
    shown = f"[{host}]" if ":" in host else host
    return f"{parts.scheme}://{shown}{'' if port is None else f':{port}'}{parts.path}"


def _opener(
    url: str, ca_location: str | None, ca_pem: str | None, options: tuple[str, str], identity: Identity | None
) -> OpenerDirector:
    """Return an opener of URLs that follows no redirect."""
    from urllib.request import HTTPRedirectHandler, HTTPSHandler, ProxyHandler, build_opener

    class NoRedirects(HTTPRedirectHandler):
        def redirect_request(
            self, req: Request, fp: IO[bytes], code: int, msg: str, headers: HTTPMessage, newurl: str
        ) -> None:
            del req, fp, code, msg, headers, newurl

    parts = urlsplit(url)
    if parts.scheme == "http":
        this_machine = is_loopback(parts.hostname or "")  # (without a proxy)
        return build_opener(NoRedirects(), *([ProxyHandler({})] if this_machine else []))
    context = _tls(ca_location, ca_pem, options)
    if identity is not None:
        from kafwire.security.python_tls import load_identity

        load_identity(context, identity)
    return build_opener(NoRedirects(), HTTPSHandler(context=context))


def _tls(ca_location: str | None, ca_pem: str | None, options: tuple[str, str]) -> ssl.SSLContext:
    import ssl
    from pathlib import Path

    context = ssl.create_default_context() if not (ca_location or ca_pem) else ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN  # any trusted certificate is an anchor
    try:
        if ca_location:
            if Path(ca_location).is_dir():
                context.load_verify_locations(capath=ca_location)
            else:
                _trust(context, Path(ca_location).read_bytes(), f"{options[0]} {ca_location!r}")
        if ca_pem:
            _trust(context, ca_pem.encode(), options[1])
    except OSError as problem:
        where = f"{options[0]} {ca_location!r}" if ca_location else options[1]
        raise ConfigError(f"{where} has no certificates that can be read: {_reason(problem)}") from None
    return context


def _trust(context: ssl.SSLContext, text: bytes, where: str) -> None:
    from kafwire.security.python_tls import trust

    bad = trust(context, text)
    if bad is None:
        raise ConfigError(f"{where} has no certificates that can be read")
    for at, reason in bad:
        log.warning(
            "%s: certificate %d cannot be read (%s): it is left out",
            where,
            at + 1,
            reason,
            url=where,
            certificate=at + 1,
            reason=reason,
        )


def _reason(problem: object) -> str:
    """Describe a network error in a few words."""
    if isinstance(problem, TimeoutError):
        return "it did not respond in time"
    if isinstance(problem, OSError) and problem.strerror:
        return problem.strerror
    return show(str(problem).encode(errors="replace")) or type(problem).__name__
