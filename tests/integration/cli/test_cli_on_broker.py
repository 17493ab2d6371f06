"""`kafwire consume` and `kafwire topics` as processes, on a real broker: pipes, signals, ends."""

import json
import os
import pty
import random
import signal
import subprocess
import sys
import threading
import uuid
from collections.abc import Iterator

import pytest

import kafwire
from kafwire.testing.cluster import KafkaCluster
from tests.support import seeds
from tests.support.complaints import complaints
from tests.support.deadlines import ended
from tests.support.kafka_versions import CLUSTERS

pytestmark = pytest.mark.either_kafka

COMMAND = [sys.executable, "-m", "kafwire"]
SEED = 20261121
BIG = 60_000
PARTITIONS = 3


class Topic:
    """A topic with records that are known."""

    def __init__(self, bootstrap: str, name: str) -> None:
        self.bootstrap = bootstrap
        self.name = name
        self.records: list[list[kafwire.Record]] = [[] for _ in range(PARTITIONS)]

    def fill(self) -> None:
        chance = random.Random(SEED)
        with kafwire.Client(self.bootstrap) as client:
            client.create_topic(self.name, partitions=PARTITIONS)
        with kafwire.Producer(self.bootstrap) as producer:
            for i in range(300):
                partition = chance.randrange(PARTITIONS)
                made = kafwire.Record(
                    chance.choice([None, b"", b"value %d" % i, chance.randbytes(30)]),
                    chance.choice([None, b"", b"key %d" % i]),
                    headers=[(f"h{n}", chance.choice([None, b"x", b"\xff"])) for n in range(chance.choice([0, 0, 2]))],
                    timestamp_ms=1_700_000_000_000 + 1000 * i,
                    topic=self.name,
                    partition=partition,
                    offset=len(self.records[partition]),
                )
                self.records[partition].append(made)
                producer.send(
                    self.name,
                    made.value,
                    key=made.key,
                    partition=partition,
                    headers=made.headers,
                    timestamp_ms=made.timestamp_ms,
                )

    def run(self, *arguments: str, check: bool = True) -> "subprocess.CompletedProcess[bytes]":
        ran = run(self.bootstrap, "consume", self.name, *arguments)
        if check:
            assert (ran.returncode, complaints(ran.stderr)) == (0, b"")
        return ran


def run(bootstrap: str, *arguments: str) -> "subprocess.CompletedProcess[bytes]":
    environment = {**os.environ, "KAFWIRE_BROKERS": bootstrap}
    return subprocess.run([*COMMAND, *arguments], capture_output=True, check=False, timeout=60, env=environment)


@pytest.fixture(scope="module", params=seeds.sampled(CLUSTERS.values(), "cluster"))
def topic(request: pytest.FixtureRequest) -> Topic:
    cluster: KafkaCluster = request.getfixturevalue(request.param)
    made = Topic(cluster.bootstrap, f"cli-{uuid.uuid4().hex[:8]}")
    made.fill()
    return made


@pytest.fixture(scope="module")
def big(cluster: KafkaCluster) -> str:
    name = f"big-{uuid.uuid4().hex[:8]}"
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(name, partitions=1)
    with kafwire.Producer(cluster.bootstrap, compression_type="lz4") as producer:
        for i in range(BIG):
            producer.send(name, b"%099d" % i)
    return name


def by_partition(lines: list[bytes]) -> list[list[bytes]]:
    """Lines that begin with their partition, in their order, without it."""
    found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
    for line in lines:
        number, _, rest = line.partition(b" ")
        found[int(number)].append(rest)
    return found


def test_every_record_in_order(topic: Topic) -> None:
    form = r"%p %o %T %S %K %k|%s|%h\0"
    out = topic.run("-e", "-f", form, "--bytes", "hex", "-Z").stdout
    expected = []
    for records in topic.records:
        lines = []
        for r in records:
            key = b"NULL" if r.key is None else r.key.hex().encode()
            value = b"NULL" if r.value is None else r.value.hex().encode()
            headers = b",".join(n.encode() + b"=" + (b"NULL" if v is None else v.hex().encode()) for n, v in r.headers)
            sizes = -1 if r.value is None else len(r.value), -1 if r.key is None else len(r.key)
            lines.append(b"%d %d %d %d %b|%b|%b" % (r.offset, r.timestamp_ms or 0, *sizes, key, value, headers))
        expected.append(lines)
    assert by_partition(out.split(b"\0")[:-1]) == expected


