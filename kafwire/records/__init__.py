"""Record batches as Kafka stores and sends them: bytes in, batches out, and back. Pure: no sockets, no clock.

Names are loaded on first use: importing one compiled module of this package does not load the others.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing import Any

    from kafwire.records._record_batches import RecordBatch
    from kafwire.records._records import Batch, Record
    from kafwire.records.batches import decode_batches, encode_batch, iter_batches

__all__ = ["Batch", "Record", "RecordBatch", "decode_batches", "encode_batch", "iter_batches"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> "Any":
        if name not in __all__:
            raise AttributeError(
                f"module 'kafwire.records' has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        value = getattr(import_module("kafwire.records.batches"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
