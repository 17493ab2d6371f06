"""Serializers and deserializers: what the options take, what they make, and what a reader does with them."""

from __future__ import annotations

import asyncio
import functools
import json
import pickle
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import msgspec
import pyarrow as pa
import pydantic
import pytest

import kafwire
from kafwire.config import ConsumerConfig, ProducerConfig, ScanConfig
from kafwire.errors import ConfigError, KafkaError, SerializationError
from kafwire.records import encode_batch
from kafwire.serializer_calls import Deserializers, Serializers
from tests.support.serializers import Tagged, awaited
from tests.support.simulated.consumer import Consuming, log_of
from tests.support.simulated.world import World

SERVERS = {"bootstrap_servers": "h:1"}


class Flight(msgspec.Struct):
    """A type of msgspec."""

    to: str


class Person(pydantic.BaseModel):
    """A type of pydantic."""

    name: str


def serialized(spec: Any, value: Any) -> Any:
    found = Serializers.of(ProducerConfig.build({**SERVERS, "value_serializer": spec}), blocking=True)
    return value if found is None else found.serialize("t", value, b"key", None)[0]


def deserialized(spec: Any, data: bytes | None) -> Any:
    found = Deserializers.of(ConsumerConfig.build({**SERVERS, "value_deserializer": spec}), None, blocking=True)
    record = kafwire.Record(data, b"key", topic="t", partition=3, offset=7)
    return data if found is None else found.deserialize(record)[1]


@pytest.mark.parametrize(
    ("spec", "value", "data"),
    [
        (str, "grün", "grün".encode()),
        ("str", "a", b"a"),
        ("string", "a", b"a"),
        (bytes, b"\xff", b"\xff"),
        ("bytes", b"\xff", b"\xff"),
        ("json", {"a": [1, None, "grün"]}, '{"a":[1,null,"grün"]}'.encode()),
        (json, {"a": 1.5}, b'{"a":1.5}'),
        (Flight, Flight("IAH"), b'{"to":"IAH"}'),
        (Person, Person(name="Ada"), b'{"name":"Ada"}'),
    ],
)
def test_there_and_back(spec: Any, value: Any, data: bytes) -> None:
    assert serialized(spec, value) == data
    assert deserialized(spec, data) == value
    assert type(deserialized(spec, data)) is type(value)
    assert serialized(spec, None) is None
    assert deserialized(spec, None) is None


