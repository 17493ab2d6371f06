"""Arrow for those who have pyarrow: kafwire itself speaks the C data interface and imports no Arrow library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pyarrow as pa

__all__ = ["ArrowArrayExportable", "ArrowSchemaExportable", "ArrowStreamExportable", "importer", "record_batch"]


class ArrowSchemaExportable(Protocol):
    """Whatever offers a schema over the Arrow C data interface."""

    def __arrow_c_schema__(self) -> object:
        """Return a PyCapsule "arrow_schema"."""


class ArrowArrayExportable(Protocol):
    """Whatever offers one array over the Arrow C data interface."""

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return PyCapsules "arrow_schema" and "arrow_array"."""


class ArrowStreamExportable(Protocol):
    """Whatever offers a stream of arrays over the Arrow C stream interface."""

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule "arrow_array_stream"."""


def record_batch(rows: ArrowArrayExportable) -> pa.RecordBatch:
    """Return `rows` as a pyarrow.RecordBatch that shares their memory.

    Raises:
        ImportError: pyarrow is not installed; polars, duckdb and others take `rows` itself.

    """
    return _pyarrow().record_batch(rows)


def importer(schema: ArrowSchemaExportable) -> Callable[[int], pa.RecordBatch]:
    """Return what takes over the struct array of `schema` at an address (Arrow C data interface) as a RecordBatch.

    pyarrow reads the schema once here, which costs it more than all arrays of a small batch.

    Raises:
        ImportError: as `record_batch`.

    """
    pyarrow = _pyarrow()
    take: Callable[[int, pa.Schema], pa.RecordBatch] = pyarrow.RecordBatch._import_from_c
    known: pa.Schema = pyarrow.schema(schema)
    return lambda address: take(address, known)


def _pyarrow() -> Any:
    try:
        import pyarrow as pa
    except ImportError as error:
        raise ImportError(
            "to_arrow() needs the package pyarrow: install kafwire[arrow], or give the batch itself to a library "
            "that takes __arrow_c_array__"
        ) from error
    return pa
