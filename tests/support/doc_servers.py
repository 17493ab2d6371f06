"""Programs of the documents in processes of their own, started by the commands that the pages show."""

from __future__ import annotations

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.deadlines import PATIENCE_S, until
from tests.support.doc_blocks import blocks, environment, write_files


def command(document: str, program: str) -> list[str]:
    """The words of the command of a page that begins so."""
    lines = [line for block in blocks("") if block.document == document for line in block.text.splitlines()]
    (found,) = (line for line in lines if f"{line} ".startswith(f"$ {program} "))
    return shlex.split(found.removeprefix("$ "))


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of a command of a page, whose `python` is this interpreter and whose home is `folder`."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return environment() | {"PATH": path, "PYTHONUNBUFFERED": "1", "HOME": str(folder)}


# A worker that gets SIGTERM before this takes it for its parent's signal, and goes on for the graceful timeout.
READY = "This worker takes signals."
_HOOK = f"""
def post_worker_init(worker):
    worker.log.info("{READY}")
"""


def report_workers(folder: Path, words: list[str]) -> int:
    """Let each worker of a gunicorn command report that it takes signals; returns their number."""
    file = folder / (words[words.index("--config") + 1] if "--config" in words else "gunicorn.conf.py")
    config = file.read_text() if file.exists() else ""
    file.write_text(config + _HOOK)
    (count,) = re.findall(r"^workers = (\d+)$|--workers (\d+)", f"{config}\n{shlex.join(words)}", re.MULTILINE)
    return int("".join(count))


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A program of a page, in a process group of its own; many are servers."""

    def __init__(
        self, document: str, program: str, folder: Path, kafka: EmbeddedKafka | KafkaCluster, *options: str
    ) -> None:
        write_files(document, folder, kafka.bootstrap)
        self.folder = folder
        self.port = free_port()
        words = [word.replace("8000", str(self.port)) for word in command(document, program)]
        self._workers = report_workers(folder, words) if program == "gunicorn" else 0
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                [*words, *options],
                cwd=folder,
                env=environment_of(folder),
                stdout=log,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    @property
    def said(self) -> str:
        return self.log.read_text()

    def listens(self) -> bool:
        assert self.process.poll() is None, self.said
        with socket.socket() as probe:
            is_open = probe.connect_ex(("127.0.0.1", self.port)) == 0
        return is_open and self.said.count(READY) >= self._workers

    def ask(self, method: str, path: str, body: bytes | None = None) -> tuple[int, Any]:
        """The status of a response, and its JSON or text."""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=PATIENCE_S)
        connection.request(method, path, body)
        response = connection.getresponse()
        text = response.read().decode()
        connection.close()
        return response.status, json.loads(text) if text.startswith("{") else text

    def terminate(self) -> None:
        os.kill(self.process.pid, signal.SIGTERM)

    def ended(self) -> int:
        """Wait for its end; returns its exit code."""
        return self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


@contextmanager
def running(
    document: str, program: str, folder: Path, kafka: EmbeddedKafka | KafkaCluster, *options: str
) -> Iterator[Server]:
    """A program of a page; killed at the end, if it still runs."""
    server = Server(document, program, folder, kafka, *options)
    try:
        yield server
    finally:
        server.kill()


@contextmanager
def serving(
    document: str, program: str, folder: Path, kafka: EmbeddedKafka | KafkaCluster, *options: str
) -> Iterator[Server]:
    """A program that listens; `options` come after those of the page."""
    with running(document, program, folder, kafka, *options) as server:
        until(server.listens)
        yield server


def values(kafka: EmbeddedKafka, topic: str) -> list[bytes]:
    return [record.value for record in kafka.records(topic)]
