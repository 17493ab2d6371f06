"""The checks of the demo notice what they look for, its driver can be killed, and the whole demo runs."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pyarrow as pa
import pytest

from demo import flights
from demo.driver import Batch, Driver
from tests.support.deadlines import until

ROOT = Path(__file__).parents[2]
LONGEST_S = 400
BATCH = Batch(batch=0, rows=100, seconds=2.0, at=1000.0)

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


@pytest.mark.parametrize(
    ("ids", "named"),
    [
        ([2, 0, 1], []),
        ([0, 1], ["1 flights are lost"]),
        ([0, 1, 1, 2, 1], ["1 flights are repeated"]),
        ([0, 1, 2, 3, -1], ["2 flights are unknown"]),
        ([0, 0, None], ["2 flights are lost", "1 flights are repeated", "1 flights are unknown"]),
    ],
)
def test_lost_repeated_and_unknown_flights_are_counted(ids: list[int | None], named: list[str]) -> None:
    assert flights.ids_that_differ(pa.chunked_array([pa.array(ids, pa.int64())]), 3) == named


def test_records_are_numbered_and_read_back_with_the_airline_s_name() -> None:
    table = pa.table({"carrier": ["UA", "AA"], "hour": [5, 6], "dep_delay": [1.0, None]})
    values = flights.records(table)["value"].to_pylist()
    assert [json.loads(value)["id"] for value in values] == [0, 1]
    joined = [json.dumps({**json.loads(value), "airline": "United"}).encode() for value in values]
    found = flights.departures(pa.chunked_array([joined]))
    assert found.select(["id", "carrier", "dep_delay"]).to_pylist()[1] == {"id": 1, "carrier": "AA", "dep_delay": None}
    wrong = flights.names_that_differ(found, {"UA": "United", "AA": "American"})
    assert wrong == ["AA has the name United, expected American"]


def test_the_picture_is_drawn(tmp_path: Path) -> None:
    from demo import picture

    rows = [("UA", 5, 30, -1.5), ("UA", 7, 3, 50.0), ("AA", 6, 25, 12.0)]
    batches = [BATCH, Batch(batch=1, rows=300, seconds=1.0, at=1009.0)]
    for name in ("one.svg", "two.svg"):
        picture.draw(flights.delay_table(rows), {"UA": "United"}, batches, 1002.5, tmp_path / name)
    assert (tmp_path / "one.svg").read_text().rstrip().endswith("</svg>")
    assert (tmp_path / "one.svg").read_bytes() == (tmp_path / "two.svg").read_bytes()


def test_a_driver_reports_its_batches_and_is_killed(tmp_path: Path) -> None:
    program = ("-c", f"import time; print('{json.dumps(asdict(BATCH))}', flush=True); time.sleep(600)")
    with Driver((), tmp_path / "log", program) as driver:
        until(lambda: driver.batches, "a batch")
        assert driver.batches == [BATCH]
        assert driver.batches[0].rate == 50.0
        assert driver.is_running
    assert not driver.is_running
    with pytest.raises(SystemExit, match="the driver ended with exit code -9"):
        driver.finish()


def test_the_error_of_a_driver_is_shown(tmp_path: Path) -> None:
    with (
        Driver((), tmp_path / "log", ("-c", "raise ValueError('no such topic')")) as driver,
        pytest.raises(SystemExit, match="exit code 1(.|\n)*ValueError: no such topic"),
    ):
        driver.finish()


@pytest.mark.long
@pytest.mark.timeout(2 * LONGEST_S)
def test_the_demo_finds_each_flight_once(tmp_path: Path) -> None:
    command = [sys.executable, "-m", "demo", "--picture", str(tmp_path / "flights.svg")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=LONGEST_S, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert f"Each of the {flights.ROWS:,} flights is there once" in done.stdout
    assert (tmp_path / "flights.svg").stat().st_size
