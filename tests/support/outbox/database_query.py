"""A Spark query into a database, for tests that kill its driver between the database's commit and the query's own."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, SparkSession

from kafwire.spark import read_stream, to_database
from tests.support import programs

RECORDS = 50
_ROWS_OF_BATCH = 20
_LONGEST_S = 150
_INSERT = {"sqlite3": "INSERT INTO bills VALUES (?)"}
TABLE = "CREATE TABLE bills (value INTEGER)"


def run(
    spark: SparkSession,
    driver: str,
    where: str,
    bootstrap: str,
    checkpoint: str,
    after: Callable[[int], object] = lambda batch: None,
) -> None:
    """Store the values of topic `bills` in batches of 20, to the end; `after` is called as the database has a batch."""
    insert = _INSERT.get(driver, "INSERT INTO bills VALUES (%s)")
    sink = to_database(lambda: import_module(driver).connect(where), insert)

    def store(frame: DataFrame, batch: int) -> None:
        sink(frame, batch)
        after(batch)

    stream = read_stream(spark, columns=["value"]).options(
        **{
            "kafka.bootstrap.servers": bootstrap,
            "subscribe": "bills",
            "startingOffsets": "earliest",
            "maxOffsetsPerTrigger": str(_ROWS_OF_BATCH),
        }
    )
    values = stream.load().selectExpr("CAST(CAST(value AS string) AS int) AS value")
    writer: Any = values.writeStream.foreachBatch(store).option("checkpointLocation", checkpoint)
    query = writer.trigger(availableNow=True).start()
    assert query.awaitTermination(_LONGEST_S)


def run_alone(driver: str, where: str, bootstrap: str, checkpoint: str, die_after: int) -> bool:
    """`run` in a process of its own, which SIGKILL ends as the database has a batch: whether it came so far."""
    code = "from tests.support.outbox.database_query import main; main()"
    begin = f"import sys; sys.path.insert(0, {os.fspath(Path(__file__).parents[3])!r})\n"
    with programs.program(begin, code, driver, where, bootstrap, checkpoint, str(die_after)) as process:
        _, errors = process.communicate(timeout=_LONGEST_S)
        assert process.returncode in (0, -signal.SIGKILL), errors
        return process.returncode != 0


def main() -> None:
    """The program of `run_alone`."""
    import warnings

    warnings.simplefilter("default")  # pyspark has some
    driver, where, bootstrap, checkpoint, die_after = sys.argv[1:]
    os.environ.update(PYSPARK_PYTHON=sys.executable, SPARK_LOCAL_IP="127.0.0.1")
    os.environ["PYTHONPATH"] = os.pathsep.join([os.fspath(Path(__file__).parents[3]), os.environ.get("PYTHONPATH", "")])
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC").getOrCreate()

    def after(batch: int) -> None:
        if batch == int(die_after):
            os.kill(os.getpid(), signal.SIGKILL)

    run(spark, driver, where, bootstrap, checkpoint, after)
    spark.stop()
