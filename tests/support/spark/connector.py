"""Spark's own Kafka connector, in a process of its own: reads, writes and streams, and prints what it has counted.

    python -m tests.support.spark.connector BOOTSTRAP FOLDER

`FOLDER` is for checkpoints. The topic `flights` is copied in a batch to `copied`, and by a stream on to `streamed`.
"""

from __future__ import annotations

import os
import sys
from typing import Any

from pyspark.sql import SparkSession

# The newest whose jars could be had; it runs on the Spark of the tests, which is newer.
PACKAGE = "org.apache.spark:spark-sql-kafka-0-10_2.13:4.2.0"
PER_TRIGGER = 400
LONGEST_S = 120


def main(bootstrap: str, folder: str) -> None:
    """Run all three, and print the counts of rows read, and of micro-batches."""
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings: dict[str, Any] = {
        "spark.jars.packages": PACKAGE,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    spark = SparkSession.builder.master("local[2]").config(map=settings).getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    at = {"kafka.bootstrap.servers": bootstrap}
    flights = spark.read.format("kafka").options(**at).option("subscribe", "flights").load()
    rows = flights.select("partition", "offset", "value").collect()
    distinct = {(row.partition, row.offset, bytes(row.value)) for row in rows}
    flights.select("key", "value").write.format("kafka").options(**at).option("topic", "copied").save()
    stream = spark.readStream.format("kafka").options(**at).option("subscribe", "copied")
    stream = stream.option("startingOffsets", "earliest").option("maxOffsetsPerTrigger", PER_TRIGGER)
    target = stream.load().select("value").writeStream.format("kafka").options(**at).option("topic", "streamed")
    query = target.option("checkpointLocation", folder).trigger(availableNow=True).start()
    assert query.awaitTermination(LONGEST_S), "the stream did not end"
    print(len(rows), len(distinct), len(query.recentProgress))
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
