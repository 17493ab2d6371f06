"""JSON schemas: their validators, and the Arrow types of the documents that they allow.

May not hold: requests. A validator resolves references among given texts alone.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import urldefrag, urljoin

from kafwire.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

__all__ = ["MAX_DEPTH", "arrow_type", "check_depth", "schema_of", "validator_of"]

MAX_DEPTH = 200  # of documents and schemas: the validator recurses on the C stack
_BASE = "json-schema:///"
_NEEDS = "JSON Schema needs the package jsonschema-rs: install kafwire[jsonschema]"


def check_depth(text: bytes | str, value: Any) -> None:
    """Raise `ValueError` for a value of more than `MAX_DEPTH` levels, given with its JSON text."""
    curly, square = ("{", "[") if isinstance(text, str) else (b"{", b"[")
    if text.count(curly) + text.count(square) <= MAX_DEPTH:  # type: ignore[arg-type]
        return
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        level = [
            child
            for each in level
            if isinstance(each, dict | list)
            for child in (each.values() if isinstance(each, dict) else each)
        ]
        if not level:
            return
    raise ValueError(f"the document has more than {MAX_DEPTH} levels")


def schema_of(text: str, origin: str) -> Any:
    """Return the schema of a text: an object, or a bool. Raises `SchemaError`."""
    try:
        found = json.loads(text)
        check_depth(text, found)
    except (ValueError, RecursionError) as error:
        raise SchemaError(f"{origin} is no JSON schema: {error}") from error
    if not isinstance(found, dict | bool):
        raise SchemaError(f"{origin} is no JSON schema: an object or a bool is needed, not {type(found).__name__}")
    return found


def validator_of(schema: Any, references: Iterable[tuple[str, str]], origin: str) -> Any:
    """Return the validator of a schema, by its `$schema` of draft 4 to 2020-12; 2020-12 without one.

    Args:
        schema: the schema.
        references: the names and texts of schemas that it refers to; a name is a `$ref` in the schema.
        origin: the schema's name in errors.

    Raises:
        ImportError: jsonschema-rs is not installed.
        SchemaError: the schema is not valid, or refers to a schema that is not among the references.
    """
    try:
        import jsonschema_rs
    except ImportError as error:
        raise ImportError(_NEEDS) from error
    base = _id_of(schema) or _BASE
    known: dict[str, Any] = {}
    missing: list[str] = []
    for name, text in references:
        found = schema_of(text, f"{origin}: reference {name!r}")
        for uri in (name, urljoin(base, name), _BASE + name, _id_of(found)):
            if uri:
                known.setdefault(urldefrag(uri).url, found)

    def retrieve(uri: str) -> Any:
        found = known.get(urldefrag(uri).url)
        if found is None:
            missing.append(uri)
            raise ValueError("no reference")
        return found

    options: dict[str, Any] = {} if _id_of(schema) else {"base_uri": _BASE}
    try:
        return jsonschema_rs.validator_for(schema, retriever=retrieve, **options)
    except ValueError as error:  # of which its errors are
        if missing:
            text = f"{origin} refers to {missing[0].removeprefix(_BASE)}, which is not among its references"
            raise SchemaError(text) from error
        raise SchemaError(f"{origin} is no JSON schema: {_line(error)}") from error


def _id_of(schema: Any) -> str:
    found = schema.get("$id", schema.get("id")) if isinstance(schema, Mapping) else None
    return found if isinstance(found, str) else ""


def _line(error: Exception) -> str:
    return str(getattr(error, "message", None) or error).partition("\n")[0]


def arrow_type(schema: Any) -> pa.DataType | None:
    """Return the Arrow type of the documents of a schema; None if columns cannot have all of them.

    Objects with `properties` of known types are structs, arrays are lists; integers are int64, numbers float64. Members
    that are not in `properties` are not in the columns.
    """
    import pyarrow as pa

    found = _type(schema, 0)
    return found if found is not None and pa.types.is_struct(found) else None


def _type(schema: Any, depth: int) -> pa.DataType | None:
    import pyarrow as pa

    if not isinstance(schema, Mapping) or depth > MAX_DEPTH or "$ref" in schema:
        return None
    kinds = schema.get("type")
    named = [kind for kind in ([kinds] if isinstance(kinds, str) else _listed(kinds)) if kind != "null"]
    if len(named) != 1 or not isinstance(named[0], str):
        of_schema = _listed(schema.get("oneOf")) or _listed(schema.get("anyOf"))
        branches = [each for each in of_schema if each != {"type": "null"}]
        return _type(branches[0], depth + 1) if not named and len(branches) == 1 else None
    plain = {"string": pa.string(), "integer": pa.int64(), "number": pa.float64(), "boolean": pa.bool_()}
    if named[0] in plain:
        return plain[named[0]]
    if named[0] == "array":
        inner = _type(schema.get("items"), depth + 1)
        return None if inner is None else pa.list_(inner)
    properties = schema.get("properties")
    if named[0] != "object" or not isinstance(properties, Mapping) or not properties:
        return None
    fields = [(name, _type(each, depth + 1)) for name, each in properties.items()]
    return None if any(kind is None or not _is_text(name) for name, kind in fields) else pa.struct(fields)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []


def _is_text(name: str) -> bool:
    """Return False for a lone surrogate, which JSON can escape and Arrow cannot name a field by."""
    return name.encode(errors="replace").decode() == name
