"""The tests of clients that cannot pass on a profile of another server: why, and the error that each ends with there.

    KAFKA=event-hubs pytest tests/integration

runs the tests marked `either_kafka` that need no other cluster. A listed test is an expected failure if it ends with
its error, and fails if it passes: its row is out of date then. `tests/unit/broker/test_server_gaps.py` finds a row
without a test.
"""

from __future__ import annotations

import os
import re
from collections.abc import Generator
from typing import NamedTuple

import pytest

from kafwire.broker.profiles import PROFILES


class Gap(NamedTuple):
    """Tests whose id matches the pattern `test`, on these servers; the failure's text matches `error`."""

    servers: frozenset[str]
    reason: str
    test: str
    error: str


def _gaps(servers: str, reason: str, *rows: tuple[str, str]) -> list[Gap]:
    return [Gap(frozenset(servers.split()), reason, test, error) for test, error in rows]


def _lacks(api: str) -> str:
    return rf"does not offer {api}Request \(api key \d+\)"


GAPS = [
    *_gaps(
        "redpanda event-hubs",
        "topics have no ids, so a recreated topic looks like the old one",
        (r"test_client\.py::test_a_topic_from_its_making_to_its_end", r"UUID\('00000000-0000"),
        (r"test_consumer_ways\.py::test_0107_a_topic_deleted_and_made_again", "records of the new topic"),
        (r"test_scan_parts\.py::test_a_piece_of_a_recreated_topic_is_refused", "DID NOT RAISE"),
        (r"test_parquet_copy\.py::test_a_copy_that_does_not_fit_to_the_topic_is_refused", "DID NOT RAISE"),
        (r"test_parquet_copy\.py::test_a_topic_that_was_recreated_is_refused", "assert 0 == 1"),
        (
            r"test_scan_kafka\.py::test_a_topic_that_is_recreated_is_an_error",
            "gave no records from offset 0 on for 60 s",
        ),
    ),
    *_gaps(
        "redpanda",
        "topics have no ids, so the description of a topic has none",
        (r"test_topics\.py::test_topics_from_their_creation", "assert None is not None"),
    ),
    *_gaps(
        "redpanda event-hubs warpstream",
        "the API is missing",
        (r"test_configs\.py::test_resources_are_listed", _lacks("ListConfigResources")),
    ),
    *_gaps(
        "redpanda",
        "the API is missing",
        (r"test_configs\.py::test_subscriptions_of_client_metrics", _lacks("ListConfigResources")),
    ),
    *_gaps(
        "event-hubs warpstream",
        "the API is missing",
        (r"test_configs\.py::test_(options|subscriptions)_of", _lacks("IncrementalAlterConfigs")),
        (r"test_scan_kafka\.py::test_a_record_with_the_time_of_a_producer", _lacks("IncrementalAlterConfigs")),
        (r"test_parquet_copy\.py::test_deleted_records_are_an_error_or_a_gap", _lacks("DeleteRecords")),
    ),
    *_gaps(
        "warpstream",
        "the API is missing",
        (r"test_records\.py::test_offsets_before_and_after_a_deletion", _lacks("DeleteRecords")),
    ),
    *_gaps(
        "redpanda event-hubs automq",
        "ListOffsets is too old for the place that the test asks for",
        (r"test_records\.py::test_offsets_before_and_after_a_deletion", r"needs Kafka 3\.[08] or newer"),
    ),
    *_gaps(
        "redpanda event-hubs warpstream automq",
        "share groups are missing; where IncrementalAlterConfigs is too, the fixture ends with its lack",
        (
            r"test_share_consumer\.py::(?!test_a_topic_that_does_not_exist)",
            f"the cluster does not have this protocol of groups|{_lacks('IncrementalAlterConfigs')}",
        ),
    ),
    *_gaps(
        "redpanda warpstream automq",
        "transactions of version 1 fence the producer of a transaction that took too long",
        (r"test_outbox_given_up\.py::test_a_(transaction|batch)_that", "ProducerFencedError"),
    ),
    *_gaps(
        "automq",
        "ListConfigResources 0 lists subscriptions alone",
        (r"test_configs\.py::test_resources_are_listed", r"needs Kafka 4\.1 or newer"),
    ),
    *_gaps(
        "event-hubs",
        "Metadata is too old for operations",
        (r"test_topics\.py::test_topics_from_their_creation", r"authorized_operations=True needs Kafka 2\.3 or newer"),
    ),
    *_gaps(
        "event-hubs",
        "Fetch is too old for sessions",
        (r"test_consumer_process\.py::test_a_thousand_partitions", "bytes in 20 requests"),
    ),
    *_gaps(
        "event-hubs",
        "a batch of rows is larger than the largest request",
        (r"test_producing_on_broker\.py::test_an_async_producer", "lower max_request_size"),
    ),
    *_gaps(
        "event-hubs",
        "transactions are missing",
        (r"test_parquet_copy\.py::test_aborted_records_are_not_copied", _lacks("AddPartitionsToTxn")),
        (r"test_producing_on_broker\.py::test_transactions_awaited", _lacks("AddPartitionsToTxn")),
        (r"test_history_observe\.py::test_two_clients_and_two_observers", r"AddOffsetsToTxnRequest .* not supported"),
        # librdkafka sends no record of the transaction, and reports no error within the test's time.
        (r"test_history_observe\.py::test_a_transaction_in_between_ends_the_judged_part", "assert 100 == 101"),
    ),
]


# Tests that a server leaves out, by the beginning of their ids: nearly all meet the same gap, each after a wait.
LEFT_OUT = {
    "event-hubs": {"tests/integration/outbox/": "an outbox needs transactions (tests/unit/broker/test_profiles.py)"}
}


def server_of(item: pytest.Item) -> str | None:
    """Return the profile that a test runs on; None: it runs on Kafka, or on the embedded broker as it is."""
    server = os.environ.get("KAFKA", "")
    return server if server in PROFILES and item.get_closest_marker("either_kafka") else None


def _is_on_one_cluster(item: pytest.Item) -> bool:
    """False if the test needs a cluster of another release of Kafka, by a fixture or by a parameter."""
    parameters = item.callspec.params.values() if hasattr(item, "callspec") else ()
    named = [*getattr(item, "fixturenames", ()), *(each for each in parameters if isinstance(each, str))]
    return not any(re.fullmatch(r"cluster_\d+", each) for each in named)


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """On a profile, run the tests of clients alone."""
    server = os.environ.get("KAFKA", "")
    if server not in PROFILES:
        return
    out = tuple(LEFT_OUT.get(server, ()))
    kept = [
        item
        for item in items
        if server_of(item) is not None and _is_on_one_cluster(item) and not item.nodeid.startswith(out)
    ]
    config.hook.pytest_deselected(items=[item for item in items if item not in kept])
    items[:] = kept


def gap_of(server: str, nodeid: str) -> Gap | None:
    """Return the gap that a test meets on a server."""
    return next((gap for gap in GAPS if server in gap.servers and re.search(gap.test, nodeid)), None)


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Make the failure of a listed test, or of its fixture, an expected one; fail the test if it passed."""
    report = yield
    server = server_of(item)
    gap = None if server is None else gap_of(server, item.nodeid)
    if gap is None or report.when == "teardown":
        return report
    if report.failed and re.search(gap.error, report.longreprtext):
        report.outcome, report.wasxfail = "skipped", gap.reason
    elif report.when == "call" and report.passed:
        report.outcome, report.longrepr = "failed", f"the gap {gap.test!r} is closed: remove its row"
    return report
