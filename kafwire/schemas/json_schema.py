"""`JsonSchema`: keys and values as JSON documents of registered schemas."""

from __future__ import annotations

from kafwire.schemas.format import Format

__all__ = ["JsonSchema"]


class JsonSchema(Format):
    """The format of JSON documents of registered schemas."""

    __module__ = "kafwire"
