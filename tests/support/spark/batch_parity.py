"""Batch reads and writes by Spark's own connector and by kafwire in one session, in a separate process; prints JSON.

    python -m tests.support.spark.batch_parity BOOTSTRAP

It prints `{"reads": {...}, "writes": {...}}`: for each case the outcomes of both, rows or the text of the error.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import Row, SparkSession

import kafwire
from tests.support.spark.connector import PACKAGE

LONGEST_S = 120
FORMATS = ("kafka", "kafwire")
TWO, ONE, COMMITTED = "two-x", "one-x", "transactions"
T0 = 1_700_000_000_000
ROWS = 12
J = json.dumps
_BOTH = {"0": 0, "1": 0}

READS: dict[str, dict[str, str]] = {
    "plain": {"subscribe": TWO},
    "two topics": {"subscribe": f" {TWO} , {ONE},"},
    "pattern": {"subscribePattern": "^(two|one)-"},
    "pattern inside": {"subscribePattern": "wo-"},
    "assign": {"assign": J({TWO: [1]})},
    "offsets": {
        "subscribe": TWO,
        "startingOffsets": J({TWO: {"0": 3, "1": -2}}),
        "endingOffsets": J({TWO: {"0": 5, "1": -1}}),
    },
    "words of offsets": {"subscribe": TWO, "startingOffsets": "EARLIEST", "endingOffsets": "Latest"},
    "end beyond the topic, allowed": {
        "subscribe": TWO,
        "endingOffsets": J({TWO: {"0": 500, "1": 3}}),
        "failOnDataLoss": "false",
    },
    "timestamps": {"subscribe": TWO, "startingTimestamp": f"{T0 + 3000}", "endingTimestamp": f"{T0 + 8000}"},
    "timestamps by partition": {
        "subscribe": TWO,
        "startingOffsetsByTimestamp": J({TWO: {"0": T0 + 4000, "1": 0}}),
        "endingOffsetsByTimestamp": J({TWO: {"0": T0 + 8000, "1": T0 + 8000}}),
    },
    "end after the last timestamp": {
        "subscribe": TWO,
        "endingOffsetsByTimestamp": J({TWO: {"0": T0 + 10**9, "1": T0 + 4000}}),
    },
    "timestamp wins": {
        "subscribe": TWO,
        "startingTimestamp": f"{T0 + 3000}",
        "startingOffsetsByTimestamp": J({TWO: _BOTH}),
        "startingOffsets": J({TWO: _BOTH}),
        "endingTimestamp": f"{T0 + 8000}",
        "endingOffsets": J({TWO: {"0": 1, "1": 1}}),
    },
    "late timestamp, latest": {
        "subscribe": TWO,
        "startingTimestamp": f"{T0 + 10**9}",
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "headers": {"subscribe": TWO, "includeHeaders": "TRUE"},
    "minPartitions": {"subscribe": TWO, "minPartitions": "7"},
    "maxRecordsPerPartition": {"subscribe": TWO, "maxRecordsPerPartition": "3"},
    "both sizes": {"subscribe": TWO, "maxRecordsPerPartition": "6", "minPartitions": "5"},
    "read committed": {"subscribe": COMMITTED, "kafka.isolation.level": "read_committed"},
    "read uncommitted": {"subscribe": COMMITTED},
    "group": {"subscribe": TWO, "kafka.group.id": "g"},
    "prefix of groups": {"subscribe": TWO, "groupIdPrefix": "g"},
    "polling": {
        "subscribe": TWO,
        "fetchOffset.numRetries": "1",
        "fetchOffset.retryIntervalMs": "5",
        "kafkaConsumer.pollTimeoutMs": "30000",
    },
    "options of the consumer": {
        "subscribe": TWO,
        "kafka.max.poll.records": "5",
        "kafka.max.partition.fetch.bytes": "1048576",
        "kafka.request.timeout.ms": "20000",
        "kafka.default.api.timeout.ms": "30000",
    },
    "options of streams": {"subscribe": TWO, "maxOffsetsPerTrigger": "5", "maxTriggerDelay": "5m"},
    # Refused by both.
    "no strategy": {},
    "two strategies": {"subscribe": TWO, "assign": J({TWO: [0]})},
    "empty subscribe": {"subscribe": " , "},
    "no topic": {"subscribe": "nowhere"},
    "one of two missing": {"subscribe": f"{TWO},nowhere"},
    "partition without offset": {"subscribe": TWO, "startingOffsets": J({TWO: {"0": 3}})},
    "offset without partition": {"subscribe": TWO, "startingOffsets": J({TWO: {**_BOTH, "9": 0}})},
    "start at latest": {"subscribe": TWO, "startingOffsets": "latest"},
    "start at -1": {"subscribe": TWO, "startingOffsets": J({TWO: {"0": -1, "1": 0}})},
    "end at earliest": {"subscribe": TWO, "endingOffsets": "earliest"},
    "end beyond the topic": {"subscribe": TWO, "endingOffsets": J({TWO: {"0": 500, "1": 3}})},
    "start beyond the topic": {"subscribe": TWO, "startingOffsets": J({TWO: {"0": 500, "1": 3}})},
    "bad JSON": {"subscribe": TWO, "startingOffsets": "{x"},
    "bad word": {"subscribe": TWO, "startingOffsets": "begin"},
    "late timestamp": {"subscribe": TWO, "startingTimestamp": f"{T0 + 10**9}"},
    "minPartitions 0": {"subscribe": TWO, "minPartitions": "0"},
    "auto.offset.reset": {"subscribe": TWO, "kafka.auto.offset.reset": "earliest"},
    "key.deserializer": {"subscribe": TWO, "kafka.key.deserializer": "x"},
    "value.deserializer": {"subscribe": TWO, "kafka.value.deserializer": "x"},
    "enable.auto.commit": {"subscribe": TWO, "kafka.enable.auto.commit": "true"},
    "interceptor.classes": {"subscribe": TWO, "kafka.interceptor.classes": "x"},
    "schema": {"subscribe": TWO, "schema": "value binary"},
    # Different, for a reason that docs/reference/spark-parity.md gives.
    "pattern of Java": {"subscribePattern": r"^two-\p{Alpha}"},
    "pattern without a match": {"subscribePattern": "nowhere.*"},
    "missing partition": {"assign": J({TWO: [1, 7]})},
    "unknown option": {"subscribe": TWO, "nonsense": "1"},
    "unknown kafka option": {"subscribe": TWO, "kafka.nonsense": "1"},
    "path": {"subscribe": TWO, "path": "/x"},
}

_TEXT = "string(id) value"
# Columns, and options; "mode" is the writer's.
WRITES: dict[str, tuple[list[str], dict[str, str]]] = {
    "value": ([_TEXT], {}),
    "bytes": (["binary(string(id)) value"], {}),
    "key": (["string(id) key", _TEXT], {}),
    "nulls": (["if(id % 2 = 0, null, string(id)) key", "if(id % 3 = 0, null, string(id)) value"], {}),
    "partition": ([_TEXT, "int(id % 3) partition"], {}),
    "headers": ([_TEXT, "if(id = 0, null, array(struct('h' key, binary(string(id)) value))) headers"], {}),
    "topic column": ([_TEXT, "'{topic}' topic"], {"topic": ""}),
    "topic option wins": ([_TEXT, "'elsewhere' topic"], {}),
    "other columns": ([_TEXT, "id", "id AS offset"], {}),
    "options of the producer": (
        [_TEXT],
        {"kafka.acks": "all", "kafka.linger.ms": "5", "kafka.compression.type": "zstd", "kafka.batch.size": "1000"},
    ),
    # Refused by both.
    "no topic at all": ([_TEXT], {"topic": ""}),
    "no value": (["string(id) text"], {}),
    "type of value": (["id value"], {}),
    "type of key": ([_TEXT, "id key"], {}),
    "type of partition": ([_TEXT, "id partition"], {}),
    "null topic": ([_TEXT, "string(null) topic"], {"topic": ""}),
    "missing topic": ([_TEXT], {"topic": "nowhere", "kafka.max.block.ms": "2000"}),
    "missing partition": ([_TEXT, "99 partition"], {"kafka.max.block.ms": "2000"}),
    "key.serializer": ([_TEXT], {"kafka.key.serializer": "x"}),
    "value.serializer": ([_TEXT], {"kafka.value.serializer": "x"}),
    "mode overwrite": ([_TEXT], {"mode": "overwrite"}),
    "mode ignore": ([_TEXT], {"mode": "ignore"}),
    # Different, for a reason that docs/reference/spark-parity.md gives.
    "timestamp": ([_TEXT, "timestamp_millis(1600000000000 + id) timestamp"], {}),
    "mode errorifexists": ([_TEXT], {"mode": "errorifexists"}),
    "class of Java": (
        [_TEXT],
        {"kafka.partitioner.class": "org.apache.kafka.clients.producer.RoundRobinPartitioner"},
    ),
    "unknown option of a write": ([_TEXT], {"nonsense": "1"}),
}


def fill(bootstrap: str) -> None:
    """Make the topics that are read."""
    with kafwire.Client(bootstrap) as client:
        for topic, partitions in ((TWO, 2), (ONE, 1), (COMMITTED, 1)):
            client.create_topic(topic, partitions=partitions, config={"retention.ms": "-1"})
    with kafwire.Producer(bootstrap) as producer:
        for number in range(20):
            headers = [("h", b"1"), ("h", None)] if number % 4 == 0 else []
            at = {"partition": number % 2, "timestamp_ms": T0 + number * 1000}
            producer.send(TWO, b"v%d" % number, key=b"k%d" % (number % 3), headers=headers, **at)
        for number in range(5):
            producer.send(ONE, None if number == 2 else b"w%d" % number, timestamp_ms=T0 + number)
    with kafwire.Producer(bootstrap, transactional_id="parity") as producer:
        with producer.transaction():
            producer.send(COMMITTED, b"committed")
        producer.begin_transaction()
        producer.send(COMMITTED, b"aborted")
        producer.flush()
        producer.abort_transaction()


def plain(row: Row) -> list[Any]:
    """A row as JSON has it."""
    return [
        [[header.key, _text(header.value)] for header in value]
        if isinstance(value, list)
        else value.timestamp()
        if hasattr(value, "timestamp")
        else _text(value)
        for value in row
    ]


def _text(value: Any) -> Any:
    return value.decode("latin-1") if isinstance(value, bytes | bytearray) else value


def read(spark: SparkSession, bootstrap: str, kind: str, options: dict[str, str]) -> Any:
    """The rows, with options of sizes the number of tasks, or the error."""
    reader = spark.read.format(kind).option("kafka.bootstrap.servers", bootstrap)
    given = dict(options)
    if "schema" in given:
        reader = reader.schema(given.pop("schema"))
    try:
        frame = reader.options(**given).load()
        rows = sorted((plain(row) for row in frame.collect()), key=repr)
        sizes = {"minPartitions", "maxRecordsPerPartition"} & given.keys()
        return {"rows": rows, "columns": frame.columns, "tasks": frame.rdd.getNumPartitions() if sizes else None}
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]


def write(spark: SparkSession, bootstrap: str, kind: str, name: str) -> Any:
    """The records that are in the topic then, or the error."""
    columns, options = WRITES[name]
    topic = f"{name.replace(' ', '-')}-{kind}"
    given = {"topic": topic} | options
    mode = given.pop("mode", "append")
    if not given["topic"]:
        del given["topic"]
    with kafwire.Client(bootstrap) as client:
        client.create_topic(topic, partitions=3)
    rows = spark.range(ROWS).selectExpr(*[column.replace("{topic}", topic) for column in columns])
    writer = rows.write.format(kind).option("kafka.bootstrap.servers", bootstrap).options(**given)
    try:
        writer.mode(mode).save()
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]
    placed = {"key", "partition"} & set(rows.columns)
    with kafwire.scan(bootstrap, topic) as scan:
        found = [
            [
                record.partition if placed and (record.key is not None or "partition" in placed) else None,
                _text(record.key),
                _text(record.value),
                [[key, _text(value)] for key, value in record.headers],
                record.timestamp_ms if "timestamp" in rows.columns else None,
            ]
            for batch in scan.batches()
            for record in batch
        ]
    return {"rows": sorted(found, key=repr)}


def main(bootstrap: str) -> None:
    """Run all, and print the outcomes."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    fill(bootstrap)
    settings: dict[str, Any] = {
        "spark.jars.packages": PACKAGE,
        "spark.ui.enabled": "false",
        "spark.sql.session.timeZone": "UTC",
        "spark.python.authenticate.socketTimeout": "120s",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    reads = {name: [read(spark, bootstrap, kind, options) for kind in FORMATS] for name, options in READS.items()}
    writes = {name: [write(spark, bootstrap, kind, name) for kind in FORMATS] for name in WRITES}
    print(json.dumps({"reads": reads, "writes": writes}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
