"""The output of `kafwire decode`: its limit and its problems."""

from __future__ import annotations

import io

import click
import pytest

from kafwire.cli.findings import EnoughError, Findings
from kafwire.cli.output import JsonWriter


def test_the_first_problem_is_the_error() -> None:
    findings = Findings(JsonWriter(pretty=False, stream=io.BytesIO()))
    findings.problem("first")
    findings.problem("second")
    findings.problem("third")
    with pytest.raises(click.ClickException) as error:
        findings.finish()
    assert error.value.message == "first (and 2 more)"


def test_the_last_value_of_the_limit_is_written() -> None:
    stream = io.BytesIO()
    findings = Findings(JsonWriter(pretty=False, stream=stream), limit=2)
    findings.write(1)
    with pytest.raises(EnoughError):
        findings.write(2)
    assert (findings.finish(), stream.getvalue()) == (0, b"1\n2\n")
