"""The servers of docs/guide run: gunicorn, uvicorn and Celery, by the commands and files that the pages show."""

from __future__ import annotations

import re
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from kafwire.testing import EmbeddedKafka, KafkaCluster
from tests.support.deadlines import PATIENCE_S, ended, until
from tests.support.doc_blocks import blocks, environment, write_files
from tests.support.doc_servers import running, serving, values
from tests.support.real_topics import committed, create

CELERY_CONFIG = """
broker_url = "filesystem://"
broker_transport_options = {"data_folder_in": "queue", "data_folder_out": "queue"}
"""

SIGTERM_SEEN = re.compile("Shutting down|Handling signal: term")  # by uvicorn's servers and workers, and by gunicorn

LATER = """
@app.task
def later(flight):
    producer().send("flights", flight.encode())
    print("sent later")
"""


def write_lingering_files(folder: Path, kafka: EmbeddedKafka) -> None:
    """Write the files of processes.md, with a producer that sends nothing for a minute unless it is flushed."""
    write_files("processes", folder, kafka.bootstrap)
    events = folder / "events.py"
    events.write_text(events.read_text().replace("Producer(", "Producer(linger_ms=60_000, bootstrap_servers=", 1))


@pytest.mark.parametrize("worker_class", ["sync", "gthread", "gevent"])
def test_gunicorn_preloads_and_its_workers_flush_at_sigterm(
    kafka: EmbeddedKafka, tmp_path: Path, worker_class: str
) -> None:
    for topic in ("flights", "starts"):
        kafka.create_topic(topic)
    sent = [b"flight %d" % number for number in range(12)]
    with serving("processes", "gunicorn", tmp_path, kafka, "--worker-class", worker_class) as server:
        with kafka.hold("Produce", topic="flights"):  # the records are pending when the server is to end
            for value in sent:
                assert server.ask("POST", "/flights", value) == (202, "")
            server.terminate()
            until(lambda: server.said.count("Worker exiting") == 2)
        server.ended()
        assert "KafkaError" not in server.said
    assert sorted(values(kafka, "flights")) == sorted(sent)
    assert values(kafka, "starts") == [b"the application is loaded"]


