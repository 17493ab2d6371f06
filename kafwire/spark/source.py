"""The data source that Spark calls: it checks options, declares the schema, and creates readers and writers.

It travels between the driver and its helper processes as a pickle, so it holds text and dataclasses, never a client.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.sql.datasource import DataSource

from kafwire.errors import ConfigError, KafkaError
from kafwire.spark.options import check_reading, read_options, write_options
from kafwire.spark.sail import ExportedSchema, struct_type
from kafwire.spark.schema import check_columns, check_read_schema, check_write_schema, read_schema
from kafwire.spark.stream_options import stream_options
from kafwire.spark.value_decoding import decoding_of

if TYPE_CHECKING:
    from pyspark.sql.datasource import (
        DataSourceReader,
        DataSourceStreamReader,
        DataSourceStreamWriter,
        DataSourceWriter,
    )
    from pyspark.sql.types import StructType

    from kafwire.spark.options import ReadOptions
    from kafwire.spark.value_decoding import Decodings


class KafwireDataSource(DataSource):
    """The data source `format("kafwire")`: streams, batch reads and batch writes of Kafka topics.

    Schema, option names and their meaning are those of Spark's own Kafka source; docs/guide/spark.md lists them.
    `.schema("value binary")` reads only the columns that it names; nothing else is decoded. Spark makes it.

    Example:
        >>> from kafwire.spark import KafwireDataSource
        >>> source = KafwireDataSource({"kafka.bootstrap.servers": "localhost:9092", "subscribe": "flights"})
        >>> source.schema().names
        ['key', 'value', 'topic', 'partition', 'offset', 'timestamp', 'timestampType']
    """

    @classmethod
    def name(cls) -> str:
        """Return the format's name.

        Returns:
            "kafwire".

        Example:
            >>> from kafwire.spark import KafwireDataSource
            >>> KafwireDataSource.name()
            'kafwire'
        """
        return "kafwire"

    def schema(self) -> StructType:
        """Return the schema of Spark's own Kafka source, with `headers` if the option `includeHeaders` is true.

        The options `columns` and `valueFormat` change it: docs/guide/spark.md says how.

        Returns:
            The schema.

        Raises:
            ConfigError: an option is unknown or has a bad value.
            SchemaError: the schema of the registry is not one of Avro's.
            SchemaRegistryError: the registry does not respond in time, or has no such schema.
        """
        options = check_reading(self.options)
        if options.columns is not None:
            check_columns(options.columns)
        decoding = decoding_of(options)
        return ExportedSchema(read_schema(options, {} if decoding is None else decoding.columns()).fields)

    def reader(self, schema: StructType) -> DataSourceReader:
        """Make a reader of the columns in a schema. Spark calls it.

        Args:
            schema: the columns.

        Returns:
            The reader.

        Raises:
            ConfigError: an option or a column is unknown or has a bad value.
        """
        from kafwire.spark.reader import FilteringReader, KafwireReader

        options = read_options(self.options)
        schema = struct_type(schema)
        # Spark refuses all queries of a class with `pushFilters` unless its configuration enables pushdown.
        made = FilteringReader if options.push_filters else KafwireReader
        return made(options, schema, _decoding(options, schema))

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:  # noqa: N802 - Spark's name
        """Make a reader of a stream, of the columns in a schema. Spark calls it.

        Args:
            schema: the columns.

        Returns:
            The reader. It raises `ConfigError` when the query starts, for an option or a column that is unknown or has
            a bad value.
        """
        from kafwire.spark.stream_reader import KafwireStreamReader, RefusedStreamReader

        try:
            options = stream_options(self.options)
            schema = struct_type(schema)
            decoding = _decoding(options.read, schema)
        except KafkaError as error:
            return RefusedStreamReader(error)
        return KafwireStreamReader(options, schema, decoding)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        """Make a writer of the columns in a schema. Spark calls it.

        Args:
            schema: the columns.
            overwrite: True if the mode is "overwrite"; a topic can only be appended to.

        Returns:
            The writer.

        Raises:
            ConfigError: an option or a column is unknown or has a bad value, or `overwrite` is true.
        """
        if overwrite:
            raise ConfigError('a topic cannot be overwritten: use mode("append")')
        options = write_options(self.options)
        columns = check_write_schema(struct_type(schema), options.topic)
        if options.sink is not None:
            from kafwire.spark.transactional_writer import AtomicWriter

            return AtomicWriter(options, columns)
        from kafwire.spark.writer import KafwireWriter

        return KafwireWriter(options, columns)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:  # noqa: ARG002, N802 - Spark's
        """Make a writer of a stream, of the columns in a schema. Spark calls it.

        Args:
            schema: the columns.
            overwrite: True if the output mode is "complete": each batch then appends the whole result, as with
                Spark's own sink.

        Returns:
            The writer.

        Raises:
            ConfigError: an option or a column is unknown or has a bad value.
        """
        options = write_options(self.options, is_stream=True)
        columns = check_write_schema(schema, options.topic)
        if options.sink is not None:
            from kafwire.spark.transactional_writer import ExactlyOnceStreamWriter

            return ExactlyOnceStreamWriter(options, columns)
        from kafwire.spark.writer import KafwireStreamWriter

        return KafwireStreamWriter(options, columns)


def _decoding(options: ReadOptions, schema: StructType) -> Decodings | None:
    """Return the decoding of a read with this schema, and check the schema."""
    decoding = decoding_of(options, schema)
    check_read_schema(schema, {} if decoding is None else decoding.columns())
    return decoding
