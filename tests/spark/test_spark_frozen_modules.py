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
    """The data source; after each `read` or `write` of a task, and each plan of a write, a file in `counts` has the
    number of frozen objects.
    """

    def thaw() -> None:
        import gc
        import sys

        gc.unfreeze()  # a task of another test may have frozen the same process
        sys.modules[f"imported-{len(sys.modules)}"] = sys

    def count(where: str) -> None:
        import gc
        import os

        (counts / f"{where}-{os.getpid()}").write_text(str(gc.get_freeze_count()))

    class Counting(KafwireDataSource):
        @classmethod
        def name(cls) -> str:
            return "counting"

        def reader(self, schema: Any) -> Any:
            return counted(super().reader(schema))

        def writer(self, schema: Any, overwrite: bool) -> Any:
            thaw()
            made = super().writer(schema, overwrite)
            count("planner")
            return counted(made)

    def counted(made: Any) -> Any:
        whole = type(made)

        def one_task(self: Any, given: Any) -> Any:
            thaw()
            found = getattr(whole, call)(self, given)
            if call == "read":
                found = iter(list(found))
            count("worker")
            return found

        made.__class__ = type("Counted", (whole,), {call: one_task})
        return made

    return Counting


@pytest.mark.parametrize(
    ("call", "options", "expected"),
    [
        ("read", {}, {"worker"}),
        ("write", {}, {"worker", "planner"}),
        ("write", {"delivery": "atomic", "sink": "frozen"}, {"worker"}),  # its planner freezes when it has a plan
    ],
)
def test_modules_are_no_part_of_later_collections(
    spark: SparkSession,
    cluster: KafkaCluster,
    make_topic: Callable[..., str],
    produce: Callable[..., None],
    tmp_path: Path,
    call: str,
    options: dict[str, str],
    expected: set[str],
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
    frozen = {each.name.partition("-")[0] for each in tmp_path.iterdir() if int(each.read_text()) > 10_000}
    assert frozen == expected


def test_other_programs_keep_their_objects() -> None:
    program = "import gc; from kafwire.spark import processes; processes.freeze_modules(); print(gc.get_freeze_count())"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout == "0\n"
