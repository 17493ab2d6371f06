"""Protobuf messages that contain themselves: rows as upb has them, columns with JSON text, bounded depth."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pyarrow as pa
import pytest
from google.protobuf.struct_pb2 import Struct
from hypothesis import given
from hypothesis import strategies as st

import kafwire
from kafwire.errors import ConfigError, DecodeError, SchemaError
from kafwire.registry import SchemaRegistry
from kafwire.serialization import ColumnContext, SerializationContext
from tests.support.protobuf_classes import Field, classes, message
from tests.support.schema_registry import RegistryServer

NODE = {"type": Field.TYPE_MESSAGE, "type_name": ".t.Node"}
KIDS = {**NODE, "label": Field.LABEL_REPEATED}
Tree, Forest, Leaf = classes(
    message("Node", value=Field.TYPE_INT64, text=Field.TYPE_STRING, left=NODE, kids=KIDS),
    message(
        "Forest",
        title=Field.TYPE_STRING,
        root=NODE,
        trees=KIDS,
        around={"type": Field.TYPE_MESSAGE, "type_name": ".t.Around"},
    ),
    message("Around", node=NODE, n=Field.TYPE_INT32),
)


def nodes(kids: Any = None) -> Any:
    inner = {} if kids is None else {"left": st.none() | kids, "kids": st.lists(kids, max_size=2)}
    values = {"value": st.integers(-(2**63), 2**63 - 1), "text": st.text(max_size=3)}
    return st.fixed_dictionaries(values | inner).map(lambda given: Tree(**given))


NODES = st.recursive(nodes(), nodes, max_leaves=6)
FORESTS = st.builds(
    Forest, title=st.text(max_size=3), root=st.none() | NODES, trees=st.lists(NODES, max_size=2), around=st.none()
)


def record() -> SerializationContext:
    return SerializationContext("forests", "value", [])


def column() -> ColumnContext:
    return ColumnContext("forests", "value")


@pytest.fixture(scope="module")
def server() -> Iterator[RegistryServer]:
    with RegistryServer() as server:
        yield server


@pytest.fixture(scope="module", params=["alone", "registry"])
def forest(request: pytest.FixtureRequest, server: RegistryServer) -> Any:
    if request.param == "alone":
        return kafwire.Protobuf(None, Forest, recursive="json")
    return kafwire.Protobuf(SchemaRegistry(server.url), Forest, register=True, recursive="json")


@given(st.lists(FORESTS, min_size=1, max_size=3))
def test_rows_and_columns_lose_nothing(forest: Any, values: list[Any]) -> None:
    data = [forest.serialize(value, record()) for value in values]
    assert [forest.deserialize(each, record()) for each in data] == values
    made = forest.deserialize_column(pa.array([*data, None]), column())
    assert made.type == forest.arrow_type(column())
    back = forest.serialize_column(made, column()).to_pylist()
    assert [forest.deserialize(each, record()) for each in back[:-1]] == values
    assert back[-1] is None


def test_the_text_is_protobufs_json() -> None:
    forest = kafwire.Protobuf(None, Forest, recursive="json")
    value = Forest(root=Tree(value=2**60, left=Tree(text="é")))
    value.around.node.value = 7
    made = forest.deserialize_column(pa.array([value.SerializeToString()]), column())
    (row,) = made.to_pylist()
    assert json.loads(row["root"]) == {"value": str(2**60), "left": {"text": "é"}}
    assert row["around"] == {"node": '{"value": "7"}', "n": 0}
    assert row["trees"] == []


def test_a_struct_is_its_json() -> None:
    (event,) = classes_with_struct()
    events = kafwire.Protobuf(None, event, recursive="json")
    value = event(title="a")
    value.payload.update({"a": [1.5, None, {"b": True}], "c": "x"})
    made = events.deserialize_column(pa.array([value.SerializeToString()]), column())
    (row,) = made.to_pylist()
    assert json.loads(row["payload"]) == {"a": [1.5, None, {"b": True}], "c": "x"}
    (back,) = events.serialize_column(made, column()).to_pylist()
    assert event.FromString(back) == value
    not_json = event()
    not_json.payload["x"] = float("nan")
    with pytest.raises(DecodeError, match="a google.protobuf.Struct has no JSON text"):
        events.deserialize_column(pa.array([not_json.SerializeToString()]), column())


def classes_with_struct() -> list[Any]:
    from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

    pool = descriptor_pool.DescriptorPool()
    pool.AddSerializedFile(Struct.DESCRIPTOR.file.serialized_pb)
    payload = {"type": Field.TYPE_MESSAGE, "type_name": ".google.protobuf.Struct"}
    file = descriptor_pb2.FileDescriptorProto(
        name="e.proto",
        package="e",
        syntax="proto3",
        dependency=["google/protobuf/struct.proto"],
        message_type=[message("Event", title=Field.TYPE_STRING, payload=payload)],
    )
    pool.AddSerializedFile(file.SerializeToString())
    return [message_factory.GetMessageClass(pool.FindMessageTypeByName("e.Event"))]


def test_pieces_of_a_message_are_merged() -> None:
    forest = kafwire.Protobuf(None, Forest, recursive="json")
    pieces = Forest(root=Tree(value=1)).SerializeToString() + Forest(root=Tree(text="x")).SerializeToString()
    made = forest.deserialize_column(pa.array([pieces]), column())
    assert json.loads(made.to_pylist()[0]["root"]) == {"value": "1", "text": "x"}


def test_unknown_fields_are_bad_and_not_lost() -> None:
    forest = kafwire.Protobuf(None, Forest, recursive="json")
    data = b"\x12\x03\x98\x06\x05"  # of the root: field 99
    assert forest.deserialize(data, record()).SerializeToString() == data
    with pytest.raises(DecodeError, match="fields without a form in JSON"):
        forest.deserialize_column(pa.array([data]), column())


def test_depth_is_bounded() -> None:
    forest = kafwire.Protobuf(None, Forest, recursive="json")
    data = b""
    for _ in range(300):
        data = b"\x1a" + varint(len(data)) + data
    bomb = b"\x12" + varint(len(data)) + data
    with pytest.raises(DecodeError, match="Error parsing message"):
        forest.deserialize(bomb, record())
    with pytest.raises(DecodeError, match="Error parsing message"):
        forest.deserialize_column(pa.array([bomb]), column())


def varint(number: int) -> bytes:
    made = bytearray()
    while number > 127:
        made.append(number & 127 | 128)
        number >>= 7
    return bytes([*made, number])


def test_columns_are_refused_with_the_cycle_and_the_option() -> None:
    plain = kafwire.Protobuf(None, Forest)
    value = Forest(root=Tree(value=1))
    data = plain.serialize(value, record())
    assert plain.deserialize(data, record()) == value
    expected = r"root.left: t.Node contains itself \(t.Node > t.Node\), .*kafwire.Protobuf\(recursive=\"json\"\)"
    with pytest.raises(SchemaError, match=expected):
        plain.deserialize_column(pa.array([data]), column())
    with pytest.raises(ConfigError, match="recursive is 'error' or 'json'"):
        kafwire.Protobuf(None, Forest, recursive="text")  # type: ignore[arg-type]


def test_a_wrong_text_names_its_row() -> None:
    forest = kafwire.Protobuf(None, Forest, recursive="json")
    rows = pa.array([{"root": "{}"}, {"root": '{"nope": 1}'}], pa.struct([("root", pa.string())]))
    with pytest.raises(ConfigError, match="row 1: .*is no t.Node in Protobuf's JSON form"):
        forest.serialize_column(rows, column())
