"""A schema registry of this machine: Confluent's REST API as far as kafwire's client uses it, over http or https.

Only Avro schemas are checked for compatibility, as `avro_compatibility` does; others are compatible with everything.
"""

from __future__ import annotations

import base64
import contextlib
import hashlib
import json
import ssl
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, unquote, urlsplit
from uuid import UUID

import trustme

from kafwire.avro.schema import Type, parse
from kafwire.errors import SchemaError
from tests.support.avro_compatibility import differences
from tests.support.http_server import LocalHttpServer

LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")


@dataclass
class Reply:
    """A response; `before` runs first, and may wait. `drop`: the connection is closed without one."""

    status: int = 200
    body: bytes = b"{}"
    before: Callable[[], object] | None = None
    drop: bool = False
    location: str | None = None
    retry_after: str | None = None


class _Failed(Exception):
    def __init__(self, status: int, code: int, message: str) -> None:
        super().__init__(message)
        self.reply = error(status, code, message)


@dataclass(eq=False)
class _Stored:
    """A schema; the same one in several subjects is one object."""

    id: int
    text: str
    kind: str
    references: list[dict[str, Any]]

    @property
    def guid(self) -> UUID:
        """Confluent's: MD5 of the text and of each reference (`Schema.updateHash`, `SchemaReference.updateHash`)."""
        made = hashlib.md5(self.text.encode(), usedforsecurity=False)
        for each in self.references:
            made.update(each["name"].encode() + each["subject"].encode() + each["version"].to_bytes(4, "big"))
        return UUID(bytes=made.digest())


@dataclass
class _Version:
    schema: _Stored
    deleted: bool = False


@dataclass
class Subjects:
    """Schemas by id, versions of subjects by number, and compatibility levels; None is the registry's own."""

    by_id: dict[int, _Stored] = field(default_factory=dict)
    versions: dict[str, dict[int, _Version]] = field(default_factory=dict)
    next_version: dict[str, int] = field(default_factory=dict)
    levels: dict[str | None, str] = field(default_factory=lambda: {None: "BACKWARD"})


