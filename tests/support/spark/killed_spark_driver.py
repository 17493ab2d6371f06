"""`python -m tests.support.spark.killed_spark_driver BOOTSTRAP TOPIC CHECKPOINT [STEP]` copies a topic exactly once.

The driver copies TOPIC to TOPIC-copy in small batches, and is killed with SIGKILL, all of its processes, when a commit
reaches STEP. Without a step it copies all there is.
"""

from __future__ import annotations

import os
import signal
import sys
from typing import Any

from kafwire.spark import KafwireDataSource

STEPS = ("planned", "before the decision", "after the decision", "between two EndTxn", "before done", "after done")


class KilledSource(KafwireDataSource):
    """The data source, with a sink that kills the driver. Spark pickles it by value, as its module is `__main__`."""

    @classmethod
    def name(cls) -> str:
        """The format's name."""
        return "killed"

    def streamWriter(self, schema: Any, overwrite: bool) -> Any:
        """The writer, in a process whose coordination kills the driver at the step."""
        import os
        import signal

        from kafwire.spark.exactly_once.decisions import decode
        from kafwire.spark.exactly_once.kafka import KafkaCoordination

        options = dict(self.options)
        step, group, sink = options.pop("groupidprefix"), int(options.pop("queryname")), options["sink"]

        def kill() -> None:
            os.killpg(group, signal.SIGKILL)
            os.kill(os.getpid(), signal.SIGKILL)

        if not getattr(KafkaCoordination, "is_killing", False):
            KafkaCoordination.is_killing = True  # type: ignore[attr-defined]
            write, end, ongoing = KafkaCoordination.write, KafkaCoordination.end, KafkaCoordination.ongoing

            async def killing_write(self: Any, records: Any) -> Any:
                named = list(decode(sink, records).values()) if records[0][1] else []
                what = "" if not named else "done" if named[0].is_done else "the decision"
                if what and step == f"before {what}":
                    kill()
                found = await write(self, records)
                if what and step == f"after {what}":
                    kill()
                return found

            async def killing_end(self: Any, handles: Any, *, commit: bool) -> Any:
                if step == "between two EndTxn" and commit:
                    await end(self, handles[:1], commit=commit)
                    kill()
                return await end(self, handles, commit=commit)

            async def killing_ongoing(self: Any, prefix: str) -> Any:
                found = await ongoing(self, prefix)
                if step == "planned":
                    kill()
                return found

            KafkaCoordination.write = killing_write  # type: ignore[method-assign]
            KafkaCoordination.end = killing_end  # type: ignore[method-assign]
            KafkaCoordination.ongoing = killing_ongoing  # type: ignore[method-assign]
        return KafwireDataSource(options).streamWriter(schema, overwrite)


def main(bootstrap: str, topic: str, checkpoint: str, step: str = "") -> None:
    """Run the query to its end, or until it is killed."""
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "700m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .getOrCreate()
    )
    spark.dataSource.register(KilledSource)
    at = {"kafka.bootstrap.servers": bootstrap}
    source = spark.readStream.format("kafwire").options(**at, subscribe=topic, startingOffsets="earliest")
    frame = source.option("maxOffsetsPerTrigger", "40").load().select("value")
    writer = frame.writeStream.format("killed").options(
        **at, delivery="exactly-once", sink=topic, topic=f"{topic}-copy"
    )
    # Two options without effect here carry the step, and the process group of the driver.
    writer = writer.option("groupIdPrefix", step).option("queryName", str(os.getpgid(0)))
    query = writer.option("checkpointLocation", checkpoint).trigger(availableNow=True).start()
    query.awaitTermination()
    spark.stop()


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    main(*sys.argv[1:])
