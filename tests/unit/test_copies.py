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
import kafwire.testing.faults
from kafwire import KafkaError, Producer
from kafwire.consumer.delivery.arrow_stream import ArrowStream
from kafwire.handles import refuse_copies
from kafwire.outbox import Outbox
from kafwire.records._records import RecordIterator
from kafwire.testing import EmbeddedKafka

COPIES: dict[str, Callable[[Any], Any]] = {
    "pickle": lambda value: pickle.loads(pickle.dumps(value)),
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
}
PUBLIC: set[type] = {
    each
    for module in (kafwire, kafwire.stream, kafwire.testing, kafwire.testing.faults)
    for name in module.__all__
    if isinstance(each := getattr(module, name), type) and not issubclass(each, BaseException)
}
HANDLES: set[type] = {
    each
    for each in (*PUBLIC, ArrowStream, Outbox, RecordIterator)
    if getattr(each.__reduce_ex__, "__qualname__", "").startswith(refuse_copies.__name__)
}
# Their own tests copy these, or see that their pickles are refused: they have secrets, or memory of the engine.
ELSEWHERE = {
    kafwire.Avro, kafwire.CommittedOffset, kafwire.DelegationToken, kafwire.Json, kafwire.JsonSchema,
    kafwire.OAuthToken, kafwire.Protobuf, kafwire.Record, kafwire.SchemaRegistry, kafwire.Secret, kafwire.Text,
}  # fmt: skip
# The state of a test or of one stream, without fields of its own to lose.
STATE = {
    kafwire.stream.ConsumerSource, kafwire.stream.FunctionSink, kafwire.stream.MemoryPartition,
    kafwire.stream.MemorySink, kafwire.stream.MemorySource, kafwire.stream.StreamMonitor, kafwire.stream.TopicSink,
    kafwire.testing.faults.Fault, kafwire.testing.faults.Reset,
}  # fmt: skip
VALUES: set[type] = {
    each
    for each in PUBLIC - ELSEWHERE - STATE
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
def test_owners_of_connections_refuse_copies(kind: type) -> None:
    class Like:
        __reduce_ex__ = kind.__reduce_ex__

    for way in COPIES.values():
        with pytest.raises(TypeError, match="Like objects cannot be copied or pickled"):
            way(Like())


@pytest.mark.parametrize("kind", [kafwire.Producer, kafwire.AsyncProducer], ids=name_of)
def test_a_refusal_names_the_class_that_was_called_and_is_one_sentence(kind: Any) -> None:
    class Mine(kind):  # type: ignore[misc]
        """One of a user."""

    for each in (kind, Mine):
        producer = each("127.0.0.1:1", value_serializer="json")
        with pytest.raises(TypeError) as caught:
            pickle.dumps(producer.send)
        said = f"{each.__name__} objects cannot be copied or pickled: they own connections or threads; make one in"
        assert str(caught.value).startswith(said)
        assert "\n" not in str(caught.value)
        assert ". " not in str(caught.value)


def test_a_refusal_names_the_value_to_hand_over() -> None:
    (batch,) = kafwire.records.decode_batches(kafwire.records.encode_batch([b"v"]))
    for way in COPIES.values():
        with pytest.raises(TypeError, match="RecordBatch objects .* hand over a list of their records, or to_arrow"):
            way(batch)
        with pytest.raises(TypeError, match="RecordIterator objects .* hand over a list of their records"):
            way(iter(batch))
        with pytest.raises(TypeError, match="EmbeddedKafka objects .* hand over `bootstrap`"):
            way(EmbeddedKafka.__new__(EmbeddedKafka))
    assert pickle.loads(pickle.dumps(list(batch))) == list(batch)


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
