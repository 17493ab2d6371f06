"""Compiles a writer's schema against a reader's ("Schema Resolution") to operations for `native/decode.c`.

Resolution is that of Java's `Resolver`: a record need not have the reader's name where it stands alone, and a reader's
union takes the branch of the same type and name first, then the first that the value can be promoted to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TypeAlias

from kafwire.avro.columns import Columns, Slot
from kafwire.avro.default import encode
from kafwire.avro.recursive import refused
from kafwire.avro.schema import MISSING, Field, Type
from kafwire.errors import SchemaError

__all__ = ["Compiled", "compile_program"]

# The operations, as in `native/decode.h`.
(NULL, BOOLEAN, INT, LONG, FLOAT, DOUBLE, FLOAT_TO_DOUBLE, TO_FLOAT, TO_DOUBLE, BYTES, STRING) = range(11)
(FIXED, DECIMAL, ENUM, ENUM_TEXT, UNION, JUMP, BLOCKS, STRUCT, OTHERS_NULL, DEFAULT, FAIL) = range(11, 22)
(SKIP_VARINT, SKIP_FIXED, SKIP_BYTES, SKIP_BLOCKS) = range(22, 26)

MAX_OPERATIONS = 100_000
MAX_ATTEMPTS = 1_000_000  # operations, including those of branches that were tried and do not match

_PROMOTIONS = {
    "int": ("long", "float", "double"),
    "long": ("float", "double"),
    "float": ("double",),
    "string": ("bytes",),
    "bytes": ("string",),
}
_UNITS = {"millis": 1, "micros": 1_000, "nanos": 1_000_000}
_DAY_MS = 86_400_000

Operation: TypeAlias = tuple[int, int, int, int, int, int]


class Mismatch(Exception):
    """A writer's type that does not resolve to the reader's."""


@dataclass(slots=True)
class Compiled:
    """The arguments of `AvroProgram`; `places` are the schema's fields, which operations refer to by index."""

    operations: list[Operation] = field(default_factory=list)
    tables: list[int] = field(default_factory=list)
    constants: bytearray = field(default_factory=bytearray)
    places: list[str] = field(default_factory=lambda: [""])


def compile_program(writer: Type, columns: Columns) -> Compiled:
    """Make the program that decodes values of `writer` into `columns`.

    Raises:
        SchemaError: the schemas do not match, or are too large.
    """
    if (problem := refused(writer)) is not None:
        raise problem
    compiler = _Compiler()
    try:
        compiler.resolve(writer, columns.root)
    except Mismatch as problem:
        raise SchemaError(f"the writer's Avro schema does not match the reader's: {problem}") from None
    except RecursionError:
        raise SchemaError("Avro schema: types are nested too deep") from None
    if columns.is_wrapped:
        compiler.emit(STRUCT, 0)
    return compiler.made


