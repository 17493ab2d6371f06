"""`RegistryFormat`, the base of formats whose records have the id of a registered schema."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from kafwire.errors import ConfigError, UnknownSchemaError
from kafwire.registry.framing import ConfluentHeader, ConfluentPrefix, Framing, GluePrefix, SchemaId
from kafwire.registry.registered import Reference, Registered
from kafwire.schemas.format import Format, OnBadRecord
from kafwire.schemas.schema_lookups import SchemaLookups
from kafwire.schemas.subjects import Subject, check_subject
from kafwire.serialization import SerializationContext
from kafwire.serializer_signature import RequestNeeded

if TYPE_CHECKING:
    from kafwire.registry.client import SchemaRegistry

__all__ = ["RegistryFormat"]


class RegistryFormat(Format):
    """The registry, subject and framing of a format.

    Args:
        registry: the registry.
        text: the text of the schema to write; None: the latest of the subject.
        subject: the strategy of subjects.
        framing: the place of the schema id; None: Confluent's prefix.
        register: True: the first write registers the schema.
        references: the schemas that the text refers to.
        on_bad: the outcome of bytes that cannot be decoded.

    Raises:
        ConfigError: an argument is wrong.
    """

    schema_type: str

    def __init__(
        self,
        registry: SchemaRegistry,
        text: str | None,
        *,
        subject: Subject,
        framing: Framing | None,
        register: bool,
        references: Iterable[Reference],
        on_bad: OnBadRecord,
    ) -> None:
        super().__init__(on_bad=on_bad)
        check_subject(subject)
        if register and text is None:
            raise ConfigError("register=True needs the schema to register: give schema")
        self._registry = registry
        self._text = text
        self._subject: Subject = subject
        self._framing: Framing = ConfluentPrefix() if framing is None else framing
        self._register = register
        self._references = tuple(references)
        self._lookups = SchemaLookups(self._framing, self._look_up)

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._registry!r})"

    @property
    def schema_lookups(self) -> SchemaLookups | None:
        """The requests to the registry; None without one."""
        return self._lookups

    def _look_up(self, schema_id: SchemaId, ctx: SerializationContext) -> None:
        """Send the requests that a record with this schema id needs.

        Raises:
            Exception: a request failed, or the schema cannot be used.
        """
        raise NotImplementedError

    def _registered(self, schema_id: SchemaId) -> Registered:
        return self._lookups.call(self._registry.registered, schema_id)

    def _latest_schema(self, subject: str) -> Registered:
        return self._lookups.call(self._registry.latest, subject)

    @staticmethod
    def _before_request(ctx: SerializationContext) -> None:
        """Raise `RequestNeeded` if the caller must not block."""
        if not ctx.may_block:
            raise RequestNeeded

    def _id_of(self, subject: str, text: str, references: Iterable[Reference]) -> int:
        """Return the id of a schema to write.

        Raises:
            UnknownSchemaError: the subject does not have it, and `register` is False.
            SchemaRegistryError: the registry does not respond, or refuses the schema.
        """
        if self._register:
            return self._registry.register(subject, text, self.schema_type, references)
        try:
            return self._registry.lookup(subject, text, self.schema_type, references)
        except UnknownSchemaError as error:
            raise UnknownSchemaError(
                f"{error}; register the schema in subject {subject!r}, or let the format do so by register=True",
                status=error.status,
                code=error.code,
            ) from error

    def _framed_id(self, number: int) -> SchemaId:
        """Return the id that the framing writes: the GUID, if it has GUIDs.

        Raises:
            ConfigError: the framing has GUIDs, and the registry reports none.
        """
        if not isinstance(self._framing, ConfluentHeader | GluePrefix):
            return number
        guid = self._registry.registered(number).guid
        if guid is None:
            raise ConfigError(f"schema {number}: {self._framing!r} needs a GUID, and the registry reports none")
        return guid
