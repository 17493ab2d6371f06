"""`kafwire groups` of share and streams groups on an embedded broker."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire import protocol
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka
from tests.support.deadlines import until
from tests.support.stream.streams_group_walk import subtopology

HEARTBEAT: Any = protocol.StreamsGroupHeartbeatRequest


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders", partitions=2)
        for number in range(2):
            running.append("orders", [b"value"] * 10, partition=number)
        yield running


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["groups", first, "-b", kafka.bootstrap, *rest])


def shown(kafka: EmbeddedKafka, *arguments: str) -> list[dict[str, Any]]:
    result = run(kafka, *arguments, "-J")
    assert result.stderr == ""
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_a_share_group_is_shown_with_its_members_and_lag(kafka: EmbeddedKafka) -> None:
    with kafwire.ShareConsumer(kafka.bootstrap, topics="orders", group_id="packers") as consumer:
        consumer.poll(timeout=0.1)
        until(lambda: shown(kafka, "describe", "packers")[0]["members"][0]["partitions"], "the member has partitions")
        (group,) = shown(kafka, "describe", "packers")
        assert (group["type"], group["state"], group["assignor"]) == ("share", "Stable", "simple")
        places = [{"topic": "orders", "partition": number} for number in range(2)]
        assert (group["members"][0]["partitions"], group["members"][0]["instanceId"]) == (places, None)
        until(lambda: len(shown(kafka, "lag", "packers")) == 2, "both partitions have state")
        rows = shown(kafka, "lag", "packers")
        assert [row["memberIds"] for row in rows] == [[group["members"][0]["memberId"]]] * 2
        assert [row["end"] for row in rows] == [10, 10]
        result = run(kafka, "reset-offsets", "packers", "--to-earliest")
        assert (result.exit_code, "packers has 1 member(s)" in result.stderr) == (1, True)


def test_the_start_offsets_of_a_share_group_are_planned_and_set(kafka: EmbeddedKafka) -> None:
    with kafwire.ShareConsumer(kafka.bootstrap, topics="orders", group_id="packers") as consumer:
        until(lambda: consumer.poll(timeout=0.1) is not None and shown(kafka, "lag", "packers"), "the group has state")
    before = {row["partition"]: row["committed"] for row in shown(kafka, "lag", "packers")}
    planned = shown(kafka, "reset-offsets", "packers", "--to-offset", "4", "-t", "orders", "--dry-run")
    assert [row["after"] for row in planned] == [4, 4]
    assert {row["partition"]: row["committed"] for row in shown(kafka, "lag", "packers")} == before
    result = run(kafka, "reset-offsets", "packers", "--to-offset", "4", "-t", "orders", "--execute")
    assert (result.exit_code, result.stderr) == (0, "")
    rows = shown(kafka, "lag", "packers")
    assert [(row["committed"], row["end"], row["lag"]) for row in rows] == [(4, 10, 6), (4, 10, 6)]
    kafka.state.nodes[1].versions = {"DescribeShareGroupOffsets": (0, 0)}  # as of Kafka 4.1, which knows no lag
    table = run(kafka, "lag", "packers").stdout.splitlines()
    assert table[1].split() == ["packers", "orders", "0", "4", "10", "-"]
    assert table[-1] == "2 partition(s) whose lag the broker does not know"
    result = run(kafka, "delete", "packers", "--yes")
    assert (result.exit_code, result.stdout) == (0, "deleted packers\n")


def test_a_streams_group_is_shown_with_its_tasks(kafka: EmbeddedKafka) -> None:
    kafka.create_topic("rates", partitions=1)
    with kafwire.Client(kafka.bootstrap) as client:
        epoch = 0

        def beat() -> bool:
            nonlocal epoch
            topology = HEARTBEAT.Topology(subtopologies=[subtopology("0", ("orders", "rates"))])
            response = client.call(
                HEARTBEAT(
                    group_id="app",
                    member_id="it",
                    instance_id="one",
                    member_epoch=epoch,
                    rebalance_timeout_ms=60_000,
                    process_id="p",
                    topology=None if epoch else topology,
                    active_tasks=[],
                    standby_tasks=[],
                    warmup_tasks=[],
                )
            )
            assert not response.error_code, response
            epoch = response.member_epoch
            return bool(response.active_tasks)

        until(beat, "the member has tasks")
        (group,) = shown(kafka, "describe", "app")
        assert (group["type"], len(group["members"])) == ("streams", 1)
        (member,) = shown(kafka, "members", "app")
        assert (member["memberId"], member["instanceId"]) == ("it", "one")
        assert member["tasks"] == {"active": ["0_0", "0_1"], "standby": [], "warmup": []}
        places = [("orders", 0), ("orders", 1), ("rates", 0)]
        assert member["partitions"] == [{"topic": topic, "partition": number} for topic, number in places]
        header, row = run(kafka, "members", "app").stdout.splitlines()
        assert row[header.index("TASKS") :] == "0_0 0_1"
        rows = shown(kafka, "lag", "app")
        assert [(row["committed"], row["end"], row["memberIds"]) for row in rows] == [
            (None, 10, ["one"]),
            (None, 10, ["one"]),
            (None, 0, ["one"]),
        ]
