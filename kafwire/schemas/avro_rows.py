"""Single Avro values, to and from Python values by fastavro, behind kafwire's checks of bytes.

fastavro reads items without bytes for as long as the value claims, takes an index of -1 for a union's
last branch, and writes a number beyond `int`. kafwire's decoder checks the bytes before a read, and after such a write.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any

from kafwire.avro.decoder import AvroDecoder
from kafwire.avro.recursive import Malformed, flat, recursive_names, value_at
from kafwire.avro.schema import MISSING, Field, Type
from kafwire.errors import DecodeError, SchemaError

if TYPE_CHECKING:
    from types import ModuleType

__all__ = ["RowReader", "RowWriter", "schema_object"]


MAX_CONTAINERS = 400  # dicts, lists and tuples within each other, of a recursive schema


class RowWriter:
    r"""Writes Python values of one schema.

    Args:
        schema: the schema.

    Raises:
        ImportError: fastavro is not installed.

    Example:
        >>> from kafwire.avro.schema import parse
        >>> from kafwire.schemas.avro_rows import RowWriter
        >>> RowWriter(parse('"long"')).write(1)
        b'\x02'
    """

    def __init__(self, schema: Type) -> None:
        fastavro = _fastavro()
        self._write = fastavro.schemaless_writer
        self._schema = _parsed(fastavro, schema)
        self._recursive = schema if recursive_names(schema) else None
        self._check = None
        if self._recursive is None and _has_unchecked_numbers(schema):
            self._check = AvroDecoder(schema, writer=schema)

    def write(self, value: Any) -> bytes:
        """Return the bytes of a value.

        Args:
            value: the value, as fastavro takes it. A dict for a record has no other keys than its fields.

        Returns:
            The bytes.

        Raises:
            Exception: the value does not have the schema: fastavro's error, or a `DecodeError`.
        """
        if self._recursive is not None:
            _check_levels(value)
        file = io.BytesIO()
        self._write(file, self._schema, value, strict_allow_default=True)
        data = file.getvalue()
        if self._check is not None:
            self._check.decode([data])
        elif self._recursive is not None:
            _check_recursive(self._recursive, data)
        return data


class RowReader:
    r"""Reads Python values of one writer's schema, as values of a reader's.

    Args:
        writer: the schema of the bytes.
        reader: the schema of the values; None: the writer's.

    Raises:
        ImportError: fastavro is not installed.
        SchemaError: the schemas do not match.

    Example:
        >>> from kafwire.avro.schema import parse
        >>> from kafwire.schemas.avro_rows import RowReader
        >>> RowReader(parse('"long"'), None).read(b"\x02")
        1
    """

    def __init__(self, writer: Type, reader: Type | None) -> None:
        fastavro = _fastavro()
        if reader is not None:
            AvroDecoder(flat(reader), writer=flat(writer))  # the same rules as for columns
        self._read = fastavro.schemaless_reader
        self._writer = _parsed(fastavro, writer)
        self._reader = None if reader is None else _parsed(fastavro, reader)
        self._recursive = writer if recursive_names(writer) else None
        if self._recursive is not None:
            return
        self._named = AvroDecoder(writer, writer=writer)  # its errors name the field
        row = Type("record", "Row", fields=(Field("value", writer),))  # its bytes are those of `writer`
        # Items without bytes are skipped at once, however many: only a decoder of columns counts them.
        is_counted = _has_items_without_bytes(writer)
        self._check = self._named if is_counted else AvroDecoder(Type("record", "Row"), writer=row)

    def read(self, data: bytes) -> Any:
        """Return the value of bytes.

        Args:
            data: the bytes.

        Returns:
            The value, as fastavro makes it.

        Raises:
            DecodeError: the bytes are no value of the schema.
        """
        if self._recursive is not None:
            _check_recursive(self._recursive, data)
        else:
            try:
                self._check.decode([data])
            except DecodeError:
                self._named.decode([data])
                raise
        try:
            return self._read(io.BytesIO(data), self._writer, self._reader)
        except Exception as error:
            cause = f"{type(error).__name__}: {error}"
            raise DecodeError(f"fastavro cannot read the value: {cause}", row=0, cause=cause) from error


def _check_recursive(schema: Type, data: bytes) -> None:
    """Raise `DecodeError` for bytes that are no value of a recursive schema."""
    try:
        end = value_at(schema, data)[1]
        if end != len(data):
            raise Malformed(f"{len(data) - end} bytes follow the value, which ends at byte {end}")
    except Malformed as problem:
        raise DecodeError(str(problem), row=0, cause=str(problem)) from None


def _check_levels(value: Any) -> None:
    """Raise `ValueError` for a value that contains itself: fastavro would never end."""
    level = [value]
    for _ in range(MAX_CONTAINERS):
        inner = {
            id(child): child
            for each in level
            if isinstance(each, dict | list | tuple)
            for child in (each.values() if isinstance(each, dict) else each)
        }
        if not inner:
            return
        level = list(inner.values())
    raise ValueError(f"the value has more than {MAX_CONTAINERS} levels, or contains itself")


def _fastavro() -> ModuleType:
    try:
        import fastavro
    except ImportError as error:
        raise ImportError(
            "single Avro records need the package fastavro, unlike columns: install kafwire[avro]"
        ) from error
    module: ModuleType = fastavro
    return module


def _parsed(fastavro: ModuleType, schema: Type) -> Any:
    try:
        return fastavro.parse_schema(schema_object(schema))
    except Exception as error:
        raise SchemaError(f"fastavro, which converts single records, refuses the Avro schema: {error}") from error


def _has_unchecked_numbers(of: Type, is_branch: bool = False) -> bool:
    """Return True if values have an `int` that fastavro does not check: it checks the branches of unions."""
    if of.kind == "int":
        return not is_branch
    inner = [each.type for each in of.fields] + ([] if of.items is None else [of.items])
    return any(_has_unchecked_numbers(each) for each in inner) or any(
        _has_unchecked_numbers(each, is_branch=True) for each in of.branches
    )


def _has_items_without_bytes(of: Type) -> bool:
    if of.kind == "array" and of.items is not None and _is_without_bytes(of.items):
        return True
    inner = [each.type for each in of.fields] + list(of.branches) + ([] if of.items is None else [of.items])
    return any(_has_items_without_bytes(each) for each in inner)


def _is_without_bytes(of: Type) -> bool:
    """Return True if the type has values without bytes."""
    if of.kind == "record":
        return all(_is_without_bytes(each.type) for each in of.fields)
    return of.kind == "null" or (of.kind == "fixed" and of.size == 0)


def schema_object(schema: Type) -> Any:
    """Return a schema as its JSON object, with the schemas that it refers to: each name is defined once.

    Args:
        schema: the schema.

    Returns:
        The object.

    Example:
        >>> from kafwire.avro.schema import parse
        >>> from kafwire.schemas.avro_rows import schema_object
        >>> schema_object(parse('["null", "long"]'))
        ['null', 'long']
    """
    return _object(schema, set())


def _object(of: Type, known: set[str]) -> Any:
    if of.kind == "union":
        return [_object(each, known) for each in of.branches]
    if of.name in known:
        return of.name
    made: dict[str, Any] = {"type": of.kind}
    if of.name:
        known.add(of.name)
        made |= {"name": of.name} | ({"aliases": list(of.aliases)} if of.aliases else {})
    if of.kind == "record":
        made["fields"] = [_field(each, known) for each in of.fields]
    elif of.kind == "enum":
        made |= {"symbols": list(of.symbols)} | ({} if of.default is None else {"default": of.default})
    elif of.kind == "fixed":
        made["size"] = of.size
    elif of.items is not None:
        made["items" if of.kind == "array" else "values"] = _object(of.items, known)
    if of.logical is not None:
        made["logicalType"] = of.logical.name
        if of.logical.name == "decimal":
            made |= {"precision": of.logical.precision, "scale": of.logical.scale}
    return of.kind if made == {"type": of.kind} else made


def _field(each: Field, known: set[str]) -> dict[str, Any]:
    made = {"name": each.name, "type": _object(each.type, known)}
    if each.aliases:
        made["aliases"] = list(each.aliases)
    return made if each.default is MISSING else {**made, "default": each.default}
