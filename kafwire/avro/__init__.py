"""Avro values to Arrow columns. Pure: no sockets, no clock; a function returns the schemas of ids (`kafwire.registry`).

Names are loaded on first use: an import of one compiled module of this package does not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kafwire.avro.decoder import AvroDecoder, Decoded

__all__ = ["AvroDecoder", "Decoded"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> "Any":
        if name not in __all__:
            raise AttributeError(
                f"module 'kafwire.avro' has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        value = getattr(import_module("kafwire.avro.decoder"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
