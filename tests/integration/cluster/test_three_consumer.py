"""Both flavours of the consumer on three nodes that die, hang, come back, lie behind or lose what they had.

Nodes take their time, so both flavours read beside each other in each test. Every record is read once
and in order, whatever happens; only what a log lost by an unclean election is gone.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Any

import pytest

import kafwire
from kafwire import TopicPartition
from kafwire.errors import KafkaError, LogTruncatedError
from kafwire.testing.cluster import KafkaCluster
from tests.support.api_flavours import Flavour, flavour_named
from tests.support.deadlines import ended, until
from tests.support.known_topics import Seen, Values, fill, make_topic, take, value_of
from tests.support.time_limits import within

PARTITIONS = 6
SOON: dict[str, Any] = {"retry_backoff_ms": 20, "retry_backoff_max_ms": 200, "request_timeout_ms": 3_000}


@pytest.fixture
def flavours() -> Iterator[list[Flavour]]:
    with flavour_named("blocking") as blocking, flavour_named("async") as awaited:
        yield [blocking, awaited]


@contextmanager
def both(flavours: list[Flavour], cluster: KafkaCluster, **options: Any) -> Iterator[list[Any]]:
    """A consumer of each flavour, from the beginning on."""
    with ExitStack() as stack:
        known = {"start": "earliest", **SOON, **options}
        yield [stack.enter_context(flavour.consumer(cluster.bootstrap, **known)) for flavour in flavours]


def leader_of(cluster: KafkaCluster, topic: str, partition: int = 0) -> int:
    with kafwire.Client(cluster.bootstrap, request_timeout_ms=1_000) as client:
        return int(client.topic(topic).partitions[partition].leader)


def place(cluster: KafkaCluster, topic: str, replicas: list[list[int]], **config: str) -> str:
    """Create a topic whose partitions have these replicas, the first of each its leader."""
    with kafwire.Client(cluster.bootstrap) as client:
        request = kafwire.protocol.CreateTopicsRequest(timeout_ms=20_000)
        wanted = request.CreatableTopic(name=topic, num_partitions=-1, replication_factor=-1)
        wanted.assignments = [
            request.CreatableReplicaAssignment(partition_index=index, broker_ids=nodes)
            for index, nodes in enumerate(replicas)
        ]
        wanted.configs = [
            request.CreatableTopicConfig(name=name.replace("_", "."), value=value)
            for name, value in {"min_insync_replicas": "1", **config}.items()
        ]
        request.topics = [wanted]
        response = client.call(request, broker=client.metadata().controller_id)
        assert response.topics[0].error_code == 0, response

        def led() -> bool:
            try:
                info = client.topic(topic)
            except KafkaError:
                return False
            return [info.partitions[i].leader for i in sorted(info.partitions)] == [nodes[0] for nodes in replicas]

        until(led)
    return topic


@contextmanager
def writing(cluster: KafkaCluster, topic: str, partitions: int = PARTITIONS) -> Iterator[Values]:
    """A thread that writes to all partitions until the block ends; what was acknowledged, by partition, when it has."""
    written: Values = {partition: [] for partition in range(partitions)}
    enough = threading.Event()
    failed: list[BaseException] = []

    def write() -> None:
        try:
            number = 0
            with kafwire.Producer(cluster.bootstrap, linger_ms=1, batch_size=2000, **SOON) as producer:
                deliveries = []
                while not enough.is_set():
                    for partition in range(partitions):
                        value = value_of(partition, number)
                        deliveries.append(producer.send(topic, value, partition=partition))
                        written[partition].append(value)
                    number += 1
                    if number % 20 == 0:
                        deliveries[-1].result(60)
                        del deliveries[:-partitions]
                producer.flush(60)
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        yield written
    finally:
        enough.set()
        ended(thread)
    assert not failed, failed


class Following:
    """Consumers that are read batch by batch while things happen to their brokers."""

    def __init__(self, consumers: list[Any]) -> None:
        self.seen = [(consumer, Seen()) for consumer in consumers]

    def read_for(self, seconds: float) -> None:
        """Read for so long."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for consumer, seen in self.seen:
                for batch in consumer.poll(0.05):
                    seen.add(batch)

    def counts(self) -> list[int]:
        """Records of each partition, of all consumers."""
        return [len(seen.values.get(partition, [])) for _, seen in self.seen for partition in range(PARTITIONS)]

    def until_all_move(self, records: int = 20) -> None:
        """Read until every consumer got so many records of every partition."""
        wanted = [count + records for count in self.counts()]
        with within(60):
            while any(count < least for count, least in zip(self.counts(), wanted, strict=True)):
                self.read_for(0.1)

    def until_led(self, cluster: KafkaCluster, topic: str, *, by: set[int]) -> None:
        """Read until these nodes lead all partitions, and then a little more."""
        with within(60):
            while any(leader_of(cluster, topic, partition) not in by for partition in range(PARTITIONS)):
                self.read_for(0.2)
        self.until_all_move()

    def until_read(self, expected: Values) -> None:
        """Read until everything came."""
        with within(60):
            while any(seen.count < sum(map(len, expected.values())) for _, seen in self.seen):
                self.read_for(0.1)
        for _, seen in self.seen:
            assert seen.values == expected


