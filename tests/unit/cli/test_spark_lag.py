"""`kafwire spark lag` on an embedded broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire import TopicPartition
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka
from tests.support.spark.checkpoint import write_batch

PARTITIONS = [TopicPartition("a", 0), TopicPartition("a", 1)]


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("a", partitions=2)
        for number in range(20):
            running.append("a", [b"%d" % number], partition=number % 2)
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["spark", "lag", "-b", kafka.bootstrap, *arguments])


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_the_newest_committed_batch_is_compared_with_the_ends(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    write_batch(tmp_path, 0, {"a": {"0": 1, "1": 1}})
    write_batch(tmp_path, 1, {"a": {"0": 4, "1": 10}})
    write_batch(tmp_path, 2, {"a": {"0": 9, "1": 10}}, committed=False)
    result = run(kafka, str(tmp_path))
    assert lines(result)[:3] == [
        ["TOPIC", "PARTITION", "COMMITTED", "END", "LAG"],
        ["a", "0", "4", "10", "6"],
        ["a", "1", "10", "10", "0"],
    ]
    assert result.stdout.splitlines()[3] == "6 offset(s) behind, batch 1 is committed, planned 2026-11-27T20:12:01Z"
    assert result.exit_code == 0


def test_unknown_numbers_are_dashes_and_exit_code_1(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    """Partition 1 is new since the batch, and topic b was deleted."""
    write_batch(tmp_path, 0, {"a": {"0": 4}, "b": {"0": 3}})
    result = run(kafka, str(tmp_path))
    assert lines(result)[1:4] == [["a", "0", "4", "10", "6"], ["a", "1", "-", "10", "-"], ["b", "0", "3", "-", "-"]]
    assert "2 partition(s) with an unknown lag" in result.stdout
    assert result.exit_code == 1
    found = [json.loads(line) for line in run(kafka, str(tmp_path), "-J").stdout.splitlines()]
    assert found[1] == {"topic": "a", "partition": 1, "committed": None, "end": 10, "lag": None, "batch": 0}


def test_the_offsets_of_a_group(kafka: EmbeddedKafka) -> None:
    with kafwire.Consumer(kafka.bootstrap, assign=PARTITIONS, group_id="g") as consumer:
        consumer.commit(dict(zip(PARTITIONS, (4, 9), strict=True)))
    result = run(kafka, "--group", "g")
    assert lines(result)[1:3] == [["a", "0", "4", "10", "6"], ["a", "1", "9", "10", "1"]]
    assert lines(run(kafka, "--group", "none"))[-1] == ["no", "offset", "is", "committed"]


def test_a_lag_that_cannot_be_shown_is_an_error_in_one_line(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    write_batch(tmp_path / "begun", 0, {"a": {"0": 4}}, committed=False)
    write_batch(tmp_path / "other", 0, {"logOffset": 4})
    for arguments, code, text in [
        ([], 2, "either CHECKPOINT or --group GROUP"),
        ([str(tmp_path), "--group", "g"], 2, "either CHECKPOINT or --group GROUP"),
        ([str(tmp_path / "begun")], 1, "has no committed batch yet"),
        ([str(tmp_path / "other")], 1, "has no offsets of a Kafka source"),
        ([str(tmp_path / "missing")], 1, "is no checkpoint"),
    ]:
        result = run(kafka, *arguments)
        assert (result.exit_code, text in result.stderr, result.stderr.count("\n")) == (code, True, 1), result.stderr
