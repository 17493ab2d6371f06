"""Programs of Kafka's jars, each in a process of its own that does not outlive this one."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kafwire.testing.guard import Guard
from kafwire.testing.kafka import LOG4J2_CONFIGURATION, class_path, java, kept


class Launcher:
    """Launches the programs of one cluster.

    `version` is Kafka's, `heap` Java's `-Xmx`; `quick` has Java compile quickly.
    """

    def __init__(self, version: str, *, heap: str, jvm_options: Sequence[str], quick: bool) -> None:
        self.version = version
        self._heap = heap
        self._jvm_options = list(jvm_options)
        self._own_options: list[str] = []
        self._quick = quick
        self._class_path = ""
        self._logging = Path()
        self._guard: Guard | None = None

    def use_version(self, version: str) -> None:
        """Launch programs of another version from now on; raises `SetupError` where it cannot be had."""
        self._class_path = class_path(version)
        self.version = version

    def open(self, folder: Path, jvm_options: Sequence[str] = ()) -> None:
        """Be ready to launch nodes, with these options of the JVM too.

        `folder` goes when this process has ended, and all that was launched with it.
        """
        self._own_options = list(jvm_options)
        self._logging = folder / "log4j2.xml"
        self._logging.write_text(LOG4J2_CONFIGURATION)
        self._guard = Guard(folder)

    def launch(
        self, main: str, *arguments: str, log_file: Path, options: Sequence[str] = ()
    ) -> "subprocess.Popen[bytes]":
        """Start the program of the class `main`; `options` are the JVM's, in place of a node's."""
        command = [
            java(),
            *(options or self._node_options()),
            "-Djava.awt.headless=true",
            f"-Dlog4j2.configurationFile={self._logging}",
            *("-cp", self._class_path),
            main,
            *arguments,
        ]
        with log_file.open("ab") as log:
            # A session of its own: Ctrl-C reaches this process only, which then stops the node in order.
            process = subprocess.Popen(
                command,
                cwd=log_file.parent,
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        if self._guard is not None:
            self._guard.started(process.pid)
        return process

    def _node_options(self) -> list[str]:
        archive = class_archive(self.version)
        return [
            f"-Xmx{self._heap}",
            "-XX:+UseG1GC",
            "-XX:MaxGCPauseMillis=20",
            "-XX:InitiatingHeapOccupancyPercent=35",
            *(["-XX:TieredStopAtLevel=1"] if self._quick else []),
            *(["-Xshare:auto", f"-XX:SharedArchiveFile={archive}"] if archive.exists() else []),
            *self._own_options,
            *self._jvm_options,
        ]

    def ended(self, pid: int) -> None:
        """What was launched has ended, and its process is waited for."""
        if self._guard is not None:
            self._guard.ended(pid)

    def close(self) -> None:
        """Launch nothing more."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None


def class_archive(version: str) -> Path:
    """Where the archive of the classes that a node loads is (JEP 350), if `cluster.prepare` has made it."""
    return kept(version, "classes")
