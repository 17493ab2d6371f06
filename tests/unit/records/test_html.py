"""The table of records that notebooks show."""

from __future__ import annotations

import re

import pytest

from kafwire.records import Record, decode_batches, encode_batch
from kafwire.records.html import CELL, ROWS, html_table


def cells(record: Record) -> list[str]:
    return re.findall("<td>(.*?)</td>", html_table("records", [record], 1), re.DOTALL)


def test_a_batch_shows_its_first_records_and_counts_the_rest() -> None:
    (batch,) = decode_batches(encode_batch([b"%d" % number for number in range(ROWS + 5)]))
    shown = batch._repr_html_()
    assert re.findall("<td>([0-9]+)</td><td>[^<]*</td><td>None</td><td>([0-9]+)</td>", shown) == [
        (str(number), str(number)) for number in range(ROWS)
    ]
    assert shown.count("more</td>") == shown.count('">5 more</td>') == 1


def test_a_small_batch_is_shown_whole() -> None:
    (batch,) = decode_batches(encode_batch([b"EWR-IAH"]))
    assert "more" not in batch._repr_html_()


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "None"),
        (b"", ""),
        (b"<script>&", "&lt;script&gt;&amp;"),
        ("Zürich".encode(), "Zürich"),
        (b"\xff\x00", "b&#x27;\\xff\\x00&#x27;"),
        (b"x" * CELL, "x" * CELL),
        (b"x" * (CELL + 1), "x" * CELL + "..."),
        ("€".encode() * 10_000, "€" * CELL + "..."),
        (b"x" + "\U0001f600".encode() * 10_000, "x" + "\U0001f600" * (CELL - 1) + "..."),
    ],
)
def test_a_value_is_escaped_and_bounded(value: bytes | None, text: str) -> None:
    assert cells(Record(value))[3] == text
    assert cells(Record(b"", value))[2] == text


def test_headers_are_escaped_and_bounded() -> None:
    assert cells(Record(b"", headers=[("<a>", b"<b>"), ("none", None)]))[4] == "&lt;a&gt;: &lt;b&gt;, none: None"
    assert cells(Record(b"", headers=[("a" * 1000, b"")]))[4] == "a" * CELL + "..."
    assert cells(Record(b"", headers=[("\udcff", b"")]))[4] == "b&#x27;\\xff&#x27;: ", "a name that is not UTF-8"


@pytest.mark.parametrize(
    ("ms", "text"),
    [(None, "None"), (0, "1970-01-01 00:00:00.000+00:00"), (1 << 62, str(1 << 62))],
)
def test_a_timestamp_is_in_utc(ms: int | None, text: str) -> None:
    assert cells(Record(b"", timestamp_ms=ms))[1] == text


def test_the_caption_is_escaped() -> None:
    assert "<caption>&lt;kafwire Batch" in html_table("<kafwire Batch", [], 0)
