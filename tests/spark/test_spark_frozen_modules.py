"""Workers of Spark that exclude imported modules from the garbage collection after each task."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import SparkSession

from kafwire.spark import KafwireDataSource
from kafwire.testing import KafkaCluster


def counting_source(call: str, counts: Path) -> type[KafwireDataSource]:
    """The data source; after each `read` or `write` of a task, a file in `counts` has the number of frozen objects."""

    class Counting(KafwireDataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def reader(self, schema: Any) -> Any:
            return counted(super().reader(schema))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            return counted(super().writer(schema, overwrite))

    def counted(made: Any) -> Any:
        whole = type(made)

        def one_task(self: Any, given: Any) -> Any:
            import gc
            import os
            import sys

            gc.unfreeze()  # a task of another test may have frozen the same worker
            sys.modules[f"imported-{len(sys.modules)}"] = sys
            found = getattr(whole, call)(self, given)
            if call == "read":
                found = iter(list(found))
            (counts / str(os.getpid())).write_text(str(gc.get_freeze_count()))
            return found

        made.__class__ = type("Counted", (whole,), {call: one_task})
        return made

    return Counting


@pytest.mark.parametrize(
    ("call", "options"), [("read", {}), ("write", {}), ("write", {"delivery": "atomic", "sink": "frozen"})]
)
def test_modules_are_no_part_of_later_collections(
    spark: SparkSession,
    cluster: KafkaCluster,
    make_topic: Callable[..., str],
    produce: Callable[..., None],
    tmp_path: Path,
    call: str,
    options: dict[str, str],
) -> None:
    topic = make_topic()
    spark.dataSource.register(counting_source(call, tmp_path))
    at = {"kafka.bootstrap.servers": cluster.bootstrap}
    if call == "read":
        produce(topic, [{"value": b"v"}])
        assert spark.read.format("counting").options(**at).option("subscribe", topic).load().count() == 1
    else:
        rows = spark.sql("select cast('v' as binary) as value")
        rows.write.format("counting").mode("append").options(**at, topic=topic, **options).save()
    (count,) = [int(each.read_text()) for each in tmp_path.iterdir()]
    assert count > 10_000


def test_other_programs_keep_their_objects() -> None:
    program = "import gc; from kafwire.spark import processes; processes.freeze_modules(); print(gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
