"""kafwire, confluent-kafka and Kafka's Java client put the same records into the same partitions of the same broker."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import confluent_kafka
import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import ConfigError, KafkaTimeoutError
from tests.support import seeds
from tests.support.broker.scripted_broker import ScriptedBroker
from tests.support.java.client import JavaClient, Written
from tests.support.java.reference_partitions import HASHED, sample_keys

COUNTS = [1, 2, 3, 7, 12, 100, 1000]
ROUND_ROBIN = "org.apache.kafka.clients.producer.RoundRobinPartitioner"
LEADERLESS = {1, 2, 5}

Keys = Sequence[bytes | None]


@pytest.fixture(scope="module")
def java_client() -> Iterator[JavaClient]:
    with JavaClient() as client:
        yield client


@pytest.fixture(scope="module")
def keys() -> list[bytes | None]:
    seed = seeds.of(__name__)
    return sample_keys(seed)


def placed(broker: ScriptedBroker) -> dict[int, int]:
    """The partition of each record, by the number that is its value."""
    return {int(value or b""): p for p in range(broker.topics["t"]) for value in broker.values("t", p)}


def by_confluent(broker: ScriptedBroker, keys: Keys, partitioner: str, **options: Any) -> dict[int, int]:
    """Where each record went, or would have gone."""
    reported: dict[int, int] = {}

    def on_delivery(_error: Any, message: confluent_kafka.Message) -> None:
        reported[int(message.value() or b"")] = message.partition() or 0

    producer = confluent_kafka.Producer(
        {
            "bootstrap.servers": broker.bootstrap,
            "partitioner": partitioner,
            "queue.buffering.max.messages": 200_000,
            "message.max.bytes": 1_000_000,
            "log_level": 0,
            **options,
        }
    )
    for number, key in enumerate(keys):
        producer.produce("t", b"%d" % number, key, on_delivery=on_delivery)
    assert producer.flush(60) == 0
    return reported


def by_java(client: JavaClient, broker: ScriptedBroker, keys: Keys, **options: Any) -> dict[int, int]:
    records = [Written(-1, 0, key, b"%d" % number, ()) for number, key in enumerate(keys)]
    options = {"batch_size": 100_000, "linger_ms": 20, "buffer_memory": 200_000_000, **options}
    client.produce(broker.bootstrap, "t", records, **options)
    return placed(broker)


def by_send(producer: kafwire.Producer, keys: Keys) -> None:
    for number, key in enumerate(keys):
        producer.send("t", b"%d" % number, key=key)


def by_send_batch(producer: kafwire.Producer, keys: Keys) -> None:
    numbers = pa.array(range(len(keys)), pa.int32()).cast(pa.string())
    producer.send_batch("t", pa.table({"key": pa.array(keys, pa.binary()), "value": numbers}))


WAYS: dict[str, Callable[[kafwire.Producer, Keys], None]] = {"send": by_send, "send_batch": by_send_batch}


def by_kafwire(partitions: int, keys: Keys, way: str, **options: Any) -> dict[int, int]:
    with ScriptedBroker({"t": partitions}) as broker:
        with kafwire.Producer(broker.bootstrap, **options) as producer:
            WAYS[way](producer, keys)
        found = placed(broker)
    assert len(found) == len(keys)
    return found


def is_hashed(partitioner: str, key: bytes | None) -> bool:
    return (-1 if key is None else len(key)) >= HASHED[partitioner][1]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize(
    ("partitioner", "partitions"),
    seeds.sampled([(name, COUNTS[-1 - i]) for i, name in enumerate(HASHED)], "murmur2", "fnv1a"),
)
def test_keys_are_placed_as_librdkafka_places_them(
    keys: list[bytes | None], partitioner: str, partitions: int, way: str
) -> None:
    """`test_partitioner_hashes.py` has all counts for each: librdkafka computes them without a broker."""
    with ScriptedBroker({"t": partitions}) as broker:
        theirs = by_confluent(broker, keys, partitioner)
        assert theirs == placed(broker)
    ours = by_kafwire(partitions, keys, way, partitioner=partitioner)
    hashed = [number for number, key in enumerate(keys) if is_hashed(partitioner, key)]
    assert len(hashed) > 90_000
    assert [ours[number] for number in hashed] == [theirs[number] for number in hashed]


@pytest.mark.parametrize("partitions", seeds.sampled(COUNTS, 2, 12))
def test_keys_are_placed_as_java_places_them(
    java_client: JavaClient, keys: list[bytes | None], partitions: int
) -> None:
    with ScriptedBroker({"t": partitions}) as broker:
        theirs = by_java(java_client, broker, keys)
    ours = by_kafwire(partitions, keys, "send_batch")
    hashed = [number for number, key in enumerate(keys) if key is not None]
    assert [ours[number] for number in hashed] == [theirs[number] for number in hashed]


def leaderless(partitions: int = 7) -> ScriptedBroker:
    broker = ScriptedBroker({"t": partitions})
    broker.leaders = {("t", partition): -1 for partition in LEADERLESS}
    return broker


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("partitioner", seeds.sampled(HASHED, "murmur2_random", "consistent"))
def test_keys_of_partitions_without_a_leader_wait_where_librdkafka_s_do(
    keys: list[bytes | None], partitioner: Any, way: str
) -> None:
    some = [key for key in keys[:20_000] if is_hashed(partitioner, key)]
    with leaderless() as broker:
        theirs = by_confluent(broker, some, partitioner, **{"message.timeout.ms": 2_000, "linger.ms": 50})
        assert set(theirs.values()) & LEADERLESS, "the delivery report names the partition of what was not sent"
        assert len(theirs) == len(some)
    sent = {number: partition for number, partition in theirs.items() if partition not in LEADERLESS}
    with leaderless() as broker:
        producer = kafwire.Producer(broker.bootstrap, partitioner=partitioner)
        WAYS[way](producer, some)
        broker.wait_for(lambda: sum(log[-1].next_offset for log in broker.logs.values() if log) == len(sent))
        with pytest.raises(KafkaTimeoutError, match=r"closed with \d+ record"):
            producer.close(0)
        assert placed(broker) == sent


@pytest.mark.parametrize("way", WAYS)
def test_turns_are_java_s(java_client: JavaClient, way: str) -> None:
    """Each round has its partitions in the same order; in which, Java's client leaves to a hash table."""
    keys = [b"same", None, b""] * 100
    with leaderless() as broker:
        theirs = by_java(java_client, broker, keys, partitioner_class=ROUND_ROBIN)
    with leaderless() as broker:
        with kafwire.Producer(broker.bootstrap, partitioner="round_robin") as producer:
            WAYS[way](producer, keys)
        ours = placed(broker)
    assert [ours[number] for number in range(300)] == [0, 3, 4, 6] * 75
    first = [theirs[number] for number in range(4)]
    assert sorted(first) == [0, 3, 4, 6]
    assert [theirs[number] for number in range(300)] == first * 75