def test_workers_that_gunicorn_replaces_flush_without_the_hook(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("flights", "starts"):
        kafka.create_topic(topic)
    sent = [b"flight %d" % number for number in range(30)]
    write_lingering_files(tmp_path, kafka)
    config = tmp_path / "gunicorn_config.py"
    config.write_text(config.read_text().partition("def worker_exit")[0])
    with serving("processes", "gunicorn", tmp_path, kafka, "--max-requests", "5") as server:
        for value in sent:
            assert server.ask("POST", "/flights", value) == (202, "")
        until(lambda: len(kafka.records("flights")) >= 20)
        server.terminate()
        assert server.ended() == 0, server.said
    assert sorted(values(kafka, "flights")) == sorted(sent)


def test_gunicorns_workers_flush_to_apache_kafka(cluster: KafkaCluster, tmp_path: Path) -> None:
    for topic in ("flights", "starts"):
        create(cluster, topic, 2)
    sent = [b"flight %d" % number for number in range(200)]
    with serving("processes", "gunicorn", tmp_path, cluster) as server:
        with ThreadPoolExecutor(4) as callers:
            assert set(callers.map(lambda value: server.ask("POST", "/flights", value), sent)) == {(202, "")}
        server.terminate()
        assert server.ended() == 0, server.said
        assert server.said.count("Worker exiting") == 2
    assert committed(cluster, "flights") == sorted(sent)
    assert committed(cluster, "starts") == [b"the application is loaded"]


def test_celery_workers_have_a_producer_each(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights")
    (tmp_path / "queue").mkdir()
    (tmp_path / "celeryconfig.py").write_text(CELERY_CONFIG)
    with running("processes", "celery", tmp_path, kafka) as server:
        call = "import tasks\nfor number in range(8): tasks.book.delay(f'flight {number}')"
        subprocess.run([sys.executable, "-c", call], cwd=tmp_path, env=environment(), check=True)
        until(lambda: len(kafka.records("flights")) == 8 or "Traceback" in server.said)
        assert "Traceback" not in server.said, server.said
    assert sorted(values(kafka, "flights")) == [b"flight %d" % number for number in range(8)]


@pytest.mark.parametrize("pool", ["prefork", "threads"])
def test_celery_workers_flush_at_sigterm(kafka: EmbeddedKafka, tmp_path: Path, pool: str) -> None:
    kafka.create_topic("flights")
    (tmp_path / "queue").mkdir()
    (tmp_path / "celeryconfig.py").write_text(CELERY_CONFIG)
    write_lingering_files(tmp_path, kafka)
    with (tmp_path / "tasks.py").open("a") as file:
        file.write(LATER)
    with running("processes", "celery", tmp_path, kafka, "--pool", pool) as server:
        call = "import tasks\nfor number in range(8): tasks.later.delay(f'flight {number}')"
        subprocess.run([sys.executable, "-c", call], cwd=tmp_path, env=environment(), check=True)
        until(lambda: server.said.count("sent later") == 8 or "Traceback" in server.said)
        with kafka.hold("Produce") as held:
            assert not held.times, "they linger for a minute"
            server.terminate()
            until(lambda: held.times or server.process.poll() is not None)
        assert server.ended() == 0, server.said
    assert sorted(values(kafka, "flights")) == [b"flight %d" % number for number in range(8)]


def test_fastapi_stores_counts_and_flushes_at_sigterm(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("flights", "clicks"):
        kafka.create_topic(topic)
    with serving("web-services", "uvicorn service:app", tmp_path, kafka) as server:
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


@pytest.mark.parametrize(
    "command",
    [
        ("uvicorn service:app",),
        ("uvicorn service:app", "--workers", "2"),
        ("uvicorn starlette_service:app",),
        ("gunicorn",),
    ],
    ids=" ".join,
)
def test_a_request_that_waits_at_sigterm_gets_its_201(
    kafka: EmbeddedKafka, tmp_path: Path, command: tuple[str, ...]
) -> None:
    kafka.create_topic("flights")
    program, *options = command
    with serving("web-services", program, tmp_path, kafka, *options) as server:
        with ThreadPoolExecutor() as caller:
            with kafka.hold("Produce") as held:
                waiting = caller.submit(server.ask, "POST", "/flights", b"EWR-IAH")
                until(lambda: held.times)
                server.terminate()
                until(lambda: SIGTERM_SEEN.search(server.said))
                assert not waiting.done()
            assert waiting.result(PATIENCE_S) == (201, {"partition": 0, "offset": 0})
        server.ended()
        assert "Traceback" not in server.said
    assert values(kafka, "flights") == [b"EWR-IAH"]


def test_starlette_stores_and_reports_errors(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    kafka.create_topic("flights")
    with serving("web-services", "uvicorn starlette_service:app", tmp_path, kafka) as server:
        assert server.ask("POST", "/flights", b"EWR-IAH") == (201, {"partition": 0, "offset": 0})
        assert server.ask("POST", "/flights", b"x" * 1_100_000)[0] == 413
        kafka.fail_next("Produce", "TOPIC_AUTHORIZATION_FAILED")
        status, refused = server.ask("POST", "/flights", b"refused")
        assert status == 503
        assert "TOPIC_AUTHORIZATION_FAILED" in refused["error"]


def test_fastapi_turns_a_full_buffer_into_503(kafka: EmbeddedKafka, tmp_path: Path) -> None:
    for topic in ("flights", "clicks"):
        kafka.create_topic(topic)
    with serving("web-services", "uvicorn service:app", tmp_path, kafka) as server:
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
        *(("web-services", file) for file in ("service.py", "starlette_service.py", "flask_service.py")),
        ("exactly-once", "billing.py"),  # test_docs_guide
        *(("streams", file) for file in ("billing.py", "billing_exactly.py")),  # test_docs_programs
        ("latest-value", "prices.py"),
        *(("django", file) for file in ("settings.py", "shop/models.py", "shop/urls.py")),
        ("django", "shop/management/commands/relay.py"),
        ("unit-tests", "conftest.py"),  # test_docs writes it beside the tests of that page
    }
