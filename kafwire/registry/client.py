"""`SchemaRegistry`: schemas by id and by subject, cached permanently (the registry never changes an id)."""

from __future__ import annotations

import base64
import json
import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NoReturn
from urllib.parse import quote, urlsplit

from kafwire.avro.schema import Type, parse
from kafwire.errors import ConfigError, SchemaError, SchemaRegistryError, UnknownSchemaError
from kafwire.registry.shared_lookups import SharedLookups
from kafwire.secret import Secret
from kafwire.security.https_client import HttpsClient, Refused, Response, Transient, is_loopback, retried, without

if TYPE_CHECKING:
    from urllib.request import Request

__all__ = ["Registered", "SchemaRegistry"]

MAX_RESPONSE_BYTES = 8 << 20
MAX_REFERENCES = 1_000
ACCEPT = "application/vnd.schemaregistry.v1+json, application/json"
# Error codes of the registry: subject, version, schema not found.
NOT_FOUND = frozenset({40401, 40402, 40403})


@dataclass(frozen=True)
class Registered:
    """A schema from the registry.

    Args:
        schema: the parsed schema.
        text: its JSON text.
        id: its id; -1 if the registry does not report it.
        subject: the subject, if it was looked up by one.
        version: the version in the subject; -1 without one.

    Example:
        >>> from kafwire.avro.schema import parse
        >>> from kafwire.registry import Registered
        >>> Registered(parse("string"), '"string"', 7).id
        7
    """

    schema: Type
    text: str
    id: int = -1
    subject: str = ""
    version: int = -1


