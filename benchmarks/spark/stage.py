"""The session, the topics and the payloads that all rows of a run share."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from confluent_kafka import Consumer, TopicPartition
from pyspark.sql import DataFrame, SparkSession

from benchmarks.measure import ROOT
from benchmarks.payload import write_pool
from benchmarks.programs import build_floor
from benchmarks.row import LARGE_BATCH, Topic
from benchmarks.spark.ready import ReadyDataSource
from benchmarks.topics import Topics

# The newest connector that Maven Central has; it runs on the Spark of this environment, which is newer.
CONNECTOR = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
CORES = 2
_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much the rows read and write: the long form, or the short one of a test."""

    one_task: dict[int, int] = field(default_factory=lambda: {100: 2_000_000, 1000: 400_000})
    eight_tasks: dict[int, int] = field(default_factory=lambda: {100: 4_000_000, 1000: 1_000_000})
    hundred_tasks: dict[int, int] = field(default_factory=lambda: {100: 10_000_000, 1000: 10_000_000})
    available_now: dict[int, int] = field(default_factory=lambda: {100: 10_000_000, 1000: 1_000_000})
    few: int = 100_000  # rows of the queries that show the cost of a task
    written: dict[int, int] = field(default_factory=lambda: {100: 2_000_000, 1000: 300_000})
    micro_seconds: float = 15.0
    micro_batches: int = 3000
    rows_a_second: int = 1000

    @classmethod
    def short(cls) -> Sizes:
        """Sizes that show that all works."""
        return cls(
            one_task={100: 20_000, 1000: 5_000},
            eight_tasks={100: 40_000, 1000: 8_000},
            hundred_tasks={100: 100_000, 1000: 10_000},
            available_now={100: 40_000, 1000: 8_000},
            few=1_000,
            written={100: 20_000, 1000: 5_000},
            micro_seconds=0.5,
            micro_batches=20,
        )


@dataclass(slots=True)
class Stage:
    """Session, brokers and topics for the queries of a row."""

    spark: SparkSession
    bootstrap: str
    folder: Path
    sizes: Sizes
    topics: Topics
    _frames: dict[int, DataFrame] = field(default_factory=dict)
    _filled: set[str] = field(default_factory=set)
    _written: int = 0

    def use_workers_of(self, source: str) -> None:
        """Let the next query run in Python workers of its own if it is the floor's.

        Tasks of kafwire make later tasks of their workers faster. Spark keeps separate workers for each environment,
        and this option is a part of the environment.
        """
        self.spark.conf.set("spark.sql.execution.pyspark.udf.hideTraceback.enabled", str(source == "ready").lower())

    def payload(self, value_bytes: int) -> Path:
        """The file of the values."""
        return write_pool(self.folder, value_bytes)

    def topic(self, value_bytes: int, partitions: int, records: int, codec: str = "lz4") -> str:
        """The name of a filled topic; it is filled at the first call."""
        shape = Topic(value_bytes, codec, LARGE_BATCH, partitions)
        name = self.topics.name(shape, records)
        if name in self._filled:
            return name
        if not self.topics.exists(name) or self.records(name, partitions) != records:
            self.topics.fill(shape, records, self.payload(value_bytes), self.folder / f"batches-{shape.name}.bin")
        self._filled.add(name)
        return name

    def new_topic(self, partitions: int) -> str:
        """The name of a new and empty topic."""
        self._written += 1
        name = f"bench-spark-{os.getpid()}-{self._written}"
        self.topics.create(name, partitions)
        return name

    def records(self, name: str, partitions: int) -> int:
        """The records of a topic, by its latest offsets."""
        consumer = Consumer({"bootstrap.servers": self.bootstrap, "group.id": "benchmark-spark"})
        try:
            marks = [
                consumer.get_watermark_offsets(TopicPartition(name, each), _TIMEOUT_S) for each in range(partitions)
            ]
        finally:
            consumer.close()
        return sum(high - low for low, high in marks)

    def frame(self, value_bytes: int) -> DataFrame:
        """A cached frame with one column `value` in eight partitions."""
        if value_bytes not in self._frames:
            for other in self._frames.values():
                other.unpersist()
            self._frames.clear()
            reader = self.spark.read.format("ready").schema("value binary")
            options = self.ready_options(value_bytes, self.sizes.written[value_bytes], tasks=8)
            self._frames[value_bytes] = frame = reader.options(**options).load().cache()
            frame.count()
        return self._frames[value_bytes]

    def ready_options(self, value_bytes: int, rows: int, tasks: int) -> dict[str, str]:
        """The options of the format `ready` that give as many rows of the same size."""
        return {
            "rows": str(rows),
            "tasks": str(tasks),
            "values": str(self.payload(value_bytes)),
            "valueBytes": str(value_bytes),
            "batchBytes": str(4 << 20),
        }


@contextmanager
def open_stage(bootstrap: str, folder: Path, sizes: Sizes) -> Iterator[Stage]:
    """Start the session; it ends with the block."""
    folder.mkdir(parents=True, exist_ok=True)
    with open_session(folder, connector=True) as spark:
        yield Stage(spark, bootstrap, folder, sizes, Topics(bootstrap, build_floor(folder)))


@contextmanager
def open_session(folder: Path, *, connector: bool) -> Iterator[SparkSession]:
    """A session in this process, with the floor's format, and with Spark's own connector if asked for.

    Its Python processes keep compiled modules in `folder`, as an installed package would.
    """
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
    os.environ["PYTHONPYCACHEPREFIX"] = str(folder.absolute() / "pycache")
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])])
    settings: dict[str, str] = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.memory": "4g",
        "spark.sql.shuffle.partitions": str(CORES),
        "spark.sql.streaming.numRecentProgressUpdates": "10000",
    }
    if connector:
        settings["spark.jars.packages"] = CONNECTOR
    spark = SparkSession.builder.master(f"local[{CORES}]").config(map=settings).getOrCreate()  # type: ignore[arg-type]
    spark.sparkContext.setLogLevel("ERROR")
    spark.dataSource.register(ReadyDataSource)
    try:
        yield spark
    finally:
        spark.stop()