@pytest.mark.parametrize("value", [{"a": [1, None, "grün"]}, "text", 5, [True], {}, 1e16, 10**30])
def test_json_is_the_same_without_msgspec(value: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    data = serialized("json", value)
    monkeypatch.setitem(sys.modules, "msgspec.json", None)
    assert serialized("json", value) == data
    assert deserialized("json", data) == value


def test_no_library_is_imported_for_it() -> None:
    code = (
        "import sys, kafwire; kafwire.Consumer; kafwire.Producer\n"
        "from kafwire.serialization import serializer; serializer(str); serializer(print)\n"
        "sys.exit(repr({'msgspec', 'pydantic', 'pyarrow'} & set(sys.modules)) if "
        "{'msgspec', 'pydantic', 'pyarrow'} & set(sys.modules) else 0)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("spec", [int, "utf-16", 5, object(), dict])
@pytest.mark.parametrize(
    ("config", "option"),
    [(ProducerConfig, "key_serializer"), (ConsumerConfig, "value_deserializer"), (ScanConfig, "key_deserializer")],
)
def test_a_value_that_is_no_serializer_is_refused(config: Any, option: str, spec: Any) -> None:
    with pytest.raises(ConfigError, match=rf"option {option}=.*: allowed: str, \"json\", bytes"):
        config.build({**SERVERS, option: spec})


def test_a_function_gets_topic_and_headers_and_may_add_some() -> None:
    found = Serializers.of(ProducerConfig.build({**SERVERS, "key_serializer": Tagged(), "value_serializer": str}))
    assert found is not None
    mine = [("a", b"1")]
    assert found.serialize("t", "v", "k", mine) == (b"v", b"t/k", [("a", b"1"), ("tag", b"t")])
    assert mine == [("a", b"1")]
    assert found.serialize("t", None, None, {"b": None}) == (None, None, [("b", None)])
    assert found.serialize("t", None, None, iter(())) == (None, None, None)


@pytest.mark.parametrize(
    ("spec", "value", "reported"),
    [
        (str, 5, "TypeError: text is needed, not int"),
        ("json", object(), "TypeError"),
        (Flight, {"to": "IAH"}, "TypeError: a Flight is needed, not dict"),
        (lambda value, topic, headers: None, 5, "the value_serializer gave NoneType, not bytes"),
        (lambda value, topic, headers: 5, 5, "gave int, not bytes"),
        (lambda *arguments: awaited(*arguments), "x", "give an async function"),  # noqa: PLW0108
    ],
)
def test_values_that_cannot_be_serialized(spec: Any, value: Any, reported: str) -> None:
    with pytest.raises(SerializationError, match="the value of a record for t cannot be serialized: ") as caught:
        serialized(spec, value)
    error = caught.value
    assert reported in str(error)
    assert (error.topic, error.part, error.partition, error.offset) == ("t", "value", None, -1)
    assert ("gave" in reported) == (error.__cause__ is None)


@pytest.mark.parametrize(("spec", "data"), [(str, b"\xff"), ("json", b"{"), (Flight, b"{}"), (Person, b"5")])
def test_bytes_that_cannot_be_deserialized(spec: Any, data: bytes) -> None:
    with pytest.raises(SerializationError, match=r"the value of t-3 at offset 7 cannot be deserialized: ") as caught:
        deserialized(spec, data)
    error = caught.value
    assert "to skip it, seek(TopicPartition('t', 3), 8)" in str(error)
    assert (error.topic, error.part, error.partition, error.offset) == ("t", "value", 3, 7)
    assert error.__cause__ is not None
    same = pickle.loads(pickle.dumps(error))
    assert (str(same), same.part, same.partition, same.offset) == (str(error), "value", 3, 7)


@pytest.mark.parametrize("function", [awaited, functools.partial(awaited)])
def test_async_functions_are_refused_in_blocking_clients(function: Any) -> None:
    with pytest.raises(
        ConfigError, match=r"option value_serializer=.* is an async function.*use kafwire\.AsyncProducer"
    ):
        kafwire.Producer("127.0.0.1:1", value_serializer=function)
    with pytest.raises(
        ConfigError, match=r"option key_deserializer=.* is an async function.*use kafwire\.AsyncConsumer"
    ):
        kafwire.Consumer("127.0.0.1:1", topics="t", key_deserializer=function)
    with pytest.raises(ConfigError, match=r"option key_deserializer=.* is an async function"):
        kafwire.scan("127.0.0.1:1", "t", key_deserializer=function)


@pytest.mark.parametrize("kind", [kafwire.Consumer, kafwire.AsyncConsumer])
def test_an_awaitable_of_a_plain_function_is_an_error_with_the_remedy(kind: Any) -> None:
    async def convert(data: bytes) -> bytes:
        return data

    deserializers = Deserializers.of(
        ConsumerConfig.build({"bootstrap_servers": "h:1", "value_deserializer": lambda data: convert(data or b"")}),
        None,
        blocking=kind is kafwire.Consumer,
    )
    assert deserializers is not None
    with pytest.raises(SerializationError, match=r"it returned an awaitable: give an async function \(async def\)"):
        deserializers.deserialize(kafwire.Record(b"x", topic="t", partition=0, offset=5))


def test_a_configuration_with_them_can_be_sent_to_another_process() -> None:
    config = ScanConfig.build({**SERVERS, "key_deserializer": str, "value_deserializer": Flight})
    found = Deserializers.of(pickle.loads(pickle.dumps(config)), None)
    assert found is not None
    assert found.deserialize(kafwire.Record(b'{"to":"IAH"}', b"k", topic="t", partition=0)) == ("k", Flight("IAH"))


def test_from_config_knows_java_s_names(caplog: pytest.LogCaptureFixture) -> None:
    java = "org.apache.kafka.common.serialization."
    producer = kafwire.Producer.from_config(
        {
            "bootstrap.servers": "127.0.0.1:1",
            "key.serializer": f"{java}StringSerializer",
            "value.serializer": f"{java}ByteArraySerializer",
            "value.deserializer": f"{java}StringDeserializer",
        }
    )
    assert repr(producer._config.key_serializer) == "<class 'str'>"
    assert producer._config.value_serializer is None
    producer.close(0)
    assert caplog.messages == ["options without effect: value.deserializer"]


def test_columns() -> None:
    found = Serializers.of(ProducerConfig.build({**SERVERS, "key_serializer": Tagged(), "value_serializer": str}))
    assert found is not None
    table = pa.table({"value": ["v", "w"], "key": ["k", None], "n": [1, 2]})
    (rows,) = found.chunks("t", table)
    assert rows.to_pydict() == {"value": ["v", "w"], "key": [b"t/k", None], "n": [1, 2]}
    plain = Serializers.of(ProducerConfig.build({**SERVERS, "key_serializer": str}))
    assert plain is not None
    assert list(plain.chunks("t", table)) == [table]


@pytest.mark.parametrize("made", [["a"], ["a", "b"]], ids=["length", "nulls"])
def test_a_column_keeps_its_rows_and_nulls(made: list[str]) -> None:
    class Wrong(Tagged):
        def serialize_column(self, column: Any, topic: str | None) -> Any:
            return pa.array(made)

    found = Serializers.of(ProducerConfig.build({**SERVERS, "value_serializer": Wrong()}))
    assert found is not None
    with pytest.raises(SerializationError, match="the column value of t cannot be serialized: ValueError: of 2 rows"):
        list(found.chunks("t", pa.table({"value": ["v", None]})))


# -- reading


VALUES = [b"a", b"b", b"\xff", b"d"]


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        made.create_topic("t")
        for values in (VALUES, [b"e"]):
            log_of(made).append_values(values)
        yield made


def batches(world: World, **options: Any) -> list[kafwire.Batch]:
    with Consuming(world, topics="t", **options) as consuming:
        found = []
        for _ in range(3):
            consuming.idle()
            consuming.reader.settle()
            while (batch := consuming.reader.read(0)) is not None:
                found.append(batch)
        return found


def test_a_batch_returns_deserialized_values(world: World) -> None:
    first, second = batches(world, value_deserializer=lambda data, topic, headers: (data, topic, headers))
    assert [record.value for record in first] == [(value, "t", []) for value in VALUES]
    assert first[1].value == (b"b", "t", [])
    assert second[0].value == (b"e", "t", [])
    assert first.to_arrow()["value"].to_pylist() == VALUES


def test_records_before_a_bad_one_are_handed_out_and_it_stays_the_next_one(world: World) -> None:
    first, _ = batches(world, value_deserializer=str)
    records = iter(first)
    assert [next(records).value, next(records).value] == ["a", "b"]
    for _ in range(2):
        with pytest.raises(SerializationError, match="the value of t-0 at offset 2"):
            next(records)
        assert (records.next_offset, records.offset) == (2, 1)
    assert first[3].value == "d"


def test_async_ones_are_awaited(world: World) -> None:
    first, second = batches(world, value_deserializer=awaited)

    async def values(batch: kafwire.Batch) -> list[Any]:
        found = []
        try:
            async for record in batch:
                found.append((record.offset, record.value))  # noqa: PERF401
        except SerializationError as error:
            found.append((error.offset, "bad"))
        return found

    assert asyncio.run(values(first)) == [(0, "a"), (1, "b"), (2, "bad")]
    assert asyncio.run(values(second)) == [(4, "e")]
    with pytest.raises(KafkaError, match="'async for record in"):
        next(iter(first))


def test_only_one_with_deserializers_is_iterated_over_so(world: World) -> None:
    first, _ = batches(world)
    with pytest.raises(TypeError, match="needs an async deserializer"):
        aiter(first)


def test_a_form_for_columns_makes_arrow_data(world: World) -> None:
    log_of(world).append(encode_batch([(None, b"x"), (None, None)]))
    found = batches(world, value_deserializer=Tagged(), layout={"names": {"value": "payload"}})
    rows = pa.record_batch(found[-1])
    assert rows["payload"].to_pylist() == ["x of t", None]
    assert rows.equals(found[-1].to_arrow())
    assert pa.schema(found[-1]) == rows.schema
    assert [record.value for record in found[-1]] == ["x of t with 0", None]
