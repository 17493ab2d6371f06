"""`kafwire groups` on an embedded broker: lists, members, lag, offsets that are set, and refused calls."""

from __future__ import annotations

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire import TopicPartition, protocol
from kafwire.cli import main
from kafwire.testing import EmbeddedKafka
from tests.support.group.classic_member import joined_classic

T0, T1 = TopicPartition("orders", 0), TopicPartition("orders", 1)


@pytest.fixture
def kafka() -> Iterator[EmbeddedKafka]:
    with EmbeddedKafka() as running:
        running.create_topic("orders", partitions=3)
        with kafwire.Producer(running.bootstrap) as producer:
            for number in range(30):
                producer.send("orders", b"%d" % number, partition=number % 2, timestamp_ms=1_000 * (1 + number))
        yield running


def commit(kafka: EmbeddedKafka, group: str, offsets: dict[TopicPartition, int]) -> None:
    with kafwire.Consumer(kafka.bootstrap, assign=list(offsets), group_id=group) as consumer:
        consumer.commit(offsets)


def run(kafka: EmbeddedKafka, *arguments: str) -> Result:
    first, *rest = arguments
    return CliRunner().invoke(main, ["groups", first, "-b", kafka.bootstrap, *rest])


def lines(result: Result) -> list[list[str]]:
    return [line.split() for line in result.stdout.splitlines()]


def test_all_groups_are_listed(kafka: EmbeddedKafka) -> None:
    for name in ("b", "a"):
        commit(kafka, name, {T0: 1})
    result = run(kafka, "list")
    assert result.exit_code == 0
    assert lines(result)[1:] == [["a", "classic", "Empty", "1"], ["b", "classic", "Empty", "1"]]
    found = [json.loads(line) for line in run(kafka, "list", "-J").stdout.splitlines()]
    assert found[0] == {
        "group": "a",
        "type": "classic",
        "state": "Empty",
        "protocolType": None,
        "coordinator": 1,
    }
    assert [each["group"] for each in found] == ["a", "b"]


def test_options_without_a_command_list_all_groups(kafka: EmbeddedKafka) -> None:
    commit(kafka, "a", {T0: 1})
    listed = CliRunner().invoke(main, ["groups", "-b", kafka.bootstrap])
    assert (listed.exit_code, listed.output) == (0, run(kafka, "list").output)
    assert "Commands:" in CliRunner().invoke(main, ["groups", "-h"]).output
    assert CliRunner().invoke(main, ["groups", "--members"]).exit_code == 2


def test_a_broker_that_fails_hides_no_other() -> None:
    with EmbeddedKafka(nodes=2) as kafka:
        kafka.create_topic("orders", partitions=3)
        for name in "abcdefgh":
            commit(kafka, name, {T0: 1})
        every = {row[0] for row in lines(run(kafka, "list"))[1:]}
        kafka.fail_next("ListGroups", "UNKNOWN_SERVER_ERROR")
        result = run(kafka, "list")
        shown = {row[0] for row in lines(result)[1:]}
        assert (result.exit_code, bool(shown), shown < every) == (1, True, True)
        assert "UNKNOWN_SERVER_ERROR" in result.stderr
        assert "listing the groups of broker" in result.stderr


def test_no_group_is_a_header_alone(kafka: EmbeddedKafka) -> None:
    assert lines(run(kafka, "list")) == [["GROUP", "TYPE", "STATE", "PROTOCOL", "COORDINATOR"]]


