"""Dead letters that are read again: their headers, filters, receipts, and the record that goes back."""

from __future__ import annotations

import random
from typing import Any

import pytest

from kafwire.records import Record
from kafwire.stream import Message
from kafwire.stream.dead_letters import SENT, Letter, LetterFilter, SentLetters, letter_of, receipts
from kafwire.stream.failed_record import failed
from tests.support import seeds


def as_record(message: Message, offset: int, partition: int = 0) -> Record:
    where: dict[str, Any] = {"topic": "dead", "partition": partition, "offset": offset, "timestamp_ms": 1000 + offset}
    return Record(message.value, message.key, headers=message.headers, **where)


def letter(offset: int = 7, error: Exception | None = None) -> Letter:
    where: dict[str, Any] = {"topic": "orders", "partition": 2, "offset": offset, "timestamp_ms": 99}
    first = Record(b"2 books", b"ann", headers=[("source", b"web")], **where)
    message = failed(first, error or ValueError("no"), 3, "dead", step="map(charge)")
    found = letter_of(as_record(message, offset + 100))
    assert found is not None
    return found


def test_a_letter_says_where_it_comes_from_and_why() -> None:
    found = letter()
    assert (found.topic, found.partition, found.offset) == ("orders", 2, 7)
    assert (found.error, found.message, found.step, found.attempts) == ("ValueError", "no", "map(charge)", 3)
    assert found.where == ("dead", 0)


def test_other_records_are_no_letters() -> None:
    others: tuple[list[tuple[str, bytes | None]], ...] = (
        [],
        [("kafwire.origin.topic", None)],
        [("kafwire.error.class", b"ValueError")],
    )
    for headers in others:
        assert letter_of(as_record(Message(b"", None, headers), 1)) is None
    strange = [("kafwire.origin.topic", b"orders"), ("kafwire.origin.offset", b"x"), ("kafwire.attempts", b"\xb2")]
    found = letter_of(as_record(Message(b"", None, strange), 1))
    assert found is not None
    assert (found.partition, found.offset, found.attempts) == (None, None, None)


def test_a_letter_that_goes_back_is_the_record_with_its_origin() -> None:
    back = letter().sent_back(partitions=range(3))
    assert (back.topic, back.partition, back.key, back.value, back.as_bytes) == ("orders", 2, b"ann", b"2 books", True)
    assert dict(back.headers) == {
        "source": b"web",
        "kafwire.origin.topic": b"orders",
        "kafwire.origin.partition": b"2",
        "kafwire.origin.offset": b"7",
        "kafwire.origin.timestamp_ms": b"99",
    }
    assert letter().sent_back(partitions=range(2)).partition is None, "the topic has fewer partitions now"
    assert letter().sent_back("orders.fixed", range(3)).topic == "orders.fixed"


class CardError(Exception):
    """An error with a module."""


@pytest.mark.parametrize(
    ("chosen", "takes"),
    [
        ({}, True),
        ({"errors": {"CardError"}}, True),
        ({"errors": {f"{__name__}.CardError", "ValueError"}}, True),
        ({"errors": {"Card"}}, False),
        ({"steps": {"charge"}}, True),
        ({"steps": {"for_each"}}, False),
        ({"topic": "orders"}, True),
        ({"topic": "order"}, False),
        ({"partitions": {2}}, True),
        ({"partitions": {1}}, False),
        ({"keys": {b"bob", b"ann"}}, True),
        ({"keys": {b"bob"}}, False),
        ({"since_ms": 1107, "until_ms": 1108}, True),
        ({"since_ms": 1108}, False),
        ({"until_ms": 1107}, False),
        ({"errors": {"CardError"}, "partitions": {1}}, False),
    ],
)
def test_filters(chosen: dict[str, Any], takes: bool) -> None:
    given: dict[str, Any] = {name: frozenset(one) if isinstance(one, set) else one for name, one in chosen.items()}
    assert LetterFilter(**given).takes(letter(error=CardError("no"))) is takes


@seeds.several(20)
def test_receipts_say_which_letters_were_sent(seed: int) -> None:
    rng = random.Random(seed)
    sent, known = SentLetters(), set()
    for _ in range(5):
        chosen = {rng.randrange(200) for _ in range(rng.randrange(1, 60))}
        chunk = [letter(offset - 100) for offset in chosen]
        for one in receipts(chunk):
            assert (one.topic, one.partition, one.value) == ("dead", 0, None)
            assert sent.note(as_record(one, 1000))
        known |= chosen
        assert {offset for offset in range(250) if sent.has(letter(offset - 100))} == known


def test_a_receipt_names_runs_and_a_strange_one_nothing() -> None:
    (receipt,) = receipts([letter(one) for one in (1, 2, 3, 5, 9, 10)])
    assert dict(receipt.headers) == {SENT: b"101-103,105,109-110"}
    sent = SentLetters()
    for text in (b"", b"x", b"9-1", b"-", b"1-x", None):
        assert sent.note(as_record(Message(None, b"k", [(SENT, text or b"")]), 0))
    assert not any(sent.has(letter(one)) for one in range(20))
    assert not sent.note(as_record(Message(b"2 books"), 0))