class SchemaRegistry:
    """A client of a schema registry: Confluent's REST API, for Avro schemas.

    It has no thread and no permanent connection. A call blocks until the registry responds, or until `timeout_s`; any
    number of threads may call, and those that need the same schema share one request.

    Args:
        url: the registry's address.
        username: the name for basic authentication; needs https, or a registry on this machine.
        password: the password for it.
        ca_location: a file or folder of CA certificates for the registry's; None: the system's.
        ca_pem: the same as text.
        timeout_s: the time limit of one lookup with its retries, and of each schema that it refers to.
        unknown_s: how long an unknown id is reported without another request.
        clock: the time in seconds, for tests.

    Raises:
        ConfigError: the address, the certificates or the credentials cannot be used.

    Example:
        >>> from kafwire.registry import SchemaRegistry
        >>> SchemaRegistry("http://localhost:8081")
        SchemaRegistry('http://localhost:8081')
    """

    def __init__(
        self,
        url: str,
        *,
        username: str | None = None,
        password: str | Secret | None = None,
        ca_location: str | None = None,
        ca_pem: str | None = None,
        timeout_s: float = 30.0,
        unknown_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._https = HttpsClient(
            url,
            "the schema registry",
            max_bytes=MAX_RESPONSE_BYTES,
            ca_location=ca_location,
            ca_pem=ca_pem,
            options=("ca_location", "ca_pem"),
            plain=True,
        )
        parts = urlsplit(url)
        if parts.query or parts.fragment:
            raise ConfigError("the schema registry's address must have no query and no fragment")
        if (username is None) != (password is None):
            raise ConfigError("the schema registry takes username and password together")
        if username is not None and parts.scheme == "http" and not is_loopback(parts.hostname or ""):
            raise ConfigError("the schema registry's password needs an address that begins with https://")
        if not 0 < timeout_s < math.inf or not 0 <= unknown_s < math.inf:
            raise ConfigError(f"timeout_s is above 0, not {timeout_s}; unknown_s is at least 0, not {unknown_s}")
        self._arguments = {
            "url": url,
            "username": username,
            "password": None if password is None else Secret(password),
            "ca_location": ca_location,
            "ca_pem": ca_pem,
            "timeout_s": timeout_s,
            "unknown_s": unknown_s,
        }
        self._base = url.rstrip("/")
        self._timeout_s = timeout_s
        # The password, and the encoded name and password; empty without credentials.
        self._secrets = () if username is None else (Secret(password or ""), _basic(username, Secret(password or "")))
        by_id: SharedLookups[int, Registered] = SharedLookups(
            self._look_up, lambda error: _kept(error, unknown_s), clock
        )
        self._by_id = by_id
        self._versions: SharedLookups[tuple[str, int], dict[str, Any]] = SharedLookups(
            self._version, lambda error: _kept(error, unknown_s), clock
        )

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._arguments,)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._https.name!r})"

    def schema(self, schema_id: int) -> Type:
        """Return the schema of an id.

        Args:
            schema_id: the id.

        Returns:
            The parsed schema, with the schemas that it refers to.

        Raises:
            UnknownSchemaError: the registry does not have the id, or a schema that it refers to.
            SchemaError: the schema is not an Avro schema, or cannot be parsed.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.schema(7)
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: schema 7: no response from the schema registry at http://localhost:9 ...
        """
        return self._by_id.get(schema_id).schema

    def latest(self, subject: str) -> Registered:
        """Return the latest schema of a subject, with a request at each call.

        Args:
            subject: the subject: by default `flights-value` for the values of the topic `flights`.

        Returns:
            The schema with its id and version.

        Raises:
            UnknownSchemaError: there is no such subject.
            SchemaError: the schema is not an Avro schema, or cannot be parsed.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.latest("flights-value")
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: subject 'flights-value': no response from the schema registry at ...
        """
        what = f"subject {subject!r}"
        return self._registered(self._get(f"/subjects/{quote(subject, safe='')}/versions/latest", what), what)

    # --- lookups ----------------------------------------------------------------------------------------------------

    def _look_up(self, schema_id: int) -> Registered:
        what = f"schema {schema_id}"
        return self._registered({"id": schema_id, **self._get(f"/schemas/ids/{schema_id}", what)}, what)

    def _version(self, key: tuple[str, int]) -> dict[str, Any]:
        subject, version = key
        return self._get(
            f"/subjects/{quote(subject, safe='')}/versions/{version}?deleted=true",
            f"version {version} of subject {subject!r}",
        )

    def _registered(self, found: Mapping[str, Any], what: str) -> Registered:
        text = self._text(found, what)
        texts: dict[tuple[str, int], str] = {}
        self._refer(found, what, texts, [])
        try:
            schema = parse(text, texts.values())
        except SchemaError as problem:
            raise SchemaError(f"{what} of {self._https.name}: {problem}") from None
        subject, number, version = found.get("subject", ""), found.get("id", -1), found.get("version", -1)
        if not (isinstance(subject, str) and isinstance(number, int) and isinstance(version, int)):
            raise self._no_schema(what, "its id or version is not a number")
        return Registered(schema, text, number, subject, version)

    def _refer(
        self, found: Mapping[str, Any], what: str, texts: dict[tuple[str, int], str], path: list[tuple[str, int]]
    ) -> None:
        """Add the texts of all referenced schemas, each after those that it refers to itself."""
        for each in self._references(found, what):
            if each in path:
                raise SchemaError(f"{what}: version {each[1]} of subject {each[0]!r} refers to itself")
            if each in texts:
                continue
            if len(texts) + len(path) >= MAX_REFERENCES:
                raise SchemaError(f"{what}: it refers to more than {MAX_REFERENCES} schemas")
            referred = self._versions.get(each)
            inner = f"{what}, version {each[1]} of subject {each[0]!r}"
            text = self._text(referred, inner)
            self._refer(referred, what, texts, [*path, each])
            texts[each] = text

    def _references(self, found: Mapping[str, Any], what: str) -> list[tuple[str, int]]:
        listed = found.get("references") or []
        try:
            pairs = [(each["subject"], each["version"]) for each in listed]
        except (TypeError, KeyError):
            pairs = [("", "")]
        if not all(isinstance(subject, str) and isinstance(version, int) for subject, version in pairs):
            raise self._no_schema(what, "its references have no subject and version")
        return pairs

    def _text(self, found: Mapping[str, Any], what: str) -> str:
        kind = found.get("schemaType", "AVRO")
        if kind != "AVRO":
            raise SchemaError(f"{what} of {self._https.name} is a schema of type {kind}, not AVRO")
        text = found.get("schema")
        if not isinstance(text, str):
            raise self._no_schema(what, "its response has no schema")
        return text

    # --- requests ---------------------------------------------------------------------------------------------------

    def _get(self, path: str, what: str) -> dict[str, Any]:
        def late(said: str) -> SchemaRegistryError:
            return SchemaRegistryError(
                f"{what}: no response from the schema registry at {self._https.name} within {self._timeout_s:g} s: "
                f"{said}",
                retriable=True,
            )

        return retried(self._timeout_s, lambda deadline: self._attempt(path, what, deadline), late)

    def _attempt(self, path: str, what: str, deadline: float) -> dict[str, Any]:
        try:
            response = self._https.send(self._request(path), deadline)
        except Refused as problem:
            raise self._no_schema(what, str(problem)) from None
        if response.status != 200:
            code, said = self._explained(response)
            # The body may repeat the password, and a traceback shows this frame's locals.
            response = response._replace(body=b"")
            self._refuse(response, code, said, what)
        found = _object(response.body)
        if found is None:
            raise self._no_schema(what, "its response is not a JSON object: is this the address of a schema registry?")
        return found

    def _request(self, path: str) -> Request:
        """Make the request. No other frame has its credentials as text."""
        from urllib.request import Request

        headers = {"Accept": ACCEPT, "User-Agent": "kafwire"}
        if self._secrets:
            headers["Authorization"] = f"Basic {self._secrets[1].reveal()}"
        return Request(self._base + path, headers=headers)  # noqa: S310 - its scheme was checked before

    def _explained(self, response: Response) -> tuple[int | None, str]:
        """Return the error code of a failed response, and its text without repeated credentials."""
        found = _object(response.body) or {}
        code, message = found.get("error_code"), found.get("message")
        said = f"status {response.status}"
        if isinstance(code, int):
            said += f", error code {code}"
        if isinstance(message, str):
            said += f", {without(self._secrets, message)[:200]!r}"
        return (code if isinstance(code, int) else None), said

    def _refuse(self, response: Response, code: int | None, said: str, what: str) -> NoReturn:
        """Raise for a failed response."""
        if response.is_retriable:
            raise Transient(said)
        if response.status == 404 and code in NOT_FOUND:
            raise UnknownSchemaError(
                f"{what}: the schema registry at {self._https.name} does not have it: {said}", status=404, code=code
            )
        if response.status in (401, 403):
            said += ": check username and password, and their permissions"
        elif code is None:
            said += ": is this the address of a schema registry?"
        raise SchemaRegistryError(
            f"{what}: the schema registry at {self._https.name} refuses the request: {said}",
            status=response.status,
            code=code,
        )

    def _no_schema(self, what: str, why: str) -> SchemaRegistryError:
        return SchemaRegistryError(f"{what}: no schema from the schema registry at {self._https.name}: {why}")


def _basic(username: str, password: Secret) -> Secret:
    if ":" in username:
        raise ConfigError("the schema registry's username must not have a colon")
    return Secret(base64.b64encode(f"{username}:{password.reveal()}".encode()).decode())


def _object(body: bytes) -> dict[str, Any] | None:
    """Return the JSON object of a body, or None."""
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _made(arguments: dict[str, Any]) -> SchemaRegistry:
    return SchemaRegistry(**arguments)


def _kept(error: BaseException, unknown_s: float) -> float:
    """Return how many seconds to remember a failed lookup: a schema never changes, an unknown id may be registered."""
    if isinstance(error, SchemaError):
        return math.inf
    return unknown_s if isinstance(error, UnknownSchemaError) else 0.0
