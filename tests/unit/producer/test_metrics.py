"""The counters of a producer, and its hook: `producer.metrics` behind the sender, in a simulated world."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from kafwire.errors import ErrorCode
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call
from tests.support.simulated.producer import Work, errors, values
from tests.support.simulated.world import World


def metrics(work: Work) -> Any:
    return work.core.metrics()


def test_metrics_before_the_first_record() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", buffer_memory=5000)
        found = metrics(work)
        assert found["partitions"] == {}
        total = found["producer"]
        assert (total["records"], total["batch_bytes_mean"], total["compression_ratio"]) == (0, None, None)
        assert (total["buffer_used"], total["buffer_memory"], total["waiting_senders"]) == (0, 5000, 0)


def test_records_batches_and_partitions() -> None:
    with World() as world:
        for topic in "tu":
            world.create_topic(topic, partitions=2)
        work = Work(world, "t", "u", compression_type="lz4")
        for value in values(10, size=100):
            work.send("t", value, partition=1)
        work.send("u", b"v")
        waiting = metrics(work)["producer"]
        assert waiting["buffer_used"] == work.used > 1000
        assert waiting["records"] == 0
        work.flush()
        work.send("u", b"v" * 3000)
        work.flush()
        found = metrics(work)
        assert set(found["partitions"]) == {"t-1", "u-0"}
        sizes = [len(stored.data) for stored in world.topics["u"].partitions[0].batches]
        of_t, of_u = found["partitions"]["t-1"], found["partitions"]["u-0"]
        assert (of_t["records"], of_t["batches"], of_t["batch_records_mean"]) == (10, 1, 10)
        assert (of_u["records"], of_u["batches"], of_u["bytes"]) == (2, 2, sum(sizes))
        assert (of_u["batch_bytes_max"], of_u["batch_bytes_mean"]) == (max(sizes), sum(sizes) / 2)
        assert 0 < of_t["compression_ratio"] < 0.5
        assert (of_u["batches_waiting"], of_u["batches_in_flight"]) == (0, 0)
        total = found["producer"]
        assert (total["records"], total["records_delivered"], total["batches"]) == (12, 12, 3)
        assert total["bytes"] == of_t["bytes"] + of_u["bytes"]
        assert total["batch_bytes_max"] == max(of_t["batch_bytes_max"], of_u["batch_bytes_max"])
        assert total["requests"] == len(world.made("Produce")) + 1  # the connection's first asks for versions
        assert (total["requests_in_flight"], total["retries"], total["errors"]) == (0, 0, {})
        assert total["request_latency_ms_mean"] > 0
        assert {connection["role"] for connection in found["connections"]} >= {"produce"}
        assert total["buffer_used"] == 0


def test_uncompressed_batches_have_a_ratio_of_one() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        work.send("t", bytes(1000))
        work.flush()
        assert metrics(work)["producer"]["compression_ratio"] == 1.0


def test_time_in_the_queue() -> None:
    """The time runs from a batch's first record to its first request; later attempts do not count."""
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", linger_ms=500, retry_backoff_ms=3000)
        world.on(
            "Produce",
            lambda call: errors(ErrorCode.NOT_LEADER_OR_FOLLOWER)(call) if len(world.made("Produce")) == 1 else None,
        )
        sent = work.send("t", b"v")
        world.pass_time(10)
        assert sent.done()
        work.send("t", b"v")
        world.pass_time(0.2)
        work.flush()
        total = metrics(work)["producer"]
        assert total["queue_ms_max"] == pytest.approx(500, abs=100)
        assert total["queue_ms_mean"] == pytest.approx(350, abs=100)
        assert total["retries"] == 1


def test_retries_and_errors() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t")
        steps = iter(
            [
                errors(ErrorCode.NOT_LEADER_OR_FOLLOWER),
                lambda _: HANGUP,
                lambda _: None,
                errors(ErrorCode.TOPIC_AUTHORIZATION_FAILED),
            ]
        )
        world.on("Produce", lambda call: next(steps)(call))  # noqa: PLW0108 # another one each time
        good = work.send("t", b"v")
        work.flush()
        assert good.result().offset == 0
        bad = work.send("t", b"v")
        work.flush()
        assert bad.exception() is not None
        total = metrics(work)["producer"]
        assert total["errors"] == {
            "NOT_LEADER_OR_FOLLOWER": 1,
            "KafkaConnectionError": 1,
            "TOPIC_AUTHORIZATION_FAILED": 1,
        }
        assert (total["retries"], total["batches"]) == (2, 2)
        assert (total["records_delivered"], total["records_failed"]) == (1, 1)


def test_requests_to_several_brokers() -> None:
    async def slow(call: Call) -> None:
        await asyncio.sleep(call.node)

    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        work = Work(world, "t")
        world.on("Produce", slow)
        for partition in (0, 1):
            work.send("t", b"v", partition=partition)
        work.flush()
        found = metrics(work)
        connections = [connection for connection in found["connections"] if connection["role"] == "produce"]
        assert sorted(round(connection["latency_ms_max"], -2) for connection in connections) == [1000, 2000]
        total = found["producer"]
        assert total["request_latency_ms_max"] == max(connection["latency_ms_max"] for connection in connections)
        spent, responded = (
            sum(connection["latency_ms_sum"] for connection in connections),
            sum(connection["responses"] for connection in connections),
        )
        assert total["request_latency_ms_mean"] == pytest.approx(spent / responded)
        assert total["requests"] == sum(connection["requests"] for connection in connections)


def test_waiting_and_in_flight_records() -> None:
    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", batch_size=1, linger_ms=0, max_in_flight_requests_per_connection=2)
        work.send("t", b"v")
        work.flush()
        world.on("Produce", lambda _: NEVER)
        for value in values(5):
            work.send("t", value)
        world.pass_time(1)
        found = metrics(work)
        partition = found["partitions"]["t-0"]
        assert (partition["batches_in_flight"], partition["batches_waiting"]) == (2, 2)  # and one that is open
        assert found["producer"]["requests_in_flight"] == 2
        assert found["producer"]["buffer_used"] == work.used
        assert work.close(1.0) == {"t-0": 5}
        assert metrics(work)["producer"]["records_delivered"] == 1


def test_a_hook_is_called_until_the_end(caplog: pytest.LogCaptureFixture) -> None:
    reports: list[Any] = []

    def hook(found: Any) -> None:
        reports.append(found)
        if len(reports) == 1:
            raise ZeroDivisionError

    with World() as world:
        world.create_topic("t")
        work = Work(world, "t", metrics_hook=hook, metrics_interval_ms=1000)
        work.send("t", b"v")
        work.flush()
        world.pass_time(3.5)
        assert len(reports) == 3
        assert "the metrics hook failed" in caplog.text
        assert reports[-1]["producer"]["records"] == 1
        work.close()
        world.pass_time(5)
        assert len(reports) == 3
