"""Run the demo: `python -m demo`. See demo/README.md."""

from __future__ import annotations

import argparse
import os
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import pyarrow as pa

import kafwire
from demo import flights, picture
from demo.driver import Driver
from demo.pipeline import SINK, SOURCE
from kafwire.testing import EmbeddedKafka, KafkaCluster
from scripts.progress import step

if TYPE_CHECKING:
    from collections.abc import Sequence

    from demo.driver import Batch

Isolation = Literal["read_uncommitted", "read_committed"]
PARTITIONS = 4
# The driver is killed once so much of the flights is committed, and so many records of the next batch are written.
COMMITTED_SHARE, OPEN_RECORDS = 0.3, 1_000
LOOK_S = 0.02


def main() -> int:
    """Run every step; returns 0, or 1 when the records or figures that came back are not those of the file."""
    parser = argparse.ArgumentParser(prog="python -m demo", description="The flights of 2013 through Kafka and Spark.")
    parser.add_argument("--picture", type=Path, default=Path("build/demo/flights.svg"), help="where the picture goes")
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
        with step(f"write them to the topic {SOURCE}, keyed by carrier, from Arrow") as note:
            note(f"{write(cluster.bootstrap, records):,} records to {PARTITIONS} partitions")
        with tempfile.TemporaryDirectory() as folder:
            batches, killed_at = stream(cluster.bootstrap, Path(folder))
        with step(f"read {SINK} back with kafwire.scan()") as note:
            found = read(cluster.bootstrap, "read_committed", ["value"])
            written = read(cluster.bootstrap, "read_uncommitted", ["offset"]).num_rows
            aborted = written - found.num_rows
            note(f"{found.num_rows:,} committed records, and {aborted:,} aborted ones of the killed driver")
    finally:
        cluster.close()

    names = flights.airline_names()
    with step("compare with the CSV file") as note:
        departures = flights.departures(found["value"])
        delays = flights.delays(departures)
        problems = flights.ids_that_differ(departures["id"], flights.ROWS)
        problems += flights.names_that_differ(departures, names)
        problems += flights.differences(delays, flights.delays(table))
        note(f"{departures.num_rows:,} flights, {delays.num_rows} pairs of carrier and hour")
    if problems:
        print("\nThe topic differs from the file:\n  " + "\n  ".join(problems[:20]), file=sys.stderr)
        return 1
    with step("draw the picture") as note:
        arguments.picture.parent.mkdir(parents=True, exist_ok=True)
        picture.draw(delays, names, batches, killed_at, arguments.picture)
        note(str(arguments.picture))
    print_table(delays, names)
    print(
        f"\nEach of the {flights.ROWS:,} flights is there once, and all means are equal to 1e-9; "
        f"{time.monotonic() - began:.1f} s in all."
    )
    return 0


def write(bootstrap: str, records: pa.Table) -> int:
    """Create the topics and send the flights; returns the number of acknowledged records."""
    with kafwire.Client(bootstrap) as client:
        client.create_topic(SOURCE, partitions=PARTITIONS)
        client.create_topic(SINK, partitions=PARTITIONS)
    with kafwire.Producer(bootstrap, compression_type="lz4") as producer:
        delivery = producer.send_batch(SOURCE, records)
        producer.flush()
        return sum(count for _, _, _, count in delivery.result())


def stream(bootstrap: str, folder: Path) -> tuple[list[Batch], float]:
    """Run the stream, kill its driver in mid-batch, and run it to its end; returns its batches and the kill's time."""
    arguments, log = (bootstrap, str(folder / "checkpoint")), folder / "driver.log"
    with step("Spark: stream, exactly once; kill -9 the driver while a batch is open") as note:
        with Driver(arguments, log) as first:
            note.follow(lambda: progress(first))
            committed, uncommitted = wait_for_open_batch(bootstrap, first)
            first.kill()
            killed_at = time.time()
        note(f"{committed:,} offsets of {SINK} committed, {uncommitted:,} not")
    with step("Spark: the same again, from the checkpoint, to the end") as note:
        with Driver(arguments, log) as second:
            note.follow(lambda: progress(second))
            second.finish()
        batches = [*first.batches, *second.batches]
        seconds = sum(batch.seconds for batch in batches)
        note(f"{len(batches)} batches, {sum(batch.rows for batch in batches) / seconds:,.0f} flights/s in them")
    return batches, killed_at


def progress(driver: Driver) -> str:
    """Describe the state of a driver."""
    if not driver.batches:
        return "Spark starts, and runs the first batch"
    rows = sum(batch.rows for batch in driver.batches)
    return f"{rows:,} flights in {len(driver.batches)} batches are committed"


def wait_for_open_batch(bootstrap: str, driver: Driver) -> tuple[int, int]:
    """Wait until a part of the flights is committed and another batch is written in part; returns offsets of both."""
    with kafwire.Client(bootstrap) as client:
        places = [kafwire.TopicPartition(SINK, number) for number in range(PARTITIONS)]
        while driver.is_running:
            # In this order: a record below `written` that is not below `committed` is in an open transaction.
            written = sum(client.offsets(places).values())
            committed = sum(client.offsets(places, isolation_level="read_committed").values())
            if committed >= COMMITTED_SHARE * flights.ROWS and written - committed >= OPEN_RECORDS:
                return committed, written - committed
            time.sleep(LOOK_S)
    driver.finish()
    raise driver.failure("the driver ended before it could be killed in mid-batch")


def read(bootstrap: str, isolation_level: Isolation, columns: Sequence[str]) -> pa.Table:
    """Return columns of the topic that the stream wrote."""
    return pa.table(kafwire.scan(bootstrap, SINK, columns=columns, isolation_level=isolation_level))


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
