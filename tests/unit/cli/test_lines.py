"""`cli.lines`, `cli.record_text`, `cli.delivery_tracker`: from bytes to records, and what became of them."""

from __future__ import annotations

import io
import os
import random
from collections.abc import Iterator
from typing import Any

import click
import pytest

from kafwire.cli.delivery_tracker import DeliveryTracker
from kafwire.cli.lines import Piece, TooLong, pieces, sizes
from kafwire.cli.record_text import Form, parse_header
from kafwire.errors import KafkaError
from tests.support import seeds


class Dribble(io.BytesIO):
    """A stream that gives its data in portions of the given sizes."""

    def __init__(self, data: bytes, portions: Iterator[int]) -> None:
        super().__init__(data)
        self._portions = portions

    def read1(self, size: int | None = -1) -> bytes:
        del size
        return super().read1(next(self._portions))


def lines_of(data: bytes, delimiter: bytes, limit: int, portions: Iterator[int]) -> dict[int, bytes | None]:
    """The lines by number; None for a line that is too long."""
    found: dict[int, bytes | None] = {}
    for piece in pieces(Dribble(data, portions), delimiter, limit):
        if isinstance(piece, TooLong):
            assert piece.number not in found
            found[piece.number] = None
        else:
            assert piece is not None
            assert piece.end <= len(data)
            for number, line in enumerate(piece.data.split(delimiter), piece.number):
                assert number not in found
                found[number] = line
    return found


@pytest.mark.parametrize("delimiter", [b"\n", b"\r\n", b"aab", b"\0"])
def test_lines_however_they_arrive(delimiter: bytes) -> None:
    """Delimiters cut in two, empty lines, no end of the last line, and lines that no record can hold."""
    chance = random.Random(seeds.of_test())
    for _ in range(300):
        lines = [
            bytes(chance.choices(b"abcde\r", k=chance.choice([0, 1, 3, 10, 60]))) for _ in range(chance.randrange(9))
        ]
        data = delimiter.join(lines)
        lines = data.split(delimiter)  # what was drawn may hold delimiters
        if lines[-1] == b"":
            lines.pop()
        portions = iter(lambda: chance.choice([1, 2, 5, 100]), 0)
        found = lines_of(data, delimiter, 50, portions)
        assert sorted(found) == list(range(1, len(lines) + 1))
        for number, line in found.items():
            if line is None:
                assert len(lines[number - 1]) > 50 - len(delimiter)
            else:
                assert line == lines[number - 1]


def test_a_delimiter_that_comes_byte_by_byte_ends_a_line_that_is_too_long() -> None:
    source = Dribble(b"x" * 100 + b"aab" + b"y", iter(lambda: 1, 0))
    found = [piece for piece in pieces(source, b"aab", 50) if piece is not None]
    assert found == [TooLong(1), Piece(2, b"y", 104)]


def test_a_line_without_end_takes_no_memory() -> None:
    portions = iter(lambda: 1000, 0)
    source = Dribble(b"a\n" + b"x" * 1_000_000 + b"\nb", portions)
    kept = [piece for piece in pieces(source, b"\n", 5000) if piece is not None]
    assert [type(piece) for piece in kept] == [Piece, TooLong, Piece]
    assert all(len(piece.data) < 2000 for piece in kept if isinstance(piece, Piece))


def test_a_pipe_that_is_silent() -> None:
    reads, writes = os.pipe()
    with open(reads, "rb") as file:  # noqa: PTH123
        source = pieces(file, b"\n", 100)
        assert next(source) is None
        os.write(writes, b"a\nb")
        assert next(source) == Piece(1, b"a", 3)
        os.close(writes)
        assert list(source) == [Piece(2, b"b", 3)]


