"""`kafwire consume` against clients that only record their calls: what it reads, prints and commits."""

import datetime as dt
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire.admin import GroupOffset
from kafwire.cli import consume_group, main
from kafwire.cli.consume_source import rows_before
from kafwire.cluster.broker_connection import host_and_port
from kafwire.config.bootstrap import parse_servers
from kafwire.errors import CommitFailedError, ConfigError, KafkaConnectionError, KafkaError, KafkaTimeoutError
from kafwire.records import encode_batch
from kafwire.records._arrow import Layout
from kafwire.records._record_batches import decode_chunks
from kafwire.records._records import Batch, Record
from kafwire.scanner.ranges import Range
from kafwire.types import TopicPartition

ORDERS = [TopicPartition("orders", n) for n in range(3)]
LOW, HIGH = 5, 25
# By time: the first offset at or after it.
AT = {100: 10, 200: 20, 900: -1}


def batch_of(partition: int, start: int, stop: int, topic: str = "orders") -> Batch:
    records = [Record(b"v%d" % n, b"k%d" % n, timestamp_ms=n) for n in range(start, stop)]
    data = encode_batch(records, base_offset=start)
    [batch] = decode_chunks(data, Layout(topic, partition), topic=topic, partition=partition)
    return batch


class World:
    """The data of the fakes and the calls that they got."""

    def __init__(self) -> None:
        self.asked: dict[str, Any] = {}
        self.client_options: dict[str, Any] = {}
        self.scanned: list[Batch] = []
        self.ranges: list[Range] | None = None
        self.polled: Iterator[list[Batch]] = iter([])
        self.positions: dict[TopicPartition, int] = {}
        self.committed: list[dict[TopicPartition, int]] = []
        self.paused: list[TopicPartition] = []
        self.others: set[TopicPartition] = set()  # what other members of the group have
        self.stored: dict[TopicPartition, int] = {}  # what the group has committed before
        self.lost: set[TopicPartition] = set()  # without a leader
        self.comes_back = True  # their leaders, for a lookup that waits
        self.scans: list[dict[str, Any]] = []
        self.closed: list[str] = []

    def client(self, **options: Any) -> "FakeClient":
        self.client_options = options
        return FakeClient(self)

    def is_lost(self, where: TopicPartition, on_error: Any) -> bool:
        """True for a partition without a leader. A lookup without `on_error` waits for it, or fails."""
        if where not in self.lost:
            return False
        error = KafkaTimeoutError(f"{where.topic}-{where.partition} has no leader")
        if on_error is not None:
            on_error(where, error)
            return True
        if not self.comes_back:
            raise error
        self.lost.discard(where)
        return False

    def consumer(self, **arguments: Any) -> "FakeConsumer":
        self.asked = {"consumer": arguments}
        return FakeConsumer(self)


class FakeClient:
    def __init__(self, world: World) -> None:
        self.world = world

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.world.closed.append("client")

    def topic(self, name: str) -> Any:
        return SimpleNamespace(name=name, partitions=dict.fromkeys(range(3)))

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        when: Any,
        isolation_level: str = "read_uncommitted",
        on_error: Any = None,
    ) -> dict[TopicPartition, int]:
        partitions = [where for where in partitions if not self.world.is_lost(where, on_error)]
        high = HIGH - 1 if isolation_level == "read_committed" else HIGH
        if isinstance(when, int) and when > 1000:  # an hour ago, for by_duration
            assert abs(time.time() - 3600 - when / 1000) < 60
            return dict.fromkeys(partitions, 15)
        known: dict[Any, int] = {"earliest": LOW, "latest": high, **AT}
        return dict.fromkeys(partitions, known[when])

    def scan(self, topics: list[str], **arguments: Any) -> "FakeScan":
        self.world.asked = {"scan": {"topics": topics, **arguments}}
        self.world.scans.append(arguments)
        start = arguments["start"]
        for where in ORDERS:
            self.world.is_lost(where, _ignore if isinstance(start, dict) and where not in start else None)
        return FakeScan(self.world, start)


def _ignore(*_: object) -> None:
    """Take an error."""


class FakeScan:
    def __init__(self, world: World, start: Any) -> None:
        self.world = world
        self.scanned = [b for b in world.scanned if not isinstance(start, dict) or (b.topic, b.partition) in start]
        found = [Range(str(b.topic), b.partition or 0, b.base_offset, b.next_offset) for b in self.scanned]
        self.ranges = found if world.ranges is None else world.ranges

    def batches(self) -> Iterator[Batch]:
        yield from self.scanned

    def close(self) -> None:
        self.world.closed.append("scan")


