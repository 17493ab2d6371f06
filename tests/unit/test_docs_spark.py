"""The job files of docs/spark.md are job files."""

from __future__ import annotations

import pytest

from kafwire.spark.job_file import read_job
from tests.support.doc_blocks import Block, blocks

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
