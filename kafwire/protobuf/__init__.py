"""Protobuf values to Arrow columns. Pure: no sockets, no clock.

Names are loaded on first use.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.protobuf.decoder import ProtobufDecoder
    from kafwire.protobuf.encoder import ProtobufEncoder
    from kafwire.value_columns.decoder import Decoded
    from kafwire.value_columns.encoder import EncodedValues

__all__ = ["Decoded", "EncodedValues", "ProtobufDecoder", "ProtobufEncoder"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(
        __name__,
        {
            "Decoded": "kafwire.value_columns.decoder",
            "EncodedValues": "kafwire.value_columns.encoder",
            "ProtobufDecoder": "kafwire.protobuf.decoder",
            "ProtobufEncoder": "kafwire.protobuf.encoder",
        },
    )


def __dir__() -> list[str]:
    return __all__
