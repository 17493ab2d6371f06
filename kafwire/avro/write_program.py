"""Compiles an Avro schema against an Arrow type to operations for `native/encode.c`."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeAlias

from kafwire.avro.columns import Columns
from kafwire.avro.default import encode
from kafwire.avro.program import MAX_ATTEMPTS, MAX_OPERATIONS
from kafwire.avro.recursive import refused
from kafwire.avro.schema import MISSING, Type
from kafwire.errors import SchemaError
from kafwire.value_columns.node import Node

__all__ = ["Writing", "compile_writer"]

# The operations, as in `native/encode.h`.
(NULL, BOOLEAN, NUMBER, FLOAT, DOUBLE, WIDENED, BYTES, FIXED, ENUM, DECIMAL, STRUCT, LIST, UNION, JUMP, CONSTANT) = (
    range(15)
)
RANGE_LONG, RANGE_INT = 0, -1
OFFSETS_32, OFFSETS_64, VIEWS, FIXED_SIZE = range(4)

_INTEGERS = {"c": 0, "C": 1, "s": 2, "S": 3, "i": 4, "I": 5, "l": 6, "L": 7}
_I32, _I64 = 4, 6
_TEXTS = {"u": OFFSETS_32, "U": OFFSETS_64, "vu": VIEWS}
_BINARIES = {"z": OFFSETS_32, "Z": OFFSETS_64, "vz": VIEWS}
_LISTS = {"+l": OFFSETS_32, "+L": OFFSETS_64}
_DAY = 86_400
_UNITS = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000, "millis": 1_000, "micros": 1_000_000}
_UNITS["nanos"] = _UNITS["n"]
_MEMBER = re.compile(r"member\d+")

Operation: TypeAlias = tuple[int, ...]


class _Misfit(Exception):
    """An Arrow type that is not written as the Avro type."""


@dataclass(slots=True)
class Writing:
    """The arguments of `AvroWriter`; `places` are the schema's fields, which operations refer to by index."""

    operations: list[Operation] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    places: list[str] = field(default_factory=lambda: [""])
    root: int = 0


def compile_writer(schema: Type, columns: Node) -> Writing:
    """Make the program that writes columns of an Arrow type as values of `schema`.

    The columns of a record are a struct. Any other schema takes a column, or a struct with the only field `value`.

    Raises:
        SchemaError: the columns do not fit the schema; the message names the field.
    """
    if (problem := refused(schema)) is not None:
        raise problem
    if schema.kind != "record" and columns.format == "+s" and [each.name for each in columns.children] == ["value"]:
        columns = columns.children[0]
    compiler = _Compiler()
    if columns.format == "n":
        compiler.made.root = -1
        return compiler.made
    compiler.made.root = columns.number
    try:
        compiler.write(schema, columns, "")
    except _Misfit as problem:
        raise SchemaError(f"the Arrow columns do not fit the Avro schema: {problem}") from None
    return compiler.made


