"""How serializers and deserializers are called, by their signatures: the idioms of other clients, both directions."""

from __future__ import annotations

import base64
import functools
import json
import operator
import struct
from abc import ABC, abstractmethod
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest

import kafwire
from kafwire.config import ConsumerConfig, ProducerConfig
from kafwire.errors import ConfigError, SerializationError
from kafwire.serializer_calls import Deserializers, Serializers

HEADERS = [("a", b"1")]


def serialized(spec: Any, value: Any, part: str = "value") -> Any:
    options = {"bootstrap_servers": "h:1", f"{part}_serializer": spec}
    found = Serializers.of(ProducerConfig.build(options), blocking=True)
    assert found is not None
    made = found.serialize("t", value if part == "value" else None, value if part == "key" else None, HEADERS)
    return made[0] if part == "value" else made[1]


def deserialized(spec: Any, data: bytes, part: str = "value") -> Any:
    options = {"bootstrap_servers": "h:1", f"{part}_deserializer": spec}
    found = Deserializers.of(ConsumerConfig.build(options), None, blocking=True)
    assert found is not None
    record = kafwire.Record(
        data if part == "value" else None,
        data if part == "key" else None,
        headers=HEADERS,
        topic="t",
        partition=0,
        offset=1,
    )
    return found.deserialize(record)[part == "value"]


def shown(*arguments: Any) -> bytes:
    return repr(arguments).encode()


def one(value: Any) -> bytes:
    return shown(value)


def one_and_optional(value: Any, topic: Any = None, headers: Any = None) -> bytes:
    return shown(value, topic, headers)


def three(v: Any, t: Any, h: Any) -> bytes:
    return shown(v, t, h)


def three_and_optional(v: Any, t: Any, h: Any, more: Any = None) -> bytes:
    return shown(v, t, h, more)


def any_number(*arguments: Any) -> bytes:
    return shown(*arguments)


def one_and_more(value: Any, *rest: Any) -> bytes:
    return shown(value, *rest)


def with_context(value: Any, ctx: Any) -> bytes:
    return shown(value, ctx.topic, ctx.field, ctx.headers)


def with_optional_context(value: Any, ctx: Any = None) -> bytes:
    return with_context(value, ctx)


def with_named_context(value: Any, more: Any = None, *, ctx: Any = None) -> bytes:
    return with_context(value, ctx)


class Called:
    def __call__(self, value: Any, ctx: Any = None) -> bytes:
        return with_context(value, ctx)


ALONE = shown("x")
THREE = shown("x", "t", HEADERS)


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (one, ALONE),
        (lambda v: shown(v), ALONE),  # noqa: PLW0108
        (functools.partial(three, t=5, h=6), shown("x", 5, 6)),
        (functools.partial(three, "v", "t"), shown("v", "t", "x")),
        (one_and_optional, shown("x", None, None)),
        (three, THREE),
        (three_and_optional, shown("x", "t", HEADERS, None)),
        (any_number, THREE),
        (one_and_more, THREE),
        (functools.wraps(one)(lambda *arguments: one(*arguments)), ALONE),  # noqa: PLW0108
        (with_context, shown("x", "t", "value", HEADERS)),
        (with_optional_context, shown("x", "t", "value", HEADERS)),
        (with_named_context, shown("x", "t", "value", HEADERS)),
        (Called(), shown("x", "t", "value", HEADERS)),
        (json.dumps, b'"x"'),
        (str.encode, b"x"),
        (operator.methodcaller("encode", "utf-16-le"), b"x\0"),
        ("<{}>".format, b"<x>"),
    ],
)
def test_a_function_gets_the_arguments_that_it_requires(function: Callable[..., Any], expected: bytes) -> None:
    assert serialized(function, "x") == expected


@pytest.mark.parametrize(
    ("function", "data", "expected"),
    [
        (bytes.decode, b"x", "x"),
        (json.loads, b'{"a": 1}', {"a": 1}),
        (base64.b64decode, b"YQ==", b"a"),
        (struct.Struct(">i").unpack, b"\0\0\0\1", (1,)),
        (lambda data: data[:1], b"xy", b"x"),
        (lambda data, topic, headers: (topic, headers), b"x", ("t", HEADERS)),
        (lambda data, ctx: (ctx.topic, ctx.field, ctx.headers), b"x", ("t", "value", HEADERS)),
    ],
)
def test_a_deserializer_is_called_by_the_same_rules(function: Callable[..., Any], data: bytes, expected: Any) -> None:
    assert deserialized(function, data) == expected


def test_ctx_names_keys_and_values_and_takes_headers() -> None:
    def add(value: str, ctx: Any) -> str:
        ctx.headers.append((ctx.field, ctx.topic.encode()))
        return value

    options = {"bootstrap_servers": "h:1", "key_serializer": add, "value_serializer": add}
    found = Serializers.of(ProducerConfig.build(options))
    assert found is not None
    assert found.serialize("t", "v", "k", None) == (b"v", b"k", [("key", b"t"), ("value", b"t")])
    assert deserialized(lambda data, ctx: ctx.field, b"x", "key") == "key"
    assert repr(kafwire.serialization.SerializationContext("t", "key", [])) == (
        "SerializationContext(topic='t', field='key', headers=[])"
    )


