"""Runs a `Job` in a session: source, decode, SQL, sink. Each batch is reported; a stop waits for the running one."""

from __future__ import annotations

import re
import time
from typing import TYPE_CHECKING, Any, cast

from pyspark.sql import Observation
from pyspark.sql import functions as sf
from pyspark.sql.types import StructType

from kafwire.errors import ConfigError
from kafwire.spark.listener import listen
from kafwire.spark.sessions import read, read_stream

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.streaming.query import StreamingQuery

    from kafwire.spark.job_file import Decode, Job, Source

    Report = Callable[[Mapping[str, Any]], object]

# Formats of files whose streams need a schema; a batch read infers it.
_FILES = ("parquet", "orc", "json", "csv", "text")
# The packages of formats that Spark does not bring, and the settings that their tables need.
_PACKAGES = {
    "delta": "io.delta:delta-spark, and the settings spark.sql.extensions and spark.sql.catalog.spark_catalog",
    "iceberg": "org.apache.iceberg:iceberg-spark-runtime, and the settings of a catalog, spark.sql.catalog.<name>",
}
_NOT_FOUND = re.compile(r"\[DATA_SOURCE_NOT_FOUND\] Failed to find the data source: ([^\s.]+)")
_LOOK_S = 0.2
_LOOK_STOPPING_S = 0.05
_EVENTS_S = 10.0


class Stop:
    """A request to stop, by another thread or a signal: the first waits for the running batch, a second does not."""

    def __init__(self) -> None:
        self.asked = 0
        self.at_once: Callable[[], object] | None = None  # ends a call that does not check `asked`

    def ask(self) -> None:
        """Request a stop, or an immediate one if a stop was requested before."""
        self.asked += 1
        if self.asked > 1 and self.at_once is not None:
            self.at_once()


def run(spark: SparkSession, job: Job, report: Report, stop: Stop) -> None:
    """Run the job to its end, or until it is stopped; `report` gets the numbers of each batch, as `listen` gives them.

    Raises pyspark's errors, and `ConfigError` for columns of the decoded JSON that the source has too, and for a format
    whose package is missing.
    """
    try:
        frame = _frame(spark, job)
        if job.is_stream:
            _run_stream(spark, job, frame, report, stop)
        else:
            stop.at_once = spark.sparkContext.cancelAllJobs
            _run_batch(job, frame, report)
    except Exception as error:
        missing = _NOT_FOUND.search(str(error))
        if missing is None:
            raise
        package = _PACKAGES.get(missing[1], "its package")
        raise ConfigError(
            f"the format {missing[1]!r} is not in this Spark: name {package}, in [spark] conf "
            f"(spark.jars.packages = 'group:artifact:version')"
        ) from None


def _frame(spark: SparkSession, job: Job) -> DataFrame:
    frame = _source(spark, job.source, is_stream=job.is_stream)
    if job.decode is not None:
        frame = _decoded(frame, job.decode)
    if job.watermark is not None:
        frame = frame.withWatermark(*job.watermark)
    if job.sql is not None:
        frame.createOrReplaceTempView("source")
        frame = spark.sql(job.sql)
    return frame


def _source(spark: SparkSession, source: Source, *, is_stream: bool) -> DataFrame:
    reader: Any
    if source.is_topic:
        begin = read_stream if is_stream else read
        return begin(spark, columns=source.columns).options(**source.options).load()
    reader = (spark.readStream if is_stream else spark.read).options(**source.options)
    if source.table is not None:
        return cast("DataFrame", reader.table(source.table))
    reader = reader.format(source.format)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    elif is_stream and source.format in _FILES:
        reader = reader.schema(spark.read.format(source.format).options(**source.options).load(source.path).schema)
    return cast("DataFrame", reader.load(source.path))


def _decoded(frame: DataFrame, decode: Decode) -> DataFrame:
    """Return `frame` with the columns of the decoded value in place of the encoded column."""
    if decode.column not in frame.columns:
        raise ConfigError(f"decode.column={decode.column!r}: the source has the columns {', '.join(frame.columns)}")
    value: Any = sf.col(decode.column)
    if decode.schema is not None:
        mode = "FAILFAST" if decode.fails else "PERMISSIVE"
        value = sf.from_json(value.cast("string"), decode.schema, {"mode": mode})
    elif not isinstance(frame.schema[decode.column].dataType, StructType):
        return frame  # a schema that is no record gives no columns
    decoded = value.alias("_decoded")
    names = [name for name in frame.columns if name != decode.column]
    kept = [f"`{name}`" for name in names]  # a name may have a dot
    whole = frame.select(*kept, decoded)
    twice = sorted(set(names) & set(whole.select("_decoded.*").columns))
    if twice:
        raise ConfigError(
            f"the decoded value has the columns {', '.join(twice)}, as the source has: leave them out of source.columns"
        )
    return whole.select(*kept, "_decoded.*")


def _run_batch(job: Job, frame: DataFrame, report: Report) -> None:
    seen = Observation()
    began = time.monotonic()
    writer = frame.observe(seen, sf.count(sf.lit(1)).alias("rows")).write.mode("append").options(**job.sink.options)
    if job.sink.format is not None:
        writer = writer.format(job.sink.format)
    if job.sink.partition_by:
        writer = writer.partitionBy(*job.sink.partition_by)
    if job.sink.table is not None:
        writer.saveAsTable(job.sink.table)
    else:
        writer.save(job.sink.path)
    seconds = time.monotonic() - began
    rows = seen.get["rows"]
    rate = rows / seconds if seconds > 0 else None
    report({"batch": 0, "rows": rows, "seconds": seconds, "rows_per_second": rate, "topics": {}})


def _run_stream(spark: SparkSession, job: Job, frame: DataFrame, report: Report, stop: Stop) -> None:
    commits = any(name.lower() == "commitgroup" for name in job.source.options)
    listener = listen(spark, report, options=job.source.options if commits else None, query=job.name)
    try:
        query: Any = _started(job, frame)  # awaitTermination accepts fractions, although its type is int
        try:
            while not query.awaitTermination(_LOOK_S):  # raises the error of a query that failed
                if stop.asked:
                    _stop(query, stop)
        finally:
            query.stop()
            # Spark reports the last batch some time after it.
            listener.wait_for_end(str(query.runId), _EVENTS_S)
    finally:
        spark.streams.removeListener(listener)


def _started(job: Job, frame: DataFrame) -> StreamingQuery:
    writer: Any = frame.writeStream.outputMode(job.sink.mode).queryName(job.name).options(**job.sink.options)
    writer = writer.option("checkpointLocation", job.checkpoint)
    if job.sink.format is not None:
        writer = writer.format(job.sink.format)
    if job.sink.partition_by:
        writer = writer.partitionBy(*job.sink.partition_by)
    if job.interval_s is not None:
        writer = writer.trigger(processingTime=f"{round(job.interval_s * 1000)} milliseconds")
    elif job.trigger == "once":
        writer = writer.trigger(once=True)
    else:
        writer = writer.trigger(availableNow=True)
    query = writer.toTable(job.sink.table) if job.sink.table is not None else writer.start(job.sink.path)
    return cast("StreamingQuery", query)


def _stop(query: Any, stop: Stop) -> None:
    """Stop once the running batch has ended; a batch that began meanwhile is not committed, and runs again."""
    running = _last_batch(query)
    while stop.asked == 1 and query.status["isTriggerActive"] and _last_batch(query) == running:
        if query.awaitTermination(_LOOK_STOPPING_S):
            return
    query.stop()


def _last_batch(query: StreamingQuery) -> int | None:
    progress = query.lastProgress
    return None if progress is None else progress.batchId
