"""Copies of public objects: values keep every field through pickle and copy; what owns connections refuses both."""

from __future__ import annotations

import copy
import dataclasses
import pickle
from collections.abc import Callable
from typing import Any, is_typeddict

import pytest

import kafwire
import kafwire.stream
from kafwire import KafkaError, Producer
from kafwire.handles import refuse_copy
from kafwire.outbox import Outbox

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
PUBLIC: set[type] = {
    each
    for module in (kafwire, kafwire.stream)
    for name in module.__all__
    if isinstance(each := getattr(module, name), type) and not issubclass(each, BaseException)
}
HANDLES: set[type] = {each for each in (*PUBLIC, Outbox) if getattr(each, "__reduce_ex__", None) is refuse_copy}
# Their own tests copy these, or see that their pickles are refused: they have secrets, or memory of the engine.
ELSEWHERE = {
    kafwire.Batch, kafwire.CommittedOffset, kafwire.DelegationToken, kafwire.OAuthToken, kafwire.Record,
    kafwire.RecordBatch, kafwire.Secret, kafwire.ShareBatch,
}  # fmt: skip
# The state of a test or of one stream, without fields of its own to lose.
STATE = {
    kafwire.stream.ConsumerSource, kafwire.stream.FunctionSink, kafwire.stream.MemoryPartition,
    kafwire.stream.MemorySink, kafwire.stream.MemorySource, kafwire.stream.StreamMonitor, kafwire.stream.TopicSink,
}  # fmt: skip
VALUES: set[type] = {
    each
    for each in PUBLIC - ELSEWHERE
    if dataclasses.is_dataclass(each) or (issubclass(each, tuple) and hasattr(each, "_fields"))
}


def name_of(kind: Any) -> str:
    return str(kind.__name__)


def made(kind: Any) -> Any:
    """A value with another content in every field."""
    if kind in {kafwire.Offset, kafwire.Tail}:
        return kind(7)
    if kind is kafwire.stream.Pipeline:
        return kind().commit(every=7, within=2.0).limits(max_in_flight=5)
    if not dataclasses.is_dataclass(kind):
        return kind(*(f"{name}-value" for name in kind._fields))
    value = object.__new__(kind)  # type: ignore[arg-type]
    for field in dataclasses.fields(kind):
        object.__setattr__(value, field.name, f"{field.name}-value")
    return value


def fields_of(value: Any) -> dict[str, Any]:
    names = [each.name for each in dataclasses.fields(value)] if dataclasses.is_dataclass(value) else value._fields
    return {name: getattr(value, name) for name in names}


@pytest.mark.parametrize("kind", sorted(VALUES, key=name_of), ids=name_of)
@pytest.mark.parametrize("way", COPIES)
def test_a_copy_of_a_value_has_every_field(kind: type, way: str) -> None:
    value = made(kind)
    again = COPIES[way](value)
    assert type(again) is kind
    assert fields_of(again) == fields_of(value)
    assert fields_of(value)


@pytest.mark.parametrize("kind", sorted(HANDLES, key=name_of), ids=name_of)
def test_what_owns_connections_refuses_copies(kind: type) -> None:
    class Like:
        __reduce_ex__ = kind.__reduce_ex__

    for way in COPIES.values():
        with pytest.raises(TypeError, match="Like objects cannot be copied or pickled"):
            way(Like())


def test_a_copy_does_not_close_a_producer() -> None:
    """A shallow copy shared the connections, and its end closed them."""
    with Producer("127.0.0.1:1", max_block_ms=1) as producer:
        for way in COPIES.values():
            with pytest.raises(TypeError, match="Producer objects cannot be copied or pickled"):
                way(producer)
        with pytest.raises(KafkaError, match="within") as caught:
            producer.send("t", b"x")
        assert "closed" not in str(caught.value)


def test_every_public_class_is_tried() -> None:
    other = {each for each in PUBLIC if is_typeddict(each) or getattr(each, "_is_protocol", False)}
    names = {each.__name__ for each in PUBLIC - HANDLES - VALUES - ELSEWHERE - STATE - other}
    assert names == set()
