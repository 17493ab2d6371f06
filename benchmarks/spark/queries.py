"""Single queries, timed: a batch read, a batch write, an AvailableNow stream, a stream of micro-batches."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql.streaming.query import StreamingQuery

from benchmarks.measure import ROOT, converse
from benchmarks.rounds import ContenderError
from benchmarks.spark.stage import Stage

PARTITIONS = 8
WRITE_OPTIONS = {
    "kafka.acks": "all",
    "kafka.linger.ms": "5",
    "kafka.batch.size": "1000000",
    "kafka.compression.type": "lz4",
}
_LONGEST_S = 300
_FIRST_BATCHES = 4  # a query's first micro-batches are slower, and do not count

Figures = Mapping[str, list[float]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The input of a query: a topic of as many partitions as tasks."""

    value_bytes: int
    codec: str
    tasks: int
    rows: int


def read(stage: Stage, source: str, shape: Shape, *, value_only: bool = False) -> Figures:
    """M rows/s of a read into Spark's no-op sink, and of `sum(length(value))`."""
    figures = {}
    rows = shape.rows
    frame = _loaded(stage, source, shape, value_only=value_only)
    if not value_only:
        begun = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        figures["noop"] = [rows / (time.perf_counter() - begun) / 1e6]
    begun = time.perf_counter()
    (found,) = frame.selectExpr("sum(length(value))").collect()
    figures["sum"] = [rows / (time.perf_counter() - begun) / 1e6]
    if found[0] != rows * shape.value_bytes:
        raise ContenderError(f"read {found[0]} bytes, the topic has {rows * shape.value_bytes}")
    return figures


def task_cost(stage: Stage, source: str) -> Figures:
    """Milliseconds of a task beyond its rows: what 100 tasks take longer than 8 of the same rows, on both cores."""
    seconds = {}
    for tasks in (8, 100):
        frame = _loaded(stage, source, Shape(100, "lz4", tasks, stage.sizes.few))
        begun = time.perf_counter()
        frame.write.format("noop").mode("overwrite").save()
        seconds[tasks] = time.perf_counter() - begun
    cores = stage.spark.sparkContext.defaultParallelism
    return {"ms": [(seconds[100] - seconds[8]) / (100 - 8) * cores * 1e3]}


def avro() -> Figures:
    """M records/s of the Avro decoder on one core, by processor time; no Spark."""
    result = converse([sys.executable, "-m", "benchmarks.workers.kafwire_avro", "flights", "seconds=2"])
    passes = result["passes"]
    return {"rate": [sum(one["records"] for one in passes) / sum(one["seconds"] for one in passes) / 1e6]}


def available_now(stage: Stage, source: str, shape: Shape) -> Figures:
    """M rows/s of an AvailableNow stream by `triggerExecution`, and the seconds of the query around it."""
    rows = shape.rows
    reader = stage.spark.readStream.format(source).options(**_options(stage, source, shape))
    if source != "ready":
        reader = reader.option("startingOffsets", "earliest")
    frame = reader.load()
    with _checkpoint() as checkpoint:
        writer = frame.writeStream.format("noop").option("checkpointLocation", checkpoint)
        begun = time.perf_counter()
        query = writer.trigger(availableNow=True).start()
        if not query.awaitTermination(_LONGEST_S):
            raise ContenderError(f"the stream did not end in {_LONGEST_S} s")
        seconds = time.perf_counter() - begun
        progress = progress_of(query)
    if (found := sum(each["numInputRows"] for each in progress)) != rows:
        raise ContenderError(f"the stream read {found} rows, the topic has {rows}")
    trigger = sum(each["durationMs"]["triggerExecution"] for each in progress) / 1e3
    return {"rate": [rows / trigger / 1e6], "start": [seconds - trigger], "query": [rows / seconds / 1e6]}


