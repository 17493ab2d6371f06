"""The `kafwire` data source for PySpark: `spark.dataSource.register(KafwireDataSource)`, then `format("kafwire")`.

Options, plans and offsets are pure and import no pyspark; the names below load it when they are first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

if TYPE_CHECKING:
    from kafwire.spark.data_loss import AvailableNowError, DataLossError
    from kafwire.spark.database_sink import to_database
    from kafwire.spark.listener import listen
    from kafwire.spark.sessions import read, read_stream
    from kafwire.spark.source import KafwireDataSource

__all__ = ["AvailableNowError", "DataLossError", "KafwireDataSource", "listen", "read", "read_stream", "to_database"]

_HOMES = {
    "AvailableNowError": "kafwire.spark.data_loss",
    "DataLossError": "kafwire.spark.data_loss",
    "KafwireDataSource": "kafwire.spark.source",
    "listen": "kafwire.spark.listener",
    "read": "kafwire.spark.sessions",
    "read_stream": "kafwire.spark.sessions",
    "to_database": "kafwire.spark.database_sink",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
