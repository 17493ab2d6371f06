"""Kafka beside the user's own database, by any DB-API 2.0 connection (PEP 249): `DatabaseOffsets`.

No database's driver is imported here: the user opens the connections.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.database.offsets import DatabaseOffsets

__all__ = ["DatabaseOffsets"]


def __getattr__(name: str) -> object:
    if name == "DatabaseOffsets":
        from kafwire.database.offsets import DatabaseOffsets

        return DatabaseOffsets
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
