"""Avro schemas (the specification's chapter "Schema Declaration"): JSON to checked `Type`s.

Names are resolved here. A record may contain itself: its `Type` is a cycle of objects then.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, TypeGuard

from kafwire.errors import SchemaError

__all__ = ["Field", "Logical", "Type", "parse"]

PRIMITIVES = frozenset({"null", "boolean", "int", "long", "float", "double", "bytes", "string"})
NAMED = frozenset({"record", "enum", "fixed"})
MAX_DEPTH = 64
MAX_FIXED = 1 << 20
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


class _Missing(Enum):  # pickles as itself
    MISSING = 0


MISSING: Any = _Missing.MISSING  # marks a field without a default

# The type of each logical type that annotates only one type.
_LOGICAL = {
    "date": "int",
    "time-millis": "int",
    "time-micros": "long",
    "timestamp-millis": "long",
    "timestamp-micros": "long",
    "timestamp-nanos": "long",
    "local-timestamp-millis": "long",
    "local-timestamp-micros": "long",
    "local-timestamp-nanos": "long",
}


@dataclass(frozen=True, slots=True)
class Logical:
    """A logical type; precision and scale are those of a decimal."""

    name: str
    precision: int = 0
    scale: int = 0


@dataclass(frozen=True, slots=True)
class Field:
    """A field of a record."""

    name: str
    type: Type
    default: Any = MISSING
    aliases: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Type:
    """A type of a schema. `name` is the full name of a record, enum or fixed; inapplicable fields are empty."""

    kind: str
    name: str = ""
    aliases: tuple[str, ...] = ()  # full names
    fields: tuple[Field, ...] = ()
    symbols: tuple[str, ...] = ()
    default: str | None = None  # of an enum
    size: int = 0
    items: Type | None = None  # of an array; a map's values
    branches: tuple[Type, ...] = ()
    logical: Logical | None = None

    @property
    def short_name(self) -> str:
        """The name without its namespace."""
        return self.name.rpartition(".")[2]

    def __str__(self) -> str:
        return f"{self.kind} {self.name}" if self.name else self.kind


@dataclass(slots=True)
class _Parser:
    known: dict[str, Type] = field(default_factory=dict)

    def parse(self, schema: Any, space: str, path: str, depth: int) -> Type:
        if depth > MAX_DEPTH:
            raise _wrong(path, f"types are nested more than {MAX_DEPTH} deep")
        if isinstance(schema, str):
            return self._named(schema, space, path)
        if isinstance(schema, list):
            return self._union(schema, space, path, depth)
        if not isinstance(schema, dict):
            raise _wrong(path, f"{_show(schema)} is not a type: a type is a name, an array or an object")
        kind = schema.get("type", MISSING)
        if kind is MISSING:
            raise _wrong(path, "an object without 'type'")
        if not isinstance(kind, str):  # {"type": {"type": ...}}
            return self.parse(kind, space, path, depth + 1)
        if kind in ("record", "error"):
            return self._record(schema, space, path, depth)
        if kind == "enum":
            return self._enum(schema, space, path)
        if kind == "fixed":
            return self._fixed(schema, space, path)
        if kind == "array":
            items = self.parse(_member(schema, "items", path), space, f"{path}[]", depth + 1)
            return Type("array", items=items)
        if kind == "map":
            values = self.parse(_member(schema, "values", path), space, f"{path}{{}}", depth + 1)
            return Type("map", items=values)
        if kind in PRIMITIVES:
            return Type(kind, logical=_logical(schema, kind, 0))
        return self._named(kind, space, path)

    def _named(self, name: str, space: str, path: str) -> Type:
        if name in PRIMITIVES:
            return Type(name)
        for full in (name,) if "." in name or not space else (f"{space}.{name}", name):
            if full in self.known:
                return self.known[full]
        raise _wrong(path, f"{name!r} is not a type that the schema has defined up to here")

    def _union(self, schema: list[Any], space: str, path: str, depth: int) -> Type:
        branches = tuple(self.parse(each, space, path, depth + 1) for each in schema)
        seen = set()
        for branch in branches:
            if branch.kind == "union":
                raise _wrong(path, "a union directly in a union")
            key = branch.name or branch.kind
            if key in seen:
                raise _wrong(path, f"a union that has {key!r} twice")
            seen.add(key)
        return Type("union", branches=branches)

    def _record(self, schema: dict[str, Any], space: str, path: str, depth: int) -> Type:
        name, inner, aliases = self._define(schema, space, path)
        declared = _member(schema, "fields", path)
        if not isinstance(declared, list):
            raise _wrong(path, f"'fields' of the record {name!r} is no array")
        made = self._keep(Type("record", name, aliases))
        fields, seen = [], set[str]()
        for each in declared:
            if not isinstance(each, dict):
                raise _wrong(path, f"a field of the record {name!r} is no object")
            own = _name_of(_member(each, "name", path), path)
            if own in seen:
                raise _wrong(path, f"the record {name!r} has the field {own!r} twice")
            seen.add(own)
            place = f"{path}.{own}" if path else own
            kind = self.parse(_member(each, "type", place), inner, place, depth + 1)
            others = tuple(_name_of(alias, place) for alias in _list(each, "aliases", place))
            fields.append(Field(own, kind, each.get("default", MISSING), others))
        object.__setattr__(made, "fields", tuple(fields))  # last, as a field may be of the record's own type
        return made

    def _enum(self, schema: dict[str, Any], space: str, path: str) -> Type:
        name, _, aliases = self._define(schema, space, path)
        symbols = _list(schema, "symbols", path)
        for symbol in symbols:
            _name_of(symbol, path)
        if len(set(symbols)) < len(symbols):
            raise _wrong(path, f"the enum {name!r} has a symbol twice")
        default = schema.get("default")
        if default is not None and default not in symbols:
            raise _wrong(path, f"the default {_show(default)} of the enum {name!r} is none of its symbols")
        return self._keep(Type("enum", name, aliases, symbols=tuple(symbols), default=default))

    def _fixed(self, schema: dict[str, Any], space: str, path: str) -> Type:
        name, _, aliases = self._define(schema, space, path)
        size = _member(schema, "size", path)
        if not _is_whole(size) or not 0 <= size <= MAX_FIXED:
            raise _wrong(path, f"the size of the fixed {name!r} is {_show(size)}: it is a number from 0 to {MAX_FIXED}")
        return self._keep(Type("fixed", name, aliases, size=size, logical=_logical(schema, "fixed", size)))

    def _define(self, schema: dict[str, Any], space: str, path: str) -> tuple[str, str, tuple[str, ...]]:
        """Return the full name, the inner namespace, and the aliases of a named type."""
        given = _member(schema, "name", path)
        own = schema.get("namespace", space)
        if not isinstance(given, str) or not isinstance(own, str):
            raise _wrong(path, "a name or namespace that is no text")
        full = given if "." in given or not own else f"{own}.{given}"
        for part in full.split("."):
            _name_of(part, path)
        if full in PRIMITIVES:
            raise _wrong(path, f"the name {full!r} belongs to a primitive type")
        if full in self.known:
            raise _wrong(path, f"the name {full!r} is defined twice")
        inner = full.rpartition(".")[0]
        aliases = []
        for alias in _list(schema, "aliases", path):
            if not isinstance(alias, str):
                raise _wrong(path, f"the alias {_show(alias)} of {full!r} is no text")
            aliases.append(alias if "." in alias or not inner else f"{inner}.{alias}")
        return full, inner, tuple(aliases)

    def _keep(self, made: Type) -> Type:
        self.known[made.name] = made
        return made


def parse(schema: str | Mapping[str, Any] | list[Any], references: Iterable[str | Mapping[str, Any]] = ()) -> Type:
    """Parse a schema.

    Args:
        schema: JSON text, or its parsed object; the text may be a bare name such as `string`.
        references: the schemas whose names it uses, each after those that it uses itself.

    Returns:
        The type.

    Raises:
        SchemaError: the text is not JSON, or not a schema; the message names the field.

    Example:
        >>> from kafwire.avro.schema import parse
        >>> parse('{"type": "array", "items": "long"}').items.kind
        'long'
    """
    parser = _Parser()
    try:
        for each in references:
            parser.parse(_loaded(each), "", "", 0)
        return parser.parse(_loaded(schema), "", "", 0)
    except RecursionError:
        raise SchemaError("Avro schema: types are nested too deep") from None


def _loaded(schema: object) -> Any:
    if not isinstance(schema, str):
        return schema
    if re.fullmatch(r"\s*[\w.]+\s*", schema):
        return schema.strip()
    try:
        return json.loads(schema)
    except ValueError as error:
        raise SchemaError(f"Avro schema: the text is not JSON: {error}") from None


def _logical(schema: dict[str, Any], kind: str, size: int) -> Logical | None:
    """Return the logical type; None for an unknown or unsuitable one, which the specification says to ignore."""
    name = schema.get("logicalType")
    if not isinstance(name, str):
        return None
    if name == "decimal" and kind in ("bytes", "fixed"):
        precision, scale = schema.get("precision"), schema.get("scale", 0)
        if not _is_whole(precision) or not _is_whole(scale) or not 0 <= scale <= precision or precision < 1:
            return None
        if kind == "fixed" and (size == 0 or 10 ** min(precision, 8 * size) - 1 >= 1 << (8 * size - 1)):
            return None
        return Logical(name, precision, scale)
    if name == "uuid" and (kind == "string" or (kind == "fixed" and size == 16)):
        return Logical(name)
    return Logical(name) if _LOGICAL.get(name) == kind else None


def _is_whole(value: object) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool)


def _member(schema: dict[str, Any], name: str, path: str) -> Any:
    if name not in schema:
        raise _wrong(path, f"{_show(schema.get('type', schema.get('name')))} has no {name!r}")
    return schema[name]


def _list(schema: dict[str, Any], name: str, path: str) -> list[Any]:
    found = schema.get(name, [])
    if not isinstance(found, list):
        raise _wrong(path, f"{name!r} is no array")
    return found


def _name_of(name: object, path: str) -> str:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise _wrong(path, f"{_show(name)} is no name: a letter or _, then letters, digits and _")
    return name


def _show(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:57]}..."


def _wrong(path: str, why: str) -> SchemaError:
    return SchemaError(f"Avro schema{f', {path}' if path else ''}: {why}")
