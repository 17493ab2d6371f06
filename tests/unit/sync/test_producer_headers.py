"""Header values as text, by every call that sends: they are UTF-8 in the log."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from kafwire.errors import ConfigError
from kafwire.records import Record, decode_batches, encode_batch
from kafwire.stream import Message
from tests.support.simulated.consumer import log_of
from tests.support.simulated.flavours import Flavour

TEXT: list[tuple[str, bytes | str | None]] = [("a", "grün"), ("b", b"\xff"), ("c", None), ("d", "")]
STORED = [("a", "grün".encode()), ("b", b"\xff"), ("c", None), ("d", b"")]


@pytest.fixture
def flavour(flavour: Flavour) -> Flavour:
    flavour.world.create_topic("t")
    return flavour


def stored(flavour: Flavour) -> list[list[tuple[str, bytes | None]]]:
    return [
        record.headers
        for each in log_of(flavour.world).batches
        for batch in decode_batches(each.data)
        for record in batch
    ]


@pytest.mark.parametrize(
    "options", [{}, {"value_serializer": bytes}, {"value_serializer": lambda v: v}], ids=["bare", "class", "function"]
)
@pytest.mark.parametrize("make", [list, tuple, iter, dict], ids=["list", "tuple", "iterator", "dict"])
def test_send(flavour: Flavour, make: Any, options: dict[str, Any]) -> None:
    producer = flavour.producer(**options)
    for _ in range(2):  # the first one is of a topic that is not known
        flavour.get(producer.send("t", b"v", headers=make(TEXT)))
    flavour.get(producer.flush())
    assert stored(flavour) == [STORED] * 2


def test_serializers_see_bytes_and_may_add_text(flavour: Flavour) -> None:
    seen: list[Any] = []

    def serialize(value: str, topic: str, headers: Any) -> str:
        seen.append(list(headers))
        headers.append(("topic", topic))
        return value

    producer = flavour.producer(value_serializer=serialize)
    flavour.get(producer.send("t", "v", headers=TEXT))
    flavour.get(producer.flush())
    assert seen == [STORED]
    assert stored(flavour) == [[*STORED, ("topic", b"t")]]


@pytest.mark.parametrize(
    "kind",
    [
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.string())])),
        pa.list_(pa.struct([("key", pa.string()), ("value", pa.large_string())])),
        pa.map_(pa.string(), pa.string()),
    ],
    ids=str,
)
def test_send_batch(flavour: Flavour, kind: pa.DataType) -> None:
    pairs = [("a", "grün"), ("c", None)]
    rows: Any = [pairs if pa.types.is_map(kind) else [{"key": key, "value": value} for key, value in pairs], None]
    producer = flavour.producer()
    flavour.get(producer.send("t", b"v"))
    flavour.get(producer.send_batch("t", pa.table({"value": [b"v", b"w"], "headers": pa.array(rows, kind)})))
    flavour.get(producer.flush())
    assert stored(flavour) == [[], [("a", "grün".encode()), ("c", None)], []]


@pytest.mark.parametrize("options", [{}, {"value_serializer": str}], ids=str)
@pytest.mark.parametrize(
    ("value", "message"),
    [(5, "a header value must be bytes, str or None, not int"), ("\ud800", "a header value is not Unicode text")],
)
def test_a_header_that_is_no_value_is_refused_and_nothing_is_sent(
    flavour: Flavour, value: Any, message: str, options: dict[str, Any]
) -> None:
    producer = flavour.producer(**options)
    for _ in range(2):
        with pytest.raises(ConfigError, match=message):
            flavour.get(producer.send("t", "v" if options else b"v", headers=[("a", "x"), ("b", value)]))
    flavour.get(producer.flush())
    assert stored(flavour) == []


def test_encode_batch_and_messages() -> None:
    assert Record(b"v", headers=TEXT).headers == STORED
    records: list[Any] = [Record(b"v", headers=TEXT), {"value": b"v", "headers": TEXT}, (None, b"v", None, TEXT)]
    for record in records:
        assert decode_batches(encode_batch([record]))[0][0].headers == STORED
    assert Message(b"v", headers=TEXT).headers == TEXT
