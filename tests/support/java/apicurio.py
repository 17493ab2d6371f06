"""Apicurio's registry in memory, for the scenes of `registry_scenes`: fetched once per user by the Ivy inside pyspark.

It is a Quarkus program with an H2 database; nothing of it stays after the context but the fetched files.
"""

from __future__ import annotations

import fcntl
import shutil
import socket
import subprocess
import tarfile
import tempfile
import urllib.error
import urllib.request
from pathlib import Path
from types import TracebackType
from typing import Self

from kafwire.broker.setup_error import SetupError
from kafwire.testing.cluster.kafka import _ivy_jar, cache_folder, java
from tests.support.deadlines import until

VERSION = "2.6.13.Final"  # the newest whose program the repository has as a file
CCOMPAT = "/apis/ccompat/v7"
LONGEST_FETCH_S, LONGEST_START_S = 300, 120

_IVY_FILE = f"""<ivy-module version="2.0" xmlns:m="http://ant.apache.org/ivy/maven">
  <info organisation="kafwire" module="apicurio"/>
  <configurations><conf name="default"/></configurations>
  <dependencies>
    <dependency org="io.apicurio" name="apicurio-registry-app" rev="{VERSION}" conf="default->*" transitive="false">
      <artifact name="apicurio-registry-app" type="tar.gz" ext="tar.gz" m:classifier="all"/>
    </dependency>
  </dependencies>
</ivy-module>
"""


def program() -> Path:
    """Return the registry's jar, with its libraries beside it. Raises `SetupError` if it cannot be fetched."""
    target = cache_folder() / f"apicurio-{VERSION}"
    with (cache_folder() / "resolve.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)  # Ivy's cache allows one writer
        if not target.is_dir():
            _fetch(target)
    return next(target.glob("*-runner.jar"))


def _fetch(target: Path) -> None:
    with tempfile.TemporaryDirectory(dir=target.parent, prefix="resolving-") as scratch:
        ivy_file, unpacked = Path(scratch) / "ivy.xml", Path(scratch) / "unpacked"
        ivy_file.write_text(_IVY_FILE)
        command = [
            *(java(), f"-Divy.default.ivy.user.dir={target.parent / 'ivy'}", "-cp", str(_ivy_jar())),
            *("org.apache.ivy.Main", "-ivy", str(ivy_file), "-cache", str(target.parent / "ivy")),
            *("-confs", "default", "-retrieve", f"{scratch}/[artifact].[ext]"),
        ]
        try:
            done = subprocess.run(command, capture_output=True, text=True, timeout=LONGEST_FETCH_S, check=False)
        except subprocess.TimeoutExpired:
            raise SetupError(f"Ivy did not bring Apicurio's registry within {LONGEST_FETCH_S} s") from None
        archive = Path(scratch) / "apicurio-registry-app.tar.gz"
        if done.returncode or not archive.exists():
            tail = "\n".join(done.stdout.splitlines()[-15:])
            raise SetupError(f"Ivy could not bring Apicurio's registry (exit code {done.returncode}):\n{tail}")
        with tarfile.open(archive) as packed:
            packed.extractall(unpacked, filter="data")
        unpacked.rename(target)


class Apicurio:
    """The registry, while the context lasts. `url` is that of its Confluent-compatible API."""

    def __enter__(self) -> Self:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        self.url = f"http://localhost:{port}{CCOMPAT}"
        self._folder = Path(tempfile.mkdtemp(prefix="apicurio-"))
        log = self._folder / "log"
        with log.open("w") as output:
            self._process = subprocess.Popen(
                [
                    *(java(), "-Xmx400m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"),
                    *("-Dquarkus.http.host=127.0.0.1", f"-Dquarkus.http.port={port}", "-jar", str(program())),
                ],
                cwd=self._folder,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
            )
        try:
            self._await(log)
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._end()

    def _await(self, log: Path) -> None:
        until(lambda: self._responds() or self._process.poll() is not None, "Apicurio's start", LONGEST_START_S)
        if self._process.poll() is not None:
            tail = "\n".join(log.read_text(errors="replace").splitlines()[-30:])
            raise SetupError(f"Apicurio's registry did not start:\n{tail}")

    def _responds(self) -> bool:
        try:
            with urllib.request.urlopen(f"{self.url}/subjects", timeout=5):
                return True
        except (urllib.error.URLError, OSError):
            return False

    def _end(self) -> None:
        self._process.terminate()
        try:
            self._process.wait(20)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(20)
        shutil.rmtree(self._folder, ignore_errors=True)