# -- leaders


def test_a_leader_is_killed_and_comes_back(flavours: list[Flavour], three: KafkaCluster, topic_name: str) -> None:
    make_topic(three.bootstrap, topic_name, PARTITIONS)
    with both(flavours, three, topics=topic_name) as consumers:
        following = Following(consumers)
        with writing(three, topic_name) as written:
            following.until_all_move()
            victim = three.node(leader_of(three, topic_name))
            victim.kill()
            following.until_led(three, topic_name, by={1, 2, 3} - {victim.id})
            victim.start(wait=False)
            following.until_all_move()
            victim.wait_ready()
        following.until_read(written)


def test_a_leader_hangs_and_goes_on(flavours: list[Flavour], three: KafkaCluster, topic_name: str) -> None:
    """SIGSTOP for longer than the request's time-out and the broker's session."""
    make_topic(three.bootstrap, topic_name, PARTITIONS)
    with both(flavours, three, topics=topic_name) as consumers:
        following = Following(consumers)
        with writing(three, topic_name) as written:
            following.until_all_move()
            victim = three.node(leader_of(three, topic_name))
            victim.pause()
            try:
                following.until_led(three, topic_name, by={1, 2, 3} - {victim.id})
            finally:
                victim.resume()
            following.until_all_move()
        following.until_read(written)
    victim.wait_ready()


@pytest.mark.long
def test_a_rolling_restart(flavours: list[Flavour], three: KafkaCluster, topic_name: str) -> None:
    """One node after another stops in order and comes back: kafka-python #3131, no partition stalls."""
    make_topic(three.bootstrap, topic_name, PARTITIONS)
    with both(flavours, three, topics=topic_name) as consumers:
        following = Following(consumers)
        with writing(three, topic_name) as written:
            for node in three.nodes:
                following.until_all_move()
                node.stop()
                following.until_all_move()
                node.start()
            following.until_all_move()
        following.until_read(written)


def test_0146_leaders_move_back_and_forth(flavours: list[Flavour], three: KafkaCluster, topic_name: str) -> None:
    """Reassigned while nothing fails: responses name the new leader (KIP-951), and positions stay."""
    place(three, topic_name, [[1], [2]])
    with both(flavours, three, topics=topic_name) as consumers:
        following = Following(consumers)
        with writing(three, topic_name, 2) as written, kafwire.Client(three.bootstrap) as client:
            for replicas in ([2], [3], [1], [3]):
                following.read_for(0.3)
                request = kafwire.protocol.AlterPartitionReassignmentsRequest(timeout_ms=20_000)
                moves = [request.ReassignablePartition(partition_index=index, replicas=replicas) for index in (0, 1)]
                request.topics = [request.ReassignableTopic(name=topic_name, partitions=moves)]
                client.call(request, broker=client.metadata().controller_id)
                with within(30):
                    while any(leader_of(three, topic_name, index) != replicas[0] for index in (0, 1)):
                        following.read_for(0.05)
        following.until_read(written)


def test_0139_an_unclean_election_truncates(flavours: list[Flavour], three: KafkaCluster, topic_name: str) -> None:
    """KIP-320: what was read is not in the log any more. By policy reading goes on where the logs part, or says so.

    Node 1 has all, node 2 only the beginning: node 1 is killed, node 2 made the leader uncleanly, and written to.
    """
    bootstrap = three.bootstrap
    place(three, topic_name, [[1, 2]], unclean_leader_election_enable="true", min_insync_replicas="1")
    where = TopicPartition(topic_name, 0)
    options = {"assign": [where], "metadata_max_age_ms": 1000}
    fill(bootstrap, topic_name, 1, 10)
    with (
        both(flavours, three, **options, auto_offset_reset="earliest") as go_on,
        both(flavours, three, **options, auto_offset_reset="error") as hear_of_it,
    ):
        for consumer in go_on + hear_of_it:
            assert take(consumer, 10).count == 10
        three.node(2).kill()
        until(lambda: isr_of(three, topic_name) == [1])
        fill(bootstrap, topic_name, 1, 10, first=10)
        for consumer in go_on + hear_of_it:
            assert take(consumer, 10).offsets == {0: list(range(10, 20))}
        three.node(1).kill()
        three.node(2).start()
        until(lambda: leader_of(three, topic_name) == 2)
        other = fill(bootstrap, topic_name, 1, 30, first=100)
        three.node(1).start(wait=False)
        for consumer in go_on:
            seen = take(consumer, 30)
            assert seen.offsets == {0: list(range(10, 40))}
            assert seen.values == other
            assert consumer.metrics()["fetcher"]["truncations"] == 1
        for consumer in hear_of_it:
            with pytest.raises(LogTruncatedError, match=rf"{topic_name}-0.* 20.*10") as raised:
                take(consumer, 1)
            error = raised.value
            assert (error.topic, error.partition, error.position, error.offset) == (topic_name, 0, 20, 10)
            consumer.seek(where, error.offset)
            assert take(consumer, 30).values == other
    three.node(1).wait_ready()


