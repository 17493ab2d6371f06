"""Compiles a Protobuf message type to columns, and to messages and fields for `native/decode.c`.

Descriptors are those of the package `protobuf`, which only callers import.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from kafwire.errors import ConfigError, SchemaError
from kafwire.value_columns.column import BOOLEAN, BYTES, FIXED, LIST, STRUCT, Column

__all__ = ["Compiled", "Descriptor", "Enums", "compile_message", "descriptor_of", "form_of", "indexes_of", "varint"]

Enums = Literal["string", "dictionary", "number"]

# Types, flags and forms, as in `native/decode.h`.
(INT32, INT64, SINT32, SINT64, BOOL, FIXED32, FIXED64, BYTES_TYPE, STRING, ENUM, ENUM_INDEX, MESSAGE, GROUP) = range(13)
REPEATED, PRESENCE, CLOSED = 1, 2, 4
PLAIN, WRAPPER, TIMESTAMP, DURATION, CLOSED_ENTRY = range(5)

MAX_COLUMNS = 10_000
MAX_DEPTH = 64

# Numbers of `FieldDescriptorProto.Type`: the type here, and the column's kind, width and Arrow format.
_TYPES = {
    1: (FIXED64, FIXED, 8, "g"),
    2: (FIXED32, FIXED, 4, "f"),
    3: (INT64, FIXED, 8, "l"),
    4: (INT64, FIXED, 8, "L"),
    5: (INT32, FIXED, 4, "i"),
    6: (FIXED64, FIXED, 8, "L"),
    7: (FIXED32, FIXED, 4, "I"),
    8: (BOOL, BOOLEAN, 0, "b"),
    9: (STRING, BYTES, 0, "u"),
    12: (BYTES_TYPE, BYTES, 0, "z"),
    13: (INT32, FIXED, 4, "I"),
    15: (FIXED32, FIXED, 4, "i"),
    16: (FIXED64, FIXED, 8, "l"),
    17: (SINT32, FIXED, 4, "i"),
    18: (SINT64, FIXED, 8, "l"),
}
GROUP_TYPE, MESSAGE_TYPE, _ENUM_TYPE = 10, 11, 14
_WRAPPERS = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_TIMES = {"google.protobuf.Timestamp": TIMESTAMP, "google.protobuf.Duration": DURATION}
_PER_SECOND = {"us": 1_000_000, "ns": 1_000_000_000}


class Descriptor(Protocol):
    """A `google.protobuf.descriptor.Descriptor`."""

    name: str
    full_name: str
    fields: Any
    oneofs: Any
    file: Any
    containing_type: Any


@dataclass(slots=True)
class Compiled:
    """The columns of a message type, and the arguments of `ProtobufProgram`.

    `places` are the fields, which messages and fields refer to by index.
    """

    columns: list[Column] = field(default_factory=list)
    messages: list[tuple[int, ...]] = field(default_factory=list)
    fields: list[tuple[int, ...]] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    texts: bytearray = field(default_factory=bytearray)
    places: list[str] = field(default_factory=lambda: [""])


def compile_message(
    descriptor: Descriptor,
    *,
    enums: Enums = "string",
    times: Literal["us", "ns"] = "us",
    texts: frozenset[str] = frozenset(),
) -> Compiled:
    """Compile a message type.

    Args:
        descriptor: the type.
        enums: the columns of enums: text, a dictionary of text, or numbers.
        times: the unit of Timestamp and Duration.
        texts: the full names of message types that values have as a text instead.

    Raises:
        SchemaError: the type has no columns, contains itself, or is too large.
    """
    if not descriptor.fields:
        raise SchemaError(
            f"Protobuf message {descriptor.full_name} has no fields: there are no columns to decode it to"
        )
    return _Compiler(enums, times, texts).compile(descriptor)


def descriptor_of(message: Any) -> Descriptor:
    """Return the descriptor of a generated class, or a descriptor.

    Raises:
        ConfigError: the argument is neither.
    """
    found = getattr(message, "DESCRIPTOR", message)
    if not hasattr(found, "full_name") or not hasattr(found, "oneofs"):
        raise ConfigError(f"message is a generated Protobuf class or its descriptor, not {type(message).__name__}")
    return found  # type: ignore[no-any-return]


def indexes_of(descriptor: Descriptor) -> bytes:
    """Return the indexes of a message type in its file, as Confluent's serializers write them after the schema id.

    A zigzag varint has their number, others the index of each message in the one around it. A single 0 stands for the
    first message of the file.
    """
    path: list[int] = []
    at: Any = descriptor
    while at is not None:
        around = at.containing_type
        siblings = around.nested_types if around is not None else at.file.message_types_by_name.values()
        path.insert(0, [each.name for each in siblings].index(at.name))
        at = around
    return b"\0" if path == [0] else b"".join(varint(2 * number) for number in (len(path), *path))


def form_of(of: Any) -> int:
    """Return the form of a message's column: PLAIN, WRAPPER, TIMESTAMP or DURATION."""
    if of.full_name in _TIMES and [each.number for each in of.fields] == [1, 2]:
        return _TIMES[of.full_name]
    return WRAPPER if of.full_name in _WRAPPERS and len(of.fields) == 1 else PLAIN