def test_every_record_as_json(topic: Topic) -> None:
    shown = [json.loads(line) for line in topic.run("-e", "-J", "-p", "1").stdout.splitlines()]
    assert [s["offset"] for s in shown] == list(range(len(topic.records[1])))
    for s, r in zip(shown, topic.records[1], strict=True):
        assert (s["topic"], s["partition"], s["tstype"], s["ts"]) == (r.topic, 1, "create", r.timestamp_ms)
        for name, data in (("key", r.key), ("payload", r.value)):
            if data is None or isinstance(s[name], str):
                assert s[name] == (None if data is None else data.decode())
            else:
                assert s[name].keys() == {"base64"}
        assert len(s.get("headers", [])) == 2 * len(r.headers)


def test_where_to_read(topic: Topic) -> None:
    sizes = [len(records) for records in topic.records]

    def offsets(*arguments: str) -> list[list[int]]:
        lines = topic.run("-e", "-f", r"%p %o\n", *arguments).stdout.splitlines()
        return [[int(line) for line in lines] for lines in by_partition(lines)]

    assert offsets("-o", "-4") == [list(range(size - 4, size)) for size in sizes]
    assert offsets("-o", "end") == [[], [], []]
    assert offsets("-o", "7", "-p", "2") == [[], [], list(range(7, sizes[2]))]
    assert sum(map(len, offsets("-c", "17"))) == 17
    start, end = 1_700_000_100_000, 1_700_000_200_000
    assert offsets("-o", f"s@{start}", "-o", f"e@{end}") == [
        [r.offset for r in records if start <= (r.timestamp_ms or 0) < end] for records in topic.records
    ]


def test_topics(topic: Topic) -> None:
    ran = run(topic.bootstrap, "topics", topic.name, "--offsets", "-J", "--compact")
    assert (ran.returncode, complaints(ran.stderr)) == (0, b"")
    [shown] = json.loads(ran.stdout)["topics"]
    assert [p["nextOffset"] - p["firstOffset"] for p in shown["partitions"]] == list(map(len, topic.records))
    assert [(p["leader"], p["replicas"], p["isrs"]) for p in shown["partitions"]] == [(1, [{"id": 1}], [{"id": 1}])] * 3
    assert topic.name.encode() in run(topic.bootstrap, "topics", "--names").stdout.split()
    missing = run(topic.bootstrap, "topics", "no-such-topic")
    assert (missing.returncode, missing.stdout) == (1, b"")
    assert missing.stderr == b"kafwire topics: there is no topic 'no-such-topic'\n"


def test_a_missing_topic_partition_or_offset(topic: Topic) -> None:
    ran = run(topic.bootstrap, "consume", "no-such-topic", "-e")
    assert ran.returncode == 1
    assert ran.stderr.startswith(b"kafwire: UNKNOWN_TOPIC_OR_PARTITION (3): ")
    assert ran.stderr.count(b"\n") == 1
    ran = topic.run("-e", "-p", "3", check=False)
    assert (ran.returncode, ran.stdout, ran.stderr.count(b"\n")) == (1, b"", 1)
    ran = topic.run("-e", "-o", "100000", check=False)
    assert (ran.returncode, ran.stdout) == (1, b"")
    assert b"(exclusive), not 100000" in ran.stderr


def test_no_broker() -> None:
    ran = run("127.0.0.1:1", "consume", "x", "-e", "-X", "default.api.timeout.ms=300")
    assert ran.returncode == 1
    assert b"127.0.0.1:1" in ran.stderr
    assert ran.stderr.count(b"\n") == 1


def test_a_long_read_through_a_pipe(cluster: KafkaCluster, big: str) -> None:
    out = run(cluster.bootstrap, "consume", big, "-e").stdout
    assert out == b"".join(b"%099d\n" % i for i in range(BIG))


