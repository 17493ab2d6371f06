"""Kafka beside the user's own database, on any DB-API 2.0 connection (PEP 249): offsets, and batches of Spark.

No database driver is imported here: the user opens the connections.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.database.batches import BatchGapError, DatabaseBatches
    from kafwire.database.offsets import DatabaseOffsets

__all__ = ["BatchGapError", "DatabaseBatches", "DatabaseOffsets"]

_MODULES = {"BatchGapError": "batches", "DatabaseBatches": "batches", "DatabaseOffsets": "offsets"}

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