def write(stage: Stage, sink: str, value_bytes: int) -> Figures:
    """M rows/s of a batch write of a cached frame."""
    frame, rows = stage.frame(value_bytes), stage.sizes.written[value_bytes]
    topic = stage.new_topic(PARTITIONS)
    options = {"kafka.bootstrap.servers": stage.bootstrap, "topic": topic}
    if sink == "ready":
        options |= {**stage.ready_options(value_bytes, rows, 8), "partitions": str(PARTITIONS), "batchBytes": "1000000"}
    else:
        options |= WRITE_OPTIONS
    begun = time.perf_counter()
    frame.write.format(sink).mode("append").options(**options).save()
    seconds = time.perf_counter() - begun
    found = stage.records(topic, PARTITIONS)
    stage.topics.delete(topic)
    if sink != "ready" and found != rows:
        raise ContenderError(f"the topic has {found} records of {rows}")
    return {"rate": [rows / seconds / 1e6]}


def micro_batches(stage: Stage, source: str, sink: str, tasks: int, delivery: str = "") -> Figures:
    """`triggerExecution` of each micro-batch, in ms, while `rows_a_second` records arrive; and its parts."""
    target = stage.new_topic(tasks)
    with _checkpoint() as checkpoint, feed(stage, tasks) as topic:
        reader = stage.spark.readStream.format(source)
        if source == "ready":
            reader = reader.options(**stage.ready_options(100, 0, tasks), endless="true")
        else:
            reader = reader.options(**{"kafka.bootstrap.servers": stage.bootstrap, "subscribe": topic})
        writer = reader.load().select("value").writeStream.format(sink).option("checkpointLocation", checkpoint)
        if sink != "ready":
            writer = writer.options(**{"kafka.bootstrap.servers": stage.bootstrap, "topic": target})
        if delivery:
            writer = writer.options(delivery=delivery, sink=target)
        query = writer.start()
        try:
            progress = _run(query, stage.sizes.micro_seconds)
        finally:
            query.stop()
    stage.topics.delete(target)
    parts = ("triggerExecution", "latestOffset", "queryPlanning", "walCommit", "addBatch", "commitOffsets")
    return {part: [float(each["durationMs"].get(part, 0)) for each in progress] for part in parts}


def _run(query: StreamingQuery, seconds: float) -> list[Any]:
    """The progress of the batches after the first ones, of some seconds and of at least one batch."""
    deadline = time.monotonic() + _LONGEST_S
    begun: float | None = None
    while begun is None or time.monotonic() < begun + seconds:
        if (error := query.exception()) is not None:
            raise ContenderError(str(error).splitlines()[0])
        if time.monotonic() > deadline:
            raise ContenderError(f"the stream did not run {_FIRST_BATCHES + 1} batches in {_LONGEST_S} s")
        if begun is None and len(progress_of(query)) > _FIRST_BATCHES:
            begun = time.monotonic()
        time.sleep(0.1)
    return progress_of(query)[_FIRST_BATCHES:]


def progress_of(query: StreamingQuery) -> list[Any]:
    """The progress of the batches that ran; Spark also reports the time between them."""
    return [each for each in query.recentProgress if "addBatch" in each["durationMs"]]


def _loaded(stage: Stage, source: str, shape: Shape, *, value_only: bool = False) -> DataFrame:
    reader = stage.spark.read.format(source).options(**_options(stage, source, shape))
    if value_only and source != "kafka":
        return reader.schema("value binary").load()
    return reader.load()


def _options(stage: Stage, source: str, shape: Shape) -> dict[str, str]:
    if source == "ready":
        return stage.ready_options(shape.value_bytes, shape.rows, shape.tasks)
    topic = stage.topic(shape.value_bytes, shape.tasks, shape.rows, shape.codec)
    return {"kafka.bootstrap.servers": stage.bootstrap, "subscribe": topic}


@contextmanager
def _checkpoint() -> Iterator[str]:
    folder = tempfile.mkdtemp(prefix="bench-spark-")
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def feed(stage: Stage, partitions: int) -> Iterator[str]:
    """A topic that gets `rows_a_second` records until the block ends."""
    topic = stage.new_topic(partitions)
    command = [sys.executable, "-m", "benchmarks.spark.feed", stage.bootstrap, topic, str(partitions)]
    command.append(str(stage.sizes.rows_a_second))
    process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE)
    try:
        yield topic
    finally:
        assert process.stdin is not None
        process.stdin.close()
        process.wait(_LONGEST_S)
        stage.topics.delete(topic)
