"""`python -m tests.support.spark.application SETTINGS` runs an application on a cluster of Spark's processes.

The application copies a topic of numbers in an atomic batch, and then in an exactly-once stream for each fault: `none`;
`worker` and `kill`, where a task kills its Python worker or its executor; `stage`, the same after a shuffle, so that
Spark runs the stage before it again; `speculate`, where a task waits until a speculative copy of it has ended. Spark
pickles this module's functions by value, as the module is `__main__`.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafwire
from kafwire.spark import KafwireDataSource
from tests.support.deadlines import until

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import SparkSession

LONGEST_S = 240
# Rows go to the sink in small batches, while later rows of the same task still come.
CONF = {
    "spark.ui.enabled": "false",
    "spark.driver.memory": "700m",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.executor.memory": "600m",
    "spark.executor.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    "spark.sql.shuffle.partitions": "2",
}
ARROW_ROWS = ("spark.sql.execution.arrow.maxRecordsPerBatch", "5")


@dataclass(frozen=True)
class Settings:
    """One application. `master`: Spark's, or the address of a Connect server; `kafka`: options of the clients."""

    master: str
    kafka: Mapping[str, str]
    topic: str
    folder: str
    faults: tuple[str, ...]
    conf: Mapping[str, str] = field(default_factory=dict)


def main(given: str) -> None:
    """Run the batch, and then a stream for each fault, all with one sink and one checkpoint for each."""
    settings = Settings(**json.loads(given))
    spark = session(settings)
    spark.conf.set(*ARROW_ROWS)
    batch(spark, settings)
    for fault in settings.faults:
        stream(spark, settings, fault)
    spark.stop()


def session(settings: Settings) -> SparkSession:
    """The session."""
    from pyspark.sql import SparkSession

    if settings.master.startswith("sc://"):
        return SparkSession.builder.remote(settings.master).getOrCreate()
    builder = SparkSession.builder.master(settings.master).appName(settings.topic)
    for name, value in {**CONF, **settings.conf}.items():
        builder = builder.config(name, value)
    return builder.getOrCreate()


def batch(spark: SparkSession, settings: Settings) -> None:
    """Copy the topic to `-batch`."""
    frame = spark.read.format("kafwire").options(**settings.kafka, subscribe=settings.topic).load().select("value")
    writer = frame.write.format("kafwire").options(**settings.kafka, topic=f"{settings.topic}-batch")
    writer.options(delivery="atomic", sink=f"{settings.topic}-batch").mode("append").save()


def stream(spark: SparkSession, settings: Settings, fault: str) -> None:
    """Copy the topic to a topic of the fault's name."""
    name = f"{settings.topic}-{fault}"
    source = spark.readStream.format("kafwire").options(**settings.kafka, subscribe=settings.topic)
    frame = source.options(startingOffsets="earliest", maxOffsetsPerTrigger="40").load().select("value")
    frame = frame.repartition(2) if fault == "stage" else frame
    spark.dataSource.register(StruckSource)
    writer = frame.writeStream.format("struck").options(**settings.kafka, topic=name, sink=name)
    # Two options without effect here carry the fault, and the file that says that it was played.
    writer = writer.options(delivery="exactly-once", groupIdPrefix=fault, queryName=f"{settings.folder}/{fault}.struck")
    query = writer.option("checkpointLocation", f"{settings.folder}/{fault}").trigger(availableNow=True).start()
    assert query.awaitTermination(LONGEST_S), query.lastProgress
    if query.exception() is not None:
        raise AssertionError(query.exception())


class StruckSource(KafwireDataSource):
    """The data source with a sink whose tasks play a fault."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "struck"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The sink's writer, whose rows pass the fault."""
        options = dict(self.options)
        strike = striking(options.pop("groupidprefix"), options.pop("queryname"), options)
        writer = KafwireDataSource(options).streamWriter(schema, overwrite)
        kind: Any = type(writer)

        class Struck(kind):  # type: ignore[misc]
            def write(self, iterator: Any) -> Any:
                return kind.write(self, strike(iterator))

        writer.__class__ = Struck
        return writer


def striking(
    fault: str, mark: str, options: Mapping[str, str]
) -> Callable[[Iterator[pa.RecordBatch]], Iterator[pa.RecordBatch]]:
    """The rows of a task. One attempt plays the fault in the middle: its first rows are in the topic by then."""

    def strike(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        rows = list(batches)
        is_struck = False
        if fault != "none" and len(rows) > 1:
            try:
                Path(mark).touch(exist_ok=False)
                is_struck = True
            except FileExistsError:
                pass
        before = written() if is_struck else 0
        for number, some in enumerate(rows):
            if number == 1 and is_struck:
                until(lambda: written() > before, "the first rows are in the topic")
                play()
            yield some
        if fault == "speculate" and not is_struck and rows:
            Path(f"{mark}.again").touch()

    def play() -> None:
        if fault == "speculate":
            Path(mark).write_text(str(os.getpid()))
            until(lambda: Path(f"{mark}.again").exists(), "another attempt has ended")
            until(lambda: False, "Spark kills this attempt")
        pid = os.getpid() if fault == "worker" else executor()
        Path(mark).write_text(str(pid))
        os.kill(pid, signal.SIGKILL)
        until(lambda: False, "this worker ends")

    def executor() -> int:
        """The process of the executor: an ancestor of this worker."""
        pid = os.getpid()
        while b"CoarseGrainedExecutorBackend" not in Path(f"/proc/{pid}/cmdline").read_bytes():
            pid = int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
            assert pid > 1, "no executor"
        return pid

    def written() -> int:
        """The end of the copy, with open transactions."""
        given = {name.removeprefix("kafka."): value for name, value in options.items() if name.startswith("kafka.")}
        with kafwire.Client.from_config(given) as client:
            topic = options["topic"]
            places = [kafwire.TopicPartition(topic, number) for number in client.partitions_for(topic)]
            return sum(client.offsets(places, "latest").values())

    return strike


if __name__ == "__main__":
    main(*sys.argv[1:])