class FakeConsumer:
    """A consumer that commits processed records when it is closed: batches after which another was requested."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.done: dict[TopicPartition, int] = {}
        self.sought: dict[TopicPartition, int] = {}

    def seek(self, tp: TopicPartition, offset: int) -> None:
        self.sought[tp] = self.done[tp] = offset

    def processed(self) -> dict[TopicPartition, int]:
        return dict(self.done)

    def batches(self, timeout: float) -> Iterator[Batch]:
        assert 0 < timeout < 1
        while True:
            found = next(self.world.polled, None)
            if found is None:
                pytest.fail("more is asked for than there is")
            if not found:
                return
            for batch in found:
                where = TopicPartition(str(batch.topic), batch.partition or 0)
                assert where not in self.world.paused
                self.world.positions[where] = batch.next_offset
                yield batch
                self.done[where] = self.sought.pop(where, batch.next_offset)

    @property
    def assignment(self) -> set[TopicPartition]:
        return set(ORDERS) - self.world.others

    @property
    def subscription(self) -> set[str]:
        return {"orders"}

    def position(self, tp: TopicPartition) -> int:
        return self.world.positions.get(tp, self.world.stored.get(tp, LOW))

    def pause(self, *tps: TopicPartition) -> None:
        self.world.paused += tps

    def commit(self, positions: Mapping[TopicPartition, int]) -> None:
        assert "consumer" not in self.world.closed
        self.world.committed.append(dict(positions))
        self.world.stored |= positions

    def close(self) -> None:
        if "group_id" in self.world.asked["consumer"]:
            self.world.stored |= self.done
        self.world.closed.append("consumer")


class FakeAdmin:
    def __init__(self, world: World) -> None:
        self.world = world

    def list_group_offsets(self, groups: list[str], **_: Any) -> dict[str, dict[TopicPartition, GroupOffset]]:
        assert groups == ["g"]
        return {"g": {where: GroupOffset(offset) for where, offset in self.world.stored.items()}}

    def close(self) -> None:
        pass


@pytest.fixture
def world(monkeypatch: pytest.MonkeyPatch) -> World:
    made = World()
    monkeypatch.setattr(kafwire, "Admin", lambda **_: FakeAdmin(made), raising=False)
    monkeypatch.setattr(kafwire, "Client", made.client)
    monkeypatch.setattr(kafwire, "Consumer", made.consumer, raising=False)
    for name in ("KAFWIRE_BROKERS", "KAFWIRE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    return made


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["consume", "-b", "h", *arguments], prog_name="kafwire")


def forever(*polled: list[Batch], end: Callable[[], list[Batch]]) -> Iterator[list[Batch]]:
    """The polls: batches, nothing for a while ([]), and in the end the error that `end` raises."""
    yield from polled
    yield end()


def interrupted() -> list[Batch]:
    raise KeyboardInterrupt


# --- reading --------------------------------------------------------------------------------------------------------


def at(ms: int) -> dt.datetime:
    return dt.datetime.fromtimestamp(ms / 1000, dt.UTC)


SCAN: dict[str, Any] = {"topics": ["orders"], "partitions": None, "start": "earliest", "end": "latest"}


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("-e", {}),
        ("-e -p 1 -p 0", {"partitions": [0, 1]}),
        ("-e -o end", {"start": "latest"}),
        ("-e -o s@100", {"start": at(100)}),
        ("-o s@100 -o e@200", {"start": at(100), "end": at(200)}),
        ("-o e@200 -o end", {"start": "latest", "end": at(200)}),
        ("-e -o 12", {"start": dict.fromkeys(ORDERS, 12), "end": dict.fromkeys(ORDERS, HIGH)}),
        ("-e -o 5 -p 2", {"start": {ORDERS[2]: LOW}, "end": {ORDERS[2]: HIGH}}),
        ("-e -o 25 -p 2", {"start": {ORDERS[2]: 25}, "end": {ORDERS[2]: HIGH}}),
        ("-e -o -3", {"start": dict.fromkeys(ORDERS, HIGH - 3), "end": dict.fromkeys(ORDERS, HIGH)}),
        ("-e -o -99", {"start": dict.fromkeys(ORDERS, LOW), "end": dict.fromkeys(ORDERS, HIGH)}),
        ("-o -3 -o e@200", {"start": dict.fromkeys(ORDERS, HIGH - 3), "end": at(200)}),
        ("-e -o 0 -X auto.offset.reset=earliest", {"start": dict.fromkeys(ORDERS, LOW)}),
        ("-e -o 26 -X topic.auto.offset.reset=latest", {"start": dict.fromkeys(ORDERS, HIGH)}),
        ("-e -o 0 -X auto.offset.reset=by_duration:PT1H", {"start": dict.fromkeys(ORDERS, 15)}),
        (
            "-e -o -3 -X isolation.level=read_committed",
            {"start": dict.fromkeys(ORDERS, HIGH - 4), "end": dict.fromkeys(ORDERS, HIGH - 1)},
        ),
        ("-e -t payments", {"topics": ["orders", "payments"]}),
        ("-e -t orders", {}),
    ],
)
def test_a_read_that_ends(world: World, arguments: str, expected: dict[str, Any]) -> None:
    result = run("orders", *arguments.split())
    assert (result.exit_code, result.output) == (0, "")
    asked = world.asked["scan"]
    got = {name: asked[name] for name in ("topics", "partitions", "start", "end")}
    if isinstance(got["start"], dict):
        expected = {"end": dict.fromkeys(got["start"], HIGH), **expected}
    assert got == SCAN | expected
    assert world.closed == ["scan", "client"]


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ("", {"topics": ["orders"], "start": "earliest"}),
        ("-o end", {"topics": ["orders"], "start": "latest"}),
        (
            "-X fetch.wait.max.ms=7 -X topic.auto.offset.reset=smallest",
            {"fetch_max_wait_ms": "7", "auto_offset_reset": "earliest"},
        ),
        ("-o s@100", {"topics": ["orders"], "start": at(100)}),
        ("-p 1", {"assign": [ORDERS[1]], "start": "earliest"}),
        ("-o 12 -p 1", {"assign": [ORDERS[1]], "start": {ORDERS[1]: 12}}),
        ("-o -2", {"topics": ["orders"], "start": kafwire.Tail(2)}),
        ("-G g", {"topics": ["orders"], "start": None, "group_id": "g", "auto_offset_reset": "earliest"}),
        ("-X group.id=g", {"topics": ["orders"], "start": None, "group_id": "g", "auto_offset_reset": "earliest"}),
        ("-G g -o stored", {"topics": ["orders"], "start": None, "group_id": "g", "auto_offset_reset": "earliest"}),
        ("-G g -o end", {"topics": ["orders"], "start": "latest", "group_id": "g"}),
        ("-G g -o -3", {"topics": ["orders"], "start": kafwire.Tail(3), "group_id": "g"}),
        ("-G g -o 7", {"topics": ["orders"], "start": kafwire.Offset(7), "group_id": "g"}),
        ("-G g -o s@100", {"topics": ["orders"], "start": at(100), "group_id": "g"}),
        ("-G g -e", {"topics": ["orders"], "start": None, "group_id": "g", "auto_offset_reset": "earliest"}),
        ("-G g -X auto.offset.reset=latest", {"start": None, "group_id": "g", "auto_offset_reset": "latest"}),
        ("-X fetch.strategy=per_node", {"topics": ["orders"], "fetch_strategy": "per_node"}),
    ],
)
def test_a_read_without_end_or_of_a_group(world: World, arguments: str, expected: dict[str, Any]) -> None:
    batches = [batch_of(n, LOW, HIGH) for n in range(3)]
    world.polled = forever(batches, end=interrupted)
    result = run("orders", *arguments.split())
    assert result.exit_code == (0 if "-e" in arguments else 130)
    asked = world.asked["consumer"]
    for name, value in expected.items():
        assert asked[name] == value
    assert ("topics" in asked) != ("assign" in asked)
    assert asked["auto_offset_reset"] == expected.get("auto_offset_reset", "error")
    assert asked.get("enable_auto_commit") is (True if "group_id" in expected else None)
    assert world.closed == ["consumer", "client"]


def test_an_offset_that_does_not_exist(world: World) -> None:
    result = run("orders", "-e", "-o", "3")
    assert result.exit_code == 1
    assert result.stderr.startswith("kafwire: orders-0 has the offsets 5 to 25 (exclusive), not 3: choose partitions")


@pytest.mark.parametrize(
    ("arguments", "first", "then"),
    [
        ("", "earliest", "earliest"),
        ("-o end", "latest", "latest"),
        ("-o s@100", at(100), at(100)),
        ("-o 12", 12, 12),
        ("-o -3", HIGH - 3, HIGH - 3),
    ],
)
@pytest.mark.parametrize("comes_back", [True, False])
def test_a_partition_without_a_leader_is_read_after_the_others(
    world: World, arguments: str, first: Any, then: Any, comes_back: bool
) -> None:
    world.scanned = [batch_of(number, 5 + number, 6 + number) for number in range(3)]
    world.lost, world.comes_back = {ORDERS[1]}, comes_back
    result = run("orders", "-e", *arguments.split())
    assert result.stdout == "v5\nv7\n" + "v6\n" * comes_back
    warning, *error = result.stderr.splitlines()
    assert warning == "kafwire consume: orders-1 is read after the others: orders-1 has no leader"
    assert error == ([] if comes_back else ["kafwire: orders-1 has no leader"])
    assert result.exit_code == (0 if comes_back else 1)
    assert world.scans[0]["start"] == {ORDERS[0]: first, ORDERS[2]: first}
    assert [each["start"] for each in world.scans[1:]] == [{ORDERS[1]: then}] * len(world.scans[1:])
    assert all(each["partitions"] is None for each in world.scans)
    assert "client" in world.closed


@pytest.mark.parametrize("arguments", ["orders", "orders -e"])
def test_a_read_fails_if_no_partition_has_a_leader(world: World, arguments: str) -> None:
    world.lost, world.comes_back = set(ORDERS), False
    result = run(*arguments.split())
    assert (result.exit_code, result.stderr) == (1, "kafwire: orders-0 has no leader\n")
    assert "consumer" not in world.asked


@pytest.mark.parametrize("comes_back", [True, False])
def test_a_group_reads_a_partition_without_a_leader_after_the_others(world: World, comes_back: bool) -> None:
    world.lost, world.comes_back = {ORDERS[1]}, comes_back
    others = [batch_of(0, LOW, HIGH), batch_of(2, LOW, HIGH)]
    world.polled = iter([others, [batch_of(1, LOW, HIGH)]])
    result = run("orders", "-G", "g", "-e")
    assert result.stdout.count("\n") == (HIGH - LOW) * (3 if comes_back else 2)
    assert result.stderr.startswith("kafwire consume: orders-1 is read after the others: orders-1 has no leader\n")
    assert result.exit_code == (0 if comes_back else 1)


def test_records_of_a_partition_whose_leader_is_back_are_read_to_its_end(world: World) -> None:
    world.lost = {ORDERS[1]}
    world.polled = iter([[batch_of(0, LOW, HIGH), batch_of(1, LOW, HIGH)], [batch_of(2, LOW, HIGH)]])
    result = run("orders", "-G", "g", "-e")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 3 * (HIGH - LOW))


def test_a_coordinator_that_moves_does_not_end_the_read_of_a_group(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    def committed(*_: Any, **__: Any) -> None:
        raise KafkaConnectionError("the coordinator moves")

    monkeypatch.setattr(FakeAdmin, "list_group_offsets", committed)
    world.polled = iter([[batch_of(number, LOW, HIGH) for number in range(3)]])
    assert run("orders", "-G", "g", "-e").exit_code == 0


def test_a_partition_that_does_not_exist(world: World) -> None:
    result = run("orders", "-e", "-o", "7", "-p", "3")
    assert (result.exit_code, result.stderr) == (1, "kafwire: topic 'orders' has partitions 0 to 2, not 3\n")


def test_only_the_columns_that_are_printed(world: World) -> None:
    run("orders", "-e")
    assert world.asked["scan"]["columns"] == ("value",)
    run("orders", "-e", "-f", "%k%T")
    assert world.asked["scan"]["columns"] == ("key", "timestamp", "timestamp_type")
    world.polled = forever(end=interrupted)
    run("orders", "-G", "g")
    assert set(world.asked["consumer"]["columns"]) == {"value", "offset"}


def test_where_options_come_from(world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "client.properties"
    file.write_text("# ours\n\nbootstrap.servers = far:1, [::1]\nclient.id=file\nfetch.max.bytes=77\n")
    runner = CliRunner()

    def bounded(*arguments: str) -> dict[str, Any]:
        result = runner.invoke(main, ["consume", "orders", "-e", *arguments])
        assert (result.exit_code, result.output) == (0, "")
        asked = {**world.client_options, **world.asked["scan"]}
        servers = parse_servers(asked["bootstrap_servers"])
        return {**asked, "bootstrap_servers": ",".join(host_and_port(*server) for server in servers)}

    asked = bounded("-F", str(file), "-X", "client_id=mine")
    assert asked["bootstrap_servers"] == "far:1,[::1]:9092"
    assert (asked["client_id"], asked["fetch_max_bytes"]) == ("mine", "77")
    assert "fetch_max_bytes" not in world.client_options
    assert "bootstrap_servers" not in world.asked["scan"]
    assert "auto_offset_reset" not in world.asked["scan"]
    monkeypatch.setenv("KAFWIRE_BROKERS", "near, 10.0.0.1:5,[::2]:6")
    assert bounded()["bootstrap_servers"] == "near:9092,10.0.0.1:5,[::2]:6"
    monkeypatch.setenv("KAFWIRE_CONFIG", str(file))
    assert bounded()["bootstrap_servers"] == "far:1,[::1]:9092"
    assert bounded("-X", "bootstrap.servers=fourth")["bootstrap_servers"] == "fourth:9092"
    assert bounded("-b", "third", "-X", "bootstrap.servers=fourth")["bootstrap_servers"] == "third:9092"


def test_options_are_listed() -> None:
    result = CliRunner().invoke(main, ["consume", "-X", "list"])
    assert result.exit_code == 0
    lines = result.stdout.splitlines()
    assert "fetch.max.wait.ms=500" in lines
    assert "bootstrap.servers=" in lines
    assert "check.crcs=true" in lines
    assert lines == sorted(lines)
    assert not any(line.startswith("metrics") for line in lines)


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["consume", "orders"], "no broker is given"),
        (["consume", "-b", "h"], "no topic is given"),
        (["consume", "-b", "h", ""], "no topic is given"),
        (["consume", "-b", "h", "-G", "g", "^t.*"], "write --group GROUP --pattern 't.*'; whole names match it"),
        (["consume", "-b", "h:x", "orders"], "'h:x' is not host:port"),
        (["consume", "-b", "h", "orders", "-X", "fetch.max.byte=1"], "did you mean 'fetch.max.bytes'"),
        (["consume", "-b", "h", "orders", "-X", "fetch_max_byte=1"], "did you mean 'fetch_max_bytes'"),
        (
            ["consume", "-b", "h", "orders", "-X", "ssl.ca.location=x"],
            "ssl.ca.location has no effect with security.protocol=PLAINTEXT",
        ),
        (["consume", "-b", "h", "orders", "-X", "fetch.max.bytes=many"], "a whole number is needed"),
        (["consume", "-b", "h", "orders", "-X", "fetch.max.bytes"], "-X: 'fetch.max.bytes' is not NAME=VALUE"),
        (["consume", "-b", "h", "orders", "-J", "-f", "%s"], "it excludes -f, -K and -O"),
        (["consume", "-b", "h", "orders", "-f", "%s", "-K", ":"], "either -f, or -K and -O"),
        (["consume", "-b", "h", "orders", "-Z", "--null", "x"], "either -Z or --null"),
        (["consume", "-b", "h", "orders", "-f", "%y"], "there is no %y"),
        (["consume", "-b", "h", "orders", "-o", "stored"], "-o stored needs --group"),
        (["consume", "-b", "h", "--pattern", "o.*"], "--pattern needs --group"),
        (["consume", "-b", "h", "orders", "--pattern", "o.*", "-G", "g"], "either topics or --pattern"),
        (["consume", "-b", "h", "orders", "-G", "g", "-p", "0"], "-p cannot be used"),
        (["consume", "-b", "h", "orders", "-G", ""], "the group has no name"),
        (["consume", "-b", "h", "orders", "-o", "there"], "expected beginning"),
        (["consume", "-b", "h", "orders", "-p", "-1"], "-1 is not in the range"),
        (["consume", "-b", "h", "orders", "-c", "0"], "0 is not in the range"),
        (["consume", "-b", "h", "orders", "--progress"], "--progress needs a read that ends"),
    ],
)
def test_wrong_usage(world: World, arguments: list[str], reason: str) -> None:
    result = CliRunner().invoke(main, arguments, prog_name="kafwire")
    assert result.exit_code == 2
    assert reason in result.stderr
    assert result.stderr.count("\n") == 1
    assert result.stdout == ""
    assert world.asked == {}


def test_a_wrong_line_of_a_file(world: World, tmp_path: Path) -> None:
    file = tmp_path / "x"
    file.write_bytes(b"client.id=a\n# \xff\nsasl.password hunter2\n")
    result = run("orders", "-F", str(file))
    assert result.exit_code == 2
    assert f"{file}, line 3: 'sasl.password' ... is not NAME=VALUE" in result.stderr


@pytest.mark.parametrize(
    "setting",
    [
        "hunter2",
        "sasl.password hunter2",
        "sasl.password: hunter2",
        "sasl.password:hunter2=",
        "sasl.pasword=hunter2",
        "sasl.password=hunter2",
        "sasl.jaas.config=PlainLoginModule required password='hunter2",
        "sasl.jaas.config=hunter2",
        "ssl.key.pem=hunter2",
        "ssl.key.password=hunter2",
        "ssl.keystore.location=-----BEGIN PRIVATE KEY-----hunter2",
        "ssl.certificate.pem=-----BEGIN PRIVATE KEY-----hunter2",
    ],
)
def test_an_error_does_not_repeat_a_secret(world: World, tmp_path: Path, setting: str) -> None:
    file = tmp_path / "x"
    file.write_text(setting)
    for arguments in (["-X", setting], ["-F", str(file)]):
        result = run("orders", *arguments)
        assert result.exit_code == 2
        assert "hunter2" not in result.stderr + result.stdout


# --- printing -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ([], "v5\nv6\nv7\n"),
        (["-K", ":"], "k5:v5\nk6:v6\nk7:v7\n"),
        (["-O"], "5\tv5\n6\tv6\n7\tv7\n"),
        (["-D", r"\0"], "v5\0v6\0v7\0"),
        (["-f", r"%t[%p]%o=%K;"], "orders[1]5=2;orders[1]6=2;orders[1]7=2;"),
        (["--bytes", "hex"], "7635\n7636\n7637\n"),
        (["-c", "2"], "v5\nv6\n"),
        (["-u", "-c", "2"], "v5\nv6\n"),
        (["-u"], "v5\nv6\nv7\n"),
        (["-c", "9"], "v5\nv6\nv7\n"),
    ],
)
def test_output(world: World, arguments: list[str], expected: str) -> None:
    world.scanned = [batch_of(1, 5, 7), batch_of(1, 7, 8)]
    result = run("orders", "-e", *arguments)
    assert (result.exit_code, result.stdout, result.stderr) == (0, expected, "")
    assert world.closed == ["scan", "client"]


def test_json(world: World) -> None:
    world.scanned = [batch_of(1, 5, 6)]
    shown = json.loads(run("orders", "-e", "-J").stdout)
    assert shown == {
        "topic": "orders",
        "partition": 1,
        "offset": 5,
        "tstype": "create",
        "ts": 5,
        "key": "k5",
        "payload": "v5",
    }


@pytest.mark.parametrize(("arguments", "expected"), [([], "||"), (["-Z"], "NULL||NULL"), (["--null", "~"], "~||~")])
def test_null(world: World, arguments: list[str], expected: str) -> None:
    data = encode_batch([Record(None, None)])
    world.scanned = decode_chunks(data, Layout("orders", 0), topic="orders", partition=0)
    assert run("orders", "-e", "-K", "||", "-D", "", *arguments).stdout == expected


def test_count_ends_a_read_without_end(world: World) -> None:
    world.polled = iter([[batch_of(0, 0, 2)], [], [batch_of(0, 2, 4), batch_of(1, 0, 9)]])
    result = run("orders", "-c", "3")
    assert (result.exit_code, result.stdout) == (0, "v0\nv1\nv2\n")


class Calls(io.RawIOBase):
    """Standard output that counts writes, and breaks after a number of them."""

    def __init__(self, breaks_after: int = 1 << 60) -> None:
        self.calls: list[bytes] = []
        self.left = breaks_after

    def writable(self) -> bool:
        return True

    def write(self, data: Any) -> int:
        if self.left == 0:
            raise BrokenPipeError
        self.left -= 1
        self.calls.append(bytes(data))
        return len(data)


def run_with(calls: Calls, monkeypatch: pytest.MonkeyPatch, *arguments: str) -> int:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", io.TextIOWrapper(io.BufferedWriter(calls)))
        with pytest.raises(SystemExit) as end:
            main(["consume", "-b", "h", "orders", *arguments])
        calls.left = 1 << 60  # the wrapper's own flush
    assert isinstance(end.value.code, int)
    return end.value.code


def test_records_leave_by_batch_or_one_by_one(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.scanned = [batch_of(1, 5, 8), batch_of(1, 8, 10)]
    calls = Calls()
    assert run_with(calls, monkeypatch, "-e") == 0
    assert calls.calls == [b"v5\nv6\nv7\n", b"v8\nv9\n"]
    calls = Calls()
    assert run_with(calls, monkeypatch, "-e", "-u") == 0
    assert calls.calls == [b"v5\n", b"v6\n", b"v7\n", b"v8\n", b"v9\n"]


@pytest.mark.parametrize("more", [[], ["-e"]])
def test_a_reader_that_goes_away_while_nothing_arrives(
    world: World, monkeypatch: pytest.MonkeyPatch, more: list[str]
) -> None:
    reading, writing = os.pipe()

    def quiet() -> Iterator[list[Batch]]:
        yield [batch_of(0, 5, 7)]
        yield []
        assert os.read(reading, 100) == b"v5\nv6\n"
        os.close(reading)
        yield []
        pytest.fail("the closed pipe went unnoticed")

    world.polled = quiet()
    with os.fdopen(writing, "w") as pipe, monkeypatch.context() as patch:
        patch.setattr(sys, "stdout", pipe)
        with pytest.raises(SystemExit) as end:
            main(["consume", "-b", "h", "orders", "-G", "g", *more])
    assert end.value.code == 141
    assert world.stored == {ORDERS[0]: 7}


def test_an_error_comes_after_the_records_before_it(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken() -> list[Batch]:
        raise KafkaError("orders-0: something")

    world.polled = forever([batch_of(0, 0, 2)], end=broken)
    result = run("orders")
    assert (result.exit_code, result.stdout, result.stderr) == (1, "v0\nv1\n", "kafwire: orders-0: something\n")


# --- committing -----------------------------------------------------------------------------------------------------


def test_a_group_commits_written_records(world: World) -> None:
    world.polled = forever([batch_of(0, 5, 8), batch_of(1, 5, 9)], [batch_of(0, 8, 9)], end=interrupted)
    result = run("orders", "-G", "g")
    assert (result.exit_code, result.stdout.count("\n")) == (130, 8)
    assert world.stored == {ORDERS[0]: 9, ORDERS[1]: 9}
    assert world.closed == ["consumer", "client"]


def test_sigterm_commits_written_records(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def terminated() -> list[Batch]:
        signal.raise_signal(signal.SIGTERM)
        pytest.fail("it goes on")

    before = signal.getsignal(signal.SIGTERM)
    world.polled = forever([batch_of(0, 5, 8)], end=terminated)
    result = run("orders", "-G", "g")
    assert (result.exit_code, result.stdout) == (143, "v5\nv6\nv7\n")
    assert world.stored == {ORDERS[0]: 8}
    assert world.closed == ["consumer", "client"]
    assert signal.getsignal(signal.SIGTERM) is before


def test_in_another_thread(world: World) -> None:
    """A thread has no signal handlers, and needs none."""
    world.scanned = [batch_of(0, 5, 6)]
    with ThreadPoolExecutor() as pool:
        assert pool.submit(run, "orders", "-e").result().stdout == "v5\n"


def test_a_count_commits_no_further(world: World) -> None:
    world.polled = forever([batch_of(0, 5, 8), batch_of(1, 5, 9)], end=interrupted)
    assert run("orders", "-G", "g", "-c", "5").stdout == "v5\nv6\nv7\nv5\nv6\n"
    assert world.stored == {ORDERS[0]: 8, ORDERS[1]: 7}


def test_unwritten_records_are_not_committed(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.polled = forever([batch_of(0, 5, 8), batch_of(1, 5, 9)], end=interrupted)
    assert run_with(Calls(breaks_after=1), monkeypatch, "-G", "g") == 141
    assert world.stored == {ORDERS[0]: 8}


def test_nothing_is_committed_without_a_group_or_a_record(world: World) -> None:
    world.polled = forever([batch_of(0, 5, 8)], end=interrupted)
    run("orders")
    world.polled = forever([], end=interrupted)
    run("orders", "-G", "g")
    assert (world.committed, world.stored) == ([], {})


def test_a_group_reads_to_the_ends_of_the_start(world: World) -> None:
    """Partition 0 gets more meanwhile, the tail of 1 is invisible, 2 has been read before."""
    world.stored = {ORDERS[2]: HIGH}

    def silence() -> Iterator[list[Batch]]:
        yield [batch_of(0, LOW, HIGH - 1), batch_of(1, LOW, 10)]
        yield [batch_of(0, HIGH - 1, HIGH + 4)]
        yield []
        world.positions[ORDERS[1]] = HIGH
        yield []

    world.polled = silence()
    result = run("orders", "-G", "g", "-e", "-f", "%p:%o ")
    assert result.exit_code == 0
    expected = [f"0:{n}" for n in range(LOW, HIGH - 1)] + [f"1:{n}" for n in range(LOW, 10)] + [f"0:{HIGH - 1}"]
    assert result.stdout.split() == expected
    assert world.paused == [ORDERS[0]]
    assert world.stored == {ORDERS[0]: HIGH, ORDERS[1]: 10, ORDERS[2]: HIGH}


def test_a_group_that_has_read_everything(world: World) -> None:
    world.stored = dict.fromkeys(ORDERS, HIGH)  # to ask for more would fail
    result = run("orders", "-G", "g", "-e")
    assert (result.exit_code, result.output, world.committed) == (0, "", [])


def test_a_group_reads_to_a_time(world: World) -> None:
    world.polled = iter([[batch_of(0, LOW, HIGH)], [batch_of(1, LOW, HIGH), batch_of(2, LOW, 10)]])
    result = run("orders", "-G", "g", "-o", "e@100", "-f", "%p:%o ")
    assert result.stdout.split() == [f"{p}:{n}" for p in range(3) for n in range(LOW, AT[100])]
    assert world.stored == dict.fromkeys(ORDERS, 10)


def test_topics_by_a_pattern(world: World) -> None:
    world.polled = forever([batch_of(0, 5, 6)], end=interrupted)
    assert run("-G", "g", "--pattern", "o.*").stdout == "v5\n"
    assert world.asked["consumer"]["pattern"] == "o.*"
    assert "topics" not in world.asked["consumer"]
    world.polled = iter([[batch_of(n, LOW, HIGH) for n in range(1, 3)], [batch_of(0, 6, HIGH)]])
    assert run("-G", "g", "--pattern", "o.*", "-e").stdout.count("\n") == 3 * (HIGH - LOW) - 1


def test_a_partition_of_another_member_is_reported(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def commit(_: FakeConsumer, positions: Mapping[TopicPartition, int]) -> None:
        assert positions == {ORDERS[0]: 7}
        raise CommitFailedError("orders-0 belongs to another member", partitions=(("orders", 0),))

    monkeypatch.setattr(FakeConsumer, "commit", commit)
    world.polled = forever([batch_of(0, 5, 8)], end=interrupted)
    result = run("orders", "-G", "g", "-c", "2")
    assert (result.exit_code, result.stderr) == (0, "kafwire: orders-0 belongs to another member\n")


def test_only_the_batch_in_hand_is_committed_by_itself(world: World) -> None:
    """Another partition may be another member's by now; what was processed of it was committed then."""
    world.polled = forever([batch_of(0, 5, 8), batch_of(1, 5, 9)], [], end=interrupted)
    run("orders", "-G", "g")
    assert world.committed == []
    world.closed.clear()
    world.polled = forever([batch_of(0, 8, 9), batch_of(1, 9, 10)], end=interrupted)
    run("orders", "-G", "g", "-c", "2")
    assert world.committed == [{ORDERS[1]: 10}]
    assert world.stored == {ORDERS[0]: 9, ORDERS[1]: 10}


