"""An OAuth token endpoint of this machine, over https: it checks the client, and gives signed JWTs."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import trustme
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec, padding, rsa, utils

from tests.support.http_server import LocalHttpServer

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
CLIENT_ASSERTION = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"


@dataclass
class Asked:
    """A request as it came."""

    path: str
    headers: dict[str, str]
    form: dict[str, str]

    @property
    def basic(self) -> str:
        """The client and the secret in the header Authorization."""
        kind, _, data = self.headers.get("authorization", "").partition(" ")
        assert kind == "Basic"
        return base64.b64decode(data, validate=True).decode()


@dataclass
class Response:
    """The endpoint's reply; `before` runs first, and may wait."""

    status: int = 200
    body: bytes = b"{}"
    location: str | None = None
    before: Callable[[], object] | None = None
    drop: bool = False  # the connection, without a reply
    drip: threading.Event | None = None  # one byte after another until it is set


@cache
def rsa_key() -> rsa.RSAPrivateKey:
    """A key for all tests: making one takes long."""
    return rsa.generate_private_key(65_537, 2048)


@cache
def ec_key() -> ec.EllipticCurvePrivateKey:
    return ec.generate_private_key(ec.SECP256R1())


def pem(key: Any, passphrase: str | None = None) -> str:
    """A private key as text."""
    how: Any = serialization.NoEncryption()
    if passphrase is not None:
        how = serialization.BestAvailableEncryption(passphrase.encode())
    data: bytes = key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, how)
    return data.decode()


def base64url(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def parts_of(jwt: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and payload of a JWT."""
    header, payload = (json.loads(base64.urlsafe_b64decode(part + "==")) for part in jwt.split(".")[:2])
    return header, payload


def signed(payload: dict[str, Any]) -> str:
    """A JWT by the endpoint's own key."""
    text = ".".join(base64url(json.dumps(part).encode()) for part in ({"alg": "RS256", "typ": "JWT"}, payload))
    return f"{text}.{base64url(rsa_key().sign(text.encode(), padding.PKCS1v15(), hashes.SHA256()))}"


def verify(jwt: str) -> dict[str, Any]:
    """The payload of a JWT that one of the tests' keys has signed. Raises `InvalidSignature`."""
    header, payload = parts_of(jwt)
    text, _, signature = jwt.rpartition(".")
    data = base64.urlsafe_b64decode(signature + "==")
    if header["alg"] == "RS256":
        rsa_key().public_key().verify(data, text.encode(), padding.PKCS1v15(), hashes.SHA256())
    else:
        assert header["alg"] == "ES256"
        assert len(data) == 64
        der = utils.encode_dss_signature(int.from_bytes(data[:32]), int.from_bytes(data[32:]))
        ec_key().public_key().verify(der, text.encode(), ec.ECDSA(hashes.SHA256()))
    return payload


class TokenServer(LocalHttpServer):
    """Serves while the context lasts. Replies that are put into `responses` go before its own.

    Args:
        folder: where its CA's certificate is written.
        client_id: the client that may ask by secret.
        client_secret: its secret.
        tls: whether it speaks https.
        hosts: the names in its certificate.
        lasts_s: for how long its tokens are good.
    """

    def __init__(
        self,
        folder: Path,
        *,
        client_id: str = "the-client",
        client_secret: str = "the-secret",
        tls: bool = True,
        hosts: tuple[str, ...] = ("localhost", "127.0.0.1"),
        lasts_s: float = 300,
    ) -> None:
        self.asked: list[Asked] = []
        self.responses: deque[Response] = deque()
        self.client = f"{client_id}:{client_secret}"
        self.lasts_s = lasts_s
        authority = trustme.CA()
        self.ca_pem = authority.cert_pem.bytes().decode()
        self.ca_file = folder / "token-server-ca.pem"
        self.ca_file.write_text(self.ca_pem)
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        authority.issue_cert(*hosts).configure_cert(context)
        super().__init__("token-server", context if tls else None)

    @property
    def url(self) -> str:
        return f"{self.origin}/oauth2/token"

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Give the next reply, or a token."""
        size = int(request.headers["Content-Length"])
        form = dict(parse_qsl(request.rfile.read(size).decode(), strict_parsing=True, keep_blank_values=True))
        asked = Asked(request.path, {name.lower(): value for name, value in request.headers.items()}, form)
        self.asked.append(asked)
        try:
            response = self.responses.popleft()
        except IndexError:
            response = self._judge(asked)
        if response.before is not None:
            response.before()
        if response.drop:
            request.close_connection = True
            return
        request.send_response(response.status)
        request.send_header("Content-Type", "application/json")
        if response.location is not None:
            request.send_header("Location", response.location)
        if response.drip is None:
            request.send_header("Content-Length", str(len(response.body)))
        request.send_header("Connection", "close")
        request.end_headers()
        with contextlib.suppress(OSError):
            while response.drip is not None and not response.drip.wait(0.05):
                request.wfile.write(b" ")
            request.wfile.write(response.body)

    def _judge(self, asked: Asked) -> Response:
        """A token, or the error that OAuth has for the fault."""
        form = asked.form
        if asked.headers["content-type"] != "application/x-www-form-urlencoded":
            return error(400, "invalid_request")
        try:
            if form["grant_type"] == JWT_BEARER:
                subject = verify(form["assertion"])["sub"]
            elif form.get("client_assertion_type") == CLIENT_ASSERTION:
                subject = verify(form["client_assertion"])["sub"]
            elif form["grant_type"] == "client_credentials":
                if asked.basic != self.client:
                    return error(401, "invalid_client", f"the secret of {asked.basic} is wrong")
                subject = asked.basic.partition(":")[0]
            else:
                return error(400, "unsupported_grant_type")
        except (InvalidSignature, KeyError, ValueError, AssertionError):
            return error(400, "invalid_grant", "the assertion is not accepted")
        token = signed({"sub": subject, "exp": time.time() + self.lasts_s, "scope": form.get("scope", "")})
        return Response(
            body=json.dumps({"access_token": token, "token_type": "Bearer", "expires_in": self.lasts_s}).encode()
        )


def error(status: int, name: str, description: str | None = None) -> Response:
    """An error as OAuth has it."""
    said = {"error": name} | ({"error_description": description} if description is not None else {})
    return Response(status, json.dumps(said).encode())


def token(value: str = "opaque", **more: object) -> Response:
    """A token that is no JWT."""
    return Response(body=json.dumps({"access_token": value, **more}).encode())