def test_sizes(tmp_path: Any) -> None:
    for name, size in (("a", 3), ("b", 4)):
        (tmp_path / name).write_bytes(bytes(size))
    assert sizes((f"{tmp_path}/a", f"{tmp_path}/b")) == 7
    assert sizes((f"{tmp_path}/a", "-")) is None
    assert sizes((f"{tmp_path}/a", "/dev/null")) is None


KEYED = Form(key_delimiter=b":")
HEADED = Form(headers_delimiter=b"\t", key_delimiter=b":")


@pytest.mark.parametrize(
    ("form", "line", "expected"),
    [
        (Form(), b"a:b", (b"a:b", None, [])),
        (Form(key=b"k", headers=[("h", b"1")]), b"v", (b"v", b"k", [("h", b"1")])),
        (KEYED, b"a:b", (b"b", b"a", [])),
        (KEYED, b"a:b:c", (b"b:c", b"a", [])),
        (KEYED, b"ab", (b"ab", None, [])),
        (KEYED, b":", (b"", b"", [])),
        (Form(key_delimiter=b"::", key=b"k"), b"ab", (b"ab", b"k", [])),
        (Form(key_delimiter=b"::", key=b"k"), b"a::b", (b"b", b"a", [])),
        (Form(key_delimiter=b":", null=b""), b":", (None, None, [])),
        (Form(key_delimiter=b":", null=b"", key=b"k"), b":v", (b"v", None, [])),
        (Form(null=b""), b"", (None, None, [])),
        (Form(key_delimiter=b":", null=b"NULL"), b"NULL:NULL", (None, None, [])),
        (HEADED, b"a=1,b=NULL,c,d=\xff=x\tk:v",
         (b"v", b"k", [("a", b"1"), ("b", None), ("c", None), ("d", b"\xff=x")])),
        (HEADED, b"\tk:v", (b"v", b"k", [])),
        (HEADED, b"k:v", (b"v", b"k", [])),
        (Form(headers_delimiter=b"|", header_separator=b";", headers=[("x", None)]), b"a=1;b=2,3|v",
         (b"v", None, [("x", None), ("a", b"1"), ("b", b"2,3")])),
        (HEADED, b"\xe4=1\tv", (b"v", None, [("\udce4", b"1")])),
    ],
)  # fmt: skip
def test_a_line_is_a_record(form: Form, line: bytes, expected: Any) -> None:
    assert form.parse(line) == expected
    if form.is_plain:
        assert line == expected[0]


def test_headers_of_the_command() -> None:
    assert parse_header("a=b=c") == ("a", b"b=c")
    assert parse_header("a=") == ("a", b"")
    assert parse_header("a") == ("a", None)
    with pytest.raises(click.UsageError, match="must have a name"):
        parse_header("=x")


def test_a_delivery_tracker() -> None:
    class Batch:
        done = False

        def __init__(self, *outcomes: tuple[int, KafkaError | None]) -> None:
            self._outcomes = outcomes

        def outcomes(self) -> Any:
            return self._outcomes

    first, second = Batch((5, None)), Batch((1, None), (2, KafkaError("no")))
    delivery_tracker: Any = DeliveryTracker()
    for number in (1, 2, 3, 7, 8):
        delivery_tracker.note(first, number)
    delivery_tracker.note(second, 4, 3)
    assert delivery_tracker.open == 8
    delivery_tracker.settle()
    assert (delivery_tracker.delivered, delivery_tracker.failed, delivery_tracker.open) == (0, 0, 8)
    first.done = True
    delivery_tracker.settle()
    assert (delivery_tracker.delivered, delivery_tracker.failed, delivery_tracker.open) == (5, 0, 3)
    second.done = True
    delivery_tracker.refuse(2, KafkaError("large"))
    delivery_tracker.lose(10)
    delivery_tracker.settle()
    assert (delivery_tracker.delivered, delivery_tracker.failed, delivery_tracker.open) == (6, 13, 0)
    assert delivery_tracker.tell(lambda number: f"line {number}") == ["line 2: large", "line 5 and 1 more: no"]
