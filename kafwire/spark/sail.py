"""Schemas between Spark and Sail, a server of Spark Connect without a JVM, which exchanges Arrow schemas.

Sail calls `reader` and `writer` with a `pyarrow.Schema` where Spark gives a `StructType`, and converts the `StructType`
of `schema()` without the session's time zone, which fails for a timestamp. Sail prefers the Arrow schema of an object
that exports one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.types import StructType

from kafwire.spark.schema import arrow_schema

if TYPE_CHECKING:
    import pyarrow as pa


class ExportedSchema(StructType):
    """A `StructType` that Sail reads as an Arrow schema; for Spark it equals a plain `StructType`."""

    @classmethod
    def typeName(cls) -> str:  # noqa: N802 - Spark's name
        """Return the type's name in JSON, which Spark derives from the name of the class."""
        return StructType.typeName()

    def __arrow_c_schema__(self) -> object:
        return arrow_schema(self).__arrow_c_schema__()


def struct_type(schema: StructType | pa.Schema) -> StructType:
    """Return the argument of `reader` or `writer` as Spark's type; Sail passes an Arrow schema."""
    if isinstance(schema, StructType):
        return schema
    from pyspark.sql.pandas.types import from_arrow_schema

    return from_arrow_schema(schema)
