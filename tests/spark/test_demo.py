"""What the demo checks itself with: a check that cannot fail would prove nothing."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

from demo import flights

ROWS = [
    {"carrier": "UA", "hour": 5, "dep_delay": 2, "tailnum": "N1"},
    {"carrier": "UA", "hour": 5, "dep_delay": None, "tailnum": None},
    {"carrier": "UA", "hour": 5, "dep_delay": -5, "tailnum": "N2"},
    {"carrier": "AA", "hour": 23, "dep_delay": 7, "tailnum": ""},
]


def test_rows_become_json_without_loss() -> None:
    values = flights.json_rows(pa.Table.from_pylist(ROWS)).to_pylist()
    assert [json.loads(value) for value in values] == ROWS
    assert values[1] == '{"carrier":"UA","hour":5,"dep_delay":null,"tailnum":null}'


@pytest.mark.parametrize("text", ['a"b', "a\\b", "a\nb"])
def test_text_that_json_escapes_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="column name has characters that JSON escapes"):
        flights.json_rows(pa.table({"name": [text]}))


def test_the_figures() -> None:
    figures = flights.delays(pa.Table.from_pylist(ROWS)).to_pylist()
    assert figures == [
        {"carrier": "AA", "hour": 23, "departures": 1, "mean_delay": 7.0},
        {"carrier": "UA", "hour": 5, "departures": 2, "mean_delay": -1.5},
    ]


@pytest.mark.parametrize(
    ("rows", "said"),
    [
        ([("AA", 1, 2, 3.0), ("UA", 5, 2, -1.5)], []),
        ([("AA", 1, 2, 3.0 + 5e-10), ("UA", 5, 2, -1.5)], []),
        ([("AA", 1, 2, 3.0 + 2e-9), ("UA", 5, 2, -1.5)], ["AA at 1 h: (2, 3.000000002), expected (2, 3.0)"]),
        ([("AA", 1, 2, float("nan")), ("UA", 5, 2, -1.5)], ["AA at 1 h: (2, nan), expected (2, 3.0)"]),
        ([("AA", 1, 3, 3.0), ("UA", 5, 2, -1.5)], ["AA at 1 h: (3, 3.0), expected (2, 3.0)"]),
        ([("UA", 5, 2, -1.5)], ["AA at 1 h: missing, (2, 3.0) expected"]),
        ([], ["AA at 1 h: missing, (2, 3.0) expected", "UA at 5 h: missing, (2, -1.5) expected"]),
        (
            [("AA", 1, 2, 3.0), ("UA", 5, 2, -1.5), ("UA", 6, 1, 0.0), ("UA", 6, 1, 0.0)],
            ["1 rows repeat a carrier and hour", "UA at 6 h: (1, 0.0) was not expected"],
        ),
    ],
)
def test_every_difference_is_named(rows: list[tuple[str, int, int, float]], said: list[str]) -> None:
    expected = flights.delay_table([("UA", 5, 2, -1.5), ("AA", 1, 2, 3.0)])
    assert flights.differences(flights.delay_table(rows), expected) == said


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    from demo import picture

    rows = [("UA", 5, 30, -1.5), ("UA", 7, 3, 50.0), ("AA", 6, 25, 12.0)]
    picture.draw(flights.delay_table(rows), {"UA": "United"}, tmp_path / "delays.png")
    assert (tmp_path / "delays.png").read_bytes().startswith(b"\x89PNG")
