"""The suites of Python clients: aiokafka, kafka-python and confluent-kafka, by pytest.

Tests run in a copy of their folder, beside which lies nothing of the client: they import the installed one.
"""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from kafwire.testing.cluster.kafka import DEFAULT_VERSION as KAFKA_VERSION
from scripts.foreign_suites.adapters.common import SETTINGS
from scripts.foreign_suites.left_out import never_run
from scripts.foreign_suites.outcomes import Outcome, read_junit
from scripts.foreign_suites.running import ROOT, run
from scripts.foreign_suites.suite import Request, Suite, read_report, version_in

__all__ = ["PYTEST_SUITES"]

_ADAPTERS = "scripts.foreign_suites.adapters"
_TEST_SECONDS = 300  # of one test, in which a suite's own limits are


def _run_pytest(
    request: Request,
    adapter: str,
    copied: Sequence[str],
    tests: Sequence[str],
    *,
    fixtures: Sequence[str] = (),
    ini: Sequence[str] = (),
    options: Sequence[str] = (),
    environment: Mapping[str, str] | None = None,
) -> tuple[dict[str, Outcome], bool]:
    """Run the tests of a copy of the sources' folders with an adapter, whose fixtures use the broker."""
    work = request.folder / "work"
    for name in copied:
        shutil.copytree(request.sources / name, work / name, symlinks=True)
    (work / "pytest.ini").write_text("\n".join(["[pytest]", "junit_family = xunit1", "junit_logging = no", *ini, ""]))
    report, output = request.folder / "report.xml", request.folder / "output.txt"
    never = {entry.pattern: entry.reason for entry in never_run(request.left_out)}
    plugins = [f"{_ADAPTERS}.common", f"{_ADAPTERS}.{adapter}"]
    command = [
        *(request.python, "-m", "pytest", "-q", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist"),
        *(part for plugin in plugins for part in ("-p", plugin)),
        *("-c", "pytest.ini", "--rootdir", ".", f"--junitxml={report}", f"--timeout={_TEST_SECONDS}"),
        *(("-k", request.only) if request.only else ()),
        *options,
        *tests,
    ]
    variables = {
        "PYTHONPATH": os.pathsep.join([str(work), str(ROOT)]),
        "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "",
        "PYTEST_ADDOPTS": "",
        SETTINGS: json.dumps({"never": never, "fixtures": list(fixtures)}),
        **(environment or {}),
    }
    ended = run(command, cwd=work, limit_seconds=request.limit_seconds, environment=variables, output=output)
    return read_report(report, read_junit, output), ended


def _aiokafka(request: Request) -> tuple[dict[str, Outcome], bool]:
    # The other modules need no broker, but further packages.
    tests = [
        str(path.relative_to(request.sources))
        for path in sorted((request.sources / "tests").glob("test_*.py"))
        if "KafkaIntegrationTestCase" in path.read_text()
    ]
    return _run_pytest(
        request,
        "aiokafka",
        ["tests"],
        tests,
        fixtures=["kafka_server"],
        ini=[
            "filterwarnings =",
            "    error",
            "    ignore::pytest.PytestRemovedIn10Warning",
            "    default:unclosed event loop:ResourceWarning",
            "markers =",
            "    ssl: tests that need certificates",
        ],
        options=[f"--docker-image=embedded:2.13_{KAFKA_VERSION}", "--no-pull"],
    )


def _kafka_python(request: Request) -> tuple[dict[str, Outcome], bool]:
    return _run_pytest(
        request,
        "kafka_python",
        ["test"],
        ["test/integration"],
        environment={"KAFKA_VERSION": KAFKA_VERSION},
    )


def _confluent(request: Request) -> tuple[dict[str, Outcome], bool]:
    return _run_pytest(
        request, "confluent", ["tests"], ["tests/integration"], ini=["python_files = test_*", "asyncio_mode = auto"]
    )


def _version(file: str) -> Callable[[Path], str]:
    return lambda folder: version_in(folder, file, r"""^(?:__version__|version) = ["']([^"']+)""")


PYTEST_SUITES = [
    Suite("aiokafka", _version("aiokafka/__init__.py"), _aiokafka, 1800, package="aiokafka"),
    Suite("kafka-python", _version("kafka/version.py"), _kafka_python, 1200, package="kafka-python", sdist=True),
    Suite("confluent-kafka", _version("pyproject.toml"), _confluent, 2400, package="confluent-kafka"),
]
