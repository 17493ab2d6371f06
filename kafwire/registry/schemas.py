"""`CachedSchemas`: the registry's schemas out of its responses, which it checks, with caches by id and by subject."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any
from urllib.parse import quote
from uuid import UUID

from kafwire.errors import ConfigError, SchemaError, UnknownSchemaError
from kafwire.registry.references import Malformed, resolved
from kafwire.registry.registered import AVRO, JSON, PROTOBUF, Compatibility, Reference, Registered
from kafwire.registry.requests import RegistryRequests
from kafwire.registry.shared_lookups import SharedLookups

__all__ = ["LOOK_UP", "REGISTER", "CachedSchemas", "SubjectKey", "body_of", "key_of", "quoted"]

MAX_ID = 2**63 - 1  # Apicurio's
REGISTER, LOOK_UP = "register", "lookup"

# REGISTER or LOOK_UP, subject, text, type, references, normalize
SubjectKey = tuple[str, str, str, str, tuple[Reference, ...], bool]


class CachedSchemas:
    """The schemas of a registry.

    Args:
        requests: the registry.
        max_schemas: the most schemas in each cache.
        unknown_s: how long an unknown id is reported without another request.
        clock: the time in seconds.
    """

    def __init__(
        self, requests: RegistryRequests, max_schemas: int, unknown_s: float, clock: Callable[[], float]
    ) -> None:
        self._requests = requests

        def kept(error: BaseException) -> float:
            """Return how many seconds to cache a failure: a schema never changes, an unknown id may be registered."""
            if isinstance(error, SchemaError):
                return math.inf
            return unknown_s if isinstance(error, UnknownSchemaError) else 0.0

        self.by_id: SharedLookups[int | UUID, Registered] = SharedLookups(self._look_up, kept, clock, max_schemas)
        self._versions: SharedLookups[tuple[str, int], dict[str, Any]] = SharedLookups(
            self._version, kept, clock, max_schemas
        )
        self.ids: SharedLookups[SubjectKey, Registered] = SharedLookups(
            self._id_in_subject, lambda _: 0.0, clock, max_schemas
        )

    def forget(self, subject: str) -> None:
        """Remove the ids and versions of a subject from the caches."""
        self.ids.forget(lambda key: key[1] == subject)
        self._versions.forget(lambda key: key[0] == subject)

    def _look_up(self, schema_id: int | UUID) -> Registered:
        what = f"schema {schema_id}"
        if isinstance(schema_id, UUID):
            found = self.registered(self.object_of("GET", f"/schemas/guids/{schema_id}", what), what)
            if found.guid not in (None, schema_id):
                raise self._requests.invalid(what, f"its response has the GUID {found.guid}")
            return found
        response = {"id": schema_id, **self.object_of("GET", f"/schemas/ids/{int(schema_id)}", what)}
        if response["id"] != schema_id:
            raise self._requests.invalid(what, f"its response has the id {response['id']!r}")
        return self.registered(response, what)

    def _version(self, key: tuple[str, int]) -> dict[str, Any]:
        subject, version = key
        what = f"version {version} of subject {subject!r}"
        return self.object_of("GET", f"/subjects/{quoted(subject)}/versions/{version}?deleted=true", what)

    def _id_in_subject(self, key: SubjectKey) -> Registered:
        kind, subject, text, schema_type, _, normalize = key
        query = "?normalize=true" if normalize else ""
        if kind == REGISTER:
            what, path = f"registration in subject {subject!r}", f"/subjects/{quoted(subject)}/versions{query}"
        else:
            what, path = f"lookup in subject {subject!r}", f"/subjects/{quoted(subject)}{query}"
        found = self.object_of("POST", path, what, body_of(key))
        if not _is_id(found.get("id")):
            raise self._requests.invalid(what, "its response has no id")
        version = found["version"] if _is_id(found.get("version")) else -1
        return Registered(text, found["id"], subject, version, schema_type)

    def registered(self, found: Mapping[str, Any], what: str) -> Registered:
        """Return the schema of a response, with its references. Raises `SchemaRegistryError` if it is not valid."""
        text = self._text(found, what)
        try:
            references = resolved(found, what, lambda subject, version: self._referred(subject, version, what))
        except Malformed as problem:
            raise self._requests.invalid(what, str(problem)) from None
        subject, schema_id, version = found.get("subject", ""), found.get("id", -1), found.get("version", -1)
        schema_type, guid = found.get("schemaType", AVRO), found.get("guid")
        if not (isinstance(subject, str) and (_is_id(schema_id) or schema_id == -1) and isinstance(version, int)):
            raise self._requests.invalid(what, "its id or version is not a number")
        if not isinstance(schema_type, str):
            raise self._requests.invalid(what, "its type is not a text")
        try:
            known = None if guid is None else UUID(guid)
        except (ValueError, TypeError, AttributeError):
            raise self._requests.invalid(what, "its GUID is not valid") from None
        origin = f"{what} of {self._requests.name}"
        return Registered(text, schema_id, subject, version, schema_type, references, known, origin)

    def _referred(self, subject: str, version: int, what: str) -> tuple[str, Mapping[str, Any]]:
        found = self._versions.get((subject, version))
        return self._text(found, f"{what}, version {version} of subject {subject!r}"), found

    def _text(self, found: Mapping[str, Any], what: str) -> str:
        text = found.get("schema")
        if not isinstance(text, str):
            raise self._requests.invalid(what, "its response has no schema")
        try:
            text.encode()
        except UnicodeEncodeError:
            raise self._requests.invalid(what, "its schema has characters that are no text") from None
        return text

    def object_of(self, method: str, path: str, what: str, body: dict[str, Any] | None = None) -> dict[str, Any]:
        """Send a request, and return the JSON object of its response."""
        found = self._requests.call(method, path, what, body)
        if not isinstance(found, dict):
            raise self._requests.invalid(
                what, "its response is not a JSON object: is this the address of a schema registry?"
            )
        return found

    def verdict(self, found: Mapping[str, Any], what: str) -> Compatibility:
        """Return the verdict of a response. Raises `SchemaRegistryError` if it has none."""
        verdict, messages, reason = (found.get(name) for name in ("is_compatible", "messages", "reason"))
        if not isinstance(verdict, bool) or not isinstance(messages or [], list):
            raise self._requests.invalid(what, "its response has no verdict")
        if not messages and reason:
            messages = [reason]  # Apicurio's
        return Compatibility(verdict, tuple(str(each) for each in messages or []))

    def list_of(self, found: object, what: str, kind: type[Any]) -> list[Any]:
        """Return the list of a response. Raises `SchemaRegistryError` if it is none, or has items of another type."""
        if not isinstance(found, list) or not all(type(each) is kind for each in found):
            raise self._requests.invalid(what, "its response is not a list of names or numbers")
        return found


def key_of(
    kind: str, subject: str, text: str, schema_type: str, references: Iterable[Reference], normalize: bool
) -> SubjectKey:
    """Return the key of a schema in `CachedSchemas.ids`. Raises `ConfigError` for an unknown type."""
    if schema_type not in (AVRO, JSON, PROTOBUF):
        raise ConfigError(f"schema_type is {AVRO!r}, {JSON!r} or {PROTOBUF!r}, not {schema_type!r}")
    # The registry takes direct references, and finds the others by itself.
    direct: tuple[Reference, ...] = ()
    if references:
        direct = tuple(Reference(each.name, each.subject, each.version) for each in references if each.is_direct)
    return kind, subject, text, schema_type, direct, bool(normalize)


def body_of(key: SubjectKey) -> dict[str, Any]:
    """Return the JSON object of a request with a schema."""
    _, _, text, schema_type, references, _ = key
    body: dict[str, Any] = {"schema": text}
    if schema_type != AVRO:
        body["schemaType"] = schema_type
    if references:
        body["references"] = [
            {"name": each.name, "subject": each.subject, "version": each.version} for each in references
        ]
    return body


def _is_id(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= MAX_ID


def quoted(name: str) -> str:
    """Return a name as one step of a path."""
    return quote(name, safe="")
