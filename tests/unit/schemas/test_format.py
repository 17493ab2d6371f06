"""Formats of a user, and what they get of rows and columns."""

from __future__ import annotations

import asyncio
import json
import pickle
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.config import ConsumerConfig, ProducerConfig
from kafwire.errors import ConfigError, DecodeError, SerializationError
from kafwire.schemas import Format
from kafwire.serialization import ColumnContext, SerializationContext
from kafwire.serializer_calls import Deserializers, Serializers
from tests.support.schema_registry import RegistryServer

SERVERS = {"bootstrap_servers": "h:1"}
PAIRS = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))


class Tagged(Format):
    """Sends a header, and reads it."""

    def serialize(self, value: Any, ctx: SerializationContext) -> bytes:
        if not ctx.headers:
            ctx.headers.append(("tag", ctx.field.encode()))
        return str(value).encode()

    def deserialize(self, data: bytes, ctx: SerializationContext) -> Any:
        if data == b"bad":
            return self.bad(data, ctx, "it is bad")
        return f"{data.decode()} {dict(ctx.headers).get('tag')!r} {ctx.partition} {ctx.offset}"


def serializers(**options: Any) -> Serializers:
    found = Serializers.of(ProducerConfig.build({**SERVERS, **options}))
    assert found is not None
    return found


def typed(format_: Any, rows: pa.RecordBatch) -> pa.RecordBatch:
    found = Deserializers.of(ConsumerConfig.build({**SERVERS, "value": format_}), None)
    assert found is not None
    return found.stream_rows(rows, "t")


def test_sent_rows_get_the_headers_that_a_format_appends() -> None:
    rows = pa.record_batch({"key": ["a", None], "value": [1, 2]})
    (made,) = serializers(key=Tagged(), value=Tagged()).chunks("t", rows)
    assert made["key"].to_pylist() == [b"a", None]
    expected = [{"key": "tag", "value": b"key"}, {"key": "tag", "value": b"value"}]
    assert made["headers"].to_pylist() == [expected, expected]
    given = pa.array([[{"key": "h", "value": b"1"}], None], PAIRS)
    (made,) = serializers(value=Tagged()).chunks("t", pa.record_batch({"value": [1, 2], "headers": given}))
    own = [{"key": "tag", "value": b"value"}]
    assert made["headers"].to_pylist() == [[{"key": "h", "value": b"1"}, *own], own]


def test_a_row_of_a_column_has_its_headers_and_its_place() -> None:
    headers = pa.array([[{"key": "tag", "value": b"x"}], []], PAIRS)
    rows = pa.record_batch(
        {"partition": pa.array([3, 3], pa.int32()), "offset": [7, 9], "value": [b"a", b"b"], "headers": headers}
    )
    assert typed(Tagged(), rows)["value"].to_pylist() == ["a b'x' 3 7", "b None 3 9"]
    with pytest.raises(
        SerializationError, match=r"t-3 at offset 9 .*row 1: it is bad; to skip it, seek\(.*, 10\)"
    ) as got:
        typed(Tagged(), rows.set_column(2, "value", pa.array([b"a", b"bad"])))
    assert isinstance(got.value.__cause__, DecodeError)


def test_a_format_beside_an_async_deserializer_gets_the_place_of_the_record() -> None:
    async def key(data: bytes) -> str:
        return data.decode()

    found = Deserializers.of(ConsumerConfig.build({**SERVERS, "key": key, "value": Tagged()}), None)
    assert found is not None
    record = kafwire.Record(b"a", b"k", headers=[("tag", b"x")], topic="t", partition=3, offset=7)
    made = asyncio.run(found.deserialize_awaited(record))
    assert (made.key, made.value) == ("k", "a b'x' 3 7")


def test_the_last_header_of_a_name_counts() -> None:
    lists: list[Any] = [[("a", b"1"), ("b", b"2"), ("a", b"3")], [], [("a", None)], None]
    for kind in (pa.map_(pa.string(), pa.binary()), PAIRS):
        pairs = (
            lists
            if pa.types.is_map(kind)
            else [None if each is None else [{"key": key, "value": value} for key, value in each] for each in lists]
        )
        found = ColumnContext("t", "value", 0, pa.array(pairs, kind)).header_column("a")
        assert found.to_pylist() == [b"3", None, None, None]
    sliced = pa.array(pairs, kind)[1:]
    assert ColumnContext("t", "value", 0, sliced).header_column("a").to_pylist() == [None, None, None]
    with pytest.raises(ValueError, match="the column headers is not read: choose it too"):
        ColumnContext("t", "value").header_column("a")


def test_only_a_format_that_says_so_may_add_nulls() -> None:
    class Nulls(Format):
        def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
            return pa.nulls(len(column), pa.string())

    rows = pa.record_batch({"value": [b"a", None]})
    assert typed(Nulls(on_bad="null"), rows)["value"].null_count == 2
    with pytest.raises(SerializationError, match="of 2 rows, 1 null, it made 2, 2"):
        typed(Nulls(), rows)

    class Fewer(Nulls):
        def deserialize_column(self, column: pa.Array, ctx: SerializationContext) -> pa.Array:
            return pa.array(["a"] * len(column))

    with pytest.raises(SerializationError, match="it made 2, 0"):
        typed(Fewer(on_bad="null"), rows)


