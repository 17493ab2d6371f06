"""Batch reads and writes of Spark's own connector and of kafwire, with the same options. In the long run alone."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from kafwire.testing import EmbeddedKafka
from tests.support.spark.batch_parity import LONGEST_S, READS, ROWS, WRITES

ROOT = Path(__file__).parents[3]
# Both refuse these; the text is kafwire's.
REFUSED_READS = {
    "no strategy": "a read needs exactly one of the options assign, subscribe, subscribePattern; got none",
    "two strategies": "a read needs exactly one of the options assign, subscribe, subscribePattern; got assign",
    "empty subscribe": "option subscribe=' , ' names no topic",
    "no topic": "no such topic: nowhere",
    "one of two missing": "no such topic: nowhere",
    "partition without offset": "option startingOffsets must name every partition that is read: two-x-1 missing",
    "offset without partition": "option startingOffsets names two-x-9, which the query does not read",
    "start at latest": "option startingOffsets can't be latest",
    "start at -1": "option startingOffsets of two-x-0 can't be -1",
    "end at earliest": "option endingOffsets can't be earliest",
    "end beyond the topic": "two-x-0 [0, 500) was asked for, but the topic holds [0, 10)",
    "start beyond the topic": "two-x-0 [500, 10) was asked for, but the topic holds [0, 10)",
    "bad JSON": "option startingOffsets: expected JSON like",
    "bad word": "option startingOffsets='begin': allowed: earliest, latest, or JSON",
    "late timestamp": "option startingTimestamp: two-x-0 has no record at or after",
    "minPartitions 0": "option minPartitions='0': a whole number above 0 is needed",
    "auto.offset.reset": "option kafka.auto.offset.reset is not supported",
    "key.deserializer": "option kafka.key.deserializer is not supported",
    "value.deserializer": "option kafka.value.deserializer is not supported",
    "enable.auto.commit": "option kafka.enable.auto.commit is not supported",
    "interceptor.classes": "option kafka.interceptor.classes is not supported",
}
REFUSED_WRITES = {
    "no topic at all": "no topic to write to: set the option topic",
    "no value": "a column named value is needed",
    "type of value": "column value is bigint",
    "type of key": "column key is bigint",
    "type of partition": "column partition is bigint",
    "null topic": "row 0: its topic is null",
    "missing topic": "nowhere",
    "missing partition": "row 0: its partition does not exist",
    "key.serializer": "option kafka.key.serializer is not supported",
    "value.serializer": "option kafka.value.serializer is not supported",
    "mode overwrite": "a topic cannot be overwritten",
    "mode ignore": "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
}
# The connector takes these, and kafwire refuses them, each for the reason in docs/reference/spark-parity.md.
STRICTER_READS = {
    "pattern of Java": "write Java's \\p{...} as a class",
    "pattern without a match": "option subscribePattern='nowhere.*' matches none of",
    "missing partition": "option assign names two-x-7, but two-x has 2 partitions",
    "unknown option": "unknown option 'nonsense'",
    "unknown kafka option": "unknown option 'nonsense'",
    "path": "load() and save() take no path here",
}
STRICTER_WRITES = {
    "mode errorifexists": "UNSUPPORTED_DATA_SOURCE_SAVE_MODE",
    "class of Java": "option kafka.partitioner.class is not supported",
    "unknown option of a write": "unknown option 'nonsense'",
}
OTHERS = {"schema", "timestamp", "maxRecordsPerPartition"}
SAME_READS = [name for name in READS if name not in {*REFUSED_READS, *STRICTER_READS, *OTHERS}]
SAME_WRITES = [name for name in WRITES if name not in {*REFUSED_WRITES, *STRICTER_WRITES, *OTHERS}]
pytestmark = [pytest.mark.long, pytest.mark.timeout(15 * LONGEST_S)]


@pytest.fixture(scope="module")
def found() -> Iterator[Any]:
    with EmbeddedKafka(configs={"auto.create.topics.enable": False}) as kafka:
        command = [sys.executable, "-m", "tests.support.spark.batch_parity", kafka.bootstrap]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=14 * LONGEST_S, check=False)
        assert done.returncode == 0, done.stderr[-4000:]
        yield json.loads(done.stdout.splitlines()[-1])


@pytest.mark.parametrize("name", SAME_READS)
def test_both_read_the_same_rows(found: Any, name: str) -> None:
    connector, kafwire = found["reads"][name]
    assert kafwire == connector
    assert isinstance(kafwire, dict), kafwire
    assert kafwire["rows"] or name == "late timestamp, latest"


@pytest.mark.parametrize("name", SAME_WRITES)
def test_both_write_the_same_records(found: Any, name: str) -> None:
    connector, kafwire = found["writes"][name]
    assert kafwire == connector
    assert len(kafwire["rows"]) == ROWS


@pytest.mark.parametrize("name", REFUSED_READS)
def test_both_refuse_the_same_reads(found: Any, name: str) -> None:
    connector, kafwire = found["reads"][name]
    assert isinstance(connector, str), connector
    assert REFUSED_READS[name] in kafwire


@pytest.mark.parametrize("name", REFUSED_WRITES)
def test_both_refuse_the_same_writes(found: Any, name: str) -> None:
    connector, kafwire = found["writes"][name]
    assert isinstance(connector, str), connector
    assert REFUSED_WRITES[name] in kafwire


@pytest.mark.parametrize("name", STRICTER_READS)
def test_kafwire_refuses_reads_that_the_connector_takes(found: Any, name: str) -> None:
    connector, kafwire = found["reads"][name]
    assert isinstance(connector, dict), connector
    assert STRICTER_READS[name] in kafwire


@pytest.mark.parametrize("name", STRICTER_WRITES)
def test_kafwire_refuses_writes_that_the_connector_takes(found: Any, name: str) -> None:
    connector, kafwire = found["writes"][name]
    assert len(connector["rows"]) == ROWS
    assert STRICTER_WRITES[name] in kafwire


def test_the_connector_refuses_a_schema_and_kafwire_reads_its_columns(found: Any) -> None:
    connector, kafwire = found["reads"]["schema"]
    assert "USER_SPECIFIED_AND_ACTUAL_SCHEMA_MISMATCH" in connector
    assert kafwire["columns"] == ["value"]
    assert len(kafwire["rows"]) == 20


def test_max_records_alone_cuts_the_tasks_of_kafwire_s_batch(found: Any) -> None:
    connector, kafwire = found["reads"]["maxRecordsPerPartition"]
    assert kafwire["rows"] == connector["rows"]
    assert (connector["tasks"], kafwire["tasks"]) == (2, 8)


def test_the_connector_ignores_a_timestamp_column_and_kafwire_writes_it(found: Any) -> None:
    connector, kafwire = found["writes"]["timestamp"]
    given = [1_600_000_000_000 + number for number in range(ROWS)]
    assert sorted(row[-1] for row in kafwire["rows"]) == given
    assert not {row[-1] for row in connector["rows"]} & set(given)
