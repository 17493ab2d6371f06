"""Record batches as Kafka stores and sends them: bytes in, batches out, and back. Pure: no sockets, no clock.

Names are loaded on first use: importing one compiled module of this package does not load the others.
"""

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.records._record_batches import RecordBatch
    from kafwire.records._records import Batch, Record
    from kafwire.records.batches import decode_batches, encode_batch, iter_batches

__all__ = ["Batch", "Record", "RecordBatch", "decode_batches", "encode_batch", "iter_batches"]

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "kafwire.records.batches"))


def __dir__() -> list[str]:
    return __all__
