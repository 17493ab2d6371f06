"""Compiles a Protobuf message type against an Arrow type to operations for `native/encode.c`.

Descriptors are those of the package `protobuf`, which only callers import.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from kafwire.errors import SchemaError
from kafwire.protobuf.program import (
    DURATION,
    GROUP_TYPE,
    MESSAGE_TYPE,
    TIMESTAMP,
    WRAPPER,
    Descriptor,
    form_of,
    is_entry,
)
from kafwire.value_columns.node import Node

__all__ = ["Writing", "compile_writer"]

# The operations, as in `native/encode.h`.
(VARINT, ZIGZAG, FIXED32, FIXED64, BOOL, FLOAT, DOUBLE, WIDENED, BYTES, SYMBOL, MESSAGE, TIME, LIST, PACKED) = range(14)
INT64, INT32, UINT32, UINT64 = range(4)  # ranges
SKIPS_ZERO, REQUIRED = 1, 2
OFFSETS_32, OFFSETS_64, VIEWS, FIXED_SIZE = range(4)

MAX_OPERATIONS = 100_000

_INTEGERS = {"c": 0, "C": 1, "s": 2, "S": 3, "i": 4, "I": 5, "l": 6, "L": 7}
_TEXTS = {"u": OFFSETS_32, "U": OFFSETS_64, "vu": VIEWS}
_BINARIES = {"z": OFFSETS_32, "Z": OFFSETS_64, "vz": VIEWS}
_LISTS = {"+l": OFFSETS_32, "+L": OFFSETS_64, "+m": OFFSETS_32}
_PER_SECOND = {"s": 1, "m": 1_000, "u": 1_000_000, "n": 1_000_000_000}
_DOUBLE_TYPE, _FLOAT_TYPE, _BOOL_TYPE, _STRING_TYPE, _BYTES_TYPE, _ENUM_TYPE = 1, 2, 8, 9, 12, 14
# Integers by `FieldDescriptorProto.Type`: the operation, and the range.
_NUMBERS = {
    3: (VARINT, INT64),
    4: (VARINT, UINT64),
    5: (VARINT, INT32),
    6: (FIXED64, UINT64),
    7: (FIXED32, UINT32),
    13: (VARINT, UINT32),
    _ENUM_TYPE: (VARINT, INT32),
    15: (FIXED32, INT32),
    16: (FIXED64, INT64),
    17: (ZIGZAG, INT32),
    18: (ZIGZAG, INT64),
}
_WIRES = {FIXED32: 5, FLOAT: 5, FIXED64: 1, DOUBLE: 1, WIDENED: 1, BYTES: 2, MESSAGE: 2, TIME: 2}


@dataclass(frozen=True, slots=True)
class Operation:
    """One field, or the item of a list, in the order of `kw_pb_write`."""

    code: int
    flags: int = 0
    tag: int = 0
    view: int = 0
    index: int = -1
    index_form: int = 0
    form: int = 0
    range: int = INT64
    before: int = -1
    first: int = 0
    end: int = 0
    where: int = 0
    a: int = 0
    b: int = 0
    c: int = 0

    def row(self) -> tuple[int, ...]:
        """Return the values."""
        return tuple(getattr(self, name) for name in self.__slots__)


@dataclass(slots=True)
class Writing:
    """The arguments of `ProtobufWriter`; `places` are the fields, which operations refer to by index."""

    operations: list[Operation] = field(default_factory=list)
    count: int = 0
    tables: list[int] = field(default_factory=list)
    texts: bytearray = field(default_factory=bytearray)
    places: list[str] = field(default_factory=lambda: [""])


def compile_writer(descriptor: Descriptor, columns: Node, texts: frozenset[str] = frozenset()) -> Writing:
    """Make the program that writes a struct of columns as messages; the columns of the types `texts` are strings.

    Raises:
        SchemaError: the columns do not fit the message; the error names the field.
    """
    if columns.format != "+s":
        raise SchemaError(
            f"a column of Arrow format {columns.format!r} is no {descriptor.full_name}: the fields of a message are "
            "the columns of a struct, a pyarrow.RecordBatch or StructArray"
        )
    compiler = _Compiler(texts)
    compiler.made.operations = compiler.fields(descriptor, columns, "")
    compiler.made.count = len(compiler.made.operations)
    compiler.made.operations += compiler.inner
    return compiler.settled()


class _Compiler:
    """The compilation of one type: operations of inner messages and items follow those of the value."""

    def __init__(self, texts: frozenset[str]) -> None:
        self._texts = texts
        self.made = Writing()
        self.inner: list[Operation] = []
        self._symbols: dict[str, tuple[int, int]] = {}

    def settled(self) -> Writing:
        """Return the program, with numbers of inner operations that count those of the value."""
        shift = self.made.count
        for at, each in enumerate(self.made.operations):
            if each.code in (MESSAGE, LIST, PACKED):
                self.made.operations[at] = replace(each, first=each.first + shift, end=each.end + shift)
            if at >= shift and each.before >= 0:
                self.made.operations[at] = replace(self.made.operations[at], before=each.before + shift)
        return self.made

    def _add(self, operations: list[Operation]) -> tuple[int, int]:
        """Append inner operations; return the first one, and the one after them."""
        first = len(self.inner)
        if first + len(operations) > MAX_OPERATIONS:
            raise SchemaError(f"Protobuf message: encoding it takes more than {MAX_OPERATIONS} operations")
        self.inner += [replace(each, before=each.before + first if each.before >= 0 else -1) for each in operations]
        return first, len(self.inner)

    def _place(self, path: str) -> int:
        self.made.places.append(path)
        return len(self.made.places) - 1

    def fields(self, of: Any, node: Node, path: str) -> list[Operation]:
        """Return the operations of a message's fields, in the order of their numbers."""
        children = {each.name: each for each in node.children}
        if len(children) < len(node.children):
            raise SchemaError(f"{_at(path)}the Arrow struct has two fields of one name")
        if is_entry(of):  # Arrow does not fix the names of a map's entries
            children = dict(zip(("key", "value"), node.children, strict=True))
        if extra := [name for name in children if name not in {each.name for each in of.fields}]:
            raise SchemaError(f"{_at(path)}{of.full_name} has no field {extra[0]!r}: leave out the column")
        found: list[Operation] = []
        last: dict[str, int] = {}
        for each in sorted(of.fields, key=lambda each: int(each.number)):
            inner = f"{path}.{each.name}" if path else each.name
            if each.name not in children:
                if each.is_required:
                    raise SchemaError(f"{inner}: there is no such column, and the field is required")
                continue
            operation = self._field(each, children[each.name], inner)
            if each.containing_oneof is not None:
                operation = replace(operation, before=last.get(each.containing_oneof.full_name, -1))
                last[each.containing_oneof.full_name] = len(found)
            found.append(operation)
        return found

    def _field(self, of: Any, node: Node, path: str) -> Operation:
        if not of.is_repeated:
            operation = self._value(of, node, path)
            flags = 0 if of.has_presence or is_entry(of.containing_type) else SKIPS_ZERO
            flags |= REQUIRED if of.is_required or is_entry(of.containing_type) else 0
            return replace(operation, flags=flags, tag=_tag(of.number, operation.code))
        if node.format.startswith("+w:"):
            form, size = FIXED_SIZE, int(node.format[3:])
        elif node.format in _LISTS:
            form, size = _LISTS[node.format], 0
        else:
            raise _misfit(of, node, path, "the field is repeated: a list column is needed")
        item = self._value(of, node.children[0], f"{path}[]")
        code = PACKED if of.is_packed else LIST
        tag = _tag(of.number, BYTES if code == PACKED else item.code)
        first, end = self._add([item])
        return Operation(
            code, tag=tag, view=node.number, form=form, first=first, end=end, where=self._place(path), a=size
        )

    def _value(self, of: Any, node: Node, path: str) -> Operation:
        values = node if node.dictionary is None else node.dictionary
        if node.dictionary is not None and (node.format not in _INTEGERS or values.children or values.dictionary):
            raise _misfit(of, node, path, "dictionaries of nested types have no Protobuf form")
        index, index_form = (-1, 0) if node.dictionary is None else (node.number, _INTEGERS[node.format])
        base = Operation(0, view=values.number, index=index, index_form=index_form, where=self._place(path))
        if of.type in (MESSAGE_TYPE, GROUP_TYPE):
            return self._message(of, node, path, base)
        found = self._scalar(of, values, base)
        if found is None:
            raise _misfit(of, node, path)
        return found

    def _message(self, of: Any, node: Node, path: str, base: Operation) -> Operation:
        if of.type == GROUP_TYPE:
            raise SchemaError(f"{path}: groups of Protobuf are not written: use a message type without them")
        inner = of.message_type
        if inner.full_name in self._texts:
            if node.format not in _TEXTS:
                raise _misfit(of, node, path, "a column of JSON text is needed")
            return replace(base, code=BYTES, form=_TEXTS[node.format])
        form = form_of(inner)
        if form == WRAPPER and node.format != "+s":
            operation = self._value(inner.fields[0], node, path)
            wrapped = replace(operation, flags=SKIPS_ZERO, tag=_tag(1, operation.code))
            first, end = self._add([wrapped])
            return replace(base, code=MESSAGE, first=first, end=end)
        if form in (TIMESTAMP, DURATION) and node.format != "+s":
            kind = "ts" if form == TIMESTAMP else "tD"
            if node.format[:2] != kind or (form == TIMESTAMP and not node.format[4:]):
                raise _misfit(of, node, path, "a column of timestamps with a time zone, or of durations, is needed")
            per_second = _PER_SECOND[node.format[2]]
            return replace(base, code=TIME, form=_INTEGERS["l"], a=per_second, c=int(form == DURATION))
        if node.format != "+s":
            raise _misfit(of, node, path, "the fields of a message are a struct")
        first, end = self._add(self.fields(inner, node, path))
        return replace(base, code=MESSAGE, first=first, end=end)

    def _scalar(self, of: Any, node: Node, base: Operation) -> Operation | None:
        format_ = node.format
        if of.type == _BOOL_TYPE:
            return replace(base, code=BOOL) if format_ == "b" else None
        if of.type == _FLOAT_TYPE:
            return replace(base, code=FLOAT) if format_ == "f" else None
        if of.type == _DOUBLE_TYPE:
            codes = {"f": WIDENED, "g": DOUBLE}
            return replace(base, code=codes[format_]) if format_ in codes else None
        if of.type in (_STRING_TYPE, _BYTES_TYPE):
            allowed = _TEXTS if of.type == _STRING_TYPE else _TEXTS | _BINARIES
            if of.type == _BYTES_TYPE and format_.startswith("w:"):
                return replace(base, code=BYTES, form=FIXED_SIZE)
            return replace(base, code=BYTES, form=allowed[format_]) if format_ in allowed else None
        if of.type == _ENUM_TYPE and format_ in _TEXTS:
            table, entries = self._table(of.enum_type)
            is_open = int(not of.enum_type.is_closed)
            return replace(base, code=SYMBOL, form=_TEXTS[format_], a=table, b=entries, c=is_open)
        if format_ not in _INTEGERS:
            return None
        code, limit = _NUMBERS[of.type]
        return replace(base, code=code, form=_INTEGERS[format_], range=limit)

    def _table(self, of: Any) -> tuple[int, int]:
        """Add the symbols of an enum, sorted by length and bytes; return the table's start, and their number."""
        if of.full_name not in self._symbols:
            self._symbols[of.full_name] = len(self.made.tables), len(of.values)
            texts = sorted((len(text := each.name.encode()), text, each.number) for each in of.values)
            for size, text, number in texts:
                self.made.tables += [len(self.made.texts), size, number]
                self.made.texts += text
        return self._symbols[of.full_name]


def _tag(number: int, code: int) -> int:
    return number << 3 | _WIRES.get(code, 0)


def _at(path: str) -> str:
    return f"{path}: " if path else ""


def _misfit(of: Any, node: Node, path: str, why: str = "") -> SchemaError:
    found = node.format if node.dictionary is None else f"dictionary of {node.dictionary.format}"
    kind = of.message_type.full_name if of.message_type else of.enum_type.full_name if of.enum_type else _names(of.type)
    return SchemaError(f"{path}: the Arrow format {found!r} is not written as {kind}" + (f"; {why}" if why else ""))


def _names(kind: int) -> str:
    names = [
        "double",
        "float",
        "int64",
        "uint64",
        "int32",
        "fixed64",
        "fixed32",
        "bool",
        "string",
        "group",
        "message",
        "bytes",
        "uint32",
        "enum",
        "sfixed32",
        "sfixed64",
        "sint32",
        "sint64",
    ]
    return names[kind - 1]
