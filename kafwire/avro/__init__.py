"""Avro values to Arrow columns, and back. Pure: no sockets, no clock; a function returns the schemas of ids.

Names are loaded on first use: an import of one compiled module of this package does not load the others.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.avro.decoder import AvroDecoder, Decoded
    from kafwire.avro.encoder import AvroEncoder, EncodedValues

__all__ = ["AvroDecoder", "AvroEncoder", "Decoded", "EncodedValues"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(
        __name__,
        {
            "AvroDecoder": "kafwire.avro.decoder",
            "AvroEncoder": "kafwire.avro.encoder",
            "Decoded": "kafwire.avro.decoder",
            "EncodedValues": "kafwire.avro.encoder",
        },
    )


def __dir__() -> list[str]:
    return __all__
