"""The shop of docs/guide/django.md, played as its reader does: on SQLite or, with other settings, on PostgreSQL."""

from __future__ import annotations

import json
import subprocess
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import PATIENCE_S, until
from tests.support.doc_blocks import write_files
from tests.support.doc_servers import Server, command, environment_of, running, serving

RELAY = "python -m django relay"


@contextmanager
def shop(kafka: EmbeddedKafka, folder: Path, *settings: str) -> Iterator[Server]:
    """The web server, on a database that Django has made; `settings` are lines after those of the page."""
    kafka.create_topic("orders", partitions=2)
    write_files("django", folder, kafka.bootstrap)
    with (folder / "settings.py").open("a") as file:
        file.writelines(f"{line}\n" for line in settings)
    for step in ("makemigrations", "migrate"):
        subprocess.run(
            command("django", f"python -m django {step}"), cwd=folder, env=environment_of(folder), check=True
        )
    with serving("django", "gunicorn", folder, kafka) as server:
        yield server


def events(kafka: EmbeddedKafka) -> dict[bytes, list[str]]:
    """The events of each order that a reader of committed records finds, in their order."""
    found: dict[bytes, list[str]] = defaultdict(list)
    for record in kafka.records("orders", committed=True):
        assert record.key is not None
        assert record.value is not None
        event = json.loads(record.value)["event"]
        assert record.headers == [("event", event.encode())]
        found[record.key].append(event)
    return found


def place_and_pay(server: Server, what: str) -> bytes:
    """The key of an order that is placed and paid, for which two requests compete."""
    status, placed = server.ask("POST", "/orders", what.encode())
    assert status == 201, placed
    with ThreadPoolExecutor() as callers:
        paid = [callers.submit(server.ask, "POST", f"/orders/{placed['order']}/pay") for _ in range(2)]
        assert [each.result(PATIENCE_S) for each in paid] == [(200, placed)] * 2
    return b"%d" % placed["order"]


def each_event_comes_once(kafka: EmbeddedKafka, server: Server) -> None:
    """Orders before a relay runs, while it is killed and while one runs: each has its two events, in order."""
    keys = [place_and_pay(server, f"lamp {number}") for number in range(10)]
    with running("django", RELAY, server.folder, kafka) as relay, kafka.hold("EndTxn"):
        until(lambda: len(kafka.records("orders")) >= 20 or relay.process.poll() is not None)
        assert relay.process.poll() is None, relay.said
        relay.kill()
        assert not events(kafka), relay.said
    with running("django", RELAY, server.folder, kafka) as relay:
        with ThreadPoolExecutor(4) as callers:
            keys += callers.map(lambda number: place_and_pay(server, f"chair {number}"), range(20))
        until(lambda: sum(map(len, events(kafka).values())) >= 60 or relay.process.poll() is not None)
        relay.terminate()
        assert relay.ended() == 0, relay.said
    assert events(kafka) == {key: ["placed", "paid"] for key in keys}