def test_each_record_that_is_written_by_itself_counts(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    world.polled = forever([batch_of(0, 5, 9)], end=interrupted)
    assert run_with(Calls(breaks_after=2), monkeypatch, "-G", "g", "-u") == 141
    assert world.stored == {ORDERS[0]: 7}


def test_a_group_is_at_its_ends_when_the_others_have_committed_theirs(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    moments = iter(range(100))
    monkeypatch.setattr(consume_group, "monotonic", lambda: next(moments))
    world.others = {ORDERS[2]}

    def polled() -> Iterator[list[Batch]]:
        yield [batch_of(0, LOW, HIGH), batch_of(1, LOW, HIGH)]
        yield []
        world.stored[ORDERS[2]] = HIGH - 1
        yield []
        world.stored[ORDERS[2]] = HIGH
        yield []

    world.polled = polled()
    result = run("orders", "-G", "g", "-e")
    assert (result.exit_code, result.stdout.count("\n")) == (0, 2 * (HIGH - LOW))
    assert next(world.polled, None) is None


def test_a_partition_that_is_revoked_at_its_end_is_no_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def pause(_: FakeConsumer, *tps: TopicPartition) -> None:
        raise ConfigError(f"{tps[0]} is not read by this consumer")

    monkeypatch.setattr(FakeConsumer, "pause", pause)
    world.polled = iter([[batch_of(n, LOW, HIGH) for n in range(3)]])
    assert run("orders", "-G", "g", "-e").exit_code == 0


def test_a_member_whose_ends_cannot_be_found_leaves(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    def committed(*_: Any, **__: Any) -> None:
        raise KafkaError("no response")

    monkeypatch.setattr(FakeAdmin, "list_group_offsets", committed)
    assert run("orders", "-G", "g", "-e").stderr == "kafwire: no response\n"
    assert world.closed == ["consumer", "client"]


def test_rows_before_an_offset() -> None:
    data = encode_batch([Record(b"", offset=n) for n in (0, 3, 4, 9)])
    [batch] = decode_chunks(data, Layout("t", 0), topic="t", partition=0)
    assert [rows_before(batch, end) for end in (0, 1, 3, 4, 5, 9, 10, 11)] == [0, 1, 1, 2, 3, 3, 4, 4]


# --- progress -------------------------------------------------------------------------------------------------------


def test_progress(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    reported: list[Any] = []

    class Bar:
        def __init__(self, title: str, total: int, *, of_bytes: bool) -> None:
            reported.append((title, total))

        def __enter__(self) -> Callable[[int], None]:
            return reported.append

        def __exit__(self, *_: object) -> None:
            reported.append("end")

    monkeypatch.setattr("kafwire.scanner.progress.ProgressBar", Bar)
    world.scanned = [batch_of(0, 5, 7), batch_of(1, 5, 8), batch_of(0, 7, 9)]
    world.ranges = [Range("orders", 0, 5, 8), Range("orders", 1, 5, 20)]
    assert run("orders", "-e", "--progress").exit_code == 0
    assert reported == [("orders", 18), 2, 5, 6, 18, "end"]
    reported.clear()
    assert run("orders", "-e").exit_code == 0  # standard error is no terminal
    assert run("orders", "-e", "--no-progress").exit_code == 0
    assert reported == []
    world.polled = iter([[batch_of(0, LOW, HIGH)], [batch_of(1, LOW, HIGH), batch_of(2, LOW, HIGH + 5)]])
    assert run("orders", "-G", "g", "-e", "--progress").exit_code == 0
    assert reported == [("orders", 60), 20, 40, 60, 60, "end"]


def test_no_standard_error(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        assert run_with(Calls(), patch, "-e") == 0


def test_progress_without_rich(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "kafwire.scanner.progress", None)
    result = run("orders", "-e", "--progress")
    assert (result.exit_code, result.stderr) == (
        1,
        "kafwire: --progress needs the package rich: pip install 'kafwire[progress]'\n",
    )
