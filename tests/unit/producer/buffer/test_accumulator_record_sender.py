"""`RecordSender`: what `send` does itself, and what it leaves to the producer."""

from __future__ import annotations

import gc
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.producer.buffer._accumulator import RecordSender
from kafwire.producer.buffer._batch import Delivery
from kafwire.records import decode_batches
from kafwire.sync.producer import Producer
from tests.support.accumulator_store import Store


class Sender(RecordSender):
    """A producer whose broker takes everything at once when there is no room."""

    def __init__(self, store: Store) -> None:
        self._accumulator = store.accumulator
        self.store = store
        self.later: list[tuple[Any, ...]] = []

    def _send_later(self, *record: Any) -> Delivery | None:
        self.later.append(record)
        self.store.deliver()
        return self._accumulator.append(*record)

    def _refusal(self, *arguments: Any) -> ConfigError:
        return ConfigError(f"refused: {arguments[-1]}")


@pytest.fixture
def store() -> Store:
    return Store(1, buffer_memory=900)


def test_headers_from_an_iterator_come_along_when_there_is_no_room_at_first(store: Store) -> None:
    sender = Sender(store)
    while not sender.later:
        sender.send("t", b"v" * 100, headers=iter([("a", b"1"), ("b", None)]))
    store.deliver()
    records = [record for _, data in store.batches for batch in decode_batches(data) for record in batch]
    assert len(records) > 1
    assert [record.headers for record in records] == [[("a", b"1"), ("b", None)]] * len(records)


def test_an_unknown_topic_is_left_to_the_producer(store: Store) -> None:
    sender = Sender(store)
    assert sender.send("other", b"v") is None
    assert sender.later == [("other", b"v", None, None, None, None)]


@pytest.mark.parametrize(
    "arguments",
    [{"topic": b"t"}, {"topic": 1}, {"partition": "x"}, {"timestamp_ms": 2**64}, {"timestamp_ms": "1"}, {"headers": 1}],
)
def test_arguments_of_no_use_are_refused_by_the_producer(store: Store, arguments: dict[str, Any]) -> None:
    sender = Sender(store)
    with pytest.raises(ConfigError, match="^refused: "):
        sender.send(**{"topic": "t", "value": b"v", **arguments})
    assert not sender.later
    assert sender.send("t", b"v").done() is False
    assert store.deliver() == 1


def test_an_uninitialised_producer_is_an_error() -> None:
    with pytest.raises(AttributeError, match="this producer was not initialised"):
        RecordSender().send("t", b"v")
    with pytest.raises(AttributeError, match="this producer was not initialised"):
        Producer.__new__(Producer).send("t", b"v")


def test_the_producer_has_its_signature_and_its_words() -> None:
    assert Producer.send is RecordSender.send
    assert "max_block_ms" in (Producer.send.__doc__ or "")


def test_deliveries_are_nothing_to_a_collection_of_garbage(store: Store) -> None:
    delivery = Sender(store).send("t", b"v")
    assert not gc.is_tracked(delivery)
