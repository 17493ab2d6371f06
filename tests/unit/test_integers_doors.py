"""Public calls that take numbers: numpy's are taken as Python's, and a bool, text and NaN are refused."""

from __future__ import annotations

import asyncio
import math
import sqlite3
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kafwire import AsyncProducer, Client, Producer, compression
from kafwire.calls.client import _wanted_offsets
from kafwire.config import ProducerConfig
from kafwire.consumer.share.held_batch import kind_of
from kafwire.database import DatabaseOffsets
from kafwire.errors import ConfigError
from kafwire.integers import count, real
from kafwire.outbox.rows import row_of
from kafwire.stream.argument_checks import is_count, is_seconds
from kafwire.sync.stream_threads import run_threads
from kafwire.timeouts import milliseconds, timeout_of
from kafwire.types import TopicPartition

PACKED = compression.compress("gzip", b"x" * 5)


def stored(generation: Any, *, epoch: Any = -1, offset: Any = 7) -> list[tuple[Any, ...]]:
    offsets = DatabaseOffsets("g")
    connection = sqlite3.connect(":memory:")
    try:
        offsets.create_table(connection)
        connection.commit()
        connection.execute("BEGIN")
        where = TopicPartition("t", 0)
        offsets.store(connection, {where: offset}, generation=generation, leader_epochs={where: epoch})
        return connection.execute("SELECT next_offset, leader_epoch, generation FROM kafka_offsets").fetchall()
    finally:
        connection.close()


def threads(value: Any) -> None:
    run_threads(iter([]), lambda _: None, value, lambda: None)


def linger(value: Any) -> int:
    return ProducerConfig.build({"bootstrap_servers": "h:1", "linger_ms": value}).linger_ms


def budget(value: Any) -> None:
    try:
        compression.set_budget(value)
    finally:
        compression.set_budget(1 << 30)


WHOLE: list[Callable[[Any], object]] = [
    stored,
    lambda value: stored(1, epoch=value),
    threads,
    lambda value: compression.compress("gzip", b"x", value),
    lambda value: compression.decompress("gzip", PACKED, max_decompressed=value),
    budget,
    lambda value: _wanted_offsets([TopicPartition("t", value)], "latest", "read_uncommitted"),
    lambda value: row_of((value, "t", None, b"v", None, "now")),
    count,
]


@pytest.mark.parametrize("value", [5, np.int64(5), np.int32(5), np.uint8(5)], ids=lambda value: type(value).__name__)
@pytest.mark.parametrize("call", WHOLE)
def test_whole_numbers_of_numpy_are_ints(call: Callable[[Any], object], value: Any) -> None:
    call(value)


@pytest.mark.parametrize("value", [True, np.bool_(True), 1.5, "x", math.nan], ids=repr)
@pytest.mark.parametrize("call", WHOLE[:-2])
def test_a_value_that_is_no_whole_number_is_refused(call: Callable[[Any], object], value: Any) -> None:
    with pytest.raises(ConfigError):
        call(value)


@pytest.mark.parametrize("value", [1.5, "x", math.nan, 0], ids=repr)
def test_an_id_of_an_outbox_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ConfigError):
        row_of((value, "t", None, b"v", None, "now"))


def test_numbers_of_numpy_are_stored_as_ints() -> None:
    assert stored(np.int64(3), epoch=np.int32(2), offset=np.int64(9)) == [(9, 2, 3)]


@pytest.mark.parametrize("value", [5, 5.0, np.int64(5), np.float32(5), np.float64(5), np.uint8(5)], ids=repr)
def test_seconds_of_any_number(value: Any) -> None:
    assert (timeout_of(value), milliseconds(value), real(value)) == (5.0, 5000, 5.0)
    assert type(timeout_of(value)) is float
    assert is_seconds(value)


@pytest.mark.parametrize("value", [True, np.bool_(True), "5", math.nan, np.float64("nan"), -1, -0.5, 1j], ids=repr)
def test_seconds_that_are_none(value: Any) -> None:
    for check in (timeout_of, milliseconds):
        with pytest.raises(ConfigError, match="seconds from 0"):
            check(value)
    assert not is_seconds(value)


def test_a_count_in_a_pipeline_is_a_whole_number() -> None:
    assert is_count(np.int64(5))
    assert not any(map(is_count, (True, np.bool_(True), 5.0, "5", 0)))


@pytest.mark.parametrize("value", [np.bool_(True), True, -0.5, "x", math.nan, None], ids=repr)
def test_an_option_is_a_whole_number(value: Any) -> None:
    with pytest.raises(ConfigError, match="linger_ms"):
        linger(value)
    assert linger(np.int64(5)) == linger("5") == linger(5.0) == linger(np.float64(4.5)) == 5


@pytest.mark.parametrize("value", [True, np.bool_(True)], ids=repr)
def test_a_bool_acknowledges_nothing(value: Any) -> None:
    with pytest.raises(ConfigError, match="acknowledge"):
        kind_of(value)
    assert kind_of(np.int8(1)) == kind_of(1)


@pytest.mark.parametrize("timeout", [True, "3", math.nan, -1], ids=repr)
def test_timeouts_of_producers_and_clients_are_checked(timeout: Any) -> None:
    producer = Producer("127.0.0.1:1", transactional_id="x")
    try:
        for call in (
            producer.flush, producer.init_transactions, producer.begin_transaction, producer.commit_transaction,
            producer.abort_transaction, producer.close,
        ):  # fmt: skip
            with pytest.raises(ConfigError, match="timeout="):
                call(timeout)
    finally:
        producer.close(0)
    with Client("127.0.0.1:1") as client, pytest.raises(ConfigError, match="timeout="):
        client.call(object.__new__(type("Fake", (), {"response": object})), timeout=timeout)


@pytest.mark.parametrize("value", [True, 1.5, "2"], ids=repr)
def test_a_new_topic_has_whole_numbers(value: Any) -> None:
    with Client("127.0.0.1:1") as client:
        for name in ("partitions", "replication_factor"):
            with pytest.raises(ConfigError, match=name):
                client.create_topic("t", **{name: value})


def test_timeouts_of_an_async_producer_are_checked() -> None:
    async def check() -> None:
        producer = AsyncProducer("127.0.0.1:1")
        try:
            for call in (producer.flush, producer.close):
                with pytest.raises(ConfigError, match="timeout="):
                    await call("3")  # type: ignore[arg-type]
        finally:
            await producer.close(0)

    asyncio.run(check())
