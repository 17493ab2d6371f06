"""Formats: objects that convert keys and values of records in both directions, row by row and by columns.

`format` has their contract. Each format has a module of its own. No module here sends a request, except through the
registry that a format is given.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.schemas.avro import Avro
    from kafwire.schemas.format import Format, OnBadRecord
    from kafwire.schemas.json import Json
    from kafwire.schemas.json_schema import JsonSchema
    from kafwire.schemas.protobuf import Protobuf
    from kafwire.schemas.text import Text

__all__ = ["Avro", "Format", "Json", "JsonSchema", "OnBadRecord", "Protobuf", "Text"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(
        __name__,
        {
            "Format": "kafwire.schemas.format",
            "Json": "kafwire.schemas.json",
            "JsonSchema": "kafwire.schemas.json_schema",
            "OnBadRecord": "kafwire.schemas.format",
            "Text": "kafwire.schemas.text",
            "Avro": "kafwire.schemas.avro",
            "Protobuf": "kafwire.schemas.protobuf",
        },
    )


def __dir__() -> list[str]:
    return __all__
