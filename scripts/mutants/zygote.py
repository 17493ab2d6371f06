"""A process that has imported pytest and forks a child for each run of it: most of a short run is imports otherwise.

Run as a file, so that nothing of the tree is imported before the fork. It reads requests as lines of JSON and replies
to each: {"arguments": of pytest, or "modules": to import, "folder": to run in, "environment", "log", "seconds"} with
{"status": the exit status, negative for a signal, null if it took longer}.
"""

import importlib
import json
import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

import pytest

# No module imported here has assertions to rewrite.
QUIET = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
# Modules that nearly every test imports, without the tree's own. None of them starts a thread.
for _name in (
    "hypothesis",
    "hypothesis.strategies",
    "hypothesis.stateful",
    "pytest_timeout",
    "asyncio",
    "_pytest.legacypath",
):
    importlib.import_module(_name)


def child(said: dict[str, Any]) -> int:
    """The work of the forked child."""
    os.setsid()
    log = os.open(said["log"], os.O_WRONLY | os.O_CREAT | os.O_TRUNC)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for number, descriptor in enumerate((nothing, log, log)):
        os.dup2(descriptor, number)
    os.chdir(said["folder"])
    os.environ.clear()
    os.environ.update(said["environment"])
    sys.path[0] = said["folder"]
    if "modules" in said:
        for name in said["modules"]:
            importlib.import_module(name)
        return 0
    return int(pytest.main([*QUIET, *said["arguments"]]))


def wait(pid: int, seconds: float) -> int | None:
    """The exit status of a child, which is killed with all that it started if it takes longer."""
    until = time.monotonic() + seconds
    pause = 0.002
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(pause * 1.5, 0.1)
    os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    return None


def main() -> None:
    """Serve until the input ends."""
    results = os.fdopen(os.dup(1), "w")
    for line in sys.stdin:
        said = json.loads(line)
        pid = os.fork()
        if not pid:
            status = 70
            try:
                status = child(said)
            except BaseException as error:  # noqa: BLE001 # any error is reported
                os.write(2, f"{type(error).__name__}: {error}\n".encode())
            finally:
                for stream in (sys.stdout, sys.stderr):
                    stream.flush()
                os._exit(status)
        status_or_none = wait(pid, said["seconds"])
        Path(said["log"]).touch()
        results.write(json.dumps({"status": status_or_none}) + "\n")
        results.flush()


if __name__ == "__main__":
    main()
