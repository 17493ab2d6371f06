"""The Arrow columns of a reader's schema, and the column of each of its types."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from kafwire.avro.recursive import refused
from kafwire.avro.schema import Type
from kafwire.errors import SchemaError
from kafwire.value_columns.column import BOOLEAN, BYTES, FIXED, LIST, NULL, STRUCT, Column

__all__ = ["Columns", "Slot"]

MAX_COLUMNS = 10_000
MAX_PRECISION = 76

_TIME_FORMATS = {
    "date": "tdD",
    "time-millis": "ttm",
    "time-micros": "ttu",
    "timestamp-millis": "tsm:UTC",
    "timestamp-micros": "tsu:UTC",
    "timestamp-nanos": "tsn:UTC",
    "local-timestamp-millis": "tsm:",
    "local-timestamp-micros": "tsu:",
    "local-timestamp-nanos": "tsn:",
}
_PLAIN = {
    "null": (NULL, 0, "n"),
    "boolean": (BOOLEAN, 0, "b"),
    "int": (FIXED, 4, "i"),
    "long": (FIXED, 8, "l"),
    "float": (FIXED, 4, "f"),
    "double": (FIXED, 8, "g"),
    "bytes": (BYTES, 0, "z"),
    "string": (BYTES, 0, "u"),
}


@dataclass(slots=True)
class Slot:
    """The columns for the values of a reader's type.

    `form` is the mapping: "plain" into `column`; "optional", a union of null and one type, into the only child's;
    "members", a union of several types, into the struct `column` with a nullable child for each. Children of a plain
    slot are a record's fields, an array's items, a map's values. `key` and `entries` are columns of a map.
    """

    type: Type
    column: int
    path: str
    form: Literal["plain", "optional", "members"] = "plain"
    children: list[Slot] = field(default_factory=list)
    key: int = -1
    entries: int = -1
    is_dictionary: bool = False  # of an enum: the column has indices of its symbols


class Columns:
    """The columns of a reader's schema.

    Column 0 is the struct of all. A schema that is not a record has one column, `value`.

    Args:
        reader: the schema.
        enums: "string", or "dictionary" for columns of a dictionary type.
    """

    def __init__(self, reader: Type, enums: Literal["string", "dictionary"] = "string") -> None:
        if (problem := refused(reader)) is not None:
            raise problem
        self.columns: list[Column] = []
        self._enums = enums
        if reader.kind == "record":
            self.root = self._slot(reader, "", "")
        else:
            self._add(Column(STRUCT, 0, "+s", ""))
            self.root = self._slot(reader, "value", "")
            self.columns[0].children.append(self.root.column)
        self.columns[0].flags = 0

    @property
    def is_wrapped(self) -> bool:
        """True if the schema is not a record."""
        return self.root.column != 0

    def _add(self, column: Column) -> int:
        if len(self.columns) >= MAX_COLUMNS:
            raise SchemaError(f"Avro schema: it has more than {MAX_COLUMNS} columns")
        self.columns.append(column)
        return len(self.columns) - 1

    def _slot(self, of: Type, name: str, path: str) -> Slot:
        if of.kind == "union":
            return self._union(of, name, path)
        if of.kind == "record":
            number = self._add(Column(STRUCT, 0, "+s", name))
            children = [self._slot(each.type, each.name, _join(path, each.name)) for each in of.fields]
            self.columns[number].children = [child.column for child in children]
            return Slot(of, number, path, children=children)
        if of.kind == "array":
            assert of.items is not None
            number = self._add(Column(LIST, 0, "+l", name))
            child = self._slot(of.items, "element", f"{path}[]")
            self.columns[number].children = [child.column]
            return Slot(of, number, path, children=[child])
        if of.kind == "map":
            return self._map(of, name, path)
        kind, width, format_ = self._leaf(of, path)
        symbols = of.symbols if of.kind == "enum" and self._enums == "dictionary" else None
        number = self._add(Column(kind, width, format_, name, symbols=symbols))
        return Slot(of, number, path, is_dictionary=symbols is not None)

    def _map(self, of: Type, name: str, path: str) -> Slot:
        assert of.items is not None
        number = self._add(Column(LIST, 0, "+m", name))
        entries = self._add(Column(STRUCT, 0, "+s", "entries", flags=0))
        key = self._add(Column(BYTES, 0, "u", "key", flags=0))
        child = self._slot(of.items, "value", f"{path}{{}}")
        self.columns[number].children = [entries]
        self.columns[entries].children = [key, child.column]
        return Slot(of, number, path, children=[child], key=key, entries=entries)

    def _union(self, of: Type, name: str, path: str) -> Slot:
        branches = [branch for branch in of.branches if branch.kind != "null"]
        if not branches:
            return Slot(of, self._add(Column(NULL, 0, "n", name)), path, "optional")
        if len(branches) == 1:
            child = self._slot(branches[0], name, path)
            return Slot(of, child.column, path, "optional", [child])
        number = self._add(Column(STRUCT, 0, "+s", name))
        children = [self._slot(branch, f"member{i}", f"{path}<{branch}>") for i, branch in enumerate(branches)]
        self.columns[number].children = [child.column for child in children]
        return Slot(of, number, path, "members", children)

    def _leaf(self, of: Type, path: str) -> tuple[int, int, str]:
        """Return kind, width and format."""
        if of.kind == "enum":
            return (FIXED, 4, "i") if self._enums == "dictionary" else (BYTES, 0, "u")
        if of.logical is not None and of.logical.name == "decimal":
            precision, scale = of.logical.precision, of.logical.scale
            if precision > MAX_PRECISION:
                raise SchemaError(
                    f"Avro schema, {path or 'value'}: decimals of {precision} digits have no Arrow type, which holds "
                    f"{MAX_PRECISION}: remove logicalType from the reader's schema to get the bytes"
                )
            return (
                (FIXED, 16, f"d:{precision},{scale}") if precision <= 38 else (FIXED, 32, f"d:{precision},{scale},256")
            )
        if of.kind == "fixed":
            return FIXED, of.size, f"w:{of.size}"
        kind, width, format_ = _PLAIN[of.kind]
        return kind, width, _TIME_FORMATS.get(of.logical.name, format_) if of.logical is not None else format_


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
