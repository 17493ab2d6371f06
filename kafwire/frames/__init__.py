"""Topics as data sets of other libraries: polars, pyarrow, DuckDB, Dask and Ray.

A read takes the columns and the filter of a query, and asks the brokers for no record that cannot pass. A library is
imported with the module that needs it, never by `import kafwire`.
"""

from __future__ import annotations

from kafwire.lazy_names import lazy_names

TYPE_CHECKING = False

if TYPE_CHECKING:
    from kafwire.frames.topic_dataset import TopicDataset, dataset

__all__ = ["TopicDataset", "dataset"]

if not TYPE_CHECKING:
    __getattr__ = lazy_names(__name__, dict.fromkeys(__all__, "kafwire.frames.topic_dataset"))


def __dir__() -> list[str]:
    return __all__