@pytest.mark.parametrize("way", WAYS)
def test_records_without_a_key_avoid_partitions_without_a_leader(java_client: JavaClient, way: str) -> None:
    """Which partitions they use, and in how large pieces, is the same; chance is each client's own."""
    keys: Keys = [None] * 20_000
    with leaderless() as broker:
        theirs = by_java(java_client, broker, keys, batch_size=2_000)
    with leaderless() as broker:
        with kafwire.Producer(broker.bootstrap, batch_size=2_000) as producer:
            WAYS[way](producer, keys)
        ours = placed(broker)
        batches = [stored.next_offset - stored.base_offset for log in broker.logs.values() for stored in log]
    for found in (ours, theirs):
        assert set(found.values()) == set(range(7)) - LEADERLESS
        assert max(Counter(found.values()).values()) < 10_000
    assert sum(batches) == 20_000
    assert sorted(batches)[len(batches) // 20] > 100, "batches are full"


def test_a_function_places_records() -> None:
    asked = []

    def choose(topic: str, key: bytes | None, partitions: int, available: tuple[int, ...]) -> int:
        asked.append((topic, partitions, available))
        return available[len(key or b"") % len(available)]

    with leaderless() as broker:
        with kafwire.Producer(broker.bootstrap, partitioner=choose) as producer:
            for way in WAYS.values():
                way(producer, [None, b"a", b"ab", b"abc", b"abcd"])
        assert set(asked) == {("t", 7, (0, 3, 4, 6))}
        assert placed(broker) == {0: 0, 1: 3, 2: 4, 3: 6, 4: 0}


def test_a_function_s_nonsense_is_an_error_of_that_record_alone() -> None:
    with ScriptedBroker({"t": 3}) as broker:
        with kafwire.Producer(
            broker.bootstrap, partitioner=lambda _topic, key, *_: 7 if key == b"bad" else 1
        ) as producer:
            producer.send("t", b"0", key=b"good")
            with pytest.raises(ConfigError, match="returned 7; it must return a partition of topic 't', 0 to 2"):
                producer.send("t", b"1", key=b"bad")
            with pytest.raises(ConfigError, match="row 1: the partitioner .* returned 7"):
                producer.send_batch("t", pa.table({"value": [b"1", b"1"], "key": [b"good", b"bad"]}))
            producer.send("t", b"2", key=b"good")
            producer.send_batch("t", pa.table({"value": [b"3"]}))
        assert placed(broker) == {0: 1, 2: 1, 3: 1}


@pytest.mark.parametrize("options", [{"partitioner": "murmur3"}, {"partitioner": 3}])
def test_an_unknown_partitioner_is_refused_with_those_that_are_known(options: dict[str, Any]) -> None:
    with pytest.raises(
        ConfigError, match=r"option partitioner=.*: allowed: murmur2_random, .*round_robin, or a function"
    ):
        kafwire.Producer("localhost:9092", **options)


def test_options_have_kafka_s_names() -> None:
    with ScriptedBroker({"t": 100}) as broker:
        options = {
            "bootstrap.servers": broker.bootstrap,
            "partitioner": "murmur2_random",
            "partitioner.ignore.keys": "true",
            "partitioner.adaptive.partitioning.enable": "false",
            "partitioner.availability.timeout.ms": "100",
        }
        with kafwire.Producer.from_config(options) as producer:
            by_send(producer, [b"%d" % number for number in range(50)])
        assert len(set(placed(broker).values())) == 1
