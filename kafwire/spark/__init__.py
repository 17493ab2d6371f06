"""The `kafwire` data source for PySpark: `spark.dataSource.register(KafwireDataSource)`, then `format("kafwire")`.

Options, plans and offsets are pure and import no pyspark; the names below load it when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.spark.data_loss import DataLossError
    from kafwire.spark.source import KafwireDataSource

__all__ = ["DataLossError", "KafwireDataSource"]


def __getattr__(name: str) -> object:
    if name == "KafwireDataSource":
        from kafwire.spark.source import KafwireDataSource

        return KafwireDataSource
    if name == "DataLossError":
        from kafwire.spark.data_loss import DataLossError

        return DataLossError
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