def isr_of(cluster: KafkaCluster, topic: str) -> list[int]:
    with kafwire.Client(cluster.bootstrap) as client:
        topics = client.metadata([topic]).topics
        return sorted(topics[0].partitions[0].isr_nodes)


# -- followers


def fetched_from(consumer: Any) -> dict[int, int]:
    """Bytes received by fetching, by node."""
    found: dict[int, int] = {}
    for connection in consumer.metrics()["connections"]:
        if connection["role"].startswith("fetch"):
            found[connection["node"]] = found.get(connection["node"], 0) + connection["bytes_in"]
    return found


@pytest.mark.long
def test_0104_a_follower_is_read_and_left_when_it_dies(
    flavours: list[Flavour], three: KafkaCluster, topic_name: str
) -> None:
    bootstrap = three.bootstrap
    place(three, topic_name, [[1, 2, 3]])
    where = TopicPartition(topic_name, 0)
    expected = fill(bootstrap, topic_name, 1, 1000)
    until(lambda: isr_of(three, topic_name) == [1, 2, 3])
    with both(flavours, three, assign=[where], client_rack="r3") as consumers:
        for consumer in consumers:
            assert take(consumer, 1000).values == expected
            by_node = fetched_from(consumer)
            assert by_node[3] > 20_000, "the records came from the follower in the consumer's rack"
            assert by_node.get(1, 0) < 2_000, "the leader only said where they are"
            assert consumer.metrics()["partitions"][f"{topic_name}-0"]["read_from_replica"] == 3
        three.node(3).kill()
        try:
            expected = fill(bootstrap, topic_name, 1, 1000, first=1000)
            for consumer in consumers:
                assert take(consumer, 1000).values == expected
                assert fetched_from(consumer)[1] > 20_000, "now from the leader"
        finally:
            three.node(3).start()
    with both(flavours, three, assign=[where], client_rack="nowhere") as consumers:
        for consumer in consumers:
            assert take(consumer, 2000).count == 2000
            assert set(fetched_from(consumer)) == {1}


# -- logs with holes


def test_1701_compaction_leaves_holes(flavours: list[Flavour], three: KafkaCluster, topic_name: str) -> None:
    """kafka-python #1701: stuck where offsets are missing. The real cleaner makes them, at the end of a segment too."""
    bootstrap = three.bootstrap
    config = {
        "cleanup_policy": "compact",
        "segment_ms": "100",
        "min_cleanable_dirty_ratio": "0.001",
        "delete_retention_ms": "0",
        "max_compaction_lag_ms": "100",
    }
    place(three, topic_name, [[1]], **config)
    where = TopicPartition(topic_name, 0)
    keys = 7
    with kafwire.Producer(bootstrap, batch_size=1000) as producer:
        for number in range(700):
            producer.send(topic_name, b"%d" % number, key=b"%d" % (number % keys), partition=0)
        producer.flush(30)

    def left() -> int:
        # Every record rolls a segment; the cleaner leaves the active one alone.
        with kafwire.Producer(bootstrap) as producer:
            producer.send(topic_name, b"end", key=b"end", partition=0).result(30)
        return sum(len(batch) for batch in kafwire.scan(bootstrap, topic_name).batches())

    until(lambda: left() < 40, seconds=60)
    with both(flavours, three, assign=[where]) as consumers:
        for consumer in consumers:
            end = consumer.end_offsets()[where]
            seen = Seen()
            with within(30):
                while consumer.position(where) < end:
                    for batch in consumer.poll(5.0):
                        seen.add(batch)
            assert seen.values[0][:keys] == [b"%d" % number for number in range(693, 700)]
            assert set(seen.values[0][keys:]) == {b"end"}
            for offset in (0, 350, 692, 693, 699):
                consumer.seek(where, offset)
                first = next(consumer.batches(timeout=10))[0]
                assert first.offset == max(offset, 693)


# -- connections


@pytest.mark.long
def test_0123_connections_that_brokers_close_when_idle(
    flavours: list[Flavour], three: KafkaCluster, topic_name: str
) -> None:
    """Paused for longer than brokers keep a silent connection: the next records have to come all the same."""
    make_topic(three.bootstrap, topic_name, PARTITIONS)
    expected = fill(three.bootstrap, topic_name, PARTITIONS, 5)
    where = [TopicPartition(topic_name, number) for number in range(PARTITIONS)]
    with both(flavours, three, assign=where) as consumers:
        for consumer in consumers:
            assert take(consumer, 5 * PARTITIONS).values == expected
            consumer.pause(*where)

        def connected() -> int:
            connections = [connection for consumer in consumers for connection in consumer.metrics()["connections"]]
            return sum(connection["connected"] for connection in connections if connection["role"] == "fetch")

        until(lambda: connected() == 0, seconds=40)
        expected = fill(three.bootstrap, topic_name, PARTITIONS, 5, first=5)
        for consumer in consumers:
            consumer.resume(*where)
            with within(10):
                assert take(consumer, 5 * PARTITIONS).values == expected
