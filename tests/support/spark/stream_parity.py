"""Streams by Spark's own connector and by kafwire in one session, in a separate process; prints JSON.

    python -m tests.support.spark.stream_parity BOOTSTRAP FOLDER

`FOLDER` is for checkpoints. The topic `flights` has records to begin with; the program appends to it. It prints
`{"continued": ..., "same": ..., "between": ..., "within": ..., "unfinished": ..., "sinks": ...}`: the rows of each run
of a shared checkpoint, the outcomes of both sources for the same options and for the same events, the refusals of a
checkpoint, and what both sinks wrote.
"""

from __future__ import annotations

import contextlib
import json
import os
import sys
from collections.abc import Callable
from typing import Any

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

import kafwire
from kafwire.errors import ConfigError
from kafwire.spark.checkpoint import open_checkpoint, refuse_unfinished_start
from tests.support.spark.connector import PACKAGE
from tests.support.spark.stream_events import BETWEEN, COUNT, WITHIN, Topics

TOPIC = "flights"
LONGEST_S = 120
PER_RUN = 20
FORMATS = ("kafka", "kafwire")
# Options given to both sources; rows, and the ends of the batches, have to be the same.
BOTH: dict[str, dict[str, str]] = {
    "earliest": {"startingOffsets": "earliest"},
    "offsets": {"startingOffsets": json.dumps({TOPIC: {"0": 7, "1": -2}})},
    "limit": {"startingOffsets": json.dumps({TOPIC: {"0": 0, "1": 30}}), "maxOffsetsPerTrigger": "9"},
    "starved": {"startingOffsets": json.dumps({TOPIC: {"0": 0, "1": 38}}), "maxOffsetsPerTrigger": "12"},
    "minimum": {"startingOffsets": "earliest", "minOffsetsPerTrigger": "10", "maxTriggerDelay": "1h"},
    "pattern": {"subscribePattern": "^fl", "startingOffsets": "earliest"},
    "assign": {"assign": json.dumps({TOPIC: [1]}), "startingOffsets": "earliest"},
    "timestamp": {"startingTimestamp": "1000"},
    "no match": {"startingTimestamp": "9999999999999"},
    "no match, latest": {"startingTimestamp": "9999999999999", "startingOffsetsByTimestampStrategy": "latest"},
    "parts": {"startingOffsets": "earliest", "minPartitions": "5"},
    "records": {"startingOffsets": "earliest", "maxRecordsPerPartition": "9"},
    "ending offsets": {"endingOffsets": "latest"},
    "ending timestamps": {"endingOffsetsByTimestamp": json.dumps({TOPIC: {"0": 5, "1": 5}})},
    "minimum above maximum": {"minOffsetsPerTrigger": "10", "maxOffsetsPerTrigger": "9"},
    "missing partition": {"startingOffsets": json.dumps({TOPIC: {"0": 7}})},
    "passed end": {"startingOffsets": json.dumps({TOPIC: {"0": 70, "1": 0}})},
    "two strategies": {"assign": json.dumps({TOPIC: [1]})},
    "no such topic": {"subscribe": "nowhere"},
    "pattern without a match": {"subscribePattern": "^nowhere", "startingOffsets": "earliest"},
    "timestamps by partition": {
        "startingOffsetsByTimestamp": json.dumps({TOPIC: {"0": 1000, "1": 9999999999999}}),
        "startingOffsetsByTimestampStrategy": "latest",
    },
    "timestamp wins": {"startingTimestamp": "1000", "startingOffsets": json.dumps({TOPIC: {"0": 7, "1": 7}})},
    "read committed": {"startingOffsets": "earliest", "kafka.isolation.level": "read_committed"},
    "groups": {"startingOffsets": "earliest", "kafka.group.id": "g", "groupIdPrefix": "p"},
    "polling": {
        "startingOffsets": "earliest",
        "fetchOffset.numRetries": "2",
        "fetchOffset.retryIntervalMs": "5",
        "kafkaConsumer.pollTimeoutMs": "30000",
    },
    "auto.offset.reset": {"kafka.auto.offset.reset": "earliest"},
    "enable.auto.commit": {"kafka.enable.auto.commit": "true"},
    "bad delay": {"minOffsetsPerTrigger": "5", "maxTriggerDelay": "soon"},
    "limit of 0": {"maxOffsetsPerTrigger": "0"},
    "missing partition of a list": {"assign": json.dumps({TOPIC: [1, 7]}), "startingOffsets": "earliest"},
    "ending timestamp": {"startingOffsets": "earliest", "endingTimestamp": "1000"},
    "unknown option": {"startingOffsets": "earliest", "nonsense": "1"},
}


