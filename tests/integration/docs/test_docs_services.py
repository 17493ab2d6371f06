"""The servers of docs/guide run: gunicorn, uvicorn and Celery, by the commands and files that the pages show."""

from __future__ import annotations

import http.client
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S, ended, until
from tests.support.doc_blocks import blocks, environment, write_files

CELERY_CONFIG = """
broker_url = "filesystem://"
broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
"""


def command(document: str, program: str) -> list[str]:
    """The words of a command that a page shows."""
    lines = [line for block in blocks("") if block.document == document for line in block.text.splitlines()]
    (found,) = (line for line in lines if line.startswith(f"$ {program} "))
    return found.removeprefix("$ ").split()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


class Server:
    """A server of a page, in a process group of its own."""

    def __init__(self, document: str, program: str, folder: Path, kafka: EmbeddedKafka) -> None:
        write_files(document, folder, kafka.bootstrap)
        self.folder = folder
        self.port = free_port()
        words = [word.replace("8000", str(self.port)) for word in command(document, program)]
        path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
        self.log = folder / "server.log"
        with self.log.open("wb") as log:
            self.process = subprocess.Popen(
                words,
                cwd=folder,
                env=environment() | {"PATH": path, "PYTHONUNBUFFERED": "1", "HOME": str(folder)},
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
            return probe.connect_ex(("127.0.0.1", self.port)) == 0

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

    def ended(self) -> None:
        self.process.wait(PATIENCE_S)

    def kill(self) -> None:
        """Kill all its processes."""
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.wait(PATIENCE_S)


@contextmanager
def serving(document: str, program: str, folder: Path, kafka: EmbeddedKafka) -> Iterator[Server]:
    server = Server(document, program, folder, kafka)
    try:
        if program != "celery":
            until(server.listens)
        yield server
    finally:
        server.kill()


def values(kafka: EmbeddedKafka, topic: str) -> list[bytes]:
    return [record.value for record in kafka.records(topic)]


def test_gunicorn_preloads_and_its_workers_flush_at_sigterm(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("flights", "starts"):
        kafka.create_topic(topic)
    sent = [b"flight %d" % number for number in range(12)]
    with serving("processes", "gunicorn", tmp_path, kafka) as server:
        with kafka.hold("Produce", topic="flights"):  # the records are pending when the server is to end
            for value in sent:
                assert server.ask("POST", "/flights", value) == (202, "")
            server.terminate()
            until(lambda: server.said.count("Worker exiting") == 2)
        server.ended()
        assert "KafkaError" not in server.said
    assert sorted(values(kafka, "flights")) == sorted(sent)
    assert values(kafka, "starts") == [b"the application is loaded"]


def test_celery_workers_have_a_producer_each(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights")
    (tmp_path / "queue").mkdir()
    (tmp_path / "celeryconfig.py").write_text(CELERY_CONFIG)
    with serving("processes", "celery", tmp_path, kafka) as server:
        call = "import tasks\nfor number in range(8): tasks.book.delay(f'flight {number}')"
        subprocess.run([sys.executable, "-c", call], cwd=tmp_path, env=environment(), check=True)
        until(lambda: len(kafka.records("flights")) == 8 or "Traceback" in server.said)
        assert "Traceback" not in server.said, server.said
    assert sorted(values(kafka, "flights")) == [b"flight %d" % number for number in range(8)]


def test_fastapi_stores_counts_and_flushes_at_sigterm(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("flights", "clicks"):
        kafka.create_topic(topic)
    with serving("web-services", "uvicorn", tmp_path, kafka) as server:
        assert server.ask("POST", "/flights", b"EWR-IAH") == (201, {"partition": 0, "offset": 0})
        assert server.ask("POST", "/flights", b"x" * 1_100_000)[0] == 413
        until(lambda: server.ask("GET", "/counts") == (200, {"EWR-IAH": 1}))
        assert server.ask("GET", "/ready") == (200, {"buffer_used": 0})
        kafka.stop_node(1)
        status, refused = server.ask("POST", "/clicks", b"a topic whose partitions are not known")
        assert status == 503
        assert "no broker can be reached" in refused["error"]
        kafka.start_node(1)
        until(lambda: server.ask("POST", "/clicks", b"click")[0] == 202)
        with kafka.hold("Produce"):
            for _ in range(2):
                assert server.ask("POST", "/clicks", b"click") == (202, "null")
            server.terminate()
            until(lambda: "Waiting for application shutdown" in server.said)
        server.ended()
    assert values(kafka, "clicks") == [b"click"] * 3


def test_fastapi_turns_a_full_buffer_into_503(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("flights", "clicks"):
        kafka.create_topic(topic)
    with serving("web-services", "uvicorn", tmp_path, kafka) as server:
        with kafka.hold("Produce"):
            statuses = [server.ask("POST", "/clicks", b"c" * 900_000)[0] for _ in range(19)]
            assert statuses == [202] * 18 + [503], "16 MiB, and a moment later none of it is free"
            assert server.ask("GET", "/ready")[0] == 503
        until(lambda: server.ask("GET", "/ready")[0] == 200)
        assert server.ask("POST", "/clicks", b"again")[0] == 202


def test_flask_stores_in_threads_of_forked_workers(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights")
    sent = [b"flight %d" % number for number in range(20)]
    with serving("web-services", "gunicorn", tmp_path, kafka) as server:
        found: list[tuple[int, Any]] = []
        threads = [
            threading.Thread(target=lambda value=value: found.append(server.ask("POST", "/flights", value)))
            for value in sent
        ]
        for thread in threads:
            thread.start()
        ended(*threads)
        assert {status for status, _ in found} == {201}
        assert sorted(response["offset"] for _, response in found) == list(range(20))
        assert server.ask("GET", "/ready") == (200, {"buffer_used": 0})
        kafka.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
        status, text = server.ask("POST", "/flights", b"refused")
        assert status == 503
        assert "TOPIC_AUTHORIZATION_FAILED" in text
    assert sorted(values(kafka, "flights")) == sorted(sent)


def test_no_other_file_is_shown() -> None:
    assert {(block.document, block.file) for block in blocks("python") if block.file} == {
        *(("processes", file) for file in ("events.py", "app.py", "gunicorn_config.py", "tasks.py")),
        *(("web-services", file) for file in ("service.py", "flask_service.py")),
        ("exactly-once", "billing.py"),  # test_docs_guide
        ("unit-tests", "conftest.py"),  # test_docs writes it beside the tests of that page
    }
