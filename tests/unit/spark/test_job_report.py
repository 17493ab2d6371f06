"""The summary, the lines and the plots of a job's batches."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from kafwire.spark.job_report import JobReport, batch_line, draw


def batch(number: int, rows: int, seconds: float, backlog: int = 0, behind: float | None = None) -> dict[str, Any]:
    topics = {"a": {"backlog": backlog, "lag": backlog, "rate": None, "arrival_rate": None, "seconds_behind": behind}}
    rate = rows / seconds if seconds else None
    return {"batch": number, "rows": rows, "seconds": seconds, "rows_per_second": rate, "topics": topics}


def report_of(*batches: dict[str, Any]) -> JobReport:
    made = JobReport()
    for each in batches:
        made.add(each)
    return made


def test_the_summary_counts_rows_and_time() -> None:
    report = report_of(batch(0, 1000, 2.0, 500), batch(1, 3000, 1.0, 7, 1.5), batch(2, 0, 0.5, 7, 1.5))
    report.seconds = 12.25
    assert dict(report.summary()) == {
        "batches": "3",
        "rows": "4,000",
        "seconds, with Spark's start": "12.2",
        "seconds in batches": "3.5",
        "rows/s in batches": "1,143",
        "seconds of a batch, mean and longest": "1.17, 2.00",
        "a behind": "7 offsets, 1.5 s",
    }


def test_a_job_without_batches_has_a_summary_and_no_plot() -> None:
    report = JobReport()
    assert dict(report.summary())["rows/s in batches"] == "-"
    assert report.text_plot() == []
    assert report_of(batch(0, 0, 1.0)).text_plot() == []


def test_the_bars_are_in_proportion_and_many_batches_share_one() -> None:
    bars = report_of(batch(0, 100, 1.0), batch(1, 50, 1.0), batch(2, 0, 0.0)).text_plot()
    assert [bar.count("#") for bar in bars] == [40, 20]
    assert bars[1].split() == ["1", "#" * 20, "50", "rows/s"]
    many = report_of(*(batch(number, 100, 1.0) for number in range(1000))).text_plot()
    assert len(many) == 16
    assert many[0].split()[0] == "0-62"
    assert many[-1].split()[0] == "945-999"


def test_a_job_that_runs_for_long_keeps_a_bounded_number_of_batches() -> None:
    report = report_of(*(batch(number, 100, 1.0, number) for number in range(50_001)))
    assert len(report.batches) <= 2000
    assert sum(each["rows"] for each in report.batches) == 100 * 50_001
    assert {round(each["rows_per_second"]) for each in report.batches} == {100}
    summary = dict(report.summary())
    assert (summary["batches"], summary["rows"], summary["a behind"]) == ("50,001", "5,000,100", "50,000 offsets")


def test_a_line_of_progress() -> None:
    assert batch_line(batch(3, 1500, 2.0, 20, 0.4)) == "batch 3: 1,500 rows in 2.00 s, 750/s; a: 20 behind (0.4 s)"
    assert batch_line(batch(3, 0, 0.0)) == "batch 3: 0 rows in 0.00 s; a: 0 behind"


def test_a_picture_is_written(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    draw(report_of(batch(0, 100, 1.0, 5), batch(1, 50, 0.0)), str(tmp_path / "plot.png"), "job")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
