"""`Suite`: the tests of one client, how to run them and how to read their report."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from scripts.foreign_suites.left_out import LeftOut
from scripts.foreign_suites.outcomes import Outcome, ReportError
from scripts.foreign_suites.running import SuiteError

__all__ = ["Request", "Suite", "read_report", "version_in"]


@dataclass(frozen=True)
class Request:
    """One run of a suite.

    Args:
        sources: the folder of the suite's sources, which the run leaves as they are unless they must be compiled.
        folder: for working files, reports and logs.
        left_out: entries of tests that are left out.
        python: the interpreter that has the client, of suites of Python clients.
        only: pytest's `-k`, go's `-run` or the numbers of librdkafka's tests; empty: all tests.
        limit_seconds: the time limit.
    """

    sources: Path
    folder: Path
    left_out: Sequence[LeftOut]
    python: str
    only: str
    limit_seconds: float


@dataclass(frozen=True)
class Suite:
    """A suite by its name.

    Args:
        name: the client's.
        version: reads the version of the sources in a folder.
        run: runs the suite; outcomes by test, and whether it ended in time.
        limit_seconds: the time limit of a run.
        package: the client's distribution on a package index; None: it is no Python package.
        sdist: whether the source distribution of `package` has the tests.
    """

    name: str
    version: Callable[[Path], str]
    run: Callable[[Request], tuple[dict[str, Outcome], bool]]
    limit_seconds: float
    package: str | None = None
    sdist: bool = False


def version_in(folder: Path, file: str, pattern: str) -> str:
    """Return the first group of a pattern in a file of the sources.

    Raises `SuiteError` if these are not the suite's sources.
    """
    path = folder / file
    found = re.search(pattern, path.read_text(), re.MULTILINE) if path.is_file() else None
    if found is None:
        raise SuiteError(f"{folder} does not have the suite's sources: {file} with its version is not there")
    return found[1]


def read_report(path: Path, read: Callable[[str], dict[str, Outcome]], output: Path) -> dict[str, Outcome]:
    """Read a suite's report.

    Raises `SuiteError` with the end of the suite's `output` if there is none, or it is damaged.
    """
    try:
        return read(path.read_text(errors="replace"))
    except (FileNotFoundError, ReportError) as error:
        end = output.read_text(errors="replace")[-2000:] if output.is_file() else ""
        raise SuiteError(f"the suite did not report: {error}\n{end}".rstrip()) from None
