"""The exactly-once sink with transactions that never time out (KIP-939), and brokers that do not offer them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import kafwire
from kafwire.cli import main
from kafwire.testing import KafkaCluster
from tests.support.deadlines import until
from tests.support.spark.sink_copies import Copies

UNSTABLE = {"unstable.api.versions.enable": True, "transaction.abort.timed.out.transaction.cleanup.interval.ms": 200}
TWO_PHASE = UNSTABLE | {"transaction.two.phase.commit.enable": True}
OPTIONS = {"kafka.transaction.two.phase.commit.enable": "true", "kafka.transaction.timeout.ms": "1000"}


def test_a_decided_batch_outlives_the_time_out(tmp_path: Path) -> None:
    with KafkaCluster(properties=TWO_PHASE) as cluster:
        copies = Copies(cluster, tmp_path, 18, **OPTIONS)
        with copies.driver("commit transaction 1") as driver:
            assert driver.has_stopped(), driver.output
            driver.kill()
        open_before = copies.ongoing()
        assert len(open_before) == 2
        wait_for_a_time_out(cluster, copies.topic, 1000)
        assert copies.ongoing() == open_before
        copies.run()
        copies.judge()


@pytest.mark.long
def test_recover_aborts_open_transactions_of_an_ended_sink(tmp_path: Path) -> None:
    with KafkaCluster(properties=TWO_PHASE) as cluster:
        copies = Copies(cluster, tmp_path, 18, **OPTIONS)
        with copies.driver("task 2 is prepared") as driver:
            assert driver.has_stopped(), driver.output
            driver.kill()
        wait_for_a_time_out(cluster, copies.topic, 1000)
        assert len(copies.ongoing()) == 3
        with pytest.raises(SystemExit):
            main(["spark", "recover", copies.sink, "-b", cluster.direct])
        assert not copies.ongoing()
        assert copies.copied == []


def wait_for_a_time_out(cluster: KafkaCluster, topic: str, timeout_ms: int) -> None:
    """Return when the coordinator has aborted a transaction that begins now and has a time-out."""
    name = f"{topic}-control"
    options: dict[str, Any] = {"transactional_id": name, "transaction_timeout_ms": timeout_ms}
    with kafwire.Client(cluster.bootstrap) as client, kafwire.Producer(cluster.bootstrap, **options) as producer:
        client.create_topic(name, partitions=1)
        producer.begin_transaction()
        producer.send(name, b"")
        producer.detach()
        request = kafwire.protocol.DescribeTransactionsRequest(transactional_ids=[name])

        def state() -> str:
            return str(client.call(request, broker=1).transaction_states[0].transaction_state)

        assert state() == "Ongoing"
        until(lambda: state() == "CompleteAbort", "the control timed out")


def test_brokers_without_the_version_are_named(cluster: KafkaCluster, tmp_path: Path) -> None:
    said = Copies(cluster, tmp_path, 3, **OPTIONS).run(expected=1)
    assert "failed: ConfigError: option kafka.transaction.two.phase.commit.enable: " in said
    assert "does not offer version 6 of InitProducerId" in said
    assert "unstable.api.versions.enable=true and transaction.two.phase.commit.enable=true" in said


@pytest.mark.long
def test_brokers_that_refuse_the_option_are_explained(tmp_path: Path) -> None:
    with KafkaCluster(properties=UNSTABLE) as cluster:
        said = Copies(cluster, tmp_path, 3, **OPTIONS).run(expected=1)
    assert "TRANSACTIONAL_ID_AUTHORIZATION_FAILED" in said
    assert "note: transaction_two_phase_commit_enable=True needs brokers with unstable.api.versions.enable=true" in said
