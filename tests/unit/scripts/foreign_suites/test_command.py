"""`python -m scripts.foreign_suites`: suites, output and exit code."""

from __future__ import annotations

import json
import sys
import time
from datetime import date
from pathlib import Path

import pytest

from scripts.foreign_suites import __main__ as command
from scripts.foreign_suites import sources
from scripts.foreign_suites.left_out import Verdict
from scripts.foreign_suites.outcomes import Outcome
from scripts.foreign_suites.running import SuiteError, broker, run
from scripts.foreign_suites.suite import Request, Suite
from scripts.foreign_suites.toxiproxy import _Environment

P, F = Outcome.PASSED, Outcome.FAILED
OUTCOMES = {"a": P, "b": F, "c": P}


@pytest.fixture
def suite(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """A suite `tiny` of two tests that pass and one that fails; the folder of its sources."""

    def tests(request: Request) -> tuple[dict[str, Outcome], bool]:
        assert (request.sources / "version").exists()
        return OUTCOMES, request.limit_seconds > 1

    tiny = Suite("tiny", lambda folder: (folder / "version").read_text(), tests, 60)
    monkeypatch.setattr(command, "SUITES", [tiny])
    monkeypatch.setattr(command, "LISTS", tmp_path)
    (tmp_path / "version").write_text("1.2")
    return tmp_path


def leave_out(folder: Path, *names: str) -> None:
    (folder / "tiny.toml").write_text("".join(f'[[test]]\nname = "{name}"\nreason = "GSSAPI"\n' for name in names))


def test_a_test_that_fails_and_is_not_left_out_fails_the_command(
    suite: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert command.main([f"tiny={suite}"]) == 1
    printed = capsys.readouterr().out
    assert "FAILED b\ntiny: 2 passed, 1 failed, 0 left out, 0 skipped by the suite\n" in printed


def test_a_left_out_test_that_fails_is_a_row_of_the_table(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_out(suite, "b")
    assert command.main([f"tiny={suite}"]) == 0
    assert "\n| tiny | 1.2 | 3 | 2 | 1 | 20" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("names", "line"),
    [(("b", "c"), "STALE c: it passes; delete its entry"), (("b", "d"), "STALE d: the suite has no such test")],
)
def test_a_stale_entry_fails_the_command(
    suite: Path, capsys: pytest.CaptureFixture[str], names: tuple[str, ...], line: str
) -> None:
    leave_out(suite, *names)
    assert command.main([f"tiny={suite}"]) == 1
    assert line in capsys.readouterr().out


def test_the_time_limit_fails_the_command(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    leave_out(suite, "b")
    assert command.main([f"tiny={suite}", "--limit", "1"]) == 1
    assert "STALE the time limit of 1 s is over" in capsys.readouterr().out


def test_a_wrong_list_is_one_line(suite: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (suite / "tiny.toml").write_text("[[test]]\n")
    assert command.main([f"tiny={suite}"]) == 1
    assert "tiny: tiny.toml: entry None: name and reason are needed" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("argument", "message"),
    [
        ("tony", "'tony' is none of the suites: tiny"),
        ("tiny", "tiny needs its sources: tiny=FOLDER"),
        ("tiny=", "there is no such folder"),
        ("tiny=/no/such/folder", "there is no such folder"),
    ],
)
def test_the_error_of_a_wrong_argument_has_the_right_form(
    suite: Path, capsys: pytest.CaptureFixture[str], argument: str, message: str
) -> None:
    with pytest.raises(SystemExit):
        command.main([argument])
    assert message in capsys.readouterr().err


def test_tests_of_another_version_than_the_installed_one_are_refused(
    suite: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    packaged = Suite("tiny", lambda _: "0.0.1", lambda _: (OUTCOMES, True), 60, package="pytest")
    monkeypatch.setattr(command, "SUITES", [packaged])
    assert command.main([f"tiny={suite}"]) == 1
    assert f"the tests are of pytest 0.0.1, and {pytest.__version__} is installed" in capsys.readouterr().out


def test_a_package_that_is_not_installed_is_one_line() -> None:
    with pytest.raises(SuiteError, match="no-such-package is not installed in the environment of"):
        sources.installed_version("no-such-package", sys.executable)


def test_a_row_counts_tests_left_out_as_run() -> None:
    verdict = Verdict(passed=["a", "b"], left_out=["c"], skipped=["d"])
    assert command.row("tiny", "1.2", verdict, date(2026, 11, 28)) == "| tiny | 1.2 | 3 | 2 | 1 | 2026-11-28 |"


def test_a_suite_that_hangs_is_interrupted_and_reports(tmp_path: Path) -> None:
    code = "import time\ntry: time.sleep(60)\nexcept KeyboardInterrupt: print('a report')"
    began = time.monotonic()
    ended = run([sys.executable, "-c", code], cwd=tmp_path, limit_seconds=2, environment={}, output=tmp_path / "output")
    assert not ended
    assert (tmp_path / "output").read_text() == "a report\n"
    assert time.monotonic() - began < 30


def test_a_missing_command_is_one_line(tmp_path: Path) -> None:
    with pytest.raises(SuiteError, match="command is missing: no-such-command"):
        run(["no-such-command"], cwd=tmp_path, limit_seconds=2, environment={}, output=tmp_path / "output")


def test_a_broker_that_does_not_start_says_why(tmp_path: Path) -> None:
    with (
        pytest.raises(SuiteError, match="did not start: .*no option 'no.such'"),
        broker(tmp_path, "--property", "no.such=1"),
    ):
        pass


class Fakes:
    """Brokers and proxies that record their calls."""

    def __init__(self) -> None:
        self.calls: list[str] = []

    def __getattr__(self, name: str) -> object:
        return lambda *given: self.calls.append(
            " ".join([name, *(str(each) for each in given if isinstance(each, int))])
        )


def test_toxiproxy_disables_enables_and_resets() -> None:
    fakes = Fakes()
    environment = _Environment(fakes, fakes)  # type: ignore[arg-type]

    def ask(method: str, path: str, body: object = None) -> tuple[int, object]:
        status, value = environment.request(method, path.split("/"), body)
        return status, json.loads(json.dumps(value))

    status, proxy = ask("GET", "proxies/kafka2")
    assert (status, proxy) == (
        200,
        {"name": "kafka2", "listen": "127.0.0.1:29092", "upstream": "kafka2", "enabled": True},
    )
    ask("POST", "proxies/kafka2", {"enabled": False})
    ask("POST", "brokers/3/stop")
    ask("POST", "brokers/2/stop")
    assert fakes.calls == ["shut 2", "play 2", "shut 3", "stop_node 3", "shut 2", "stop_node 2"]
    fakes.calls.clear()
    # A proxy that is enabled refuses as long as its broker is down.
    assert ask("POST", "reset") == (204, None)
    assert fakes.calls == ["restart"]
    ask("POST", "brokers/2/start")
    ask("POST", "proxies/kafka1/toxics", {"type": "latency", "attributes": {"latency": 10}})
    ask("POST", "proxies/kafka1/toxics", {"type": "reset_peer", "attributes": {}})
    assert fakes.calls == ["restart", "start_node 2", "serve 2", "add", "play 1"]
    assert ask("POST", "proxies/kafka1/toxics", {"type": "slicer", "attributes": {}})[0] == 400
    assert ask("GET", "version")[0] == 404


def test_the_error_of_a_failed_download_names_the_alternative(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    with pytest.raises(SuiteError, match=r"pip did not download the sources of tiny 1\.2: .*; or give tiny=FOLDER"):
        sources.downloaded("tiny", "1.2", tmp_path, sys.executable)
