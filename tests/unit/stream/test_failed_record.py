"""Failed records: what they were, and headers."""

from __future__ import annotations

from kafwire.records import Record
from kafwire.stream.failed_record import due_ms, failed
from kafwire.stream.message import Message, message_of

RECORD = Record(
    b"2 books", b"order 7", headers=[("source", b"web")], offset=12, topic="orders", partition=3, timestamp_ms=99
)


class PaymentError(Exception):
    """An error of a user's program."""


def as_record(message: Message, offset: int) -> Record:
    """The message as it is read."""
    return Record(
        message.value,
        message.key,
        headers=message.headers,
        topic=message.topic,
        partition=0,
        offset=offset,
        timestamp_ms=500,
    )


def test_a_dead_letter_is_the_record_with_its_error_and_origin() -> None:
    letter = failed(RECORD, PaymentError("no card"), 3, "dead", step="map(charge)")
    assert (letter.value, letter.key, letter.topic, letter.partition) == (b"2 books", b"order 7", "dead", None)
    assert letter.timestamp_ms is None, "it is retained by the time of its own writing"
    assert dict(letter.headers) == {
        "source": b"web",
        "kafwire.origin.topic": b"orders",
        "kafwire.origin.partition": b"3",
        "kafwire.origin.offset": b"12",
        "kafwire.origin.timestamp_ms": b"99",
        "kafwire.error.class": f"{__name__}.PaymentError".encode(),
        "kafwire.error.message": b"no card",
        "kafwire.error.step": b"map(charge)",
        "kafwire.attempts": b"3",
    }


def test_the_first_origin_stays_and_attempts_add_up() -> None:
    again = as_record(failed(RECORD, PaymentError("no card"), 3, "retry", due_ms=1000), 5)
    assert due_ms(again) == 1000
    letter = failed(again, ValueError("bad"), 2, "dead")
    headers = dict(letter.headers)
    assert len(headers) == len(letter.headers), "a header comes once"
    assert headers["kafwire.origin.topic"] == b"orders"
    assert headers["kafwire.origin.offset"] == b"12"
    assert headers["kafwire.origin.timestamp_ms"] == b"99"
    assert headers["kafwire.error.class"] == b"ValueError"
    assert headers["kafwire.attempts"] == b"5"
    assert "kafwire.due_ms" not in headers


def test_a_record_without_a_time_gets_none_by_a_retry() -> None:
    record = Record(b"", topic="orders", partition=0, offset=1)
    again = as_record(failed(record, ValueError(""), 1, "retry", due_ms=1), 0)
    assert "kafwire.origin.timestamp_ms" not in dict(failed(again, ValueError(""), 1, "dead").headers)


def test_long_texts_are_cut() -> None:
    letter = failed(RECORD, ValueError("x" * 5000), 1, "dead")
    assert dict(letter.headers)["kafwire.error.message"] == b"x" * 1000


def test_headers_of_others_are_no_numbers() -> None:
    strange = Record(b"", headers=[("kafwire.due_ms", b"soon"), ("kafwire.attempts", None)])
    assert due_ms(strange) == 0
    assert due_ms(Record(b"", headers=[("kafwire.due_ms", b"9" * 400)])) == 0, "no clock has such a time"
    assert dict(failed(strange, ValueError(""), 1, "dead").headers)["kafwire.attempts"] == b"1"


def test_messages_of_values() -> None:
    message = message_of(RECORD)
    assert message == Message(b"2 books", b"order 7", [("source", b"web")], timestamp_ms=99)
    assert message_of(message) is message
    assert message_of("text") == Message("text")
