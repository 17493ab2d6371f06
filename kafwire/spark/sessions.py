"""Short forms for a session: the format's name, and the columns that a query needs."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.spark.schema import check_columns

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrameReader, SparkSession
    from pyspark.sql.streaming.readwriter import DataStreamReader


def read(spark: SparkSession, *, columns: Sequence[str] | None = None) -> DataFrameReader:
    """Begin a batch read: `spark.read.format("kafwire")` with the option `columns`.

    Spark does not tell a Python source which columns a query uses. Only named columns are decoded and handed to Spark.

    Args:
        spark: the session.
        columns: the columns to read, in any order, such as `["key", "value"]`; None reads those of Spark's own source.
            With the option `valueFormat`, `value.<field>` reads one field of the value, and no other is decoded.

    Returns:
        Spark's reader, which takes options and has `load()`.

    Raises:
        ConfigError: a column is unknown or named twice.

    Example:
        >>> from kafwire.spark import read
        >>> options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}
        >>> values = read(spark, columns=["value"]).options(**options).load()
    """
    reader = spark.read.format("kafwire")
    return reader if columns is None else reader.option("columns", _text(columns))


def read_stream(spark: SparkSession, *, columns: Sequence[str] | None = None) -> DataStreamReader:
    """Begin a stream: `spark.readStream.format("kafwire")` with the option `columns`.

    Args:
        spark: the session.
        columns: the columns to read, in any order, such as `["key", "value"]`; None reads those of Spark's own source.
            With the option `valueFormat`, `value.<field>` reads one field of the value, and no other is decoded.

    Returns:
        Spark's reader, which takes options and has `load()`.

    Raises:
        ConfigError: a column is unknown or named twice.

    Example:
        >>> from kafwire.spark import read_stream
        >>> options = {"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"}
        >>> values = read_stream(spark, columns=["value"]).options(**options).load()
    """
    reader = spark.readStream.format("kafwire")
    return reader if columns is None else reader.option("columns", _text(columns))


def _text(columns: Sequence[str]) -> str:
    check_columns(columns)
    return ",".join(columns)