class _Compiler:
    def __init__(self) -> None:
        self.made = Compiled()
        self._attempts = 0
        self._place = 0
        self._least: dict[int, int] = {}

    def emit(self, code: int, column: int = 0, a: int = 0, b: int = 0, c: int = 0) -> int:
        """Append an operation; return its number."""
        self._attempts += 1
        if len(self.made.operations) >= MAX_OPERATIONS or self._attempts >= MAX_ATTEMPTS:
            raise SchemaError(f"Avro schema: decoding it takes more than {MAX_OPERATIONS} operations")
        self.made.operations.append((code, column, self._place, a, b, c))
        return len(self.made.operations) - 1

    def _here(self) -> int:
        return len(self.made.operations)

    def _patch(self, number: int, *, a: int | None = None, c: int | None = None) -> None:
        code, column, place, old_a, b, old_c = self.made.operations[number]
        self.made.operations[number] = (code, column, place, old_a if a is None else a, b, old_c if c is None else c)

    def _enter(self, path: str) -> int:
        """Set the path of the next operations; return the previous place."""
        before = self._place
        if path != self.made.places[before]:
            self.made.places.append(path)
            self._place = len(self.made.places) - 1
        return before

    # --- resolution -------------------------------------------------------------------------------------------------

    def resolve(self, writer: Type, slot: Slot) -> None:
        before = self._enter(slot.path)
        try:
            if writer.kind == "union":
                self._union(writer, lambda branch: self.resolve(branch, slot))
            elif slot.type.kind == "union":
                self._to_union(writer, slot)
            else:
                self._plain(writer, slot)
        finally:
            self._place = before

    def _union(self, writer: Type, body: Callable[[Type], None]) -> None:
        """Compile one body per branch.

        A branch that does not match fails on a value with it, unless all branches fail.
        """
        table = len(self.made.tables)
        self.made.tables += [0] * len(writer.branches)
        self.emit(UNION, 0, table, len(writer.branches))
        ends, problems = [], []
        for i, branch in enumerate(writer.branches):
            self.made.tables[table + i] = self._here()
            mark = self._mark()
            try:
                body(branch)
            except Mismatch as problem:
                problems.append(str(problem))
                self._undo(mark)
                place = self._enter(f"{self.made.places[self._place]}: {problem}")
                self.emit(FAIL)
                self._place = place
            else:
                ends.append(self.emit(JUMP))
        if len(problems) == len(writer.branches):
            raise Mismatch(problems[0] if problems else self._at("a union without branches has no values"))
        for end in ends:
            self._patch(end, a=self._here())

    def _mark(self) -> tuple[int, int, int, int]:
        return self._here(), len(self.made.tables), len(self.made.constants), len(self.made.places)

    def _undo(self, mark: tuple[int, int, int, int]) -> None:
        del self.made.operations[mark[0] :]
        del self.made.tables[mark[1] :]
        del self.made.constants[mark[2] :]
        del self.made.places[mark[3] :]

    def _to_union(self, writer: Type, slot: Slot) -> None:
        if writer.kind == "null":
            if not any(branch.kind == "null" for branch in slot.type.branches):
                raise Mismatch(self._at("null is none of the reader's union"))
            self.emit(NULL, slot.column)
            return
        for i in _candidates(writer, [child.type for child in slot.children]):
            mark = self._mark()
            try:
                self.resolve(writer, slot.children[i])
            except Mismatch:
                self._undo(mark)
                continue
            if slot.form == "members":
                self.emit(OTHERS_NULL, slot.column, i)
            return
        names = ", ".join(map(str, slot.type.branches))
        raise Mismatch(self._at(f"{writer} is none of the reader's union of {names}"))

    def _plain(self, writer: Type, slot: Slot) -> None:
        reader = slot.type
        if writer.kind != reader.kind and reader.kind not in _PROMOTIONS.get(writer.kind, ()):
            raise Mismatch(self._at(f"{writer} cannot be read as {reader}"))
        if reader.kind == "record":
            self._record(writer, slot)
        elif reader.kind in ("array", "map"):
            self._blocks(writer, slot)
        elif reader.kind == "enum":
            self._enum(writer, slot)
        elif reader.kind == "fixed" and not (_same_name(writer, reader) and writer.size == reader.size):
            raise Mismatch(self._at(f"{writer} of {writer.size} bytes cannot be read as {reader} of {reader.size}"))
        elif reader.logical is not None and reader.logical.name == "decimal":
            self._decimal(writer, slot)
        else:
            self._leaf(writer, slot)

    def _at(self, what: str) -> str:
        path = self.made.places[self._place]
        return f"{path}: {what}" if path else what

    # --- types ------------------------------------------------------------------------------------------------------

    def _record(self, writer: Type, slot: Slot) -> None:
        written = {each.name for each in writer.fields}
        taken: dict[str, Slot] = {}
        missing = []
        for wanted, child in zip(slot.type.fields, slot.children, strict=True):
            names = [name for name in (wanted.name, *wanted.aliases) if name in written and name not in taken]
            if names:
                taken[names[0]] = child
            else:
                missing.append((wanted, child))
        for each in writer.fields:
            target = taken.get(each.name)
            if target is None:
                self._skip(each.type)
            else:
                self.resolve(each.type, target)
        for wanted, child in missing:
            before = self._enter(child.path)
            if wanted.default is MISSING:
                raise Mismatch(self._at(f"the writer's {writer} has no such field, and the reader's no default"))
            self._default(wanted, child)
            self._place = before
        self.emit(STRUCT, slot.column)

    def _default(self, wanted: Field, slot: Slot) -> None:
        data = encode(wanted.type, wanted.default, slot.path)
        start = len(self.made.constants)
        self.made.constants += data
        number = self.emit(DEFAULT, 0, start, len(data))
        self.resolve(wanted.type, slot)
        self._patch(number, c=self._here())

    def _blocks(self, writer: Type, slot: Slot) -> None:
        items = writer.items
        assert items is not None
        number = self.emit(BLOCKS, slot.column, 0, self._least_bytes(items) + (writer.kind == "map"))
        if writer.kind == "map":
            self.emit(STRING, slot.key)
        self.resolve(items, slot.children[0])
        if writer.kind == "map":
            self.emit(STRUCT, slot.entries)
        self._patch(number, a=self._here())

    def _enum(self, writer: Type, slot: Slot) -> None:
        reader = slot.type
        if not _same_name(writer, reader):
            raise Mismatch(self._at(f"{writer} cannot be read as {reader}: the names differ"))
        taken = [symbol if symbol in reader.symbols else reader.default for symbol in writer.symbols]
        table = len(self.made.tables)
        if slot.is_dictionary:
            self.made.tables += [-1 if symbol is None else reader.symbols.index(symbol) for symbol in taken]
        else:
            for symbol in taken:
                text = (symbol or "").encode()
                self.made.tables += [-1 if symbol is None else len(self.made.constants), len(text)]
                self.made.constants += text
        self.emit(ENUM if slot.is_dictionary else ENUM_TEXT, slot.column, table, len(writer.symbols))

    def _decimal(self, writer: Type, slot: Slot) -> None:
        logical = slot.type.logical
        assert logical is not None
        written = writer.logical
        if written is not None and written.name == "decimal" and written != logical:
            raise Mismatch(
                self._at(
                    f"decimal({written.precision}, {written.scale}) cannot be read as "
                    f"decimal({logical.precision}, {logical.scale})"
                )
            )
        start = len(self.made.constants)
        self.made.constants += (10**logical.precision).to_bytes(32, "little")
        self.emit(DECIMAL, slot.column, start, writer.size if writer.kind == "fixed" else -1)

    def _leaf(self, writer: Type, slot: Slot) -> None:
        kind = slot.type.kind
        from_int = int(writer.kind == "int")
        if kind == "null":
            self.emit(NULL, slot.column)
        elif kind == "boolean":
            self.emit(BOOLEAN, slot.column)
        elif kind == "fixed":
            self.emit(FIXED, slot.column, 0, writer.size)
        elif kind in ("int", "long"):
            factor, limit = self._time(writer, slot.type)
            self.emit(INT if kind == "int" else LONG, slot.column, from_int, factor, limit)
        elif kind in ("bytes", "string"):
            self.emit(BYTES if kind == "bytes" else STRING, slot.column)
        elif writer.kind in ("int", "long"):
            self.emit(TO_FLOAT if kind == "float" else TO_DOUBLE, slot.column, from_int)
        elif kind == "float":
            self.emit(FLOAT, slot.column)
        else:
            self.emit(DOUBLE if writer.kind == "double" else FLOAT_TO_DOUBLE, slot.column)

    def _time(self, writer: Type, reader: Type) -> tuple[int, int]:
        """Return the factor of a number, and the first number that is too large (0: none)."""
        if reader.logical is None:
            return 1, 0
        name = reader.logical.name
        family, _, unit = name.rpartition("-")
        limit = _DAY_MS * _UNITS[unit] if family == "time" else 0
        if writer.logical is None or writer.logical.name == name:
            return 1, limit
        written, _, smaller = writer.logical.name.rpartition("-")
        factor = _UNITS.get(unit, 0) // _UNITS.get(smaller, 1)
        if written != family or not family or factor == 0:
            raise Mismatch(self._at(f"{writer.logical.name} cannot be read as {name}"))
        return factor, limit

    # --- fields that the reader lacks ---------------------------------------------------------------------------------

    def _skip(self, writer: Type) -> None:
        kind = writer.kind
        if self._least_bytes(writer) == 0 and kind != "union":  # its values have no bytes
            return
        if kind in ("int", "long", "enum"):
            self.emit(SKIP_VARINT)
        elif kind in ("bytes", "string"):
            self.emit(SKIP_BYTES)
        elif kind == "record":
            for each in writer.fields:
                self._skip(each.type)
        elif kind in ("array", "map"):
            assert writer.items is not None
            number = self.emit(SKIP_BLOCKS, 0, 0, self._least_bytes(writer.items) + (kind == "map"))
            if kind == "map":
                self.emit(SKIP_BYTES)
            self._skip(writer.items)
            self._patch(number, a=self._here())
        elif kind == "union":
            self._union(writer, self._skip)
        elif size := {"boolean": 1, "float": 4, "double": 8, "fixed": writer.size}.get(kind, 0):
            self.emit(SKIP_FIXED, 0, 0, size)

    def _least_bytes(self, writer: Type) -> int:
        """Return the least number of bytes of any value."""
        found = self._least.get(id(writer))
        if found is None:
            if writer.kind == "record":
                found = min(sum(self._least_bytes(each.type) for each in writer.fields), 1 << 30)
            elif writer.kind == "union":
                found = 1 + min((self._least_bytes(each) for each in writer.branches), default=0)
            else:
                found = {"null": 0, "float": 4, "double": 8, "fixed": writer.size}.get(writer.kind, 1)
            self._least[id(writer)] = found
        return found


def _same_name(writer: Type, reader: Type) -> bool:
    return writer.short_name == reader.short_name or _is_alias(writer, reader)


def _is_alias(writer: Type, reader: Type) -> bool:
    return writer.name in reader.aliases


def _candidates(writer: Type, branches: list[Type]) -> Iterator[int]:
    """Yield the branches of a reader's union that a writer's type may resolve to, best first."""
    same = [i for i, branch in enumerate(branches) if branch.kind == writer.kind]
    if writer.name:
        yield from (i for i in same if branches[i].name == writer.name or _is_alias(writer, branches[i]))
        yield from (i for i in same if branches[i].short_name == writer.short_name)
    yield from (i for i in same if branches[i].name == writer.name)  # a plain string before the text of a record
    yield from same
    for kind in _PROMOTIONS.get(writer.kind, ()):
        yield from (i for i, branch in enumerate(branches) if branch.kind == kind)
