"""A follower of Kafka's that caught up shows aborted records to read_committed, and `soak.concealed` knows which."""

from __future__ import annotations

import subprocess
from contextlib import ExitStack

import kafwire
from kafwire import TopicPartition
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.soak.concealed import concealed
from tests.support.deadlines import until

SIZE = 3_000
# Small, so that responses end everywhere.
BYTES = 3_500


def test_records_are_shown_only_where_the_index_conceals_them() -> None:
    properties = {"min.insync.replicas": 1, "transaction.state.log.min.isr": 1, "replica.lag.time.max.ms": 1_500}
    with KafkaCluster(3, properties=properties) as cluster, kafwire.Client(cluster.bootstrap) as client:
        name, follower = _topic(client)
        where = TopicPartition(name, 0)
        leader = client.metadata([name]).topics[0].partitions[0].leader_id
        cluster.node(follower).kill()
        until(lambda: follower not in _in_sync(client, name), "the follower is out of sync")
        _write_and_abort(cluster, name)
        # The log that a leader wrote itself is right.
        assert concealed(node.data for node in cluster.nodes) == {}
        assert _shown(client, cluster, where) == []
        cluster.node(follower).start()
        until(lambda: follower in _in_sync(client, name), "the follower is in sync")
        hidden = concealed([cluster.node(follower).data])
        for node in cluster.nodes:
            if node.id not in {leader, follower}:
                assert concealed([node.data]) == {}
        cluster.node(leader).kill()
        until(lambda: client.metadata([name]).topics[0].partitions[0].leader_id == follower, "the follower leads")
        shown = _shown(client, cluster, where)
        assert shown  # else Kafka has mended it
        assert [offset for offset in shown if not any(first <= offset <= last for first, last in hidden[where])] == []
        assert _shown_by_java(cluster.node(follower).address, name) == shown


def _topic(client: kafwire.Client) -> tuple[str, int]:
    """A topic whose second replica leads when the first one dies; each response may end at each batch."""
    name = "concealed"
    client.create_topic(name, partitions=1, replication_factor=3, config={"index.interval.bytes": "1"})
    return name, client.metadata([name]).topics[0].partitions[0].replica_nodes[1]


def _in_sync(client: kafwire.Client, name: str) -> tuple[int, ...]:
    return client.metadata([name]).topics[0].partitions[0].isr_nodes


def _write_and_abort(cluster: KafkaCluster, name: str) -> None:
    """Write with two producers, of which one has several transactions before one of the other."""
    with ExitStack() as stack:
        producers = [
            stack.enter_context(kafwire.Producer(cluster.bootstrap, transactional_id=f"concealed-{name}", linger_ms=0))
            for name in "ab"
        ]
        for producer in producers:
            producer.init_transactions()
        for number in range(240):
            producer = producers[number % 6 == 0]
            producer.begin_transaction()
            for _ in range(2):
                producer.send(name, bytes(SIZE), partition=0)
            producer.flush(30)
            producer.abort_transaction()


def _shown(client: kafwire.Client, cluster: KafkaCluster, where: TopicPartition) -> list[int]:
    end = client.offsets([where], "latest", isolation_level="read_committed")[where]
    found: list[int] = []
    with kafwire.Consumer(
        cluster.bootstrap,
        assign=[where],
        start="earliest",
        isolation_level="read_committed",
        max_partition_fetch_bytes=BYTES,
        fetch_max_bytes=BYTES,
    ) as consumer:
        while consumer.position(where) < end:
            found += [record.offset for batch in consumer.poll(1.0) for record in batch]
    return found


def _shown_by_java(address: str, name: str) -> list[int]:
    bounds = [f"{option}={BYTES}" for option in ("max.partition.fetch.bytes", "fetch.max.bytes")]
    ran = subprocess.run(
        [
            *(java(), "-cp", class_path(), "org.apache.kafka.tools.consumer.ConsoleConsumer"),
            *("--bootstrap-server", address, "--topic", name, "--partition", "0", "--offset", "earliest"),
            *("--isolation-level", "read_committed", "--timeout-ms", "5000"),
            *(argument for bound in bounds for argument in ("--command-property", bound)),
            *("--formatter-property", "print.offset=true", "--formatter-property", "print.value=false"),
        ],
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    lines = [line.strip() for line in ran.stdout.splitlines()]
    return [int(line.removeprefix("Offset:")) for line in lines if line.startswith("Offset:")]
