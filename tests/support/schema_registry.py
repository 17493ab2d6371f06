"""A schema registry of this machine: the part of Confluent's REST API that readers use, over http or https."""

from __future__ import annotations

import base64
import contextlib
import json
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import trustme

from tests.support.http_server import LocalHttpServer


@dataclass
class Reply:
    """A response; `before` runs first, and may wait. `drop`: the connection is closed without one."""

    status: int = 200
    body: bytes = b"{}"
    before: Callable[[], object] | None = None
    drop: bool = False
    location: str | None = None


@dataclass
class _Stored:
    id: int
    text: str
    kind: str
    references: list[dict[str, Any]]


@dataclass
class Subjects:
    """Schemas by id, and versions of subjects."""

    by_id: dict[int, _Stored] = field(default_factory=dict)
    versions: dict[str, list[_Stored]] = field(default_factory=dict)


class RegistryServer(LocalHttpServer):
    """Serves while the context lasts. Replies that are put into `replies` go before its own.

    Args:
        folder: where its CA's certificate is written; None: it speaks http.
        credentials: user and password, if it asks for them.
    """

    def __init__(self, folder: Path | None = None, credentials: tuple[str, str] | None = None) -> None:
        self.paths: list[str] = []
        self.replies: deque[Reply] = deque()
        self.subjects = Subjects()
        self._credentials = credentials
        context = None
        if folder is not None:
            authority = trustme.CA()
            self.ca_file = folder / "registry-ca.pem"
            self.ca_file.write_bytes(authority.cert_pem.bytes())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            authority.issue_cert("localhost").configure_cert(context)
        super().__init__("schema-registry", context)

    def register(
        self, subject: str, schema: Any, *, kind: str = "AVRO", references: list[tuple[str, str, int]] | None = None
    ) -> int:
        """Add a version to a subject; returns the schema's id. References are name, subject and version."""
        names = ("name", "subject", "version")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        number = len(self.subjects.by_id) + 1
        listed = [dict(zip(names, each, strict=True)) for each in references or []]
        made = _Stored(number, text, kind, listed)
        self.subjects.by_id[number] = made
        self.subjects.versions.setdefault(subject, []).append(made)
        return number

    @property
    def url(self) -> str:
        return self.origin

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Give the next reply, or that of the stored schemas."""
        self.paths.append(request.path)
        try:
            reply = self.replies.popleft()
        except IndexError:
            reply = self._found(request)
        if reply.before is not None:
            reply.before()
        if reply.drop:
            request.close_connection = True
            return
        request.send_response(reply.status)
        if reply.location is not None:
            request.send_header("Location", reply.location)
        request.send_header("Content-Length", str(len(reply.body)))
        request.send_header("Connection", "close")
        request.end_headers()
        with contextlib.suppress(OSError):
            request.wfile.write(reply.body)

    def _found(self, request: BaseHTTPRequestHandler) -> Reply:
        if self._credentials is not None:
            expected = base64.b64encode(":".join(self._credentials).encode()).decode()
            if request.headers.get("Authorization") != f"Basic {expected}":
                return error(401, 401, "Unauthorized")
        match urlsplit(request.path).path.strip("/").split("/"):
            case ["schemas", "ids", number]:
                stored = self.subjects.by_id.get(int(number))
                return error(404, 40403, f"Schema {number} not found") if stored is None else _shown(stored)
            case ["subjects", subject, "versions", version]:
                return self._version(unquote(subject), version)
        return error(404, 404, "HTTP 404 Not Found")

    def _version(self, subject: str, version: str) -> Reply:
        versions = self.subjects.versions.get(subject)
        if versions is None:
            return error(404, 40401, f"Subject '{subject}' not found.")
        number = len(versions) if version == "latest" else int(version)
        if not 1 <= number <= len(versions):
            return error(404, 40402, f"Version {number} not found.")
        stored = versions[number - 1]
        return _shown(stored, subject=subject, version=number, id=stored.id)


def error(status: int, code: int, message: str) -> Reply:
    """An error as the registry has it."""
    return Reply(status, json.dumps({"error_code": code, "message": message}).encode())


def _shown(stored: _Stored, **more: Any) -> Reply:
    shown = {"schema": stored.text, **more}
    if stored.kind != "AVRO":
        shown["schemaType"] = stored.kind
    if stored.references:
        shown["references"] = stored.references
    return Reply(body=json.dumps(shown).encode())
