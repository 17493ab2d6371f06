"""Documentation of options, from their declarations: texts of `help()`, editors and docs/reference/configuration.md.

`checks.option` says which facts a declaration has. Imports nothing of kafwire.
"""

from __future__ import annotations

import inspect
import textwrap
from dataclasses import MISSING, Field, fields
from typing import Any

_UNITS = {"_ms": "ms", "_bytes": "bytes", "_seconds": "s"}
_MIB = 1 << 20
_WIDTH = 100


def default_of(item: Field[Any]) -> str:
    """Return the default of an option as text; an empty text if the option is required."""
    value = item.default
    if item.metadata["default_text"] or value is MISSING:
        return str(item.metadata["default_text"])
    if isinstance(value, str):
        return f'"{value}"'
    if isinstance(value, tuple):
        return ", ".join(f'"{each}"' for each in value)
    if isinstance(value, bool) or not isinstance(value, int):
        return str(value)
    return f"{value // _MIB} MiB" if value and value % _MIB == 0 else f"{value:,}"


def accepted(item: Field[Any]) -> str:
    """Return the accepted values of an option with their unit; an empty text if its type says all."""
    metadata = item.metadata
    if metadata["accepts"]:
        return str(metadata["accepts"])
    text = getattr(metadata["check"], "accepts", "")
    unit = metadata["unit"] or next((unit for end, unit in _UNITS.items() if item.name.endswith(end)), "")
    values, separator, none = text.partition(", or None")
    if unit == "bytes" and values.endswith(" 1"):
        unit = "byte"
    return f"{values} {unit}{separator}{none}" if text and unit else str(text)


def type_of(item: Field[Any]) -> str:
    """Return the type of the values that an option takes, which may differ from the type of the kept value."""
    metadata = item.metadata
    if metadata["typed"]:
        return str(metadata["typed"])
    check = getattr(metadata["check"], "check", metadata["check"])  # below `OrDefault`
    kept = str(item.type).removesuffix(" | None")
    if hasattr(check, "allowed"):
        kept = f"Literal[{check.accepts}]"
    elif kept == "Secret":
        kept = "str | Secret"
    return kept if check is metadata["check"] or kept == "Any" else f"{kept} | None"


def names_of(item: Field[Any]) -> dict[str, list[str]]:
    """Return the names of an option in other clients, each with the clients that have it."""
    found: dict[str, list[str]] = {}
    for word in item.metadata["names"].split():
        client, _, name = word.partition("=")
        found.setdefault(name or item.name.replace("_", "."), []).append(client)
    return found


def meaning(item: Field[Any]) -> str:
    """Return the text of an option: its meaning, then its accepted values."""
    values = accepted(item)
    return f"{item.metadata['doc']} Values: {values}." if values else str(item.metadata["doc"])


def other_names(item: Field[Any]) -> str:
    """Return the names of an option in other clients as text; an empty text if it has none."""
    return "; ".join(f"{name} ({', '.join(clients)})" for name, clients in names_of(item).items())


def own_options(kind: type) -> list[Field[Any]]:
    """Return the options that a class declares, those that replace inherited ones included."""
    bases = [base for base in kind.__mro__[1:] if hasattr(base, "__dataclass_fields__")]
    inherited = fields(bases[0]) if bases else ()
    same = {item.name: item.metadata for item in inherited}
    return [item for item in fields(kind) if same.get(item.name) != item.metadata]


def described(owner: type, kind: type) -> str:
    """Return the docstring of `owner` with each option of `kind`, those of the class itself first."""
    parts = [] if owner is kind else [inspect.cleandoc(_written(owner))]
    shown: set[str] = set()
    for base in kind.__mro__:
        if not hasattr(base, "__dataclass_fields__"):
            continue
        own = {item.name: item for item in own_options(base) if item.name not in shown}
        shown |= own.keys()
        if own or base is kind:
            title = _written(base).partition("\n")[0].rstrip(".")
            parts.append("\n".join([f"{title or base.__name__}.", *map(_entry, own.values())]))
    return "\n\n".join(parts)


def _written(cls: type) -> str:
    """Return the docstring of a class as its source has it, without options."""
    doc = cls.__dict__["__doc__"]
    return str(getattr(doc, "head", doc) or "")


def _entry(item: Field[Any]) -> str:
    default = default_of(item)
    names = other_names(item)
    body = f"{meaning(item)} Other clients: {names}." if names else meaning(item)
    indent = " " * 8
    filled = textwrap.fill(body, _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False)
    return f"    {item.name}: {type_of(item)}{f' = {default}' if default else ''}\n{filled}"
