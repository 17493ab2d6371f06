"""Batch reads and writes in Sail, a server of Spark Connect without a JVM. It is downloaded: in the long run alone."""

from __future__ import annotations

import json
import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.testing import EmbeddedKafka
from tests.support.environments import INSTALL_S, interpreter_with

ROOT = Path(__file__).parents[3]
REQUIREMENTS = ("pysail==0.7.2", "pyspark-client==4.2.0")
COUNT = 100
LONGEST_S = 300
pytestmark = [pytest.mark.long, pytest.mark.timeout(INSTALL_S + 2 * LONGEST_S)]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    """The outcomes in Sail, and the records that it wrote as `copied`."""
    folder = tmp_path_factory.mktemp("sail")
    # The metadata of an installed kafwire, which is where Sail looks for data sources.
    metadata = folder / "kafwire_of_tests-1.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: kafwire-of-tests\nVersion: 1\n")
    (metadata / "entry_points.txt").write_text("[pysail.datasources]\nkafwire = kafwire.spark:KafwireDataSource\n")
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(folder)])}
    with EmbeddedKafka() as kafka:
        kafka.create_topic("flights", partitions=2)
        kafka.create_topic("copy", partitions=2)
        with kafwire.Producer(kafka.bootstrap) as producer:
            for number in range(COUNT):
                headers = [("h", b"1")] if number % 10 == 0 else []
                producer.send("flights", b"%03d" % number, key=b"k", partition=number % 2, headers=headers)
        command = [interpreter_with(REQUIREMENTS, "sail"), "-m", "tests.support.spark.sail_session", kafka.bootstrap]
        done = subprocess.run(
            [*command, f"{folder}/checkpoint"],
            cwd=ROOT,
            env=environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )
        assert done.returncode == 0, done.stderr[-4000:]
        copied = sorted((record.key, record.value) for record in kafka.records("copy"))
        yield {**json.loads(done.stdout.splitlines()[-1]), "copied": copied}


def test_the_source_is_found_by_itself(found: dict[str, Any]) -> None:
    assert found["discovered"] == COUNT


def test_a_batch_read_has_all_rows_and_spark_s_schema(found: dict[str, Any]) -> None:
    assert found["schema"] == (
        "struct<key:binary,value:binary,topic:string,partition:int,offset:bigint,timestamp:timestamp,"
        "timestampType:int,headers:array<struct<key:string,value:binary>>>"
    )
    (row,) = found["rows"]
    assert row[0] == "b'k'"
    assert row[2:5] in (["flights", "0", "0"], ["flights", "1", "0"])
    assert found["headers"] == COUNT // 10
    assert found["count"] == 10
    assert found["value"] == 3 * COUNT


def test_a_batch_write_has_all_rows(found: dict[str, Any]) -> None:
    assert found["write"] is None
    assert found["copied"] == [(b"k", b"copy of %03d" % number) for number in range(COUNT)]


def test_an_atomic_write_is_refused_by_name(found: dict[str, Any]) -> None:
    assert "option delivery=atomic: this engine has no TaskContext" in found["atomic"]


def test_a_wrong_option_is_named(found: dict[str, Any]) -> None:
    assert "unknown option 'nonsense'" in found["wrong option"]


def test_sail_has_no_streams_of_python_sources(found: dict[str, Any]) -> None:
    """A release of Sail that has them fails this test: docs/guide/spark.md says that there are none."""
    assert "AnalysisException" in str(found["stream source"])
    assert "AnalysisException" in str(found["stream sink"])
