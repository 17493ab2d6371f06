"""A PostgreSQL server in a folder of its own, which tests kill and start again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import tempfile
from importlib import import_module
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import psutil
import pytest

from tests.support.deadlines import PATIENCE_S, until

# Where Debian's package postgresql has its programs: a folder for each version, on no PATH.
_FOLDERS = sorted(Path("/usr/lib/postgresql").glob("*/bin"), key=lambda path: int(path.parent.name))
_PATH = os.pathsep.join((*map(str, reversed(_FOLDERS)), os.environ.get("PATH", "")))
_PROGRAMS = ("initdb", "postgres")
DRIVERS = ("psycopg", "psycopg2")
MISSING = "no PostgreSQL here: install the Debian package postgresql"


def needed() -> None:
    """Skip the test module where there is no server, or a driver is missing: an extra of kafwire's."""
    if not all(shutil.which(program, path=_PATH) for program in _PROGRAMS):
        pytest.skip(MISSING, allow_module_level=True)
    for driver in DRIVERS:
        pytest.importorskip(driver, exc_type=ImportError)


class PostgreSql:
    """A server, while the context lasts; it listens on a socket in its folder, and on no port.

    Args:
        fsync: whether commits reach the disk; tests play no crash of the machine.
    """

    def __init__(self, *, fsync: bool = False) -> None:
        self._fsync = "on" if fsync else "off"

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="kafwire-pg-")
        self.folder = Path(self._scratch.name)
        self._user: str | None = None
        if os.geteuid() == 0:  # the server does not run as root; Debian's package makes this user
            self._user = "postgres"
            shutil.chown(self.folder, self._user)
        self._process: subprocess.Popen[bytes] | None = None
        self._data = self.folder / "data"
        try:
            command = ["initdb", "-D", str(self._data), "-U", "kafwire", "-A", "trust", "-E", "UTF8", "--locale=C"]
            self._run([*command, "--no-sync"])
            self.start()
        except BaseException:
            self.__exit__(None, None, None)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with contextlib.suppress(psutil.Error):
            self.kill()
        self._scratch.cleanup()

    def _run(self, command: list[str]) -> None:
        program = shutil.which(command[0], path=_PATH)
        assert program is not None, MISSING
        done = subprocess.run(
            [program, *command[1:]],
            cwd=self.folder,
            user=self._user,
            capture_output=True,
            text=True,
            timeout=PATIENCE_S,
            check=False,
        )
        assert done.returncode == 0, done.stdout + done.stderr

    def start(self) -> None:
        """Start it, after a crash with recovery; it takes connections then."""
        program = shutil.which("postgres", path=_PATH)
        assert program is not None, MISSING
        options = {"fsync": self._fsync, "listen_addresses": "", "unix_socket_directories": str(self.folder)}
        command = [program, "-D", str(self._data), *(f"--{name}={value}" for name, value in options.items())]
        with (self.folder / "log").open("ab") as log:
            self._process = subprocess.Popen(command, cwd=self.folder, user=self._user, stdout=log, stderr=log)
        until(self._accepts, f"PostgreSQL: {self.log()}")

    def _accepts(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, self.log()
        try:
            self.connect().close()
        except import_module("psycopg").OperationalError:
            return False
        return True

    def kill(self) -> None:
        """SIGKILL for all of its processes: what it has not written is gone."""
        if self._process is None:
            return
        server = psutil.Process(self._process.pid)
        processes = [server, *server.children(recursive=True)]
        for process in processes:
            with contextlib.suppress(psutil.NoSuchProcess):
                process.send_signal(signal.SIGKILL)
        self._process.wait(PATIENCE_S)
        until(lambda: all(map(_has_ended, processes)), "PostgreSQL's processes end")
        self._process = None

    @property
    def dsn(self) -> str:
        """Where it is, as drivers take it."""
        return f"host={self.folder} user=kafwire dbname=postgres"

    def connect(self, driver: str = "psycopg") -> Any:
        """A new connection."""
        return import_module(driver).connect(self.dsn)

    def execute(self, *statements: str) -> None:
        """Run statements, each in a transaction."""
        connection = self.connect()
        try:
            for statement in statements:
                connection.execute(statement)
                connection.commit()
        finally:
            connection.close()

    def rows(self, statement: str) -> list[tuple[Any, ...]]:
        """The rows that a query returns."""
        connection = self.connect()
        try:
            found: list[tuple[Any, ...]] = connection.execute(statement).fetchall()
            return found
        finally:
            connection.close()

    def log(self) -> str:
        """The end of what it has written."""
        path = self.folder / "log"
        return path.read_text(errors="replace")[-3000:] if path.exists() else ""


def _has_ended(process: psutil.Process) -> bool:
    """True if it is gone, or waits for its parent to collect its status."""
    try:
        return process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True
