"""Refused rows as records, and where they go."""

from __future__ import annotations

import pytest

from kafwire.errors import ConfigError, RecordTooLargeError
from kafwire.outbox import dead_letters
from kafwire.outbox.dead_letters import DeadLetters, letter_of, reason_of
from kafwire.outbox.rows import HEADERS, OutboxRow, read_row
from kafwire.stream import failed_record

ROW = OutboxRow(7, "orders", b"17", b"ordered", (("type", b"order"),), 1)
ERROR = RecordTooLargeError("too much")


def test_a_letter_is_the_record_with_its_topic_and_the_reason() -> None:
    letter = letter_of(ROW, ERROR)
    assert letter[:4] == ROW[:4]
    assert dict(letter.headers) == {
        "type": b"order",
        "kafwire.origin.topic": b"orders",
        "kafwire.outbox.id": b"7",
        "kafwire.error.class": b"kafwire.errors.RecordTooLargeError",
        "kafwire.error.message": b"MESSAGE_TOO_LARGE (10): too much",
    }
    assert letter_of(letter, ERROR) == letter, "headers of a letter are not there twice"


def test_headers_are_named_as_those_of_streams_are() -> None:
    for name in ("ORIGIN_TOPIC", "ERROR_CLASS", "ERROR_MESSAGE"):
        assert getattr(dead_letters, name) == getattr(failed_record, name)


def test_a_row_without_a_record_keeps_its_columns() -> None:
    row = read_row((7, "orders", 17, {"a": [1]}, "{broken", "2026-01-01"))
    assert row.problem is not None
    letter = letter_of(row, row.problem)
    assert (letter.key, letter.value, dict(letter.headers)[HEADERS]) == (b"17", b'{"a": [1]}', b"{broken")
    assert letter.problem is None


def test_reasons_are_short_and_plain() -> None:
    assert len(reason_of(ConfigError("x" * 5000))) == 1000
    assert reason_of(ConfigError("a\0b\ud800")) == "a\\x00b\\ud800"


def test_a_row_goes_to_one_place() -> None:
    DeadLetters(None, None).check("outbox")
    DeadLetters("letters", None).check("outbox")
    with pytest.raises(ConfigError, match="only one of them can be set"):
        DeadLetters("letters", "letters").check("outbox")
    with pytest.raises(ConfigError, match="the outbox itself"):
        DeadLetters("Outbox", None).check("outbox")