def is_entry(of: Any) -> bool:
    """Return True for the message of a map's entries."""
    return bool(of.GetOptions().map_entry)


def _is_closed(of: Any) -> bool:
    """Return True for a field of a closed enum."""
    return of.enum_type is not None and of.enum_type.is_closed


def varint(number: int) -> bytes:
    """Return a number that is not negative as Protobuf's varint."""
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


class _Compiler:
    """The compilation of one type. Each place of a message in the tree has columns and slots of its own."""

    def __init__(self, enums: Enums, times: Literal["us", "ns"], texts: frozenset[str]) -> None:
        self._texts = texts
        self._enums = enums
        self._times = times
        self._made = Compiled()
        self._enum_tables: dict[str, int] = {}

    def compile(self, descriptor: Descriptor) -> Compiled:
        column = self._add(Column(STRUCT, 0, "+s", "", flags=0))
        self._message(descriptor, column, PLAIN, "", [])
        return self._made

    def _add(self, column: Column) -> int:
        if len(self._made.columns) >= MAX_COLUMNS:
            raise SchemaError(f"Protobuf message: it has more than {MAX_COLUMNS} columns: leave fields out of the type")
        self._made.columns.append(column)
        return len(self._made.columns) - 1

    def _place(self, path: str) -> int:
        self._made.places.append(path)
        return len(self._made.places) - 1

    def _message(self, of: Any, column: int, form: int, path: str, around: list[str]) -> int:
        """Add a message whose fields become children of a struct's column, or its form's column."""
        if of.full_name in around:
            raise SchemaError(
                f"Protobuf message, {path}: {of.full_name} contains itself "
                f"({' > '.join([*around[around.index(of.full_name) :], of.full_name])}), and Arrow has no recursive "
                'types: read rows, let kafwire.Protobuf(recursive="json") make columns of JSON text, or give a type '
                "without that field, which decoding skips"
            )
        if len(around) >= MAX_DEPTH:
            raise SchemaError(f"Protobuf message, {path}: messages are nested more than {MAX_DEPTH} deep")
        made = self._made
        number = len(made.messages)
        where = self._place(path)
        made.messages.append(())
        ordered = sorted(of.fields, key=lambda each: int(each.number))
        first = len(made.fields)
        made.fields += [()] * len(ordered)
        # A field that is `optional` in proto3 is alone in a oneof: it excludes none.
        oneofs = {each.full_name: at + 1 if len(each.fields) > 1 else 0 for at, each in enumerate(of.oneofs)}
        places = {each.number: at for at, each in enumerate(ordered)}
        for each in of.fields:  # columns in the order of the declaration
            made.fields[first + places[each.number]] = self._field(
                each, form, column, _join(path, each.name), [*around, of.full_name], oneofs
            )
        dense, size = self._dense(places)
        made.messages[number] = (
            CLOSED_ENTRY if is_entry(of) and _is_closed(of.fields_by_number[2]) else form,
            column,
            first,
            len(ordered),
            dense,
            size,
            _PER_SECOND[self._times],
            where,
        )
        return number

    def _dense(self, places: dict[int, int]) -> tuple[int, int]:
        """Add a table of the fields by number; numbers beyond it are searched."""
        start = len(self._made.tables)
        size = min(max(places, default=0), 4 * len(places) + 16)
        self._made.tables += [places.get(number, -1) for number in range(1, size + 1)]
        return start, size

    def _field(
        self, of: Any, form: int, parent: int, path: str, around: list[str], oneofs: dict[str, int]
    ) -> tuple[int, ...]:
        where = self._place(path)
        flags = PRESENCE if of.has_presence and form == PLAIN else 0
        oneof = 0 if of.containing_oneof is None else oneofs[of.containing_oneof.full_name]
        table = entries = 0
        if of.type == _ENUM_TYPE:
            table, entries = self._enum(of.enum_type)
            flags |= CLOSED if _is_closed(of) and not is_entry(of.containing_type) else 0
        if form == WRAPPER:
            kind, message = self._leaf(of)[0], 0
            return of.number, kind, 0, parent, -1, message, 0, table, entries, where
        if form != PLAIN:
            return of.number, _TYPES[of.type][0], 0, -1, -1, 0, 0, 0, 0, where
        if not of.is_repeated:
            kind, column, message = self._value(of, of.name, path, around)
            if is_entry(of.containing_type):  # a map's entry has both, always
                flags &= ~PRESENCE
            self._made.columns[parent].children.append(column)
            return of.number, kind, flags, column, -1, message, oneof, table, entries, where
        is_map = of.message_type is not None and is_entry(of.message_type)
        column = self._add(Column(LIST, 0, "+m" if is_map else "+l", of.name))
        self._made.columns[parent].children.append(column)
        kind, item, message = self._value(of, "entries" if is_map else "element", f"{path}[]", around)
        if is_map:
            self._made.columns[item].flags = 0
            self._made.columns[self._made.columns[item].children[0]].flags = 0
        self._made.columns[column].children = [item]
        return of.number, kind, flags & ~PRESENCE | REPEATED, column, item, message, 0, table, entries, where

    def _value(self, of: Any, name: str, path: str, around: list[str]) -> tuple[int, int, int]:
        """Add the column of one value. Returns its type, the column, and the message."""
        if of.type not in (MESSAGE_TYPE, GROUP_TYPE):
            kind, column_kind, width, text = self._leaf(of)
            symbols = (
                [each.name for each in self._symbols(of.enum_type)]
                if of.type == _ENUM_TYPE and self._enums == "dictionary"
                else None
            )
            return kind, self._add(Column(column_kind, width, text, name, symbols=symbols)), 0
        kind = MESSAGE if of.type == MESSAGE_TYPE else GROUP
        inner = of.message_type
        if inner.full_name in self._texts:
            return STRING, self._add(Column(BYTES, 0, "u", name)), 0
        form = form_of(inner)
        if form == WRAPPER:
            _, column_kind, width, text = self._leaf(inner.fields[0])
            column = self._add(Column(column_kind, width, text, name))
        elif form == PLAIN:
            column = self._add(Column(STRUCT, 0, "+s", name))
        else:
            letter = self._times[0]
            column = self._add(Column(FIXED, 8, f"ts{letter}:UTC" if form == TIMESTAMP else f"tD{letter}", name))
        return kind, column, self._message(inner, column, form, path, around)

    def _leaf(self, of: Any) -> tuple[int, int, int, str]:
        """Return the type, and kind, width and format of the column."""
        if of.type != _ENUM_TYPE:
            return _TYPES[of.type]
        if self._enums == "string":
            return ENUM, BYTES, 0, "u"
        return (ENUM_INDEX if self._enums == "dictionary" else INT32), FIXED, 4, "i"

    @staticmethod
    def _symbols(of: Any) -> list[Any]:
        """The symbols by number; of several with one number the first counts."""
        found: dict[int, Any] = {}
        for each in of.values:
            found.setdefault(each.number, each)
        return [found[number] for number in sorted(found)]

    def _enum(self, of: Any) -> tuple[int, int]:
        """Add the table of an enum's numbers. Returns its start, and the number of entries."""
        symbols = self._symbols(of)
        made = self._made
        if of.full_name not in self._enum_tables:
            self._enum_tables[of.full_name] = len(made.tables)
            for at, each in enumerate(symbols):
                if self._enums == "string":
                    text = each.name.encode()
                    made.tables += [each.number, len(made.texts), len(text)]
                    made.texts += text
                else:
                    made.tables += [each.number, at]
        return self._enum_tables[of.full_name], len(symbols)


def _join(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name
