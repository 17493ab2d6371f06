"""Schemas between Spark and Sail, which exchanges Arrow schemas, without either of them."""

from __future__ import annotations

import pickle
import tomllib
from collections.abc import Callable
from importlib.metadata import EntryPoint
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql.datasource import InputPartition

from kafwire.errors import ConfigError
from kafwire.spark.reader import KafwireReader
from kafwire.spark.schema import arrow_schema, full_schema
from kafwire.spark.source import KafwireDataSource
from kafwire.spark.stream_reader import KafwireStreamReader
from kafwire.spark.writer import KafwireStreamWriter, KafwireWriter

ROOT = Path(__file__).parents[2]
READ = KafwireDataSource({"kafka.bootstrap.servers": "b:9092", "subscribe": "t", "includeHeaders": "true"})
WRITE = KafwireDataSource({"kafka.bootstrap.servers": "b:9092", "topic": "t"})
FULL = full_schema(include_headers=True)


def test_the_schema_is_spark_s_and_exports_arrow_s() -> None:
    schema = READ.schema()
    assert schema.json() == FULL.json()
    assert pickle.loads(pickle.dumps(schema)).json() == FULL.json()
    assert pa.schema(schema).equals(arrow_schema(FULL))


def test_an_arrow_schema_is_taken_for_a_read() -> None:
    reader = READ.reader(arrow_schema(FULL))
    assert isinstance(reader, KafwireReader)
    assert reader.schema == FULL
    with pytest.raises(ConfigError, match="column value is binary, not string"):
        READ.reader(pa.schema([("value", pa.string())]))


def test_an_arrow_schema_is_taken_for_a_write() -> None:
    schema = pa.schema([("key", pa.string()), ("value", pa.large_string()), ("n", pa.int64())])
    writer = WRITE.writer(schema, overwrite=False)
    assert isinstance(writer, KafwireWriter)
    assert writer.columns == ["value", "key"]
    with pytest.raises(ConfigError, match="column value is bigint"):
        WRITE.writer(pa.schema([("value", pa.int64())]), overwrite=False)


def test_the_entry_point_that_sail_looks_for_is_the_source() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    ((name, value),) = project["entry-points"]["pysail.datasources"].items()
    assert EntryPoint(name, value, "pysail.datasources").load() is KafwireDataSource
    assert name == KafwireDataSource.name()


def test_a_stream_in_complete_mode_is_appended() -> None:
    """Spark's own sink writes the whole result of each batch, too."""
    schema = full_schema(include_headers=False)
    assert isinstance(WRITE.streamWriter(schema, overwrite=True), KafwireStreamWriter)


def test_an_arrow_schema_is_taken_for_a_stream_whose_errors_come_when_it_starts() -> None:
    assert isinstance(READ.streamReader(arrow_schema(FULL)), KafwireStreamReader)
    refused = KafwireDataSource({**READ.options, "endingOffsets": "latest"}).streamReader(FULL)
    limit = refused.getDefaultReadLimit()
    calls: list[Callable[[], object]] = [
        refused.initialOffset,
        lambda: refused.latestOffset({}, limit),
        lambda: refused.partitions({}, {}),
        lambda: refused.read(InputPartition(None)),
    ]
    for call in calls:
        with pytest.raises(ConfigError, match="option endingOffsets: a stream has no end"):
            call()
    refused.stop()
