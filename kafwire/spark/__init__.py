"""The `kafwire` data source for PySpark: `spark.dataSource.register(KafwireDataSource)`, then `format("kafwire")`.

Options, plans and offsets are pure and import no pyspark; the names below load it when they are first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from kafwire.spark.data_loss import AvailableNowError, DataLossError
    from kafwire.spark.database_sink import to_database
    from kafwire.spark.listener import listen
    from kafwire.spark.sessions import read, read_stream
    from kafwire.spark.source import KafwireDataSource

__all__ = ["AvailableNowError", "DataLossError", "KafwireDataSource", "listen", "read", "read_stream", "to_database"]

_MODULES = {
    "AvailableNowError": "data_loss",
    "DataLossError": "data_loss",
    "KafwireDataSource": "source",
    "listen": "listener",
    "read": "sessions",
    "read_stream": "sessions",
    "to_database": "database_sink",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> object:
        if name not in _MODULES:
            raise AttributeError(
                f"module {__name__!r} has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        return getattr(import_module(f"{__name__}.{_MODULES[name]}"), name)


def __dir__() -> list[str]:
    return __all__
