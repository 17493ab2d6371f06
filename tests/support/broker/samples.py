"""Requests for the embedded broker that name topics as `name-0`, and have two elements in every array."""

from __future__ import annotations

import uuid
from typing import Any

VALUES: dict[str, Any] = {"bool": False, "float64": 0.5, "bytes": b"", "records": None}


def sample(kind: Any, version: int, number: int = 0) -> Any:
    """A message, or a struct in it, with two elements in every array; what differs between elements is their number."""
    made = kind()
    for each in kind.__fields__:
        if version not in each.versions:
            continue
        if each.struct is not None:
            value = [sample(each.struct, version, n) for n in (0, 1)] if each.array else sample(each.struct, version)
        elif each.array:
            value = [plain(each.kind, each.name, n) for n in (0, 1)]
        else:
            value = plain(each.kind, each.name, number)
        setattr(made, each.name, value)
    return made


def plain(kind: str, name: str, number: int) -> Any:
    if kind == "string":
        return f"{name}-{number}"
    if kind == "uuid":
        return uuid.UUID(int=number + 1)
    return VALUES.get(kind, number)