class _Compiler:
    def __init__(self) -> None:
        self.made = Writing()
        self._attempts = 0
        self._place = 0

    def _emit(self, code: int, node: Node, branches: tuple[int, int], **more: int) -> int:
        """Append an operation that ends behind itself; return its number."""
        self._attempts += 1
        number = len(self.made.operations)
        if number >= MAX_OPERATIONS or self._attempts >= MAX_ATTEMPTS:
            raise SchemaError(f"Avro schema: encoding it takes more than {MAX_OPERATIONS} operations")
        values = node if node.dictionary is None else node.dictionary
        index, index_form = (-1, 0) if node.dictionary is None else (node.number, _INTEGERS[node.format])
        form, a, b, c = (more.get(name, 0) for name in ("form", "a", "b", "c"))
        self.made.operations.append(
            (code, values.number, index, index_form, form, self._place, *branches, number + 1, a, b, c)
        )
        return number

    def _end(self, number: int) -> None:
        """Let an operation end here."""
        operation = self.made.operations[number]
        self.made.operations[number] = (*operation[:8], len(self.made.operations), *operation[9:])

    def write(self, of: Type, node: Node, path: str, branches: tuple[int, int] = (-1, -1)) -> None:
        """Write a type; `branches` are those of a union for a null and for a value, -1: none."""
        before = self._place
        self.made.places.append(path)
        self._place = len(self.made.places) - 1
        try:
            self._write(of, node, path, branches)
        finally:
            self._place = before

    def _write(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        if of.kind == "union":
            self._union(of, node, path)
            return
        if node.format == "n":
            self._emit(NULL, node, branches, c=int(of.kind != "null"))
            return
        if node.dictionary is not None and (
            node.format not in _INTEGERS or node.dictionary.children or node.dictionary.dictionary is not None
        ):
            raise _misfit(of, node, path, "dictionaries of nested types have no Avro form")
        write: Callable[..., None] | None = getattr(self, f"_{of.kind}", None)
        if of.logical is not None and of.logical.name == "decimal":
            write = self._decimal
        if write is None:
            raise _misfit(of, node, path)
        write(of, node, path, branches)

    # --- unions -----------------------------------------------------------------------------------------------------

    def _union(self, of: Type, node: Node, path: str) -> None:
        null = next((i for i, branch in enumerate(of.branches) if branch.kind == "null"), -1)
        others = [(i, branch) for i, branch in enumerate(of.branches) if branch.kind != "null"]
        if node.format == "n" or not others:
            if node.format != "n":
                raise _misfit(of, node, path)
            self._emit(NULL, node, (null, -1), c=1)
        elif len(others) == 1:
            number, branch = others[0]
            self.write(branch, node, path, (null, number))
        elif node.format == "+s" and node.children and all(_MEMBER.fullmatch(each.name) for each in node.children):
            self._members(others, node, path, null)
        else:
            self._first_that_fits(of, others, node, path, null)

    def _first_that_fits(self, of: Type, others: list[tuple[int, Type]], node: Node, path: str, null: int) -> None:
        """Write a column of one type as the branch that the decoder reads into this type, or the first that fits."""
        for number, branch in sorted(others, key=lambda each: not _is_own(each[1], node)):
            made = self.made
            marks = len(made.operations), len(made.tables), len(made.constants), len(made.places)
            try:
                self.write(branch, node, path, (null, number))
            except _Misfit:
                for grown, mark in zip((made.operations, made.tables, made.constants, made.places), marks, strict=True):
                    del grown[mark:]  # type: ignore[attr-defined]
            else:
                return
        raise _misfit(of, node, path)

    def _members(self, others: list[tuple[int, Type]], node: Node, path: str, null: int) -> None:
        named = {f"member{i}": each for i, each in enumerate(others)}
        if wrong := [each.name for each in node.children if each.name not in named]:
            raise _Misfit(f"{_at(path)}the union has no {wrong[0]!r}: members count its types without null")
        members = [each for each in node.children if each.format != "n"]
        table = len(self.made.tables)
        self.made.tables += [0] * 2 * len(members)
        union = self._emit(UNION, node, (null, -1), a=table, b=len(members))
        jumps = []
        for i, member in enumerate(members):
            number, branch = named[member.name]
            self.made.tables[table + 2 * i : table + 2 * i + 2] = [number, len(self.made.operations)]
            self.write(branch, member, f"{path}<{branch}>")
            jumps.append(self._emit(JUMP, node, (-1, -1)))
        for each in [*jumps, union]:
            self._end(each)

    # --- nested types -----------------------------------------------------------------------------------------------

    def _record(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        if node.format != "+s":
            raise _misfit(of, node, path)
        children = {each.name: each for each in node.children}
        if len(children) < len(node.children):
            raise _Misfit(f"{_at(path)}the Arrow struct has two fields of one name")
        if extra := [name for name in children if name not in {each.name for each in of.fields}]:
            raise _Misfit(f"{_at(path)}the {of} has no field {extra[0]!r}: leave out the column, or extend the schema")
        number = self._emit(STRUCT, node, branches)
        for each in of.fields:
            inner = f"{path}.{each.name}" if path else each.name
            if each.name in children:
                self.write(each.type, children[each.name], inner)
            elif each.default is MISSING:
                raise _Misfit(f"{inner}: there is no such column, and the schema has no default")
            else:
                data = encode(each.type, each.default, inner)
                self._emit(CONSTANT, node, (-1, -1), a=len(self.made.constants), b=len(data))
                self.made.constants += data
        self._end(number)

    def _array(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        assert of.items is not None
        if node.format in _LISTS:
            number = self._emit(LIST, node, branches, form=_LISTS[node.format])
        elif node.format.startswith("+w:"):
            number = self._emit(LIST, node, branches, form=FIXED_SIZE, a=int(node.format[3:]))
        else:
            raise _misfit(of, node, path)
        self.write(of.items, node.children[0], f"{path}[]")
        self._end(number)

    def _map(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        assert of.items is not None
        if node.format != "+m":
            raise _misfit(of, node, path)
        number = self._emit(LIST, node, branches, form=OFFSETS_32)
        entries = node.children[0]
        key, value = entries.children
        self._emit(STRUCT, entries, (-1, -1))
        self.write(Type("string"), key, f"{path}{{}} (key)")
        self.write(of.items, value, f"{path}{{}}")
        self._end(number)

    # --- leaves -----------------------------------------------------------------------------------------------------

    def _boolean(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        self._same(BOOLEAN, "b", of, node, path, branches)

    def _same(self, code: int, format_: str, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        if _values(node).format != format_:
            raise _misfit(of, node, path)
        self._emit(code, node, branches)

    def _int(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        self._integer(of, node, path, branches)

    def _long(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        self._integer(of, node, path, branches)

    def _integer(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        format_ = _values(node).format
        name = "" if of.logical is None else of.logical.name
        kind, _, unit = name.rpartition("-")
        limit = RANGE_INT if of.kind == "int" else RANGE_LONG
        if kind == "time":
            limit = _DAY * _UNITS[unit]
        form, have, want = _INTEGERS.get(format_, -1), 1, 1
        if form < 0 and name == "date" and format_ in ("tdD", "tdm"):
            form, have = (_I32, 1) if format_ == "tdD" else (_I64, _DAY * 1_000)
        elif form < 0 and kind == "time" and format_[:2] == "tt":
            form, have, want = (_I32 if format_[2] in "sm" else _I64), _UNITS[format_[2]], _UNITS[unit]
        elif form < 0 and kind.endswith("timestamp") and format_[:2] == "ts":
            if bool(format_[4:]) == (kind != "timestamp"):
                zone = "has no time zone" if kind == "timestamp" else "has a time zone"
                raise _misfit(of, node, path, f"the column {zone}, which {name} does not allow: cast it")
            form, have, want = _I64, _UNITS[format_[2]], _UNITS[unit]
        if form < 0:
            raise _misfit(of, node, path)
        self._emit(NUMBER, node, branches, form=form, a=max(want // have, 1), b=max(have // want, 1), c=limit)

    def _float(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        self._same(FLOAT, "f", of, node, path, branches)

    def _double(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        if _values(node).format == "f":
            self._emit(WIDENED, node, branches)
        else:
            self._same(DOUBLE, "g", of, node, path, branches)

    def _bytes(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        self._emit(BYTES, node, branches, form=_bytes_form(of, node, path, _BINARIES | _TEXTS))

    def _string(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        if _values(node).format in _BINARIES:
            raise _misfit(of, node, path, "bytes need not be UTF-8: cast the column to string")
        self._emit(BYTES, node, branches, form=_bytes_form(of, node, path, _TEXTS))

    def _fixed(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        format_ = _values(node).format
        if format_.startswith("w:") and format_ != f"w:{of.size}":
            raise _misfit(of, node, path, f"a fixed has {of.size} bytes")
        self._emit(FIXED, node, branches, form=_bytes_form(of, node, path, _BINARIES), a=of.size)

    def _enum(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        form = _bytes_form(of, node, path, _TEXTS)
        table = len(self.made.tables)
        for size, text, number in sorted((len(each), each.encode(), i) for i, each in enumerate(of.symbols)):
            self.made.tables += [len(self.made.constants), size, number]
            self.made.constants += text
        self._emit(ENUM, node, branches, form=form, a=table, b=len(of.symbols))

    def _decimal(self, of: Type, node: Node, path: str, branches: tuple[int, int]) -> None:
        assert of.logical is not None
        format_ = _values(node).format
        if not format_.startswith("d:"):
            raise _misfit(of, node, path)
        _, scale, bits = (*map(int, format_[2:].split(",")), 128)[:3]
        if scale != of.logical.scale:
            raise _misfit(of, node, path, f"the schema's scale is {of.logical.scale}: cast the column")
        limit = 10 ** min(of.logical.precision, 76)
        at = len(self.made.constants)
        self.made.constants += limit.to_bytes(32, "little")
        self._emit(DECIMAL, node, branches, form=bits // 8, a=of.size if of.kind == "fixed" else -1, b=at)


def _values(node: Node) -> Node:
    """Return the node of the values: a dictionary's, if the column is encoded by one."""
    return node if node.dictionary is None else node.dictionary


def _bytes_form(of: Type, node: Node, path: str, allowed: dict[str, int]) -> int:
    format_ = _values(node).format
    if format_.startswith("w:") and "z" in allowed:
        return FIXED_SIZE
    if format_ not in allowed:
        raise _misfit(of, node, path)
    return allowed[format_]


def _is_own(branch: Type, node: Node) -> bool:
    """Return True if the decoder reads values of the branch into columns of this Arrow type."""
    try:
        columns = Columns(branch)
    except SchemaError:  # the decoder has no columns for it
        return False
    number = columns.root.column
    return columns.columns[number].format == _values(node).format


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _misfit(of: Type, node: Node, path: str, why: str = "") -> _Misfit:
    named = f" ({of.logical.name})" if of.logical is not None else ""
    found = node.format if node.dictionary is None else f"dictionary of {node.dictionary.format}"
    return _Misfit(f"{_at(path)}the Arrow format {found!r} is not written as {of}{named}" + (f"; {why}" if why else ""))
