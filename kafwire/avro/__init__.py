"""Avro values to Arrow columns. Pure: no sockets, no clock; a function returns the schemas of ids (`kafwire.registry`).

Names are loaded on first use: an import of one compiled module of this package does not load the others.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.avro.decoder import AvroDecoder
    from kafwire.value_columns.decoder import Decoded

__all__ = ["AvroDecoder", "Decoded"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(
        __name__, {"AvroDecoder": "kafwire.avro.decoder", "Decoded": "kafwire.value_columns.decoder"}
    )


def __dir__() -> list[str]:
    return __all__
