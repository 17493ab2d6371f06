"""Streams by Spark's own connector and by kafwire in one session, in a separate process; prints JSON.

    python -m tests.support.spark_stream_parity BOOTSTRAP FOLDER

`FOLDER` is for checkpoints. The topic `flights` has records to begin with; the program appends to it. It prints
`{"continued": {...}, "same": {...}}`: what each run of a shared checkpoint read, and what both sources made of the same
options.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

import kafwire
from tests.support.spark_connector import PACKAGE

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
}


def load(spark: SparkSession, bootstrap: str, kind: str, **options: str) -> DataFrame:
    reader = spark.readStream.format(kind).option("kafka.bootstrap.servers", bootstrap)
    strategy = {} if {"subscribe", "subscribePattern", "assign"} & options.keys() else {"subscribe": TOPIC}
    return reader.options(**strategy, **options).load()


def run(frame: DataFrame, checkpoint: str, *, mode: str = "append") -> list[list[list[int]]]:
    """The (partition, offset) rows of each batch with any; of a complete mode the rows as they are."""
    batches: list[list[list[int]]] = []

    def take(batch: DataFrame, _: int) -> None:
        if got := sorted([row[0], row[1]] for row in batch.collect()):
            batches.append(got)

    writer = frame.writeStream.outputMode(mode).foreachBatch(take).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(LONGEST_S), "the stream did not end"
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
        return f"{type(error).__name__}: {error}"[:2000]


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
    print(json.dumps({"continued": turns, "same": same}))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