def start(cluster: KafkaCluster, *arguments: str) -> "subprocess.Popen[bytes]":
    command = [*COMMAND, "consume", "-b", cluster.bootstrap, *arguments]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE)


def test_a_reader_that_goes_away(cluster: KafkaCluster, big: str) -> None:
    process = start(cluster, big, "-e")
    assert process.stdout is not None
    assert process.stderr is not None
    assert process.stdout.readline() == b"%099d\n" % 0
    process.stdout.close()
    assert process.wait(30) == 141
    assert process.stderr.read() == b""
    process.stderr.close()


@pytest.fixture
def followed(cluster: KafkaCluster) -> Iterator[tuple[str, kafwire.Producer]]:
    """A topic of two partitions with a record in each, and a producer for more."""
    name = f"followed-{uuid.uuid4().hex[:8]}"
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(name, partitions=2)
    with kafwire.Producer(cluster.bootstrap, linger_ms=0) as producer:
        for partition in range(2):
            producer.send(name, b"old", partition=partition).result(10)
        yield name, producer


def test_records_that_arrive_until_ctrl_c(cluster: KafkaCluster, followed: tuple[str, kafwire.Producer]) -> None:
    name, producer = followed
    process = start(cluster, name, "-f", r"%p %o %s\n")
    try:
        assert process.stdout is not None
        assert {process.stdout.readline() for _ in range(2)} == {b"0 0 old\n", b"1 0 old\n"}
        for i in range(3):
            producer.send(name, b"new %d" % i, partition=1).result(10)
            assert process.stdout.readline() == b"1 %d new %d\n" % (i + 1, i)
        process.send_signal(signal.SIGINT)
        out, errors = process.communicate(timeout=30)
    finally:
        process.kill()
    assert (process.returncode, out, complaints(errors)) == (130, b"", b"")


def test_a_reader_that_goes_away_while_nothing_arrives(
    cluster: KafkaCluster, followed: tuple[str, kafwire.Producer]
) -> None:
    process = start(cluster, followed[0], "-p", "0")
    assert process.stdout is not None
    assert process.stderr is not None
    try:
        assert process.stdout.readline() == b"old\n"
        process.stdout.close()
        assert process.wait(30) == 141
        assert process.stderr.read() == b""
    finally:
        process.kill()
        process.stderr.close()


def test_a_group_goes_on_where_it_was(cluster: KafkaCluster, followed: tuple[str, kafwire.Producer]) -> None:
    name, producer = followed
    for i in range(5):
        producer.send(name, b"%d" % i, partition=0).result(10)

    def consume(*arguments: str) -> bytes:
        options = "-G", f"group-{name}", "-X", "group.protocol=classic"
        ran = run(cluster.bootstrap, "consume", name, *options, *arguments)
        assert (ran.returncode, complaints(ran.stderr)) == (0, b"")
        return ran.stdout

    form = "-f", r"%p:%s\n"
    seen = consume(*form, "-c", "3").split() + consume(*form, "-o", "stored", "-c", "1").split()
    assert len(seen) == 4
    everything = [b"0:0", b"0:1", b"0:2", b"0:3", b"0:4", b"0:old", b"1:old"]
    assert sorted(seen + consume(*form, "-e").split()) == everything
    assert consume("-e") == b""
    producer.send(name, b"later", partition=1).result(10)
    assert consume("-e", "-o", "beginning") == b"later\n"


def test_a_bar_on_a_terminal(cluster: KafkaCluster, big: str) -> None:
    ours, theirs = pty.openpty()
    drawn = bytearray()

    def read() -> None:
        while True:
            try:
                data = os.read(ours, 1 << 16)
            except OSError:  # the other end is closed
                return
            if not data:
                return
            drawn.extend(data)

    command = [*COMMAND, "consume", "-b", cluster.bootstrap, big, "-e"]
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    reader = threading.Thread(target=read)
    reader.start()
    try:
        ran = subprocess.run(command, stdout=subprocess.PIPE, stderr=theirs, check=True, timeout=60, env=environment)
    finally:
        os.close(theirs)
        ended(reader)
        os.close(ours)
    assert ran.stdout.count(b"\n") == BIG
    assert big.encode() in drawn
    assert f"{BIG}/{BIG}".encode() in drawn