def test_a_function_for_bad_records_may_refuse_them() -> None:
    def refuse(bad: Any) -> None:
        raise ValueError(f"{bad.data!r} of {bad.field}")

    with pytest.raises(SerializationError, match="ValueError: b'bad' of value"):
        typed(Tagged(on_bad=refuse), pa.record_batch({"value": [b"bad"]}))


@pytest.mark.parametrize("on_bad", ["drop", "", None, 5])
def test_a_wrong_outcome_is_refused(on_bad: Any) -> None:
    with pytest.raises(ConfigError, match='on_bad is "error", "null" or a function'):
        kafwire.Text(on_bad=on_bad)


@pytest.mark.parametrize("encoding", ["nope", "base64", None, ""])
def test_a_wrong_encoding_is_refused(encoding: Any) -> None:
    with pytest.raises(ConfigError, match="there is no encoding"):
        kafwire.Text(encoding)


@pytest.mark.parametrize("encoding", ["latin-1", "utf-16", "utf-8"])
def test_text_has_an_encoding(encoding: str) -> None:
    text, ctx = kafwire.Text(encoding), ColumnContext("t", "value")
    values = pa.array(["grün", None, ""])
    binary = text.serialize_column(values, ctx)
    assert binary.to_pylist() == ["grün".encode(encoding), None, "".encode(encoding)]
    assert text.deserialize_column(binary, ctx).equals(values)
    with pytest.raises(TypeError, match="a string column is needed, not int64"):
        text.serialize_column(pa.array([1]), ctx)
    with pytest.raises(TypeError, match="text is needed, not int"):
        text.serialize(5, ctx)  # type: ignore[arg-type]


def test_columns_of_documents_are_written_as_they_are_or_encoded() -> None:
    made, ctx = kafwire.Json(), ColumnContext("t", "value")
    assert made.serialize_column(pa.array(['{"a": 1}', None]), ctx).to_pylist() == [b'{"a": 1}', None]
    assert made.serialize_column(pa.array([{"a": 1}, None]), ctx).to_pylist() == [b'{"a":1}', None]
    for kind in (pa.large_string(), pa.string_view(), pa.binary(), pa.large_binary(), pa.binary_view()):
        column = pa.array(['{"a": 1}', None]).cast(pa.binary()).cast(kind)
        assert made.serialize_column(column, ctx).to_pylist() == [b'{"a": 1}', None]
    for column in (pa.array(['{"a": 1}']), pa.array(['{"a": 1}'], pa.large_string())):
        assert made.serialize_column(column.dictionary_encode(), ctx).to_pylist() == [b'{"a": 1}']


def test_a_direction_that_a_format_does_not_have_is_named_with_the_remedy() -> None:
    with pytest.raises(NotImplementedError, match=r"Format has no method serialize: define it to send"):
        Format().serialize(1, SerializationContext("t", "value", []))
    with pytest.raises(NotImplementedError, match=r"Format has no method deserialize: define it to read"):
        Format().deserialize(b"", SerializationContext("t", "value", []))


def test_formats_without_a_registry_pickle() -> None:
    ctx = SerializationContext("t", "value", [])
    text = pickle.loads(pickle.dumps(kafwire.Text(encoding="latin-1", on_bad="null")))
    assert text.deserialize(text.serialize("ä", ctx), ctx) == "ä"
    assert (text.serialize("ä", ctx), text.on_bad) == (b"\xe4", "null")
    schema = pa.schema([("n", pa.int64())])
    documents = pickle.loads(pickle.dumps(kafwire.Json(schema)))
    assert documents.arrow_type(ctx) == pa.struct(list(schema))


@pytest.mark.parametrize("kind", [kafwire.Avro, kafwire.JsonSchema])
def test_a_copy_has_the_columns_of_its_original(kind: Any) -> None:
    """A task of a frame reads the columns that the frame was planned with, though a later schema is registered."""
    ctx = ColumnContext("flights", "value")

    def text(*names: str) -> str:
        if kind is kafwire.Avro:
            fields = [{"name": name, "type": "string", "default": ""} for name in names]
            return json.dumps({"type": "record", "name": "Flight", "fields": fields})
        return json.dumps({"type": "object", "properties": {name: {"type": "string"} for name in names}})

    with RegistryServer() as server:
        registry = kafwire.SchemaRegistry(server.url)
        registry.register("flights-value", text("carrier"), kind.schema_type)
        original = kind(registry)
        planned = original.arrow_type(ctx)
        registry.register("flights-value", text("carrier", "origin"), kind.schema_type)
        assert pickle.loads(pickle.dumps(original)).arrow_type(ctx) == planned
        assert kind(registry).arrow_type(ctx) != planned
