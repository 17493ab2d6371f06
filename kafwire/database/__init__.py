"""Kafka beside the user's own database, on any DB-API 2.0 connection (PEP 249): offsets, and batches of Spark.

No database driver is imported here: the user opens the connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.database.batches import BatchGapError, DatabaseBatches
    from kafwire.database.offsets import DatabaseOffsets

__all__ = ["BatchGapError", "DatabaseBatches", "DatabaseOffsets"]

_HOMES = {
    "BatchGapError": "kafwire.database.batches",
    "DatabaseBatches": "kafwire.database.batches",
    "DatabaseOffsets": "kafwire.database.offsets",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