class OfKafkaPython(ABC):
    """kafka-python's interface of serializers."""

    @abstractmethod
    def serialize(self, topic: str, headers: Any, data: Any) -> Any: ...


class Json(OfKafkaPython):
    def serialize(self, topic: str, headers: Any, data: Any) -> Any:
        return json.dumps(data)


class Renamed(OfKafkaPython):
    def serialize(self, t: Any, h: Any, d: Any) -> bytes:
        return shown(d, t, h)


class Passing(Json):
    def serialize(self, *arguments: Any) -> Any:
        return super().serialize(*arguments)


class Ours:
    def serialize(self, value: Any, _topic: Any, _headers: Any) -> bytes:
        return shown(value, _topic, _headers)


class Unnamed:
    def serialize(self, a: Any, b: Any, c: Any) -> bytes:
        return shown(a, b, c)


class Turned:
    def serialize(self, headers: Any, *, topic: Any, x: Any) -> bytes:
        return shown(x, topic, headers)


class HalfNamed:
    def serialize(self, topic: Any, h: Any, d: Any) -> bytes:
        return shown(d, topic, h)


class Alone:
    def serialize(self, value: Any) -> bytes:
        return shown(value)


class Optional:
    def serialize(self, value: Any, more: Any = 5, headers: Any = None) -> bytes:
        return shown(value, more, headers)


class OfContext:
    def serialize(self, obj: Any, ctx: Any) -> bytes:
        return with_context(obj, ctx)


class OfTopic:
    @staticmethod
    def serialize(topic: Any, value: Any) -> bytes:
        return shown(value, topic)


@pytest.mark.parametrize(
    ("spec", "expected"),
    [
        (Json(), b'"x"'),
        (Renamed(), THREE),
        (Passing(), b'"x"'),
        (Ours(), THREE),
        (Unnamed(), THREE),
        (Turned(), THREE),
        (HalfNamed(), THREE),
        (Alone(), ALONE),
        (Optional(), shown("x", 5, HEADERS)),
        (OfContext(), shown("x", "t", "value", HEADERS)),
        (OfTopic(), shown("x", "t")),
        (SimpleNamespace(serialize=one), ALONE),
        (SimpleNamespace(serialize="<{}>".format), b"<x>"),
    ],
    ids=lambda each: type(each).__name__,
)
def test_a_method_is_called_by_its_parameters_names(spec: Any, expected: bytes) -> None:
    assert serialized(spec, "x") == expected


class Pair:
    def serialize(self, a: Any, b: Any) -> bytes:
        raise AssertionError

    deserialize = serialize


class Four:
    def serialize(self, topic: Any, headers: Any, data: Any, more: Any) -> bytes:
        raise AssertionError

    deserialize = serialize


@pytest.mark.parametrize(
    "spec",
    [
        lambda: b"",
        lambda value, topic: b"",
        lambda a, b, c, d: b"",
        lambda value, *, topic: b"",
        lambda a, b, c, d, *rest: b"",
        lambda a, b, ctx: b"",
        lambda ctx: b"",
        lambda *, value: b"",
        Pair(),
        Four(),
        Json,
        5,
    ],
)
def test_a_serializer_that_cannot_be_called_is_refused_by_the_constructor(spec: Any) -> None:
    for client, option in (
        (kafwire.Producer, "key_serializer"),
        (kafwire.AsyncProducer, "value_serializer"),
        (functools.partial(kafwire.Consumer, topics="t"), "value_deserializer"),
        (functools.partial(kafwire.AsyncConsumer, topics="t"), "key_deserializer"),
        (functools.partial(kafwire.scan, topics="t"), "key_deserializer"),
    ):
        with pytest.raises(ConfigError, match=f"option {option}=.*(it takes|allowed)"):
            client("127.0.0.1:1", **{option: spec})


def test_the_refusal_shows_the_parameters_and_for_a_class_those_of_its_objects() -> None:
    with pytest.raises(ConfigError, match=r"it takes \(value, topic\), and is called as one of \(value\), \(value, t"):
        serialized(lambda value, topic: b"", "x")
    with pytest.raises(ConfigError, match=r"it takes \(a, b\), and is called as one of serialize\(data, topic, head"):
        serialized(Pair(), "x")
    with pytest.raises(ConfigError, match=r"; an object of the class, Json\(\), is one"):
        serialized(Json, "x")


def test_text_is_sent_as_utf_8() -> None:
    assert serialized(lambda v: v, "grün") == "grün".encode()
    assert serialized(lambda v: v, "grün", "key") == "grün".encode()
    with pytest.raises(SerializationError, match="UnicodeEncodeError"):
        serialized(lambda v: v, "\ud800")
