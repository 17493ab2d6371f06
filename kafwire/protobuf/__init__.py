"""Protobuf values to Arrow columns. Pure: no sockets, no clock.

Names are loaded on first use.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.protobuf.decoder import ProtobufDecoder
    from kafwire.value_columns.decoder import Decoded

__all__ = ["Decoded", "ProtobufDecoder"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(
        __name__, {"Decoded": "kafwire.value_columns.decoder", "ProtobufDecoder": "kafwire.protobuf.decoder"}
    )


def __dir__() -> list[str]:
    return __all__
