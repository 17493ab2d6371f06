"""Run test suites of other Kafka clients against the embedded broker.

    python -m scripts.foreign_suites kafka-python aiokafka=SOURCES kgo=SOURCES

SOURCES is a folder of the suite: a checkout, or an unpacked archive. Without SOURCES, pip downloads the source
distribution of the installed version, where that has the tests (kafka-python). A Python client must be installed in the
environment of --python, in the version of the tests. Go suites need go on the PATH and download their modules;
librdkafka's needs a C and a C++ compiler, make, and the headers of OpenSSL and libzstd.

The lists of tests left out, with reasons, are in scripts/foreign_suites/left_out. Exit code 1: a test fails that is not
left out, a test left out passes or is missing, or a suite cannot run.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path

from scripts.foreign_suites.go_suites import GO_SUITES
from scripts.foreign_suites.left_out import LeftOut, LeftOutError, Verdict, judge, read_left_out
from scripts.foreign_suites.librdkafka import LIBRDKAFKA
from scripts.foreign_suites.pytest_suites import PYTEST_SUITES
from scripts.foreign_suites.running import SuiteError
from scripts.foreign_suites.sources import downloaded, installed_version
from scripts.foreign_suites.suite import Request, Suite

SUITES: list[Suite] = [*PYTEST_SUITES, *GO_SUITES, LIBRDKAFKA]
LISTS = Path(__file__).parent / "left_out"


@dataclass(frozen=True)
class Chosen:
    """A suite, and the folder of its sources; None: pip downloads them."""

    suite: Suite
    sources: Path | None


def parse_suite(text: str) -> Chosen:
    """Parse NAME or NAME=SOURCES; the error names the correct form."""
    name, equals, folder = text.partition("=")
    suite = next((each for each in SUITES if each.name == name), None)
    if suite is None:
        known = ", ".join(each.name for each in SUITES)
        raise argparse.ArgumentTypeError(f"{name!r} is none of the suites: {known}")
    if not equals and not suite.sdist:
        raise argparse.ArgumentTypeError(f"{name} needs its sources: {name}=FOLDER")
    sources = Path(folder).resolve() if equals else None
    if sources is not None and not (folder and sources.is_dir()):
        raise argparse.ArgumentTypeError(f"{name}={folder}: there is no such folder")
    return Chosen(suite, sources)


def read_list(suite: Suite) -> list[LeftOut]:
    """Read the suite's list of tests left out."""
    path = LISTS / f"{suite.name}.toml"
    return read_left_out(path.read_text(), path.name) if path.exists() else []


def run_suite(chosen: Chosen, folder: Path, options: argparse.Namespace) -> tuple[str, Verdict]:
    """Run a suite; its version, and the verdict."""
    suite = chosen.suite
    entries = read_list(suite)
    sources = chosen.sources
    if sources is None:
        assert suite.package is not None
        sources = downloaded(suite.package, installed_version(suite.package, options.python), folder, options.python)
    version = suite.version(sources)
    if suite.package is not None:
        installed = installed_version(suite.package, options.python)
        if installed != version:
            raise SuiteError(
                f"the tests are of {suite.package} {version}, and {installed} is installed in the environment of"
                f" {options.python}: install {suite.package}=={version}, or give another --python or other sources"
            )
    limit = options.limit or suite.limit_seconds
    request = Request(sources, folder, entries, options.python, options.only, limit)
    outcomes, ended = suite.run(request)
    verdict = judge(outcomes, entries, partial=bool(options.only))
    if not ended:
        verdict.stale.append(f"the time limit of {limit:g} s is over; tests that did not end are missing or failed")
    return version, verdict


def report(name: str, verdict: Verdict) -> Iterator[str]:
    """Lines about a run, those to act on first."""
    for test in verdict.failed:
        yield f"FAILED {test}"
    for text in verdict.stale:
        yield f"STALE {text}"
    if not verdict.passed:
        yield f"{name}: no test passed"
    yield (
        f"{name}: {len(verdict.passed)} passed, {len(verdict.failed)} failed, {len(verdict.left_out)} left out,"
        f" {len(verdict.skipped)} skipped by the suite"
    )


def row(name: str, version: str, verdict: Verdict, day: date) -> str:
    """The row of a run: suite, version, tests run, passed, left out, date."""
    cells = [name, version, str(verdict.run), str(len(verdict.passed)), str(len(verdict.left_out)), day.isoformat()]
    return f"| {' | '.join(cells)} |"


@contextmanager
def working_folder(keep: Path | None, name: str) -> Iterator[Path]:
    """A suite's folder of working files: temporary, or an empty one below `keep`."""
    if keep is None:
        with tempfile.TemporaryDirectory(prefix=f"foreign-{name}-") as folder:
            yield Path(folder)
        return
    kept = keep.resolve() / f"{name}-{datetime.now(UTC):%Y%m%dT%H%M%S}"
    kept.mkdir(parents=True)
    yield kept


def main(arguments: Sequence[str] | None = None) -> int:
    """Parse the command line, run the suites, print their results and the rows of the table."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.foreign_suites",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument(
        "suites", nargs="+", type=parse_suite, metavar="NAME[=SOURCES]", help=", ".join(s.name for s in SUITES)
    )
    parser.add_argument("--python", default=sys.executable, help="the interpreter that has the Python client")
    parser.add_argument("--only", default="", help="some tests: pytest's -k, go's -run, or librdkafka's numbers")
    parser.add_argument("--keep", type=Path, metavar="FOLDER", help="keep the suites' reports and logs there")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="the time limit of each suite")
    options = parser.parse_args(arguments)
    rows: list[str] = []
    ok = True
    for chosen in options.suites:
        name = chosen.suite.name
        print(f"=== {name}", flush=True)
        with working_folder(options.keep, name) as folder:
            try:
                version, verdict = run_suite(chosen, folder, options)
            except (SuiteError, LeftOutError) as error:
                print(f"{name}: {error}", flush=True)
                ok = False
                continue
        print(*report(name, verdict), sep="\n", flush=True)
        rows.append(row(name, version, verdict, datetime.now(UTC).date()))
        ok = ok and verdict.ok
    if rows and not options.only:
        print("=== rows of the table in docs/internals/broker.md", *rows, sep="\n", flush=True)
    return 0 if ok else 1


if __name__ == "__main__":
    sys.exit(main())
