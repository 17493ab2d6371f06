"""Formats, delimiters and -o of `kafwire consume`: from the typed text to its meaning."""

import click
import pytest

from kafwire.cli.consume_source import Window, parse_window
from kafwire.cli.template import json_parts, parse_format, plain_parts, unescape


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", b""),
        (r"\n\r\t", b"\n\r\t"),
        (r"\x41\x4a!\x7", b"AJ!\x07"),
        (r"\x414", b"A4"),
        (r"\0", b"\0"),
        (r"\065\65", b"5A"),
        (r"\255\03777\08", b"\xff\xff7\x008"),
        (r"\%\\n\q", b"%\\nq"),
        ("\\", b"\\"),
        ("é\udcff", b"\xc3\xa9\xff"),
        ("a\\\nb", b"a\nb"),
    ],
)
def test_escapes(text: str, expected: bytes) -> None:
    assert unescape(text) == expected


@pytest.mark.parametrize("text", [r"\256", r"\999", r"\0400", r"\xg", r"a\x"])
def test_wrong_escapes(text: str) -> None:
    with pytest.raises(click.UsageError, match=r"needs one or two hex digits|is not a byte"):
        unescape(text)


def test_every_token() -> None:
    parts = parse_format(r"%s%S%R%k%K%T%h%t%p%o%%", "auto")
    assert parts == [
        ("value", "raw"),
        ("value", "size"),
        ("value", "size_binary"),
        ("key", "raw"),
        ("key", "size"),
        ("timestamp", "raw"),
        ("headers", "raw"),
        ("topic", "raw"),
        ("partition", "raw"),
        ("offset", "raw"),
        b"%",
    ]


def test_text_between_tokens() -> None:
    assert parse_format(r"%%s [%p]\t%%%s%%n\n", "hex") == [
        b"%s [",
        ("partition", "raw"),
        b"]\t%",
        ("value", "hex"),
        b"%n\n",
    ]
    assert parse_format("", "auto") == []
    assert parse_format("plain", "auto") == [b"plain"]


@pytest.mark.parametrize(("text", "reason"), [("%x", "there is no %x"), ("100%", "nothing follows the last %")])
def test_wrong_formats(text: str, reason: str) -> None:
    with pytest.raises(click.UsageError, match=f"{reason}; known: %s .* %%"):
        parse_format(text, "auto")


def test_without_a_format() -> None:
    assert plain_parts("\\n", None, "auto") == [("value", "raw"), b"\n"]
    assert plain_parts("%s", r"\x3a", "base64") == [("key", "base64"), b":", ("value", "base64"), b"%s"]
    assert plain_parts("", None, "auto", with_offset=True)[:2] == [("offset", "raw"), b"\t"]
    assert plain_parts("", ":", "auto", with_offset=True)[:4] == [("offset", "raw"), b":", ("key", "raw"), b":"]


@pytest.mark.parametrize(("form", "named"), [("auto", "json"), ("hex", "json_hex"), ("base64", "json_base64")])
def test_json(form: str, named: str) -> None:
    parts = json_parts(r"\0", form)
    assert {part for part in parts if isinstance(part, tuple)} >= {("key", named), ("value", named), ("headers", named)}
    assert parts[-1] == b"}\0"


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ([], Window()),
        (["beginning"], Window("earliest")),
        (["earliest"], Window("earliest")),
        (["end"], Window("latest")),
        (["stored"], Window("stored")),
        (["17"], Window(17)),
        (["0"], Window(0)),
        (["-5"], Window(-5)),
        (["-0"], Window("latest")),
        (["s@1700000000000"], Window(None, 1700000000000)),
        (["e@5", "s@3"], Window(None, 3, 5)),
        (["-5", "e@5"], Window(-5, None, 5)),
        (["s@2026-01-31T12:00:00Z"], Window(None, 1769860800000)),
        (["s@2026-01-31T13:00:00.5+01:00"], Window(None, 1769860800500)),
    ],
)
def test_where_to_read(given: list[str], expected: Window) -> None:
    assert parse_window(given) == expected


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (["ende"], "expected beginning, end, stored"),
        (["1.5"], "expected beginning"),
        (["s@"], "expected milliseconds since the epoch"),
        (["s@-5"], "expected milliseconds since the epoch"),
        (["e@yesterday"], "expected milliseconds since the epoch"),
        (["s@2026-01-31T12:00:00"], "has no zone"),
        (["1", "2"], "two start positions"),
        (["s@1", "end"], "two start positions"),
        (["e@1", "e@2"], "given twice"),
    ],
)
def test_nowhere(given: list[str], reason: str) -> None:
    with pytest.raises(click.UsageError, match=reason):
        parse_window(given)
