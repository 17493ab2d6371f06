"""The programs of docs/guide/porting: each before, with another client, and after, with kafwire; and their outcomes.

Both run on brokers of their own with the same topics and records.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

import kafwire
from kafwire.protocol import ListGroupsRequest, ListTransactionsRequest
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until
from tests.support.doc_blocks import ADDRESS, ROOT, Block, blocks, environment

PAGES = ROOT / "docs" / "guide" / "porting"
CONFIGS = {
    "auto.create.topics.enable": False,
    "group.initial.rebalance.delay.ms": 0,
    "log.retention.ms": -1,  # the orders are years old
}
COMPACTED: dict[str, Any] = {"cleanup.policy": "compact"}
ORDERS = 20
FIRST_MS = 1_700_000_000_000  # the timestamp of the first order; they are a second apart
_SET_MS = FIRST_MS + 1_000_000  # an earlier timestamp is one that a program has set
TIMEOUT_S = 60
ENDED = ("Empty", "CompleteCommit", "CompleteAbort")


@dataclass(frozen=True)
class Ported:
    """A program under a heading of a page."""

    page: str
    heading: str
    before: Block
    after: Block

    def __str__(self) -> str:
        return f"{self.page}: {self.heading}"


def ported(page: str) -> Iterator[Ported]:
    """The programs of a page; `ValueError` if a heading has other than two blocks."""
    text = (PAGES / f"{page}.md").read_text()
    lines = text.splitlines()

    def heading(block: Block) -> str:
        above = [line for line in lines[: block.line] if line.startswith("#") and " " in line]
        return next(line.lstrip("# ") for line in reversed(above) if line.startswith(("## ", "### ")))

    for name, found in groupby((block for block in blocks("python") if block.document == page), heading):
        before, after = found
        yield Ported(page, name, before, after)


def staged(with_: ExitStack) -> EmbeddedKafka:
    """A broker with 20 orders of 4 customers, and topics to write to."""
    kafka = with_.enter_context(EmbeddedKafka(configs=CONFIGS))
    kafka.create_topic("orders", partitions=2)
    kafka.create_topic("bills", partitions=2)
    kafka.create_topic("prices", **COMPACTED)
    for number in range(ORDERS):
        order = {
            "key": f"customer {number % 4}".encode(),
            "value": json.dumps({"order": number, "books": number % 5}).encode(),
            "headers": [("source", b"shop")],
            "timestamp_ms": FIRST_MS + 1000 * number,
        }
        kafka.append("orders", [order], partition=number % 2)
    return kafka


def run_both(program: Ported, folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Run both forms at the same time; returns their outcomes. The form that fails is an `AssertionError`."""
    with ExitStack() as with_:
        kafkas = [staged(with_), staged(with_)]
        forms = [(program.before, []), (program.after, ["-W", "error"])]
        running = []
        for kafka, (block, warnings) in zip(kafkas, forms, strict=True):
            file = folder / f"{block}.py"
            file.write_text(block.text.replace(ADDRESS, kafka.bootstrap))
            command = [sys.executable, *warnings, str(file)]
            running.append(
                subprocess.Popen(
                    command, cwd=folder, env=environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
                )
            )
            with_.callback(running[-1].kill)
        outcomes = []
        for kafka, process, (block, _) in zip(kafkas, running, forms, strict=True):
            printed, errors = process.communicate(timeout=TIMEOUT_S)
            assert process.returncode == 0, f"{block.document}.md, line {block.line}: {errors[-3000:]}"
            outcomes.append({"printed": printed.splitlines(), **outcome(kafka)})
        return outcomes[0], outcomes[1]


def transactions_end(client: kafwire.Client) -> None:
    """Wait until no transaction is open: its records are seen when its markers are written, after the commit."""

    def ended() -> bool:
        found = client.call(ListTransactionsRequest()).transaction_states
        return all(each.transaction_state in ENDED for each in found)

    until(ended)


def outcome(kafka: EmbeddedKafka) -> dict[str, Any]:
    """The state that a client left on a broker: topics with their options, committed records, committed offsets."""
    with kafwire.Client(kafka.bootstrap) as client:
        transactions_end(client)
        topics = {topic.name: topic for topic in client.metadata().topics if not topic.is_internal}
        groups = [group.group_id for group in client.call(ListGroupsRequest()).groups]
        return {
            "topics": {name: (len(topic.partitions), client.topic_config(name)) for name, topic in topics.items()},
            "records": {name: records for name in topics if (records := records_of(kafka, name))},
            "committed": {group: dict(kafka.committed(group)) for group in groups},
        }


def records_of(kafka: EmbeddedKafka, topic: str) -> dict[tuple[int, bytes | None], list[Any]]:
    """The committed records, in order for each partition and key: only that order is the same in every run.

    Offsets are left out, as transactions take some; timestamps, where no program has set them.
    """
    found: dict[tuple[int, bytes | None], list[Any]] = {}
    for record in kafka.records(topic, committed=True):
        assert record.partition is not None
        set_ms = record.timestamp_ms if (record.timestamp_ms or 0) < _SET_MS else None
        found.setdefault((record.partition, record.key), []).append((record.value, record.headers, set_ms))
    return found
