"""The job files, tests and errors that the documents about Spark name are there."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

import pytest

from kafwire.errors import ConfigError
from kafwire.spark.job_file import read_job
from kafwire.spark.options import read_options, write_options
from kafwire.spark.stream_options import stream_options
from tests.support.doc_blocks import ROOT, Block, blocks

JOBS = [block for block in blocks("toml") if block.document == "spark"]


@pytest.mark.parametrize("block", JOBS, ids=str)
def test_a_job_is_accepted(block: Block) -> None:
    assert read_job(block.text, {"KAFKA_PASSWORD": "secret"}).name


def test_all_kinds_of_jobs_are_there() -> None:
    jobs = [read_job(block.text, {"KAFKA_PASSWORD": "secret"}) for block in JOBS]
    assert [(job.source.is_topic, job.sql is not None, job.sink.is_topic) for job in jobs] == [
        (True, False, False),
        (False, False, True),
        (True, True, True),
        (True, False, False),
    ]


TESTS = {
    name
    for file in (ROOT / "tests").rglob("test_*.py")
    for name in re.findall(r"^(?:async )?def (test_\w+)", file.read_text(), re.MULTILINE)
}
CHECKS: Mapping[str, Callable[[Mapping[str, str]], Any]] = {
    "read": read_options,
    "stream": stream_options,
    "write": write_options,
}


def rows(document: str, section: str) -> list[list[str]]:
    """The cells of a section's first table, without the header."""
    text = (ROOT / "docs" / document).read_text()
    (found,) = re.findall(rf"^## {section}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    (table, *_) = re.findall(r"(?:^\|.*\n)+", found, re.MULTILINE)
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()[2:]]


PARITY = rows("reference/spark-parity.md", "Parity")
ERRORS = rows("guide/porting/spark-from-kafka.md", "Errors")


@pytest.mark.parametrize("row", PARITY, ids=lambda row: str(row[0]))
def test_each_row_of_the_parity_table_names_tests_that_exist(row: list[str]) -> None:
    assert len(row) == 4
    named = re.findall(r"`(test_\w+)`", row[3])
    assert named, row
    assert set(named) <= TESTS


@pytest.mark.parametrize("row", ERRORS, ids=lambda row: str(row[0]))
def test_each_error_of_the_guide_is_raised(row: list[str]) -> None:
    given, kind, text = row
    name, _, value = given.strip("`").partition("=")
    usual = {"kafka.bootstrap.servers": "h:1"}
    if kind != "write" and name != "subscribePattern":
        usual["subscribe"] = "flights"
    with pytest.raises(ConfigError) as caught:
        CHECKS[kind]({**usual, name: value})
    assert text.strip("`") in str(caught.value).replace("`", "'")
