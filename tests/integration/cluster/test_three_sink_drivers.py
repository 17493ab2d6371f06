"""Several drivers of one exactly-once sink on three nodes, and transactions of other programs on its state topic."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.testing import KafkaCluster
from tests.support.spark.sink_copies import Copies

ROUNDS = 3
pytestmark = pytest.mark.timeout(300)

# The last two: the take-over of the other driver aborted transactions, of a task that was writing or of prepared ones.
FENCED = (
    "another driver took over the sink|is older than batch"
    "|the broker knows a newer epoch of this producer|is no longer open"
)


def run_together(*queries: Copies) -> None:
    """Run a driver for each query at the same time, several times, and then each query to its end."""
    for _ in range(ROUNDS):
        with ExitStack() as stack:
            drivers = [stack.enter_context(query.driver(is_alone=False)) for query in queries]
            for driver in drivers:
                if driver.ended():
                    assert re.search(FENCED, driver.output), driver.output
    for query in queries:
        query.run()


def test_two_live_drivers_of_one_query_stay_exact(three: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(three, tmp_path, 90)
    run_together(copies, copies)
    assert copies.source == list(range(90))
    copies.judge()


def test_two_queries_with_one_sink_name_stay_exact(three: KafkaCluster, tmp_path: Path) -> None:
    one = Copies(three, tmp_path, 90)
    other = Copies(three, tmp_path, 90, sink=one.sink)
    run_together(one, other)
    for copies in (one, other):
        assert copies.source == list(range(90))
        copies.judge()


def test_another_query_in_the_middle_of_a_batch_is_named(three: KafkaCluster, tmp_path: Path) -> None:
    one = Copies(three, tmp_path, 18)
    other = Copies(three, tmp_path, 18, sink=one.sink)
    with one.driver("task 1 is prepared") as driver:
        assert driver.has_stopped()
        other.run()
        assert driver.resume() == 1
        assert f"OvertakenError: another driver took over the sink {one.sink} while batch 0 ran" in driver.output
    assert one.copied == []
    assert "the sink has committed batches of query" in one.run()
    one.judge()
    other.judge()


def test_a_checkpoint_that_was_used_with_another_sink_name_is_named(three: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(three, tmp_path, 18)
    copies.run(batches=1)
    copies.sink = f"{copies.topic}-renamed"
    assert f"option sink={copies.sink}: batch 1 is the first one of query {copies.topic} with this name" in copies.run()
    assert copies.copied == list(range(18))


@contextmanager
def foreign(copies: Copies, timeout_ms: int) -> Iterator[kafwire.Producer]:
    """Another program with an open transaction on the state topic."""
    options: dict[str, Any] = {"transactional_id": f"{copies.topic}-foreign", "transaction_timeout_ms": timeout_ms}
    with kafwire.Producer(copies.cluster.direct, **options) as producer:
        producer.begin_transaction()
        producer.send(f"kafwire-sink-{copies.sink}", b"foreign", key=b"foreign").result(30)
        yield producer


def test_a_decision_behind_a_foreign_transaction_is_found(three: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(three, tmp_path, 18)
    copies.run(batches=1)
    with copies.driver("write the decision", "commit transaction 1") as driver:
        assert driver.has_stopped()
        with foreign(copies, 4_000) as producer:
            producer.detach()
        driver.go_on()
        assert driver.has_stopped()
        driver.kill()
    said = copies.run()
    assert said.count("last stable offset") > 10, "the driver did not wait for the foreign transaction"
    copies.judge()


def test_a_foreign_transaction_that_stays_open_is_named(three: KafkaCluster, tmp_path: Path) -> None:
    copies = Copies(three, tmp_path, 18, **{"kafka.default.api.timeout.ms": "2000"})
    copies.run(batches=1)
    with foreign(copies, 60_000) as producer:
        said = copies.run(expected=1)
        assert "KafkaTimeoutError: a transaction of another program has been open in the state topic" in said
        assert f"kafwire-sink-{copies.sink}" in said
        producer.abort_transaction()
    copies.run()
    copies.judge()