class RegistryServer(LocalHttpServer):
    """Serves while the context lasts. Replies that are put into `replies` go before its own.

    Args:
        folder: where its CA's certificate is written; None: it speaks http.
        credentials: user and password, if it asks for them.
        token: the bearer token, if it asks for one.
        client_certificates: True: it demands a certificate of its CA, which `client_certificate` issues.
    """

    def __init__(
        self,
        folder: Path | None = None,
        credentials: tuple[str, str] | None = None,
        *,
        token: str | None = None,
        client_certificates: bool = False,
    ) -> None:
        self.paths: list[str] = []
        self.methods: list[str] = []
        self.headers: list[dict[str, str]] = []
        self.replies: deque[Reply] = deque()
        self.subjects = Subjects()
        self.token = token
        self._credentials = credentials
        context = None
        if folder is not None:
            self.authority = trustme.CA()
            self.ca_file = folder / "registry-ca.pem"
            self.ca_file.write_bytes(self.authority.cert_pem.bytes())
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            self.authority.issue_cert("localhost").configure_cert(context)
            if client_certificates:
                context.verify_mode = ssl.CERT_REQUIRED
                self.authority.configure_trust(context)
        super().__init__("schema-registry", context)

    def client_certificate(self) -> tuple[str, str]:
        """Issue a client's certificate; return it and its key as PEM."""
        made = self.authority.issue_cert("client.example")
        return "".join(each.bytes().decode() for each in made.cert_chain_pems), made.private_key_pem.bytes().decode()

    def register(
        self, subject: str, schema: Any, *, kind: str = "AVRO", references: list[tuple[str, str, int]] | None = None
    ) -> int:
        """Add a version without a check; returns the schema's id. References are name, subject and version."""
        names = ("name", "subject", "version")
        text = schema if isinstance(schema, str) else json.dumps(schema)
        listed = [dict(zip(names, each, strict=True)) for each in references or []]
        return self._add(subject, text, kind, listed).id

    @property
    def url(self) -> str:
        return self.origin

    def respond(self, request: BaseHTTPRequestHandler) -> None:
        """Give the next reply, or that of the stored schemas."""
        self.paths.append(request.path)
        self.methods.append(request.command)
        self.headers.append(dict(request.headers.items()))
        body = request.rfile.read(int(request.headers.get("Content-Length") or 0))
        try:
            reply = self.replies.popleft()
        except IndexError:
            reply = self._found(request, body)
        if reply.before is not None:
            reply.before()
        if reply.drop:
            request.close_connection = True
            return
        request.send_response(reply.status)
        if reply.location is not None:
            request.send_header("Location", reply.location)
        if reply.retry_after is not None:
            request.send_header("Retry-After", reply.retry_after)
        request.send_header("Content-Length", str(len(reply.body)))
        request.send_header("Connection", "close")
        request.end_headers()
        with contextlib.suppress(OSError):
            request.wfile.write(reply.body)

    def _found(self, request: BaseHTTPRequestHandler, body: bytes) -> Reply:
        sent = request.headers.get("Authorization")
        if self._credentials is not None:
            expected = base64.b64encode(":".join(self._credentials).encode()).decode()
            if sent != f"Basic {expected}":
                return error(401, 401, "Unauthorized")
        if self.token is not None and sent != f"Bearer {self.token}":
            return error(401, 401, "Unauthorized")
        parts = urlsplit(request.path)
        query = {name: values[-1] for name, values in parse_qs(parts.query).items()}
        steps = [unquote(each) for each in parts.path.strip("/").split("/")]
        try:
            return self._routed(request.command, steps, query, json.loads(body) if body else {})
        except _Failed as failed:
            return failed.reply

    def _routed(self, method: str, steps: list[str], query: dict[str, str], body: dict[str, Any]) -> Reply:
        deleted, permanent = query.get("deleted") == "true", query.get("permanent") == "true"
        match method, *steps:
            case "GET", "schemas", "ids", number:
                return self._by_id(number)
            case "GET", "schemas", "guids", guid:
                return self._by_guid(guid)
            case "GET", "subjects":
                return _json(sorted(name for name in self.subjects.versions if self._listed(name, deleted)))
            case "GET", "subjects", subject, "versions":
                return _json(self._numbers(subject, deleted))
            case "GET", "subjects", subject, "versions", version:
                return self._version(subject, version, deleted)
            case "POST", "subjects", subject:
                return self._look_up(subject, body)
            case "POST", "subjects", subject, "versions":
                return self._register(subject, body)
            case "DELETE", "subjects", subject:
                return self._delete_subject(subject, permanent)
            case "DELETE", "subjects", subject, "versions", version:
                return self._delete_version(subject, int(version), permanent)
            case "POST", "compatibility", "subjects", subject, "versions", version:
                return self._compatibility(subject, version, body)
            case "GET", "config", *subjects:
                return self._level(subjects, query.get("defaultToGlobal") == "true")
            case "PUT", "config", *subjects:
                return self._set_level(subjects, body)
        return error(404, 404, "HTTP 404 Not Found")

    # --- schemas ----------------------------------------------------------------------------------------------------

    def _by_id(self, number: str) -> Reply:
        stored = self.subjects.by_id.get(int(number))
        return error(404, 40403, f"Schema {number} not found") if stored is None else _shown(stored)

    def _by_guid(self, guid: str) -> Reply:
        for stored in self.subjects.by_id.values():
            if str(stored.guid) == guid:
                return _shown(stored)
        return error(404, 40403, f"Schema {guid} not found")

    def _listed(self, subject: str, deleted: bool) -> dict[int, _Stored]:
        versions = self.subjects.versions.get(subject, {})
        return {number: each.schema for number, each in versions.items() if deleted or not each.deleted}

    def _numbers(self, subject: str, deleted: bool) -> list[int]:
        numbers = sorted(self._listed(subject, deleted))
        if not numbers:
            raise _Failed(404, 40401, f"Subject '{subject}' not found.")
        return numbers

    def _at(self, subject: str, version: str, deleted: bool = False) -> tuple[int, _Stored]:
        numbers = self._numbers(subject, deleted)
        number = numbers[-1] if version == "latest" else int(version)
        if number not in numbers:
            raise _Failed(404, 40402, f"Version {number} not found.")
        return number, self.subjects.versions[subject][number].schema

    def _version(self, subject: str, version: str, deleted: bool) -> Reply:
        number, stored = self._at(subject, version, deleted)
        return _shown(stored, subject=subject, version=number)

    def _look_up(self, subject: str, body: dict[str, Any]) -> Reply:
        self._numbers(subject, deleted=False)
        asked = self._parsed(body)
        for number, stored in self._listed(subject, deleted=False).items():
            if _same(stored, *asked):
                return _shown(stored, subject=subject, version=number)
        return error(404, 40403, "Schema not found")

    def _register(self, subject: str, body: dict[str, Any]) -> Reply:
        text, kind, references = self._parsed(body)
        for stored in self._listed(subject, deleted=False).values():
            if _same(stored, text, kind, references):
                return _json({"id": stored.id, "guid": str(stored.guid)})
        found = self._incompatible(subject, text, kind, references, None)
        if found:
            return error(409, 409, f"Schema being registered is incompatible with an earlier schema: {found}")
        made = self._add(subject, text, kind, references)
        return _json({"id": made.id, "guid": str(made.guid)})

    def _add(self, subject: str, text: str, kind: str, references: list[dict[str, Any]]) -> _Stored:
        made = next((each for each in self.subjects.by_id.values() if _same(each, text, kind, references)), None)
        if made is None:
            made = _Stored(max(self.subjects.by_id, default=0) + 1, text, kind, references)
            self.subjects.by_id[made.id] = made
        number = self.subjects.next_version.get(subject, 1)
        self.subjects.next_version[subject] = number + 1
        self.subjects.versions.setdefault(subject, {})[number] = _Version(made)
        return made

    def _parsed(self, body: dict[str, Any]) -> tuple[str, str, list[dict[str, Any]]]:
        text, kind, references = body.get("schema"), body.get("schemaType", "AVRO"), body.get("references", [])
        if not isinstance(text, str):
            raise _Failed(422, 42201, "Empty schema")
        if kind == "AVRO":
            self._type(text, references)
        return text, kind, references

    def _type(self, text: str, references: list[dict[str, Any]]) -> Type:
        try:
            return parse(text, self._texts(references))
        except SchemaError as problem:
            raise _Failed(422, 42201, f"Invalid schema {text}: {problem}") from None

    def _texts(self, references: list[dict[str, Any]]) -> list[str]:
        found: dict[str, None] = {}
        for each in references:
            _, stored = self._at(each["subject"], str(each["version"]), deleted=True)
            found.update(dict.fromkeys([*self._texts(stored.references), stored.text]))
        return list(found)

    # --- deletion ---------------------------------------------------------------------------------------------------

    def _delete_subject(self, subject: str, permanent: bool) -> Reply:
        versions = self.subjects.versions.get(subject)
        if not versions:
            raise _Failed(404, 40401, f"Subject '{subject}' not found.")
        if permanent and not all(each.deleted for each in versions.values()):
            raise _Failed(404, 40405, f"Subject '{subject}' was not deleted first before being permanently deleted")
        if not permanent and all(each.deleted for each in versions.values()):
            raise _Failed(404, 40404, f"Subject '{subject}' was soft deleted. Set permanent=true to delete permanently")
        numbers = [number for number, each in versions.items() if permanent or not each.deleted]
        for number in numbers:
            self._refuse_if_referred(subject, number)
        for number in numbers:
            self._remove(subject, number, permanent)
        return _json(numbers)

    def _delete_version(self, subject: str, number: int, permanent: bool) -> Reply:
        versions = self.subjects.versions.get(subject, {})
        if number not in versions:
            self._at(subject, str(number), deleted=True)
        if permanent and not versions[number].deleted:
            raise _Failed(404, 40407, f"Subject '{subject}' Version {number} was not deleted first")
        if not permanent and versions[number].deleted:
            raise _Failed(404, 40406, f"Subject '{subject}' Version {number} was soft deleted.")
        self._refuse_if_referred(subject, number)
        self._remove(subject, number, permanent)
        return _json(number)

    def _refuse_if_referred(self, subject: str, number: int) -> None:
        for versions in self.subjects.versions.values():
            for each in versions.values():
                if any((one["subject"], one["version"]) == (subject, number) for one in each.schema.references):
                    raise _Failed(422, 42206, "One or more references exist to the schema")

    def _remove(self, subject: str, number: int, permanent: bool) -> None:
        version = self.subjects.versions[subject][number]
        version.deleted = True
        if not permanent:
            return
        del self.subjects.versions[subject][number]
        kept = [each.schema for versions in self.subjects.versions.values() for each in versions.values()]
        if version.schema not in kept:
            del self.subjects.by_id[version.schema.id]

    # --- compatibility ----------------------------------------------------------------------------------------------

    def _compatibility(self, subject: str, version: str, body: dict[str, Any]) -> Reply:
        text, kind, references = self._parsed(body)
        found = self._incompatible(subject, text, kind, references, self._at(subject, version)[1])
        return _json({"is_compatible": not found, "messages": found})

    def _incompatible(
        self, subject: str, text: str, kind: str, references: list[dict[str, Any]], against: _Stored | None
    ) -> list[str]:
        """Return the differences from a version, or from those that the subject's level names."""
        level = self.subjects.levels.get(subject, self.subjects.levels[None])
        direction, _, transitive = level.partition("_")
        earlier = list(self._listed(subject, deleted=False).values())
        if against is not None:
            earlier = [against]
        elif not transitive:
            earlier = earlier[-1:]
        found: list[str] = []
        for each in earlier:
            if level != "NONE" and each.kind != kind:
                found.append(f"Incompatible because of different schema type: {each.kind}, {kind}")
            elif kind == "AVRO":
                new, old = self._type(text, references), self._type(each.text, each.references)
                found += differences(new, old) if direction in ("BACKWARD", "FULL") else []
                found += differences(old, new) if direction in ("FORWARD", "FULL") else []
        return found

    def _level(self, subjects: list[str], default: bool) -> Reply:
        subject = subjects[0] if subjects else None
        levels = self.subjects.levels
        if subject not in levels and not default:
            return error(404, 40408, f"Subject '{subject}' does not have subject-level compatibility configured")
        return _json({"compatibilityLevel": levels.get(subject, levels[None])})

    def _set_level(self, subjects: list[str], body: dict[str, Any]) -> Reply:
        level = body.get("compatibility")
        if level not in LEVELS:
            return error(422, 42203, "Invalid compatibility level.")
        self.subjects.levels[subjects[0] if subjects else None] = level
        return _json({"compatibility": level})


def error(status: int, code: int, message: str) -> Reply:
    """An error as the registry has it."""
    return Reply(status, json.dumps({"error_code": code, "message": message}).encode())


def _json(value: object) -> Reply:
    return Reply(body=json.dumps(value).encode())


def _same(stored: _Stored, text: str, kind: str, references: list[dict[str, Any]]) -> bool:
    if stored.kind != kind or stored.references != references:
        return False
    if kind == "PROTOBUF" or stored.text == text:
        return stored.text == text
    try:
        return bool(json.loads(stored.text) == json.loads(text))
    except (ValueError, RecursionError):  # very deep JSON
        return False


def _shown(stored: _Stored, **more: Any) -> Reply:
    shown = {"schema": stored.text, "guid": str(stored.guid), **more}
    if "subject" in more:
        shown["id"] = stored.id
    if stored.kind != "AVRO":
        shown["schemaType"] = stored.kind
    if stored.references:
        shown["references"] = stored.references
    return _json(shown)