def load(spark: SparkSession, bootstrap: str, kind: str, **options: str) -> DataFrame:
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap)
    strategy = {} if {"subscribe", "subscribePattern", "assign"} & options.keys() else {"subscribe": TOPIC}
    return reader.options(**strategy, **options).load()


def run(
    frame: DataFrame, checkpoint: str, *, mode: str = "append", in_first_batch: Callable[[], None] | None = None
) -> list[list[list[int]]]:
    """The (partition, offset) rows of each batch with any; of a complete mode the rows as they are."""
    batches: list[list[list[int]]] = []

    def take(batch: DataFrame, number: int) -> None:
        if got := sorted([row[0], row[1]] for row in batch.collect()):
            batches.append(got)
        if number == 0 and in_first_batch is not None:
            in_first_batch()

    writer = frame.writeStream.outputMode(mode).foreachBatch(take).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(LONGEST_S), "the stream did not end"
    if not batches:  # a test that expects rows shows why there are none
        print(f"{checkpoint} has no rows: {[report.json for report in query.recentProgress]}", file=sys.stderr)
    return batches


def continued(spark: SparkSession, bootstrap: str, folder: str, *, counted: bool) -> list[Any]:
    """One checkpoint read by each format in turn, new records before each run."""
    runs = []
    with kafwire.Producer(bootstrap) as producer:
        for kind in ("kafka", "kafwire", "kafka", "kafwire"):
            frame = load(spark, bootstrap, kind, startingOffsets="earliest").select("partition", "offset")
            if counted:
                frame = frame.groupBy("partition").count()
            runs.append(run(frame, folder, mode="complete" if counted else "append"))
            for number in range(PER_RUN):
                producer.send(TOPIC, b"%d" % number, partition=number % 2)
            producer.flush()
    return runs


def outcome(spark: SparkSession, bootstrap: str, kind: str, folder: str, options: dict[str, str]) -> Any:
    try:
        if "assign" in options and "startingOffsets" not in options:
            options = {**options, "subscribe": TOPIC}
        return run(load(spark, bootstrap, kind, **options).select("partition", "offset"), folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]


def between(spark: SparkSession, bootstrap: str, kind: str, folder: str, name: str, *, strict: bool) -> Any:
    """The rows of the second of two runs, or its error; the event came between them."""
    topics, topic = Topics(bootstrap), f"between-{list(BETWEEN).index(name)}-{kind}-{strict}"
    topics.create(topic)
    frame = load(
        spark, bootstrap, kind, subscribe=topic, startingOffsets="earliest", failOnDataLoss=str(strict).lower()
    ).select("partition", "offset")
    assert [len(batch) for batch in run(frame, folder)] == [2 * COUNT]
    BETWEEN[name](topics, topic)
    try:
        return run(frame, folder)
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]


def within(spark: SparkSession, bootstrap: str, kind: str, folder: str, name: str) -> Any:
    """The rows of a run in which the event came with the first batch, or its error."""
    topics, topic = Topics(bootstrap), f"within-{list(WITHIN).index(name)}-{kind}"
    topics.create(topic)
    frame = load(spark, bootstrap, kind, subscribe=topic, startingOffsets="earliest", maxOffsetsPerTrigger="8").select(
        "partition", "offset"
    )
    try:
        return run(frame, folder, in_first_batch=lambda: WITHIN[name](topics, topic))
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]


