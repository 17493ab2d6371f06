"""The driver of the demo's stream: `python -m demo.pipeline BOOTSTRAP CHECKPOINT`.

The stream reads the topic `flights`, decodes the JSON, joins each flight with the name of its airline, and writes it to
the topic `departures` exactly once. Each batch is a line of JSON on standard output. A driver that starts with the
checkpoint of another one continues its stream.
"""

from __future__ import annotations

import json
import os
import sys
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any

import kafwire
from demo import flights

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

SOURCE, SINK = "flights", "departures"
ROWS_PER_BATCH = 57_000  # six batches
FLIGHT = "id int, carrier string, hour int, dep_delay double, origin string, dest string"
DEPARTURES = """
    SELECT flight.carrier AS key, to_json(struct(
        flight.id, flight.carrier, airlines.name AS airline, flight.origin, flight.dest, flight.hour, flight.dep_delay
    )) AS value
    FROM flights LEFT JOIN airlines ON flight.carrier = airlines.carrier
"""
# A short life: the quick compiler alone starts sooner than optimised code would pay.
JVM_OPTIONS = (
    f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)


def start_spark() -> SparkSession:
    """Return a local session whose workers run this interpreter and find this tree."""
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    os.environ["PYSPARK_PYTHON"] = sys.executable
    tree = str(Path(kafwire.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([tree, *filter(None, [os.environ.get("PYTHONPATH")])])
    from pyspark.sql import SparkSession

    from kafwire.spark import KafwireDataSource

    spark = (
        SparkSession.builder.master("local[2]")
        .appName("kafwire demo")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.shuffle.partitions", "2")
        .config("spark.driver.memory", "1g")
        .config("spark.python.authenticate.socketTimeout", "120s")  # a worker's first imports, on a busy machine
        .config("spark.driver.extraJavaOptions", " ".join(JVM_OPTIONS))
        .getOrCreate()
    )
    spark.dataSource.register(KafwireDataSource)
    return spark


def run(spark: SparkSession, bootstrap: str, checkpoint: str) -> None:
    """Run the stream up to the present end of its topic."""
    from pyspark.sql import functions as f

    from kafwire.spark import listen, read_stream

    at = {"kafka.bootstrap.servers": bootstrap}
    rows = read_stream(spark, columns=["value"]).options(**at, subscribe=SOURCE, startingOffsets="earliest")
    records = rows.option("maxOffsetsPerTrigger", str(ROWS_PER_BATCH)).load()
    records.select(f.from_json(f.col("value").cast("string"), FLIGHT).alias("flight")).createOrReplaceTempView(SOURCE)
    names = list(flights.airline_names().items())
    spark.createDataFrame(names, "carrier string, name string").createOrReplaceTempView("airlines")
    listener = listen(spark, report)
    writer = spark.sql(DEPARTURES).writeStream.format("kafwire").options(**at, topic=SINK)
    writer = writer.options(**{"delivery": "exactly-once", "sink": "demo", "kafka.compression.type": "lz4"})
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    listener.wait_for_end(str(query.runId), 10.0)


def report(batch: dict[str, Any]) -> None:
    """Print a batch, with the time of its end."""
    figures = {"batch": batch["batch"], "rows": batch["rows"], "seconds": batch["seconds"], "at": time.time()}
    print(json.dumps(figures), flush=True)


if __name__ == "__main__":
    session = start_spark()
    run(session, *sys.argv[1:])
    session.stop()
