"""Run the demo: `python -m demo`. See demo/README.md."""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
import warnings
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa

import kafwire
from demo import flights, picture
from kafwire.testing import EmbeddedKafka, KafkaCluster

if TYPE_CHECKING:
    from collections.abc import Iterator

    from pyspark.sql import SparkSession

FLIGHTS, DELAYS = "flights", "delays"
PARTITIONS = 4
# A short life: the quick compiler alone starts sooner than it would pay to optimise.
JVM_OPTIONS = (
    f"-Dlog4j2.configurationFile={(Path(__file__).parent / 'log4j2.properties').as_uri()}",
    "-XX:TieredStopAtLevel=1",
    "-XX:+UseSerialGC",
)


def main() -> int:
    """Run every step; returns 0, or 1 when the figures that came back are not those of the file."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="The flights of 2013 through Kafka and Spark.")
    parser.add_argument("--picture", type=Path, default=Path("build/demo/delays.png"), help="where the PNG goes")
    arguments = parser.parse_args()
    began = time.monotonic()

    with step("read the flights of 2013 from their CSV file") as note:
        table = flights.load_flights()
        records = flights.records(table)
        note(f"{table.num_rows:,} flights, {records.nbytes / 1e6:.0f} MB as JSON")
    is_real = os.environ.get("KAFKA") == "real"
    cluster: KafkaCluster | EmbeddedKafka = KafkaCluster() if is_real else EmbeddedKafka()
    with step("start Apache Kafka" if is_real else "start the embedded broker") as note:
        cluster.start()
        note(f"{cluster.version} at {cluster.bootstrap}" if isinstance(cluster, KafkaCluster) else cluster.bootstrap)
    try:
        with kafwire.Client(cluster.bootstrap) as client:
            client.create_topic(FLIGHTS, partitions=PARTITIONS)
            client.create_topic(DELAYS, partitions=1)
        with step(f"write them to the topic {FLIGHTS}, keyed by carrier, from Arrow") as note:
            with kafwire.Producer(cluster.bootstrap, compression_type="lz4") as producer:
                delivery = producer.send_batch(FLIGHTS, records)
                producer.flush()
                written = sum(count for _, _, _, count in delivery.result())
            note(f"{written:,} records to {PARTITIONS} partitions")
        with step("start Spark with two workers") as note:
            spark = start_spark()
            note(spark.version)
        try:
            with step(f"Spark: {FLIGHTS} -> mean delay per carrier and hour -> {DELAYS}, through kafwire"):
                run_job(spark, cluster.bootstrap)
        finally:
            spark.stop()
        with step(f"read {DELAYS} back with kafwire.scan()") as note:
            found = read_delays(cluster.bootstrap)
            note(f"{found.num_rows} rows")
    finally:
        cluster.close()

    with step("compare with pyarrow's figures from the CSV file") as note:
        expected = flights.delays(table)
        problems = flights.differences(found, expected)
        departures, without = sum(expected["departures"].to_pylist()), table["dep_delay"].null_count
        if written != flights.ROWS or without != flights.WITHOUT_DEPARTURE or departures + without != flights.ROWS:
            problems.append(f"{written:,} written, {departures:,} departures and {without:,} without: that is not all")
        note(f"{expected.num_rows} pairs of carrier and hour, {departures:,} departures")
    if problems:
        print("\nThe figures differ:\n  " + "\n  ".join(problems[:20]), file=sys.stderr)
        return 1
    names = flights.airline_names()
    with step("draw the picture") as note:
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        picture.draw(found, names, arguments.picture)
        note(str(arguments.picture))
    print_table(found, names)
    print(
        f"\nAll {departures:,} departures counted and all means equal to 1e-9; {time.monotonic() - began:.1f} s in all."
    )
    return 0


@contextmanager
def step(title: str) -> Iterator[Note]:
    """Time a step and print it with the last note taken in it."""
    note, began = Note(), time.monotonic()
    yield note
    print(f"{time.monotonic() - began:7.2f} s  {title}{note.text}", flush=True)


class Note:
    """What a step has to say when it is done."""

    text = ""

    def __call__(self, text: str) -> None:
        """Keep `text`."""
        self.text = f": {text}"


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
        .config("spark.driver.extraJavaOptions", " ".join(JVM_OPTIONS))
        .getOrCreate()
    )
    spark.dataSource.register(KafwireDataSource)
    return spark


def run_job(spark: SparkSession, bootstrap: str) -> None:
    """Departures and their mean delay per carrier and scheduled hour, from one topic to the other."""
    from pyspark.sql import functions as f

    rows = (
        spark.read.format("kafwire")
        .schema("value binary")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("subscribe", FLIGHTS)
        .load()
    )
    flight = f.from_json(f.col("value").cast("string"), "carrier string, hour int, dep_delay double")
    delays = (
        rows.select(flight.alias("flight"))
        .select("flight.*")
        .where("dep_delay is not null")
        .groupBy("carrier", "hour")
        .agg(f.count("*").alias("departures"), f.avg("dep_delay").alias("mean_delay"))
    )
    (
        delays.select(f.col("carrier").alias("key"), f.to_json(f.struct("*")).alias("value"))
        .write.format("kafwire")
        .mode("append")
        .option("kafka.bootstrap.servers", bootstrap)
        .option("topic", DELAYS)
        .save()
    )


def read_delays(bootstrap: str) -> pa.Table:
    """Return what Spark wrote."""
    table = pa.table(kafwire.scan(bootstrap, DELAYS, columns=["value"]))
    rows = [json.loads(value) for value in table["value"].to_pylist()]
    return flights.delay_table((row["carrier"], row["hour"], row["departures"], row["mean_delay"]) for row in rows)


def print_table(delays: pa.Table, names: dict[str, str]) -> None:
    """Print a line per carrier: departures, mean delay of the morning, afternoon and evening."""
    parts = {"before 12": range(12), "12 to 17": range(12, 18), "from 18": range(18, 24), "all day": range(24)}
    rows = delays.to_pylist()
    flown = {code: sum(row["departures"] for row in rows if row["carrier"] == code) for code in names}
    print(f"\n{'mean departure delay, minutes':<32}{'departures':>12}" + "".join(f"{title:>12}" for title in parts))
    for code in sorted(flown, key=lambda code: -flown[code]):
        cells = []
        for hours in parts.values():
            some = [row for row in rows if row["carrier"] == code and row["hour"] in hours]
            count = sum(row["departures"] for row in some)
            mean = sum(row["departures"] * row["mean_delay"] for row in some) / count if count else None
            cells.append(f"{'-' if mean is None else format(mean, '.1f'):>12}")
        print(f"{code}  {names[code]:<28}{flown[code]:>12,}" + "".join(cells))


if __name__ == "__main__":
    sys.exit(main())
