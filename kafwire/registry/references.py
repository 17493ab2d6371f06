"""The schemas that a schema refers to, with limits: a registry's response may have cycles, or grow without end."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kafwire.errors import SchemaError
from kafwire.registry.registered import Reference

__all__ = ["Malformed", "direct_references", "resolved"]

MAX_REFERENCES, MAX_DEPTH, MAX_TEXT = 1_000, 64, 32 << 20


class Malformed(Exception):
    """A response's references are not valid."""


def direct_references(found: Mapping[str, Any]) -> list[Reference]:
    """Return the references of a schema in a response, without their texts. Raises `Malformed`."""
    listed = found.get("references") or []
    try:
        made = [Reference(each.get("name", each["subject"]), each["subject"], each["version"]) for each in listed]
    except (TypeError, KeyError, AttributeError):
        made = [Reference("", "", -1)]
    if not all(
        isinstance(each.name, str) and isinstance(each.subject, str) and each.subject and _is_version(each.version)
        for each in made
    ):
        raise Malformed("its references have no subject and version")
    return made


def resolved(
    found: Mapping[str, Any], what: str, look_up: Callable[[str, int], tuple[str, Mapping[str, Any]]]
) -> tuple[Reference, ...]:
    """Return all references of a schema, each after its own.

    Args:
        found: the response with the schema.
        what: the schema, for errors.
        look_up: returns the text of a version of a subject, and the response with it.

    Raises:
        SchemaError: a schema refers to itself, or refers to too many, too deep, or too long ones.
        Malformed: the response's references are not valid.
    """
    walk = _Walk(what, look_up)
    walk.visit(found, [])
    return tuple(walk.made.values())


class _Walk:
    def __init__(self, what: str, look_up: Callable[[str, int], tuple[str, Mapping[str, Any]]]) -> None:
        self._what = what
        self._look_up = look_up
        self._length = 0
        self.made: dict[tuple[str, str, int], Reference] = {}
        self._walked: set[tuple[str, int]] = set()

    def visit(self, found: Mapping[str, Any], path: list[tuple[str, int]]) -> None:
        for each in direct_references(found):
            key = (each.subject, each.version)
            if key in path:
                raise SchemaError(f"{self._what}: version {each.version} of subject {each.subject!r} refers to itself")
            if len(path) >= MAX_DEPTH:
                raise SchemaError(f"{self._what}: its references are nested more than {MAX_DEPTH} deep")
            if len(self.made) + len(path) >= MAX_REFERENCES:
                raise SchemaError(f"{self._what}: it refers to more than {MAX_REFERENCES} schemas")
            text, response = self._look_up(*key)
            if key not in self._walked:
                self.visit(response, [*path, key])
                self._walked.add(key)
                self._length += len(text)
                if self._length > MAX_TEXT:
                    raise SchemaError(
                        f"{self._what}: the schemas that it refers to are longer than {MAX_TEXT} characters"
                    )
            name = (each.name, *key)
            direct = not path or (name in self.made and self.made[name].is_direct)
            # A direct reference of the same name keeps the place after its own references.
            self.made[name] = Reference(each.name, each.subject, each.version, text, direct)


def _is_version(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
