"""A task of a write, without Spark around it."""

from __future__ import annotations

import pyarrow as pa
import pytest

from kafwire.errors import BrokerError, ConfigError
from kafwire.spark import processes
from kafwire.spark.options import WriteOptions
from kafwire.spark.writer import KafwireWriter
from tests.support.broker.scripted_broker import ScriptedBroker


def rows(topics: list[str | None]) -> pa.RecordBatch:
    return pa.record_batch(
        {"value": [b"%d" % n for n in range(len(topics))], "topic": pa.array(topics, pa.string()), "other": topics}
    )


def test_records_are_counted_by_topic() -> None:
    with ScriptedBroker({"t": 2, "u": 1}) as broker:
        options = WriteOptions({"bootstrap_servers": broker.bootstrap}, None)
        batches = [rows(["t", "u", "t"]), rows([]), rows(["u"])]
        try:
            assert KafwireWriter(options, ["value", "topic"]).write(iter(batches)).records == {"t": 2, "u": 2}
        finally:
            processes.forget_producer(options.client)
        assert broker.values("u") == [b"1", b"0"]


def test_an_error_says_where_to_and_how_many_were_written() -> None:
    with ScriptedBroker({"t": 1}) as broker:
        for topic, where, kind in ((None, "the topics of its rows", ConfigError), ("u", "topic u", BrokerError)):
            options = WriteOptions({"bootstrap_servers": broker.bootstrap}, topic)
            with pytest.raises(kind) as caught:
                KafwireWriter(options, ["value", "topic"]).write(iter([rows(["t", None])]))
            assert caught.value.__notes__ == [f"while writing to {where}, after 0 acknowledged records of the task"]