def test_members_and_their_partitions(kafka: EmbeddedKafka) -> None:
    with joined_classic(kafka.bootstrap, "g", {"orders": [0, 1, 2]}, instance_id="one") as member_id:
        (_, row) = lines(run(kafka, "describe", "g"))
        assert row == ["g", "classic", "Stable", "range", "1", "1"]
        header, row = lines(run(kafka, "members", "g"))
        assert dict(zip(header, row, strict=True))["PARTITIONS"] == "orders:0-2"
        assert member_id in row
        shown = json.loads(run(kafka, "describe", "g", "-J").stdout)
        places = [{"topic": "orders", "partition": number} for number in range(3)]
        assert shown["members"][0]["partitions"] == places
        (alone,) = [json.loads(line) for line in run(kafka, "members", "g", "-J").stdout.splitlines()]
        assert alone == {"group": "g", **shown["members"][0]}
        assert (alone["memberId"], alone["instanceId"], alone["epoch"]) == (member_id, "one", None)
        (row, *_) = [json.loads(line) for line in run(kafka, "lag", "g", "-J").stdout.splitlines()]
        assert (row["memberIds"], row["committed"]) == (["one"], None)
        rows = lines(run(kafka, "lag", "g"))
        # Nothing is committed: the lag is unknown.
        assert rows[1] == ["g", "orders", "0", "15", "one"]
        assert rows[-1] == ["3", "partition(s)", "without", "a", "committed", "offset"]


def test_members_of_the_consumer_protocol(kafka: EmbeddedKafka) -> None:
    heartbeat = protocol.ConsumerGroupHeartbeatRequest(
        group_id="g",
        member_id="it",
        member_epoch=0,
        rebalance_timeout_ms=60_000,
        subscribed_topic_names=["orders"],
        topic_partitions=[],
    )
    with kafwire.Client(kafka.bootstrap, client_id="app") as client:
        assert client.call(heartbeat).error_code == 0
    header, row = lines(run(kafka, "describe", "g"))
    assert row == ["g", "consumer", "Stable", "uniform", "1", "1"]
    header, row = lines(run(kafka, "members", "g"))
    reported = dict(zip(header, row, strict=True))
    assert (reported["MEMBER"], reported["CLIENT"], reported["PARTITIONS"]) == ("it", "app", "orders:0-2")
    assert int(reported["EPOCH"]) > 0
    assert lines(run(kafka, "list"))[1] == ["g", "consumer", "Stable", "consumer", "1"]


def test_how_far_behind_a_group_is(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5, T1: 15})
    header, first, second, total = lines(run(kafka, "lag", "g"))
    assert header == ["GROUP", "TOPIC", "PARTITION", "COMMITTED", "END", "LAG"]
    assert first == ["g", "orders", "0", "5", "15", "10"]
    assert second == ["g", "orders", "1", "15", "15", "0"]
    assert total == ["10", "record(s)", "behind"]
    (reported, _) = [json.loads(line) for line in run(kafka, "lag", "g", "-J").stdout.splitlines()]
    assert (reported["committed"], reported["end"], reported["lag"]) == (5, 15, 10)