def unfinished(spark: SparkSession, bootstrap: str, folder: str) -> list[Any]:
    """A first batch of Spark's own source that fails: the refusal of its checkpoint, and the one after it has ended."""

    def fail() -> None:
        raise RuntimeError("the first batch fails")

    def refusal() -> str | None:
        try:
            refuse_unfinished_start(open_checkpoint(folder), folder)
        except ConfigError as error:
            return str(error)
        return None

    starts = json.dumps({TOPIC: {"0": 7, "1": 9}})
    frame = load(spark, bootstrap, "kafka", startingOffsets=starts).select("partition", "offset")
    with contextlib.suppress(StreamingQueryException):
        run(frame, folder, in_first_batch=fail)
    before = refusal()
    run(frame, folder)
    return [before, refusal()]


def sink(spark: SparkSession, bootstrap: str, kind: str, folder: str, mode: str) -> Any:
    """The keys and values that a stream wrote in three batches, or its error."""
    source, target = f"source-{kind}-{mode}", f"target-{kind}-{mode}"
    topics = Topics(bootstrap)
    topics.create(source)
    topics.create(target, 0)
    frame = load(spark, bootstrap, kind, subscribe=source, startingOffsets="earliest", maxOffsetsPerTrigger="8")
    rows = frame.selectExpr("string(partition) key", "string(offset) value")
    if mode != "append":
        rows = rows.groupBy("key").count().selectExpr("key", "string(count) value")
    writer = rows.writeStream.format(kind).outputMode(mode).option("kafka.bootstrap.servers", bootstrap)
    try:
        query = writer.option("topic", target).option("checkpointLocation", folder).trigger(availableNow=True).start()
        assert query.awaitTermination(LONGEST_S), "the stream did not end"
    except Exception as error:
        return f"{type(error).__name__}: {error}"[:3000]
    with kafwire.scan(bootstrap, target) as scan:
        found = [(record.key, record.value) for batch in scan.batches() for record in batch]
    return sorted([str(key), str(value)] for key, value in found)


def main(bootstrap: str, folder: str) -> None:
    """Run all, and print what was read."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    settings: dict[str, Any] = {
        "spark.jars.packages": PACKAGE,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.python.authenticate.socketTimeout": "120s",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    same = {
        name: [outcome(spark, bootstrap, kind, f"{folder}/{kind}-{name}", options) for kind in FORMATS]
        for name, options in BOTH.items()
    }
    turns = {
        kind: continued(spark, bootstrap, f"{folder}/{kind}", counted=kind == "counted") for kind in ("rows", "counted")
    }
    events: dict[str, dict[str, list[Any]]] = {}
    for name in BETWEEN:
        for strict in (True, False):
            if strict or any(isinstance(outcome, str) for outcome in events[name]["strict"]):
                how = "strict" if strict else "lenient"
                events.setdefault(name, {})[how] = [
                    between(spark, bootstrap, kind, f"{folder}/between-{kind}-{name}-{how}", name, strict=strict)
                    for kind in FORMATS
                ]
    inner = {
        name: [within(spark, bootstrap, kind, f"{folder}/within-{kind}-{name}", name) for kind in FORMATS]
        for name in WITHIN
    }
    first = unfinished(spark, bootstrap, f"{folder}/unfinished")
    sinks = {
        mode: [sink(spark, bootstrap, kind, f"{folder}/sink-{kind}-{mode}", mode) for kind in FORMATS]
        for mode in ("append", "update", "complete")
    }
    found = {"continued": turns, "same": same, "between": events, "within": inner, "unfinished": first, "sinks": sinks}
    print(json.dumps(found))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
