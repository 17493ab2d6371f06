"""Run a suite's command with a time limit, and `kafwire broker` beside it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["ROOT", "SuiteError", "broker", "run"]

ROOT = Path(__file__).resolve().parent.parent.parent
_GRACE_SECONDS = 30.0  # after the time limit, for a report of the tests so far


class SuiteError(Exception):
    """A suite cannot run; the message names the missing part and its remedy."""


@contextmanager
def broker(folder: Path, *options: str) -> Iterator[str]:
    """Run `kafwire broker` on free ports; its bootstrap servers."""
    log = folder / "broker.log"
    command = [sys.executable, "-m", "kafwire", "broker", "--port", "0", *options]
    with log.open("w") as errors:
        process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, stderr=errors, text=True)
    assert process.stdout is not None
    try:
        bootstrap = process.stdout.readline().strip()
        if not bootstrap:
            raise SuiteError(f"kafwire broker did not start: {log.read_text().strip()}")
        yield bootstrap
        if process.poll() is not None:
            raise SuiteError(f"kafwire broker ended by itself with {process.returncode}; see {log}")
    finally:
        process.terminate()
        process.wait()
        process.stdout.close()


def run(
    command: Sequence[str],
    *,
    cwd: Path,
    limit_seconds: float,
    environment: Mapping[str, str],
    output: Path,
    errors: Path | None = None,
) -> bool:
    """Run a suite, whose report says how it went; its exit code does not.

    At the time limit the suite is interrupted, so that it reports the tests so far.

    Args:
        command: the suite's.
        cwd: its folder.
        limit_seconds: its time limit.
        environment: variables besides this process's own.
        output: the file for its standard output.
        errors: the file for its standard error; None: `output` too.

    Returns:
        Whether the suite ended within its time limit.

    Raises:
        SuiteError: the command is missing.
    """
    merged = {**os.environ, **environment}
    with output.open("wb") as out, (errors or output).open("ab") as err:
        try:
            process = subprocess.Popen(
                command, cwd=cwd, env=merged, stdout=out, stderr=err, stdin=subprocess.DEVNULL, start_new_session=True
            )
        except FileNotFoundError as error:
            raise SuiteError(f"the suite's command is missing: {error.filename}") from None
    try:
        process.wait(limit_seconds)
        return True
    except subprocess.TimeoutExpired:
        _interrupt(process)
        return False
    finally:
        _kill(process)


def _interrupt(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGINT)
    try:
        process.wait(_GRACE_SECONDS)
    except subprocess.TimeoutExpired:
        return


def _kill(process: subprocess.Popen[bytes]) -> None:
    """End the suite and every process that it left behind."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()
