"""`Registered`: a schema from the registry with the texts that it refers to; `Reference`, `Compatibility`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from uuid import UUID

from kafwire.avro.schema import Type, parse
from kafwire.errors import SchemaError
from kafwire.registry.shared_lookups import own_copy

__all__ = ["AVRO", "JSON", "PROTOBUF", "Compatibility", "Reference", "Registered"]

AVRO, JSON, PROTOBUF = "AVRO", "JSON", "PROTOBUF"


@dataclass(frozen=True)
class Reference:
    """A reference of a schema to a version of a subject.

    Args:
        name: the name by which the schema refers to it: an Avro name, a Protobuf import, the `$ref` of a JSON schema.
        subject: the subject that has it.
        version: the version in the subject.
        text: its text; empty where it is given to `register`, `lookup` and `compatibility`, which ignore it.
        is_direct: False: only another reference refers to it.

    Example:
        >>> from kafwire.registry import Reference
        >>> Reference("a.Airport", "airport", 1).version
        1
    """

    name: str
    subject: str
    version: int
    text: str = ""
    is_direct: bool = True


@dataclass(frozen=True)
class Registered:
    """A schema from the registry.

    Args:
        text: its text: JSON for Avro and JSON Schema, a `.proto` file for Protobuf.
        id: its id; -1 if the registry does not report it.
        subject: the subject, if it was looked up by one.
        version: the version in the subject; -1 without one.
        schema_type: "AVRO", "JSON" or "PROTOBUF".
        references: the schemas that it refers to, and those that these refer to, each after its own references.
        guid: its GUID; None if the registry does not report it.
        origin: the schema's name in errors.

    Example:
        >>> from kafwire.registry import Registered
        >>> found = Registered('"string"', 7)
        >>> found.id, found.schema.kind, found.schema_type
        (7, 'string', 'AVRO')
    """

    text: str
    id: int = -1
    subject: str = ""
    version: int = -1
    schema_type: str = AVRO
    references: tuple[Reference, ...] = ()
    guid: UUID | None = None
    origin: str = ""

    @property
    def schema(self) -> Type:
        """Return the parsed Avro schema, with the schemas that it refers to. It is parsed once.

        Returns:
            The type.

        Raises:
            SchemaError: the schema is not an Avro schema, or cannot be parsed.

        Example:
            >>> from kafwire.registry import Registered
            >>> Registered('"long"').schema.kind
            'long'
        """
        found = self.__dict__.get("_parsed")
        if found is None:
            # Two threads may parse it at the same time; the results are equal.
            found = self.__dict__["_parsed"] = self._parse()
        if isinstance(found, SchemaError):
            raise own_copy(found)
        return found

    def __getstate__(self) -> dict[str, object]:
        return {name: value for name, value in self.__dict__.items() if name != "_parsed"}

    def _parse(self) -> Type | SchemaError:
        origin = self.origin or "the schema"
        if self.schema_type != AVRO:
            return SchemaError(f"{origin} is a schema of type {self.schema_type}, not AVRO")
        try:
            return parse(self.text, texts_of(self.references))
        except SchemaError as problem:
            return SchemaError(f"{origin}: {problem}")


@dataclass(frozen=True)
class Compatibility:
    """The registry's verdict on a schema. It is true if the schema is compatible.

    Args:
        is_compatible: True if the schema is compatible.
        messages: the registry's reasons against it; some registries give none.

    Example:
        >>> from kafwire.registry import Compatibility
        >>> bool(Compatibility(False, ("READER_FIELD_MISSING_DEFAULT_VALUE",)))
        False
    """

    is_compatible: bool
    messages: tuple[str, ...] = ()

    def __bool__(self) -> bool:
        return self.is_compatible


def texts_of(references: Iterable[Reference]) -> list[str]:
    """Return the text of each version of a subject once: two references may name it differently."""
    return list({(each.subject, each.version): each.text for each in references}.values())