def test_partitions_with_nothing_committed_are_counted_beside_the_lag(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    with joined_classic(kafka.bootstrap, "g", {"orders": [0, 1, 2]}):
        said = run(kafka, "lag", "g").stdout.splitlines()[-1]
    assert said == "10 record(s) behind, 2 partition(s) without a committed offset"


def test_a_group_that_cannot_be_shown_has_no_lag(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "lag", "none")
    assert (result.exit_code, result.stdout, "GROUP_ID_NOT_FOUND" in result.stderr) == (1, "", True)


def test_lag_is_watched(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    result = run(kafka, "lag", "g", "--watch", "0.1", "--rounds", "3")
    assert result.stdout.count("10 record(s) behind") == 3
    assert run(kafka, "lag", "g", "--rounds", "3").exit_code == 2


@pytest.mark.parametrize(
    ("how", "after"),
    [
        (["--to-earliest"], {T0: 0, T1: 0}),
        (["--to-latest"], {T0: 15, T1: 15}),
        (["--to-offset", "7"], {T0: 7, T1: 7}),
        (["--to-offset", "700"], {T0: 15, T1: 15}),
        (["--by", "-3"], {T0: 2, T1: 7}),
        (["--by=-100"], {T0: 0, T1: 0}),
        (["--to-time", "11000"], {T0: 5, T1: 5}),
        (["--to-time", "1970-01-01T00:00:12Z"], {T0: 6, T1: 5}),
        (["--to-time", "99999999"], {T0: 15, T1: 15}),
        (["--to-offset", "3", "-t", "orders:1"], {T0: 5, T1: 3}),
    ],
    ids=str,
)
def test_offsets_are_set(kafka: EmbeddedKafka, how: list[str], after: dict[TopicPartition, int]) -> None:
    commit(kafka, "g", {T0: 5, T1: 10})
    planned = run(kafka, "reset-offsets", "g", *how, "--dry-run")
    shown = run(kafka, "reset-offsets", "g", *how)
    assert committed(kafka, "g") == {T0: 5, T1: 10}
    assert (planned.stderr, shown.stderr) == (
        "",
        "kafwire groups: this is only the plan: add --execute to apply it\n",
    )
    done = run(kafka, "reset-offsets", "g", *how, "--execute")
    assert (planned.exit_code, shown.exit_code, done.exit_code, done.stderr) == (0, 0, 0, "")
    assert planned.stdout == shown.stdout == done.stdout
    assert committed(kafka, "g") == after


def test_a_time_that_looks_like_seconds_gets_a_warning(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    result = run(kafka, "reset-offsets", "g", "--to-time", "1764331200", "--dry-run")
    assert (result.exit_code, "write --to-time 1764331200000" in result.stderr) == (0, True)


def test_a_plan_as_json(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    result = run(kafka, "reset-offsets", "g", "--by", "-3", "-J")
    assert json.loads(result.stdout) == {"group": "g", "topic": "orders", "partition": 0, "before": 5, "after": 2}


def committed(kafka: EmbeddedKafka, group: str) -> dict[TopicPartition, int | None]:
    with kafwire.Consumer(kafka.bootstrap, assign=[T0, T1], group_id=group) as consumer:
        return {**consumer.committed([T0, T1])}


def test_a_group_is_made_by_setting_its_offsets(kafka: EmbeddedKafka) -> None:
    assert run(kafka, "reset-offsets", "new", "--to-latest", "--topic", "orders", "--execute").exit_code == 0
    assert committed(kafka, "new") == {T0: 15, T1: 15}
    result = run(kafka, "reset-offsets", "newer", "--to-latest")
    assert (result.exit_code, "GROUP_ID_NOT_FOUND" in result.stderr) == (1, True)


def test_groups_and_partitions_that_do_not_exist_are_named(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    result = run(kafka, "reset-offsets", "g", "--to-latest", "-t", "orders:0,9")
    assert result.exit_code == 1
    assert "orders-9: does not exist" in result.stderr
    for what in ("describe", "lag", "members"):
        result = run(kafka, what, "none", "g")
        assert (result.exit_code, "GROUP_ID_NOT_FOUND" in result.stderr) == (1, True)
        assert what == "members" or lines(result)[1][0] == "g"


def test_a_group_with_members_is_left_alone(kafka: EmbeddedKafka) -> None:
    with joined_classic(kafka.bootstrap, "g", {"orders": [0]}):
        result = run(kafka, "reset-offsets", "g", "--to-latest", "-t", "orders")
        assert (result.exit_code, "1 member(s)" in result.stderr) == (1, True)
        result = run(kafka, "delete", "g", "--yes")
        assert (result.exit_code, "NON_EMPTY_GROUP" in result.stderr) == (1, True)


def test_groups_are_deleted(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    assert run(kafka, "delete", "g").exit_code == 2  # there is no terminal to ask for confirmation
    result = run(kafka, "delete", "g", "gone", "-y")
    assert (result.exit_code, result.stdout) == (1, "deleted g\n")
    assert "GROUP_ID_NOT_FOUND" in result.stderr
    assert committed(kafka, "g") == {T0: None, T1: None}


def test_the_brokers_reason_is_shown_with_a_group_that_is_not_deleted(kafka: EmbeddedKafka) -> None:
    """DeleteGroups 3, of Kafka 4.4.0."""
    commit(kafka, "g", {T0: 5})
    kafka.fail_next("DeleteGroups", "GROUP_DELETION_FAILED", message="the plugin keeps it")
    result = run(kafka, "delete", "g", "-y")
    assert (result.exit_code, result.stdout) == (1, "")
    assert "GROUP_DELETION_FAILED" in result.stderr
    assert "deleting group g: the plugin keeps it" in result.stderr
    assert committed(kafka, "g") == {T0: 5, T1: None}


@pytest.mark.parametrize(
    "arguments",
    [
        ["reset-offsets", "g"],
        ["reset-offsets", "g", "--to-latest", "--by", "1"],
        ["reset-offsets", "g", "--to-time", "noon"],
        ["reset-offsets", "g", "--to-time", "2026-01-31T12:00:00"],
        ["reset-offsets", "g", "--to-latest", "-t", "orders:x"],
        ["reset-offsets", "g", "--to-latest", "--execute", "--dry-run"],
        ["lag"],
    ],
    ids=str,
)
def test_wrong_usage(kafka: EmbeddedKafka, arguments: list[str]) -> None:
    commit(kafka, "g", {T0: 5})
    assert run(kafka, *arguments).exit_code == 2


def test_by_without_a_committed_offset_says_so(kafka: EmbeddedKafka) -> None:
    result = run(kafka, "reset-offsets", "new", "--by", "1", "-t", "orders:0")
    assert (result.exit_code, "orders-0: --by needs a committed offset" in result.stderr) == (1, True)


def test_a_coordinator_that_is_not_there_yet_is_waited_for(kafka: EmbeddedKafka) -> None:
    commit(kafka, "g", {T0: 5})
    kafka.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=2)
    assert lines(run(kafka, "describe", "g"))[1][0] == "g"
    kafka.fail_next("FindCoordinator", "COORDINATOR_NOT_AVAILABLE", times=None)
    result = run(kafka, "describe", "g", "--timeout", "0.3")
    assert (result.exit_code, "COORDINATOR_NOT_AVAILABLE" in result.stderr) == (1, True)


def test_a_partition_without_a_leader_hides_no_other_lag() -> None:
    with EmbeddedKafka(nodes=3) as kafka:
        kafka.create_topic("orders", partitions=3, replicas=1)
        with kafwire.Client(kafka.bootstrap) as client:
            leaders = {number: info.leader for number, info in client.topic("orders").partitions.items()}
        for number in range(3):
            kafka.append("orders", [b"value"] * 5, partition=number)
        commit(kafka, "g", {TopicPartition("orders", number): 2 for number in range(3)})
        kafka.stop_node(leaders[2])
        result = run(kafka, "lag", "g", "-X", "default.api.timeout.ms=5000")
        assert result.exit_code == 1
        *_, third, total = result.stdout.splitlines()
        assert third.split() == ["g", "orders", "2", "2", "-", "-"]
        assert total == "6 record(s) behind, 1 partition(s) without a known end"
        assert "orders-2 has no known end: LEADER_NOT_AVAILABLE" in result.stderr
        result = run(kafka, "reset-offsets", "g", "--to-earliest", "--execute", "-X", "default.api.timeout.ms=5000")
        assert result.exit_code == 1
        assert "orders-2 is unchanged: LEADER_NOT_AVAILABLE" in result.stderr
        assert {number: offset for (_, number), offset in kafka.committed("g").items()} == {0: 0, 1: 0, 2: 2}


def test_an_undecodable_assignment_hides_no_other_group(kafka: EmbeddedKafka) -> None:
    commit(kafka, "good", {T0: 5})
    with joined_classic(kafka.bootstrap, "odd", {}, assigned=b"\xff\xfe\0no assignment"):
        for command in ("describe", "members", "lag"):
            result = run(kafka, command, "odd", "good")
            assert result.exit_code == 0
            assert "odd" in result.stdout or command == "lag"
            assert "good" in result.stdout or command == "members"
            assert "the assignment of member" in result.stderr
            assert "of group odd cannot be decoded" in result.stderr
        assert [line.split()[-1] for line in run(kafka, "members", "odd").stdout.splitlines()] == ["PARTITIONS", "?"]
