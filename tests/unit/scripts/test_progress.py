"""`scripts.progress`: long commands show their steps."""

from __future__ import annotations

import io
import os
import pty
import re
import subprocess
import sys
from pathlib import Path

import pytest

from scripts import progress
from tests.support.deadlines import until

FILE = Path(progress.__file__)
END = re.compile(r" +\d+\.\d\d s  build: 3 of 3$")


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture(autouse=True)
def _alone(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("MAKEFLAGS", raising=False)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "40")


def test_a_short_step_is_one_line_of_a_log() -> None:
    out = io.StringIO()
    with progress.step("build", out) as step:
        step("1 of 3")
        step("3 of 3")
    (line,) = out.getvalue().splitlines()
    assert END.fullmatch(line)


def test_a_long_step_shows_its_state_in_a_log(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "FIRST_S", 0.001)
    monkeypatch.setattr(progress, "NEXT_S", 0.001)  # the first line may come before `follow`
    out, done = io.StringIO(), iter(["2 of 3"])
    with progress.step("build", out) as step:
        step.follow(lambda: next(done, "3 of 3"))
        until(lambda: "2 of 3" in out.getvalue())
    *shown, last = out.getvalue().splitlines()
    assert [line for line in shown if re.fullmatch(r" +\d+\.\d\d s  build: 2 of 3 \.\.\.", line)]
    assert END.fullmatch(last)


def test_a_terminal_has_one_line_that_is_drawn_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(progress, "TERMINAL_S", 0.001)
    out = Terminal()
    with progress.step("build", out) as step:
        step("1 of 3, " + "x" * 100)
        until(lambda: out.getvalue().count("\r") > 3)
        step("3 of 3")
    *drawn, last = out.getvalue().split("\r\x1b[K")
    assert END.fullmatch(last.rstrip("\n"))
    assert "\n" not in "".join(drawn)
    assert all(len(line.removesuffix("\x1b[K")) <= 39 for line in "".join(drawn).split("\r")), "it does not wrap"


def test_a_failed_step_is_marked() -> None:
    out = io.StringIO()
    with pytest.raises(LookupError), progress.step("build", out):
        raise LookupError
    assert out.getvalue().endswith("build (failed)\n")


@pytest.mark.parametrize(("name", "value"), [("MAKEFLAGS", " -j2 --jobserver-auth=3,4"), ("TERM", "dumb")])
def test_parallel_steps_and_dumb_terminals_have_plain_lines(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str
) -> None:
    assert progress.is_terminal(Terminal())
    assert not progress.is_terminal(io.StringIO())
    monkeypatch.setenv(name, value)
    assert not progress.is_terminal(Terminal())


def run(*words: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, str(FILE), *words]
    return subprocess.run(command, input="typed\n", capture_output=True, text=True, check=False)


def test_a_command_that_succeeds_is_a_line() -> None:
    done = run("install", "--", sys.executable, "-c", "print('Collecting numpy')")
    assert (done.returncode, done.stderr) == (0, "")
    assert re.fullmatch(r" +\d+\.\d\d s  install\n", done.stdout)


def test_a_command_that_fails_prints_its_output() -> None:
    done = run("install", "--", sys.executable, "-c", "print('no such package'); raise SystemExit(3)")
    assert done.returncode == 3
    assert done.stdout.endswith("install: exit code 3\n")
    first, *rest = done.stderr.splitlines()
    assert first.startswith(f"$ {sys.executable} -c ")
    assert rest == ["no such package"]


def test_a_command_that_prompts_fails_at_once() -> None:
    done = run("install", "--", sys.executable, "-c", "input('Password: ')")
    assert done.returncode == 1
    assert "Password: " in done.stderr
    assert "EOFError" in done.stderr


def test_a_command_that_a_signal_ends_fails() -> None:
    code = "import os; print('half', flush=True); os.kill(os.getpid(), 9)"
    done = run("install", "--", sys.executable, "-c", code)
    assert done.returncode > 0
    assert done.stdout.endswith("install: exit code -9\n")
    assert done.stderr.endswith("\nhalf\n")


def test_a_command_that_is_not_there_is_one_line() -> None:
    done = run("install", "--", "/no/such/program")
    assert (done.returncode, done.stderr) == (127, "/no/such/program: No such file or directory\n")
    assert run("install").returncode == 2


def test_a_command_on_a_terminal_shows_its_latest_line() -> None:
    shown, there = pty.openpty()
    code = "import time; print('Collecting numpy', flush=True); time.sleep(0.5)"
    with subprocess.Popen([sys.executable, str(FILE), "install", "--", sys.executable, "-c", code], stdout=there):
        os.close(there)
        text = b""
        while True:
            try:
                text += os.read(shown, 4096)
            except OSError:  # closed
                break
    os.close(shown)
    assert re.search(rb"\r +0\.\d\d s  install: Collecting numpy\x1b\[K", text)
    assert re.search(rb" +\d\.\d\d s  install\r\n$", text)
