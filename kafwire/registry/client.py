"""`SchemaRegistry`: schemas by id and by subject, cached permanently (the registry never changes an id)."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any
from uuid import UUID

from kafwire.avro.schema import Type
from kafwire.errors import ConfigError, UnknownSchemaError
from kafwire.registry.registered import AVRO, Compatibility, Reference, Registered
from kafwire.registry.requests import Credentials, RegistryRequests, Token
from kafwire.registry.schemas import LOOK_UP, REGISTER, CachedSchemas, body_of, key_of, quoted
from kafwire.secret import Secret
from kafwire.security.identity import identity_of

__all__ = ["SchemaRegistry"]

LEVELS = ("BACKWARD", "BACKWARD_TRANSITIVE", "FORWARD", "FORWARD_TRANSITIVE", "FULL", "FULL_TRANSITIVE", "NONE")

# The codes of a subject or version that is already soft-deleted.
SOFT_DELETED = frozenset({40404, 40406})


class SchemaRegistry:
    """A client of a schema registry: Confluent's REST API, which Apicurio and others also have.

    It has no thread and no permanent connection. A call blocks until the registry responds, or until `timeout_s`; any
    number of threads may call, and those that need the same schema share one request.

    Args:
        url: the registry's address, or several of one registry, as a list or with commas between them. The client tries
            them in turn, and first the last that responded.
        username: the name for basic authentication; needs https, or a registry on this machine.
        password: the password for it.
        token: a bearer token, or a callable that returns one before each request; needs https like a password.
        headers: headers of every request, such as `target-sr-cluster` of Confluent Cloud. They are not secret.
        ca_location: a file or folder of CA certificates for the registry's; None: the system's.
        ca_pem: the same as text.
        certificate_location: a PEM file with the client's certificate and its chain (mTLS); it may hold the key too.
        certificate_pem: the same as text.
        key_location: a PEM file with the certificate's private key.
        key_pem: the same as text.
        key_password: the password of an encrypted key.
        timeout_s: the time limit of one call with its retries, and of each schema that a schema refers to.
        attempt_timeout_s: the time limit of one request to one address.
        max_retries: how often all addresses are tried again after a failure that may pass.
        max_schemas: the most schemas in each cache; beyond it, the oldest leaves.
        unknown_s: how long an unknown id is reported without another request.
        clock: the time in seconds, for tests.

    Raises:
        ConfigError: an address, the certificates or the credentials cannot be used.

    Example:
        >>> from kafwire.registry import SchemaRegistry
        >>> SchemaRegistry("http://localhost:8081")
        SchemaRegistry('http://localhost:8081')
    """

    def __init__(
        self,
        url: str | Sequence[str],
        *,
        username: str | None = None,
        password: str | Secret | None = None,
        token: Token | None = None,
        headers: Mapping[str, str] | None = None,
        ca_location: str | None = None,
        ca_pem: str | None = None,
        certificate_location: str | None = None,
        certificate_pem: str | None = None,
        key_location: str | None = None,
        key_pem: str | Secret | None = None,
        key_password: str | Secret | None = None,
        timeout_s: float = 30.0,
        attempt_timeout_s: float = 10.0,
        max_retries: int = 10,
        max_schemas: int = 10_000,
        unknown_s: float = 10.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        given = {name: value for name, value in locals().items() if name not in ("self", "clock")}
        if not 0 < timeout_s < math.inf or not 0 <= unknown_s < math.inf:
            raise ConfigError(f"timeout_s is above 0, not {timeout_s}; unknown_s is at least 0, not {unknown_s}")
        if not 0 < attempt_timeout_s < math.inf or max_retries < 0 or max_schemas < 1:
            raise ConfigError("attempt_timeout_s is above 0, max_retries at least 0, max_schemas at least 1")
        self._arguments = given | {
            "token": Secret(token) if isinstance(token, str) else token,
            **{name: _secret(given[name]) for name in ("password", "key_pem", "key_password")},
        }
        self._requests = RegistryRequests(
            [each.strip() for each in url.split(",")] if isinstance(url, str) else list(url),
            Credentials(username, password, token),
            dict(headers or {}),
            ca_location=ca_location,
            ca_pem=ca_pem,
            identity=identity_of(certificate_location, certificate_pem, key_location, key_pem, key_password),
            timeout_s=timeout_s,
            attempt_timeout_s=attempt_timeout_s,
            max_retries=max_retries,
        )
        self._schemas = CachedSchemas(self._requests, max_schemas, unknown_s, clock)

    def __reduce__(self) -> tuple[Any, ...]:
        return _made, (self._arguments,)

    def __repr__(self) -> str:
        return f"SchemaRegistry({self._requests.name!r})"

    def schema(self, schema_id: int | UUID) -> Type:
        """Return the Avro schema of an id: the `schema_of` of an `AvroDecoder`.

        Args:
            schema_id: the id, or the GUID.

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
        return self._schemas.by_id.get(schema_id).schema

    def registered(self, schema_id: int | UUID) -> Registered:
        """Return the schema of an id, of any type; from the second call on without a request.

        Args:
            schema_id: the id, or the GUID.

        Returns:
            The schema with its type, its text and the texts that it refers to.

        Raises:
            UnknownSchemaError: the registry does not have the id, or a schema that it refers to.
            SchemaError: its references have a cycle, are too many, or too deep.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.registered(7)
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: schema 7: no response from the schema registry at http://localhost:9 ...
        """
        return self._schemas.by_id.get(schema_id)

    def by_guid(self, guid: UUID | str) -> Registered:
        """Return the schema of a GUID, as `registered` does. Confluent's registry has GUIDs from version 8 on.

        Args:
            guid: the GUID.

        Returns:
            The schema.

        Raises:
            ConfigError: the text is no GUID.
            UnknownSchemaError: the registry does not have the GUID.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.by_guid("89791762-2336-4186-9674-299b90a802e2")
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: schema 89791762-2336-4186-9674-299b90a802e2: no response from ...
        """
        if isinstance(guid, str):
            try:
                guid = UUID(guid)
            except ValueError:
                raise ConfigError(f"{guid!r} is no GUID") from None
        return self._schemas.by_id.get(guid)

    def latest(self, subject: str) -> Registered:
        """Return the latest schema of a subject, with a request at each call.

        Args:
            subject: the subject: by default `flights-value` for the values of the topic `flights`.

        Returns:
            The schema with its id and version.

        Raises:
            UnknownSchemaError: there is no such subject.
            SchemaError: its references have a cycle, are too many, or too deep.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.latest("flights-value")
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: subject 'flights-value': no response from the schema registry at ...
        """
        what = f"subject {subject!r}"
        return self._schemas.registered(
            self._schemas.object_of("GET", f"/subjects/{quoted(subject)}/versions/latest", what), what
        )

    def version(self, subject: str, version: int, *, deleted: bool = False) -> Registered:
        """Return a version of a subject, with a request at each call.

        Args:
            subject: the subject.
            version: the version's number.
            deleted: True: also if it was soft-deleted.

        Returns:
            The schema with its id.

        Raises:
            UnknownSchemaError: there is no such subject or version.
            SchemaError: its references have a cycle, are too many, or too deep.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.version("flights-value", 3)
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: version 3 of subject 'flights-value': no response from ...
        """
        what = f"version {version} of subject {subject!r}"
        path = f"/subjects/{quoted(subject)}/versions/{int(version)}{'?deleted=true' if deleted else ''}"
        return self._schemas.registered(self._schemas.object_of("GET", path, what), what)

    def versions(self, subject: str, *, deleted: bool = False) -> list[int]:
        """Return the numbers of a subject's versions.

        Args:
            subject: the subject.
            deleted: True: also those that were soft-deleted.

        Returns:
            The numbers in the registry's order.

        Raises:
            UnknownSchemaError: there is no such subject.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.versions("flights-value")
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: subject 'flights-value': no response from the schema registry at ...
        """
        what = f"subject {subject!r}"
        query = "?deleted=true" if deleted else ""
        return self._schemas.list_of(
            self._requests.call("GET", f"/subjects/{quoted(subject)}/versions{query}", what), what, int
        )

    def subjects(self, prefix: str = "", *, deleted: bool = False) -> list[str]:
        """Return the names of subjects.

        Args:
            prefix: the beginning of the names.
            deleted: True: also those that were soft-deleted.

        Returns:
            The names, as the registry sorts them.

        Raises:
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.subjects()
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: subjects: no response from the schema registry at http://localhost:9 ...
        """
        query = [f"subjectPrefix={quoted(prefix)}"] if prefix else []
        query += ["deleted=true"] if deleted else []
        found = self._requests.call("GET", f"/subjects{'?' if query else ''}{'&'.join(query)}", "subjects")
        # Registries that do not know subjectPrefix list all subjects.
        return [each for each in self._schemas.list_of(found, "subjects", str) if each.startswith(prefix)]

    def lookup(
        self,
        subject: str,
        text: str,
        schema_type: str = AVRO,
        references: Iterable[Reference] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """Return the id of a schema in a subject; from the second call on without a request.

        Args:
            subject: the subject.
            text: the schema.
            schema_type: "AVRO", "JSON" or "PROTOBUF".
            references: the schemas that it refers to; those of `Registered.references` are accepted.
            normalize: True: the registry compares normalized schemas.

        Returns:
            The id.

        Raises:
            UnknownSchemaError: the subject does not exist, or does not have the schema.
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.lookup("flights-value", '"string"')
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: lookup in subject 'flights-value': no response from ...
        """
        return self._schemas.ids.get(key_of(LOOK_UP, subject, text, schema_type, references, normalize)).id

    def version_of(self, subject: str, text: str, schema_type: str = AVRO, references: Iterable[Reference] = ()) -> int:
        """Return the version of a schema in a subject; after `lookup` of it without a request.

        Args:
            subject: the subject.
            text: the schema.
            schema_type: "AVRO", "JSON" or "PROTOBUF".
            references: the schemas that it refers to.

        Returns:
            The version's number.

        Raises:
            UnknownSchemaError: as for `lookup`.
            SchemaRegistryError: as for `lookup`.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.version_of("flights-value", '"string"')
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: lookup in subject 'flights-value': no response from ...
        """
        found = self._schemas.ids.get(key_of(LOOK_UP, subject, text, schema_type, references, normalize=False))
        if found.version < 1:
            raise self._requests.invalid(f"lookup in subject {subject!r}", "its response has no version")
        return found.version

    def register(
        self,
        subject: str,
        text: str,
        schema_type: str = AVRO,
        references: Iterable[Reference] = (),
        *,
        normalize: bool = False,
    ) -> int:
        """Register a schema in a subject, and return its id; from the second call on without a request.

        The registry returns the id of a schema that the subject already has.

        Args:
            subject: the subject.
            text: the schema.
            schema_type: "AVRO", "JSON" or "PROTOBUF".
            references: the schemas that it refers to; those of `Registered.references` are accepted.
            normalize: True: the registry stores and compares the normalized schema.

        Returns:
            The id.

        Raises:
            SchemaRegistryError: the schema is not valid or not compatible (`status` 409), or there is no response.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.register("flights-value", '"string"')
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: registration in subject 'flights-value': no response from ...
        """
        return self._schemas.ids.get(key_of(REGISTER, subject, text, schema_type, references, normalize)).id

    def delete(self, subject: str, version: int | None = None, *, permanent: bool = False) -> list[int]:
        """Delete a version, or a subject with all its versions.

        A soft-deleted schema keeps its id: consumers still decode old records. A permanent deletion makes the soft one
        first, as the registry demands, and removes the id.

        Args:
            subject: the subject.
            version: the version's number; None: all versions.
            permanent: True: delete permanently.

        Returns:
            The numbers of the deleted versions.

        Raises:
            UnknownSchemaError: there is no such subject or version; without `permanent`, or it is already soft-deleted.
            SchemaRegistryError: other schemas refer to it, or the registry cannot be reached in time.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.delete("flights-value", 1)
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: deletion of version 1 of subject 'flights-value': no response from ...
        """
        what = f"deletion of subject {subject!r}"
        path = f"/subjects/{quoted(subject)}"
        if version is not None:
            what = f"deletion of version {version} of subject {subject!r}"
            path += f"/versions/{int(version)}"
        try:
            found = self._requests.call("DELETE", path, what)
        except UnknownSchemaError as problem:
            if not permanent or problem.code not in SOFT_DELETED:
                raise
        if permanent:
            found = self._requests.call("DELETE", f"{path}?permanent=true", what)
        self._schemas.forget(subject)
        return self._schemas.list_of(found if isinstance(found, list) else [found], what, int)

    def compatibility(
        self,
        subject: str,
        text: str,
        schema_type: str = AVRO,
        references: Iterable[Reference] = (),
        *,
        version: int | None = None,
        normalize: bool = False,
    ) -> Compatibility:
        """Check whether a schema may be registered in a subject, without registering it.

        Args:
            subject: the subject.
            text: the schema.
            schema_type: "AVRO", "JSON" or "PROTOBUF".
            references: the schemas that it refers to.
            version: the version to compare with; None: the latest.
            normalize: True: the registry compares normalized schemas.

        Returns:
            The verdict by the subject's compatibility level, with the registry's reasons.

        Raises:
            UnknownSchemaError: there is no such subject or version.
            SchemaRegistryError: the schema is not valid, or the registry cannot be reached in time.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.compatibility("flights-value", '"string"')
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: compatibility with subject 'flights-value': no response from ...
        """
        what = f"compatibility with subject {subject!r}"
        path = f"/compatibility/subjects/{quoted(subject)}/versions/{'latest' if version is None else int(version)}"
        query = f"?verbose=true{'&normalize=true' if normalize else ''}"
        body = body_of(key_of(LOOK_UP, subject, text, schema_type, references, normalize))
        found = self._schemas.object_of("POST", path + query, what, body)
        return self._schemas.verdict(found, what)

    def compatibility_level(self, subject: str | None = None) -> str:
        """Return a subject's compatibility level, which is the registry's unless it was set.

        Args:
            subject: the subject; None: the level of the registry.

        Returns:
            BACKWARD, FORWARD, FULL, each also with `_TRANSITIVE`, or NONE.

        Raises:
            SchemaRegistryError: the registry cannot be reached in time, or its response is not valid.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> registry = SchemaRegistry("http://localhost:9", timeout_s=0.01)
            >>> registry.compatibility_level()
            Traceback (most recent call last):
            kafwire.errors.SchemaRegistryError: compatibility level: no response from the schema registry at ...
        """
        path = "/config" if subject is None else f"/config/{quoted(subject)}?defaultToGlobal=true"
        found = self._schemas.object_of("GET", path, "compatibility level")
        level = found.get("compatibilityLevel")
        if not isinstance(level, str):
            raise self._requests.invalid("compatibility level", "its response has no level")
        return level

    def set_compatibility_level(self, level: str, subject: str | None = None) -> None:
        """Set a subject's compatibility level, or the registry's.

        Args:
            level: BACKWARD, FORWARD, FULL, each also with `_TRANSITIVE`, or NONE.
            subject: the subject; None: the level of the registry.

        Raises:
            ConfigError: there is no such level.
            SchemaRegistryError: the registry cannot be reached in time, or refuses the request.

        Example:
            >>> from kafwire.registry import SchemaRegistry
            >>> SchemaRegistry("http://localhost:9").set_compatibility_level("backwards")
            Traceback (most recent call last):
            kafwire.errors.ConfigError: the compatibility level is one of BACKWARD, BACKWARD_TRANSITIVE, ...
        """
        if level not in LEVELS:
            raise ConfigError(f"the compatibility level is one of {', '.join(LEVELS)}, not {level!r}")
        path = "/config" if subject is None else f"/config/{quoted(subject)}"
        self._schemas.object_of("PUT", path, "compatibility level", {"compatibility": level})


def _secret(text: str | Secret | None) -> Secret | None:
    return None if text is None else Secret(text)


def _made(arguments: dict[str, Any]) -> SchemaRegistry:
    return SchemaRegistry(**arguments)
