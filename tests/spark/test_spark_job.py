"""Jobs in a session, on the embedded broker: to files, to a topic, and what fails."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

import kafwire
from kafwire import TopicPartition
from kafwire.errors import ConfigError
from kafwire.spark.group_commits import GroupCommits
from kafwire.spark.job import Stop, run
from kafwire.spark.job_file import read_job
from kafwire.testing import EmbeddedKafka
from tests.support.doc_blocks import blocks
from tests.support.schema_registry import RegistryServer

pytestmark = pytest.mark.timeout(300)  # the first of them starts the session
Do = Callable[[str], list[Mapping[str, Any]]]


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        yield running


@pytest.fixture
def do(spark: SparkSession, kafka: EmbeddedKafka) -> Do:
    """Run a job file, and return the reports of its batches."""

    def run_text(text: str) -> list[Mapping[str, Any]]:
        batches: list[Mapping[str, Any]] = []
        given = f'kafka.bootstrap.servers = "{kafka.bootstrap}"\n{text}'
        run(spark, read_job(given, {}), batches.append, Stop())
        return batches

    return run_text


def committed(kafka: EmbeddedKafka, group: str, topic: str) -> dict[TopicPartition, int]:
    commits = GroupCommits(group, {"bootstrap_servers": kafka.bootstrap})
    try:
        return commits.committed([TopicPartition(topic, number) for number in range(2)])
    finally:
        commits.close()


def values(folder: Path) -> list[Any]:
    return sorted(value for file in folder.glob("*.parquet") for value in pq.read_table(file)["value"].to_pylist())


def test_a_topic_becomes_an_archive_and_its_last_batch_is_committed_for_the_group(
    kafka: EmbeddedKafka, do: Do, tmp_path: Path
) -> None:
    kafka.create_topic("archived", partitions=2)
    for number in range(100):
        kafka.append("archived", [b"%d" % number], partition=number % 2)
    batches = do(
        f"""
        checkpoint = "{tmp_path}/checkpoint"
        [source]
        subscribe = "archived"
        columns = ["value"]
        options = {{ startingOffsets = "earliest", maxOffsetsPerTrigger = 40, commitGroup = "archive" }}
        [sink]
        path = "{tmp_path}/rows"
        format = "parquet"
        """
    )
    assert [(batch["batch"], batch["rows"]) for batch in batches] == [(0, 40), (1, 40), (2, 20)]
    assert [batch["topics"]["archived"]["backlog"] for batch in batches] == [60, 20, 0]
    assert values(tmp_path / "rows") == sorted(b"%d" % number for number in range(100))
    places = [TopicPartition("archived", number) for number in range(2)]
    assert committed(kafka, "archive", "archived") == dict.fromkeys(places, 50)


def test_parquet_through_json_and_sql_becomes_a_topic(kafka: EmbeddedKafka, do: Do, tmp_path: Path) -> None:
    kafka.create_topic("filled", partitions=1)
    texts = [f'{{"origin": "{"JFK" if n % 2 else "LGA"}", "delay": {n}}}' for n in range(20)] + ["nonsense"]
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"value": texts, "n": range(21)}), tmp_path / "in" / "one.parquet")
    (batch,) = do(
        f"""
        trigger = "batch"
        source = {{ path = "{tmp_path}/in", format = "parquet" }}
        decode.json = "origin string, delay int"
        sink.topic = "filled"
        [sql]
        query = '''
            SELECT origin AS key, CAST(sum(delay) AS string) AS value
            FROM source WHERE origin IS NOT NULL GROUP BY origin
        '''
        """
    )
    assert batch["rows"] == 2
    with kafwire.scan(kafka.bootstrap, "filled") as scan:
        found = sorted((record.key, record.value) for batch in scan.batches() for record in batch)
    assert found == [(b"JFK", b"100"), (b"LGA", b"90")]


def test_avro_of_a_topic_becomes_columns_and_dead_letters(kafka: EmbeddedKafka, do: Do, tmp_path: Path) -> None:
    kafka.create_topic("flights-avro", partitions=1)
    with RegistryServer() as registry:
        fields = [{"name": "origin", "type": "string"}, {"name": "delay", "type": "int"}]
        registry.register("flights-avro-value", {"type": "record", "name": "Flight", "fields": fields})
        kafka.append("flights-avro", [b"\0\0\0\0\1\6JFK\x14", b"nonsense"], partition=0)
        (batch,) = do(
            f"""
            trigger = "batch"
            source = {{ subscribe = "flights-avro", columns = ["offset", "value"] }}
            decode = {{ registry.url = "{registry.url}", bad = "dead-letter" }}
            sink = {{ path = "{tmp_path}/rows", format = "parquet" }}
            """
        )
    assert batch["rows"] == 2
    first, second = sorted(pq.read_table(tmp_path / "rows").to_pylist(), key=lambda row: row["offset"])
    assert first == {"offset": 0, "origin": "JFK", "delay": 10, "badRecord": None}
    assert (second["origin"], second["badRecord"]["value"]) == (None, b"nonsense")


def test_the_job_of_the_document_runs(kafka: EmbeddedKafka, spark: SparkSession, tmp_path: Path) -> None:
    (block,) = [block for block in blocks("toml") if block.document == "spark" and "[sql]" in block.text]
    documented = read_job(block.text, {"KAFKA_PASSWORD": "secret"})
    for topic in ("flights", "delays"):
        kafka.create_topic(topic, partitions=1)
    hour_ms = 3_600_000
    now_ms = int(time.time() * 1000) // hour_ms * hour_ms
    with kafwire.Producer(kafka.bootstrap) as producer:
        for hour, delay in ((-5, 10), (-5, 20), (-3, 99), (-1, 5)):
            text = b'{"origin": "JFK", "delay": %d}' % delay
            producer.send("flights", text, timestamp_ms=now_ms + hour * hour_ms)
    at = {"kafka.bootstrap.servers": kafka.bootstrap}
    own = {name: value for name, value in documented.sink.options.items() if not name.startswith("kafka.")}
    job = replace(
        documented,
        trigger="available-now",
        interval_s=None,
        checkpoint=str(tmp_path / "checkpoint"),
        source=replace(documented.source, options={**at, "subscribe": "flights", "startingOffsets": "earliest"}),
        sink=replace(documented.sink, options={**at, **own}),
    )
    for _ in range(2):  # the second run finds nothing new
        run(spark, job, lambda _: None, Stop())
    with kafwire.scan(kafka.bootstrap, "delays", isolation_level="read_committed") as scan:
        found = [(record.key, json.loads(record.value)["delay"]) for batch in scan.batches() for record in batch]
    assert sorted(found) == [(b"JFK", 15.0), (b"JFK", 99.0)]  # the last hour is not over


def test_a_stream_of_files_and_a_table_find_their_schemas(do: Do, spark: SparkSession, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    pq.write_table(pa.table({"value": [b"1", b"2"]}), tmp_path / "in" / "one.parquet")
    stream = f"""
        checkpoint = "{tmp_path}/checkpoint"
        source = {{ path = "{tmp_path}/in", format = "parquet" }}
        sink = {{ path = "{tmp_path}/rows", format = "parquet" }}
        """
    with pytest.raises(ConfigError, match=r"table \[kafka\] has no effect"):
        do(stream)
    run(spark, read_job(stream, {}), lambda _: None, Stop())
    assert values(tmp_path / "rows") == [b"1", b"2"]
    spark.read.parquet(str(tmp_path / "rows")).createOrReplaceTempView("rows_view")
    table = f"trigger = 'batch'\nsource.table = 'rows_view'\nsink = {{ path = '{tmp_path}/again', format = 'parquet' }}"
    run(spark, read_job(table, {}), lambda _: None, Stop())
    assert values(tmp_path / "again") == [b"1", b"2"]


@pytest.mark.parametrize(
    ("kind", "package"),
    [("delta", "io.delta:delta-spark"), ("iceberg", "org.apache.iceberg:iceberg-spark-runtime"), ("nosuch", "its")],
)
@pytest.mark.parametrize("trigger", ["batch", "available-now"])
def test_a_format_without_its_package_is_named(
    kafka: EmbeddedKafka, do: Do, tmp_path: Path, kind: str, package: str, trigger: str
) -> None:
    topic = f"{kind}-{trigger}"
    kafka.create_topic(topic, partitions=1)
    checkpoint = "" if trigger == "batch" else f'checkpoint = "{tmp_path}/checkpoint"'
    head = f'trigger = "{trigger}"\n{checkpoint}\n'
    path = f'{{ path = "{tmp_path}/rows", format = "{kind}" }}'
    jobs = [f'source.subscribe = "{topic}"\nsink = {path}', f'source = {path}\nsink.topic = "{topic}"']
    for job in jobs:
        with pytest.raises(ConfigError, match=f"the format '{kind}' is not in this Spark: name {package}"):
            do(head + job)


def test_an_archive_goes_back_into_a_topic(kafka: EmbeddedKafka, do: Do, tmp_path: Path) -> None:
    for topic in ("kept", "restored"):
        kafka.create_topic(topic, partitions=2)
    for number in range(50):
        kafka.append("kept", [b"%d" % number], partition=number % 2)
    folder = f'{{ path = "{tmp_path}/rows", format = "parquet" }}'
    archive = f'source = {{ subscribe = "kept", options.startingOffsets = "earliest" }}\nsink = {folder}'
    do(f'checkpoint = "{tmp_path}/checkpoint"\n{archive}')
    (batch,) = do(
        f'trigger = "batch"\nsource = {folder}\nsink = {{ topic = "restored", delivery = "atomic", '
        'options.sink = "restored" }'
    )
    assert batch["rows"] == 50
    with kafwire.scan(kafka.bootstrap, "restored", isolation_level="read_committed") as scan:
        found = sorted(int(record.value) for batch in scan.batches() for record in batch)
    assert found == list(range(50))


def test_a_refusal_by_spark_or_the_columns_is_raised(kafka: EmbeddedKafka, do: Do, tmp_path: Path) -> None:
    kafka.create_topic("plain", partitions=1)
    job = f"""
        trigger = "batch"
        source.subscribe = "plain"
        sink = {{ path = "{tmp_path}/rows", format = "FORMAT" }}
        decode.json = "COLUMNS"
        """
    with pytest.raises(ConfigError, match="the decoded value has the columns offset, timestamp, as the source has"):
        do(job.replace("COLUMNS", "offset int, timestamp string, n int").replace("FORMAT", "parquet"))
    with pytest.raises(Exception, match="nosuch"):
        do(job.replace("COLUMNS", "n int").replace("FORMAT", "nosuch"))
    kafka.append("plain", [b"nonsense"], partition=0)
    with pytest.raises(Exception, match="MALFORMED_RECORD"):
        do(job.replace('"COLUMNS"', '"n int"\ndecode.bad = "error"').replace("FORMAT", "parquet"))
    with pytest.raises(AnalysisException, match="no such topic: missing"):
        do(job.replace("COLUMNS", "n int").replace("FORMAT", "parquet").replace("plain", "missing"))
