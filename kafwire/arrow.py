"""Helpers for pyarrow: kafwire itself uses the Arrow C data interface, and imports no Arrow library."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

    import pyarrow as pa

__all__ = ["ArrowArrayExportable", "ArrowSchemaExportable", "ArrowStreamExportable", "importer", "record_batch"]


class ArrowSchemaExportable(Protocol):
    """Anything that offers a schema over the Arrow C data interface.

    Example:
        >>> hasattr(pa.schema([("value", pa.binary())]), "__arrow_c_schema__")
        True
    """

    def __arrow_c_schema__(self) -> object:
        """Return a PyCapsule "arrow_schema"."""


class ArrowArrayExportable(Protocol):
    """Anything that offers one array over the Arrow C data interface.

    Example:
        >>> hasattr(pa.array([b"EWR-IAH"]), "__arrow_c_array__")
        True
    """

    def __arrow_c_array__(self, requested_schema: object | None = None) -> tuple[object, object]:
        """Return PyCapsules "arrow_schema" and "arrow_array"."""


class ArrowStreamExportable(Protocol):
    """Anything that offers a stream of arrays over the Arrow C stream interface.

    Example:
        >>> hasattr(pa.table({"value": [b"EWR-IAH"]}), "__arrow_c_stream__")
        True
    """

    def __arrow_c_stream__(self, requested_schema: object | None = None) -> object:
        """Return a PyCapsule "arrow_array_stream"."""


def record_batch(rows: ArrowArrayExportable) -> pa.RecordBatch:
    """Make a pyarrow.RecordBatch that shares the memory of rows.

    Args:
        rows: anything with `__arrow_c_array__`, for example a `Batch`.

    Returns:
        The pyarrow.RecordBatch.

    Raises:
        ImportError: pyarrow is not installed. polars, duckdb and others take `rows` itself.

    Example:
        >>> from kafwire.arrow import record_batch
        >>> batch, = kafwire.records.decode_batches(kafwire.records.encode_batch([b"EWR-IAH"]))
        >>> record_batch(batch)["value"].to_pylist()
        [b'EWR-IAH']
    """
    return _pyarrow().record_batch(rows)


def importer(schema: ArrowSchemaExportable) -> Callable[[int], pa.RecordBatch]:
    """Return a function that imports struct arrays of one schema as pyarrow.RecordBatch.

    pyarrow reads the schema once here, which takes longer than the import of a small batch's arrays.

    Args:
        schema: anything with `__arrow_c_schema__`.

    Returns:
        A function of an address: it takes ownership of the array there (Arrow C data interface).

    Raises:
        ImportError: pyarrow is not installed.

    Example:
        >>> from kafwire.arrow import importer
        >>> callable(importer(pa.schema([("value", pa.binary())])))
        True
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
