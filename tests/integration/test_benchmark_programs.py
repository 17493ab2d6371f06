"""The benchmark's own programs on a real broker: what the floor writes and reads, in several partitions too; and the plot."""

import json
import subprocess
from pathlib import Path
from typing import Any

import pytest

import kafwire
from benchmarks.measure import converse
from benchmarks.payload import split_pool, write_pool
from benchmarks.programs import build_floor, build_rdkafka
from benchmarks.rows import CONSUMERS
from benchmarks.strategies_report import draw
from benchmarks.topics import Topics
from kafwire.testing.cluster import KafkaCluster

RECORDS = 1003  # not to be divided evenly


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("benchmarks")


@pytest.mark.parametrize("partitions", [1, 8])
def test_the_floor_and_librdkafka_read_what_the_floor_wrote(
    cluster: KafkaCluster, topic_name: str, folder: Path, partitions: int
) -> None:
    floor, payload = build_floor(folder), write_pool(folder, 100)
    Topics(cluster.bootstrap, floor).create(topic_name, partitions)
    where = [f"bootstrap={cluster.bootstrap}", f"topic={topic_name}", f"records={RECORDS}", f"partitions={partitions}"]
    shape = [f"payload={payload}", "value_bytes=100", "key_bytes=11", "batch_bytes=5000", "codec=none"]
    subprocess.run([floor, "fill", *where, *shape], check=True, capture_output=True)
    found: dict[str, Any] = json.loads(subprocess.check_output([floor, "inspect", *where]))
    assert (found["records"], found["partitions"]) == (RECORDS, partitions)

    values = split_pool(payload.read_bytes(), 100)[:RECORDS]
    with kafwire.scan(cluster.bootstrap, topic_name) as stream:
        records = [record for batch in stream.batches() for record in batch]
    assert sorted(record.value or b"" for record in records) == sorted(values)
    assert all(record.key == (record.value or b"")[21:32] for record in records)
    sizes = [sum(record.partition == number for record in records) for number in range(partitions)]
    assert max(sizes) - min(sizes) <= 1

    expected = (RECORDS, RECORDS * 100, sum(value[-1] for value in values))
    # A broker fills an answer up to max_bytes: the small one needs all turns of the rotation.
    readers = [[str(floor), "consume", "decode=1", f"max_bytes={most}"] for most in (4000, 8 << 20)]
    options = [f"{name}={value}" for name, value in CONSUMERS["defaults"].items()]
    for command in (*readers, [str(build_rdkafka(folder)), "consume", *options]):
        (once,) = converse([*command, *where, "seconds=0"])["passes"]
        assert (once["records"], once["bytes"], once["checksum"]) == expected


def test_the_plot_is_drawn_with_what_there_is(folder: Path) -> None:
    rounds = [{"mb_per_second": 1.0, "requests_per_second": 0.0, "connections": 2.0}]
    cells = [
        {
            "strategy": name,
            "partitions": count,
            "scenario": "flood",
            "rounds": rounds,
            "error": "no" if count > 1 else "",
        }
        for name in ("hybrid", "per_node")
        for count in (1, 10)
    ]
    path = folder / "plot.png"
    draw({"cells": cells}, path)
    assert path.read_bytes().startswith(b"\x89PNG")
    assert path.stat().st_size < 100_000
