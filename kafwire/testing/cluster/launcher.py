"""Launcher of programs from Kafka's jars, each in its own process, which does not outlive this one."""

import subprocess
from collections.abc import Sequence
from pathlib import Path

from kafwire.testing.cluster.guard import Guard
from kafwire.testing.cluster.kafka import LOG4J2_CONFIGURATION, class_path, java, kept


class Launcher:
    """The launcher of one cluster's programs.

    `version` is Kafka's, `heap` Java's `-Xmx`; `quick` makes Java compile quickly.
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
        """Launch programs of another version from now on; raises `SetupError` if it cannot be fetched."""
        self._class_path = class_path(version)
        self.version = version

    def open(self, folder: Path, jvm_options: Sequence[str] = ()) -> None:
        """Prepare for launches, with these options of the JVM too.

        When this process ends, the guard kills all launched programs and removes `folder`.
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
            # In its own session: Ctrl-C reaches only this process, which then stops the node cleanly.
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
        """Note that a launched process has ended and was waited for."""
        if self._guard is not None:
            self._guard.ended(pid)

    def close(self) -> None:
        """Close the guard: no launch follows."""
        if self._guard is not None:
            self._guard.close()
            self._guard = None


def class_archive(version: str) -> Path:
    """Return the path of the archive of a node's classes (JEP 350), which `cluster.prepare` creates."""
    return kept(version, "classes")
