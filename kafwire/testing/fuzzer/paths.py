"""Places in a message, such as "topics[0].partitions[1].index", and access to their values."""

import copy
import re
from typing import Any

from kafwire.protocol.spec import Field, Struct

Path = tuple[str | int, ...]

_STEP = re.compile(r"\[(\d+)\]|([^.\[\]]+)")


def parse(text: str) -> Path:
    """Parse "topics[0].name" into ("topics", 0, "name")."""
    return tuple(int(index) if index else name for index, name in _STEP.findall(text))


def text(path: Path) -> str:
    """Return ("topics", 0, "name") as "topics[0].name"."""
    return "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in path).removeprefix(".")


def get(message: Any, path: Path) -> Any:
    """Return the value at `path`. Raises LookupError where the message has no such place."""
    for step in path:
        if isinstance(step, int):
            message = message[step] if isinstance(message, list | tuple) else None
        elif isinstance(message, Struct) and step in type(message).__layout__.index:
            message = getattr(message, step)
        else:
            raise LookupError(text(path))
    return message


def put(message: Any, path: Path, value: Any) -> None:
    """Set the value at `path`. Raises LookupError where the message has no such place."""
    holder = get(message, path[:-1])
    step = path[-1]
    if isinstance(step, int) and isinstance(holder, list):
        holder[step] = value
    elif isinstance(step, str) and isinstance(holder, Struct) and step in type(holder).__layout__.index:
        setattr(holder, step, value)
    else:
        raise LookupError(text(path))


def clone(message: Any) -> Any:
    """Return a deep copy of a message."""
    return copy.deepcopy(message)


def places(message: Struct, version: int, prefix: Path = ()) -> list[tuple[Path, Field, Any]]:
    """Return every field of `version`, at any depth, with its declaration and value; parents before their children."""
    found: list[tuple[Path, Field, Any]] = []
    for field in type(message).__fields__:
        if version not in field.versions:
            continue
        value = getattr(message, field.name)
        path = (*prefix, field.name)
        found.append((path, field, value))
        if field.struct is None or value is None:
            continue
        for index, element in enumerate(value) if field.array else [(None, value)]:
            inner = path if index is None else (*path, index)
            found.extend(places(element, version, inner))
    return found
