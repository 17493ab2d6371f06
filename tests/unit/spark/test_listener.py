"""The listener, given Spark's events without a session."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any
from unittest.mock import MagicMock

import pytest

pytest.importorskip("pyspark", exc_type=ImportError)

from kafwire.errors import ConfigError
from kafwire.spark.group_commits import GroupCommits
from kafwire.spark.listener import LastBatch, ProgressListener, listen
from kafwire.testing import EmbeddedKafka
from kafwire.types import TopicPartition
from tests.support.spark.progress import report

A0, A1, B0 = TopicPartition("a", 0), TopicPartition("a", 1), TopicPartition("b", 0)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("a", partitions=2)
        running.create_topic("b", partitions=1)
        yield running


def started(run: str = "run") -> Any:
    return SimpleNamespace(runId=run, id="id", name=None)


def progressed(*arguments: Any, **fields: Any) -> Any:
    return SimpleNamespace(progress=SimpleNamespace(json=json.dumps(report(*arguments, **fields))))


def ended(exception: str | None = None) -> Any:
    return SimpleNamespace(runId="run", id="id", exception=exception)


def options(kafka: EmbeddedKafka, **more: str) -> dict[str, str]:
    return {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "a", "commitGroup": "g", **more}


def committed(kafka: EmbeddedKafka) -> dict[TopicPartition, int]:
    commits = GroupCommits("g", {"bootstrap_servers": kafka.bootstrap})
    try:
        return commits.committed([A0, A1, B0])
    finally:
        commits.close()


def test_the_hook_gets_the_numbers_of_each_batch_and_metrics_those_of_running_queries() -> None:
    seen: list[dict[str, Any]] = []
    listener = ProgressListener(seen.append)
    listener.onQueryStarted(started())
    listener.onQueryProgress(progressed(0, {"a": {"0": 20}}, {"a": {"0": 50}}))
    listener.onQueryProgress(progressed(10, {"a": {"0": 50}}, {"a": {"0": 50}}, {"a": {"0": 20}}))
    assert [batch["topics"]["a"]["backlog"] for batch in seen] == [30, 0]
    assert seen[1]["topics"]["a"]["rate"] == 15.0
    assert listener.metrics() == {"id": seen[1]}
    listener.onQueryTerminated(ended())
    assert listener.metrics() == {}


def test_an_error_in_the_hook_is_logged_and_the_next_batch_reported(caplog: pytest.LogCaptureFixture) -> None:
    hook = MagicMock(side_effect=[ZeroDivisionError, None])
    listener = ProgressListener(hook)
    with caplog.at_level(logging.INFO, "kafwire.spark"):
        for second in range(2):
            listener.onQueryProgress(progressed(second, {"a": {"0": 20}}, {"a": {"0": 1050}}))
    assert hook.call_count == 2
    assert "the hook of kafwire.spark.listen failed" in caplog.text
    assert "query id, batch 3: 30 rows in 2.0 s; a: 1,030 offsets behind" in caplog.text


def test_the_last_batch_is_committed_when_a_query_ends(kafka: EmbeddedKafka) -> None:
    listener = ProgressListener(last_batch=LastBatch(options(kafka)))
    for second in range(2):
        end = {"a": {"0": 20 + second, "1": 3}, "b": {"0": 7}}
        listener.onQueryProgress(progressed(second, end, end))
    assert committed(kafka) == {}
    assert not listener.wait_for_end("run", 0.0)
    listener.onQueryTerminated(ended())
    assert listener.wait_for_end("run", 0.0)
    assert committed(kafka) == {A0: 21, A1: 3}  # the options do not name topic b


def test_a_query_that_fails_or_has_another_name_or_had_no_batch_commits_nothing(kafka: EmbeddedKafka) -> None:
    end = {"a": {"0": 20, "1": 3}}
    failing = ProgressListener(last_batch=LastBatch(options(kafka)))
    failing.onQueryProgress(progressed(0, end, end))
    failing.onQueryTerminated(ended("boom"))
    other = ProgressListener(last_batch=LastBatch(options(kafka)), query="wanted")
    other.onQueryProgress(progressed(0, end, end, name="other"))
    other.onQueryTerminated(ended())
    ProgressListener(last_batch=LastBatch(options(kafka))).onQueryTerminated(ended())
    assert committed(kafka) == {}


def test_assigned_partitions_alone_are_committed(kafka: EmbeddedKafka) -> None:
    given = {name: value for name, value in options(kafka).items() if name != "subscribe"}
    listener = ProgressListener(last_batch=LastBatch({**given, "assign": '{"a": [1]}'}))
    listener.onQueryProgress(progressed(0, {"a": {"0": 20, "1": 3}}, None))
    listener.onQueryTerminated(ended())
    assert committed(kafka) == {A1: 3}


def test_a_commit_that_fails_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    with EmbeddedKafka() as gone:
        given = options(gone, **{"kafka.default.api.timeout.ms": "500"})
    listener = ProgressListener(last_batch=LastBatch(given))
    listener.onQueryProgress(progressed(0, {"a": {"0": 20}}, None))
    listener.onQueryTerminated(ended())
    assert "the offsets of the last batch could not be committed for group g" in caplog.text


def test_wrong_options_are_refused_and_a_listener_is_added_to_the_session() -> None:
    spark = MagicMock()
    with pytest.raises(ConfigError, match="the option commitGroup is missing"):
        listen(spark, options={"kafka.bootstrap.servers": "h:1", "subscribe": "a"})
    with pytest.raises(ConfigError, match="exactly one of the options"):
        listen(spark, options={"kafka.bootstrap.servers": "h:1", "commitGroup": "g"})
    spark.streams.addListener.assert_not_called()
    listener = listen(spark)
    spark.streams.addListener.assert_called_once_with(listener)
