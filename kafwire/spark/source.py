"""The data source that Spark sees: options checked, schema declared, reader and writer made.

It travels between the driver and its helper processes as a pickle, so it holds text and dataclasses, never a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kafwire.errors import ConfigError
from kafwire.spark.options import includes_headers, read_options, write_options
from kafwire.spark.schema import check_read_schema, check_write_schema, full_schema

if TYPE_CHECKING:
    from pyspark.sql.datasource import DataSourceReader, DataSourceWriter
    from pyspark.sql.types import StructType


class KafwireDataSource(DataSource):
    """`format("kafwire")`: batch reads and writes of Kafka topics.

    Schema, option names and their meaning are those of Spark's own Kafka source, `docs/spark.md` lists them.
    `.schema("value binary")` reads only the columns it names; nothing else is decoded.
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name."""
        return "kafwire"

    def schema(self) -> StructType:
        """Return the schema of Spark's own Kafka source, with `headers` when `includeHeaders` is true."""
        read_options(self.options)
        return full_schema(include_headers=includes_headers(self.options))

    def reader(self, schema: StructType) -> DataSourceReader:
        """Return a reader of the columns in `schema`; raises `ConfigError`."""
        from kafwire.spark.reader import KafwireReader

        options = read_options(self.options)
        check_read_schema(schema)
        return KafwireReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Return a writer of the columns in `schema`, which can only append; raises `ConfigError`."""
        from kafwire.spark.writer import KafwireWriter

        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        options = write_options(self.options)
        return KafwireWriter(options, check_write_schema(schema, options.topic))
