"""The suites of Go clients: franz-go's kgo, and sarama's functional tests."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from kafwire.testing.cluster.kafka import DEFAULT_VERSION as KAFKA_VERSION
from scripts.foreign_suites.left_out import never_run
from scripts.foreign_suites.outcomes import Outcome, read_go
from scripts.foreign_suites.running import SuiteError, broker, run
from scripts.foreign_suites.suite import Request, Suite, read_report, version_in
from scripts.foreign_suites.toxiproxy import toxiproxy, write_shim

__all__ = ["GO_SUITES"]

_BUILD_SECONDS = 900
_RECORDS = 50_000  # of a kgo test, a tenth of the suite's own default
# As in sarama's docker-compose.yml.
_SARAMA = {
    "default.replication.factor": "2",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
}
_MARGIN_SECONDS = 60  # go's own time limit names the tests that hang, so it comes first


def _compiled(request: Request, package: str, tags: Sequence[str] = ()) -> Path:
    """Compile a package's tests; the program."""
    go = shutil.which("go")
    if go is None:
        raise SuiteError("the suite needs go: put it on the PATH")
    program = request.folder / "tests"
    command = [go, "test", "-c", "-o", str(program), *tags, package]
    done = subprocess.run(
        command, cwd=request.sources, capture_output=True, text=True, check=False, timeout=_BUILD_SECONDS
    )
    if done.returncode or not program.exists():
        raise SuiteError(f"the suite does not compile: {' '.join(command)}\n{done.stderr.strip()[-2000:]}")
    return program


def _run_go(
    request: Request, program: Path, folder: Path, environment: Mapping[str, str], tests: str = "^Test"
) -> tuple[dict[str, Outcome], bool]:
    """Run compiled tests; those that never run are skipped."""
    report, output = request.folder / "report.json", request.folder / "output.txt"
    never = "|".join(entry.pattern for entry in never_run(request.left_out))
    command = [
        *("go", "tool", "test2json", "-t", "-p", folder.name, str(program), "-test.v=test2json"),
        f"-test.timeout={max(request.limit_seconds - _MARGIN_SECONDS, 1):g}s",
        f"-test.run={request.only or tests}",
        *((f"-test.skip=^({never})$",) if never else ()),
    ]
    ended = run(
        command,
        cwd=folder,
        limit_seconds=request.limit_seconds,
        environment=environment,
        output=report,
        errors=output,
    )
    return read_report(report, lambda text: read_go(text.splitlines()), output), ended


def _kgo(request: Request) -> tuple[dict[str, Outcome], bool]:
    program = _compiled(request, "./pkg/kgo")
    with broker(request.folder, "--nodes", "3") as bootstrap:
        environment = {"KGO_SEEDS": bootstrap, "KGO_TEST_RECORDS": str(_RECORDS), "KGO_LOG_LEVEL": "none"}
        return _run_go(request, program, request.sources / "pkg/kgo", environment)


def _sarama(request: Request) -> tuple[dict[str, Outcome], bool]:
    program = _compiled(request, ".", ["-tags=functional"])
    with toxiproxy(_SARAMA) as endpoint:
        shims = write_shim(request.folder / "bin", endpoint)
        environment = {
            "TOXIPROXY_ADDR": endpoint,
            "KAFKA_VERSION": KAFKA_VERSION,
            "PATH": os.pathsep.join([str(shims), os.environ.get("PATH", os.defpath)]),
        }
        return _run_go(request, program, request.sources, environment, f"^({'|'.join(_functional(request.sources))})$")


def _functional(sources: Path) -> list[str]:
    """Names of the tests that use brokers: sarama has them in files of their own."""
    files = sorted(sources.glob("functional_*_test.go"))
    names = [name for file in files for name in re.findall(r"^func (Test\w+)\(t ", file.read_text(), re.MULTILINE)]
    if not names:
        raise SuiteError(f"{sources} does not have the suite's sources: no functional_*_test.go is there")
    return names


def _sarama_version(folder: Path) -> str:
    """The version of a checkout's tag, or of the folder's name: no file has it."""
    _functional(folder)
    if (folder / ".git").exists():
        command = ["git", "-C", str(folder), "describe", "--tags"]
        git = subprocess.run(command, capture_output=True, text=True, check=False)
        if git.returncode == 0:
            return git.stdout.strip().removeprefix("v")
    found = re.search(r"\d+\.\d+\.\d+", folder.name)
    if found is None:
        raise SuiteError(f"the version of {folder} is unknown: name the folder sarama-VERSION, or give a git checkout")
    return found[0]


def _kgo_version(folder: Path) -> str:
    return version_in(folder, "CHANGELOG.md", r"^v(\d+\.\d+\.\d+)$")


GO_SUITES = [
    Suite("kgo", _kgo_version, _kgo, 1800),
    Suite("sarama", _sarama_version, _sarama, 2400),
]
