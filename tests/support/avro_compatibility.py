"""Whether a reader's Avro schema can read what a writer's wrote, by the rules of the specification's Schema Resolution.

It has no code in common with `kafwire.avro.program`, which also needs Arrow columns.
"""

from __future__ import annotations

from kafwire.avro.schema import MISSING, Type

# The writers that a reader's type reads besides its own.
PROMOTED = {
    "long": {"int"},
    "float": {"int", "long"},
    "double": {"int", "long", "float"},
    "string": {"bytes"},
    "bytes": {"string"},
}


def differences(reader: Type, writer: Type) -> list[str]:
    """Return the reasons why the reader cannot read all of the writer's values; none if it can."""
    found: list[str] = []
    _compare(reader, writer, "", found)
    return found


def _compare(reader: Type, writer: Type, path: str, found: list[str]) -> None:
    if writer.kind == "union":
        for branch in writer.branches:
            _compare(reader, branch, path, found)
    elif reader.kind == "union":
        if not any(_reads(branch, writer) for branch in reader.branches):
            found.append(f"MISSING_UNION_BRANCH at {path or '/'}: {writer}")
    elif reader.kind != writer.kind:
        if writer.kind not in PROMOTED.get(reader.kind, set()):
            found.append(f"TYPE_MISMATCH at {path or '/'}: reader {reader}, writer {writer}")
    elif reader.kind in ("array", "map"):
        assert reader.items is not None
        assert writer.items is not None
        _compare(reader.items, writer.items, f"{path}/items", found)
    elif reader.name:
        _compare_named(reader, writer, path, found)


def _compare_named(reader: Type, writer: Type, path: str, found: list[str]) -> None:
    if reader.short_name != writer.short_name and writer.name not in reader.aliases:
        found.append(f"NAME_MISMATCH at {path or '/'}: {reader}, {writer}")
    if reader.kind == "fixed" and reader.size != writer.size:
        found.append(f"FIXED_SIZE_MISMATCH at {path or '/'}")
    if reader.kind == "enum" and reader.default is None:
        missing = sorted(set(writer.symbols) - set(reader.symbols))
        if missing:
            found.append(f"MISSING_ENUM_SYMBOLS at {path or '/'}: {missing}")
    written = {each.name: each.type for each in writer.fields}
    for each in reader.fields:
        there = next((written[name] for name in (each.name, *each.aliases) if name in written), None)
        if there is not None:
            _compare(each.type, there, f"{path}/{each.name}", found)
        elif each.default is MISSING:
            found.append(f"READER_FIELD_MISSING_DEFAULT_VALUE at {path}/{each.name}")


def _reads(reader: Type, writer: Type) -> bool:
    found: list[str] = []
    _compare(reader, writer, "", found)
    return not found
