"""`kafwire topics` of a made-up cluster: a table, kcat's list, kcat's JSON."""

import json
import uuid
from collections.abc import Iterable
from typing import Any, Self

import pytest
from click.testing import CliRunner, Result

import kafwire
from kafwire.calls.client import cluster_metadata
from kafwire.cli import main
from kafwire.protocol import MetadataResponse
from kafwire.types import TopicPartition

RESPONSE: Any = MetadataResponse
ID = uuid.UUID(bytes=bytes(range(240, 256)))


def partition(number: int, leader: int, **fields: Any) -> Any:
    return RESPONSE.MetadataResponsePartition(
        partition_index=number, leader_id=leader, **{"replica_nodes": [1, 12], "isr_nodes": [1], **fields}
    )


def metadata() -> Any:
    orders = RESPONSE.MetadataResponseTopic(
        name="orders",
        topic_id=ID,
        partitions=[
            partition(10, -1, error_code=5, isr_nodes=[], offline_replicas=[1, 12]),
            partition(2, 1, leader_epoch=7),
        ],
    )
    internal = RESPONSE.MetadataResponseTopic(
        name="__consumer_offsets",
        is_internal=True,
        partitions=[partition(0, 0, leader_epoch=0, replica_nodes=[0], isr_nodes=[0])],
    )
    missing = RESPONSE.MetadataResponseTopic(name="missing", error_code=3)
    secret = RESPONSE.MetadataResponseTopic(name="secret", error_code=29)
    return MetadataResponse(
        cluster_id="the-cluster",
        controller_id=12,
        brokers=[
            RESPONSE.MetadataResponseBroker(node_id=12, host="::1", port=9093, rack="east"),
            RESPONSE.MetadataResponseBroker(node_id=1, host="near", port=9092),
        ],
        topics=[orders, internal, secret, missing],
    )


class FakeClient:
    asked: Any = None

    def __init__(self, **_: Any) -> None:
        pass

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        pass

    def metadata(self, topics: Iterable[str] | None) -> Any:
        found = metadata()
        FakeClient.asked = topics
        found.topics = [t for t in found.topics if (topics is None and not t.error_code) or t.name in (topics or ())]
        return cluster_metadata(found)

    def offsets(
        self,
        partitions: Iterable[TopicPartition],
        when: str,
        isolation_level: str = "read_uncommitted",
        on_error: Any = None,
    ) -> dict[TopicPartition, int]:
        high = 1000 if isolation_level == "read_uncommitted" else 990
        return dict.fromkeys(partitions, 5 if when == "earliest" else high)


@pytest.fixture(autouse=True)
def fake(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafwire, "Client", FakeClient)


def run(*arguments: str) -> Result:
    return CliRunner().invoke(main, ["topics", "-b", "h", *arguments], prog_name="kafwire")


def test_topics() -> None:
    result = run()
    assert (result.exit_code, result.stderr) == (0, "")
    assert FakeClient.asked is None
    assert result.stdout == (
        "TOPIC               PARTITIONS  REPLICAS  ID\n"
        "__consumer_offsets           1         1  -\n"
        "orders                       2         2  8PHy8_T19vf4-fr7_P3-_w\n"
    )


def test_topics_with_offsets_and_without_internal_ones() -> None:
    assert run("--no-internal", "--offsets").stdout == (
        "TOPIC   PARTITIONS  REPLICAS  ID                      OFFSETS\n"
        "orders           2         2  8PHy8_T19vf4-fr7_P3-_w      995\n"
    )


def test_names() -> None:
    assert run("--names").stdout == "__consumer_offsets\norders\n"
    assert run("-n", "--no-internal").stdout == "orders\n"


def test_partitions() -> None:
    result = run("orders")
    assert FakeClient.asked == ("orders",)
    assert result.stdout == (
        "TOPIC   PARTITION  LEADER  EPOCH  REPLICAS  ISR\n"
        "orders          2       1      7  1,12      1\n"
        "orders         10    none      -  1,12      -\n"
    )


def test_partitions_with_offsets() -> None:
    assert run("-t", "orders", "--offsets", "-X", "isolation.level=read_committed").stdout == (
        "TOPIC   PARTITION  LEADER  EPOCH  REPLICAS  ISR  FIRST  NEXT  OFFSETS\n"
        "orders          2       1      7  1,12      1        5   990      985\n"
        "orders         10    none      -  1,12      -        -     -        -\n"
    )


def test_a_broker_and_an_epoch_of_number_zero() -> None:
    assert run("__consumer_offsets", "--offsets").stdout == (
        "TOPIC               PARTITION  LEADER  EPOCH  REPLICAS  ISR  FIRST  NEXT  OFFSETS\n"
        "__consumer_offsets          0       0      0  0         0        5  1000      995\n"
    )


def test_an_internal_topic_that_is_named_is_shown() -> None:
    assert run("--no-internal", "__consumer_offsets", "-n").stdout == "__consumer_offsets\n"


def test_a_topic_that_is_not_there() -> None:
    result = run("orders", "missing", "--names")
    assert (result.exit_code, result.stdout) == (1, "orders\n")
    assert result.stderr == "kafwire topics: there is no topic 'missing'\n"
    alone = run("missing", "--offsets")
    assert (alone.exit_code, alone.stdout) == (1, "")


def test_a_topic_that_the_broker_says_nothing_of() -> None:
    result = run("secret", "orders", "--names")
    assert (result.exit_code, result.stdout) == (1, "orders\n")
    assert result.stderr.startswith("kafwire topics: TOPIC_AUTHORIZATION_FAILED (29): ")
    assert result.stderr.endswith(" [topic 'secret']\n")


def test_as_kcat_lists() -> None:
    assert run("-L").stdout == (
        "Metadata for all topics (cluster the-cluster):\n"
        " 2 brokers:\n"
        "  broker 1 at near:9092\n"
        "  broker 12 at [::1]:9093, rack east (controller)\n"
        " 2 topics:\n"
        '  topic "__consumer_offsets" with 1 partitions:\n'
        "    partition 0, leader 0, replicas: 0, isrs: 0\n"
        '  topic "orders" with 2 partitions:\n'
        "    partition 2, leader 1, replicas: 1,12, isrs: 1\n"
        "    partition 10, leader -1, replicas: 1,12, isrs: , LEADER_NOT_AVAILABLE\n"
    )
    shown = run("-L", "orders", "missing", "--offsets").stdout
    assert shown.startswith("Metadata for orders, missing (cluster the-cluster):\n")
    assert '  topic "missing" with 0 partitions: UNKNOWN_TOPIC_OR_PARTITION\n' in shown
    assert "    partition 2, leader 1, replicas: 1,12, isrs: 1, offsets: 5 to 1000\n" in shown
    assert "    partition 10, leader -1, replicas: 1,12, isrs: , LEADER_NOT_AVAILABLE\n" in shown


def test_json() -> None:
    result = run("-J", "orders", "missing", "--offsets")
    assert result.exit_code == 1
    assert json.loads(result.stdout) == {
        "query": {"topic": "orders,missing"},
        "cluster": "the-cluster",
        "controllerid": 12,
        "brokers": [
            {"id": 12, "name": "[::1]:9093", "rack": "east"},
            {"id": 1, "name": "near:9092", "rack": None},
        ],
        "topics": [
            {
                "topic": "missing",
                "error": "UNKNOWN_TOPIC_OR_PARTITION",
                "id": None,
                "internal": False,
                "partitions": [],
            },
            {
                "topic": "orders",
                "id": "8PHy8_T19vf4-fr7_P3-_w",
                "internal": False,
                "partitions": [
                    {
                        "partition": 2,
                        "leader": 1,
                        "epoch": 7,
                        "replicas": [{"id": 1}, {"id": 12}],
                        "isrs": [{"id": 1}],
                        "offline": [],
                        "firstOffset": 5,
                        "nextOffset": 1000,
                    },
                    {
                        "partition": 10,
                        "error": "LEADER_NOT_AVAILABLE",
                        "leader": -1,
                        "epoch": -1,
                        "replicas": [{"id": 1}, {"id": 12}],
                        "isrs": [],
                        "offline": [{"id": 1}, {"id": 12}],
                        "firstOffset": None,
                        "nextOffset": None,
                    },
                ],
            },
        ],
    }
    everything = json.loads(run("-J").stdout)
    assert everything["query"] == {"topic": "*"}
    assert everything["topics"][0]["internal"] is True
    assert "firstOffset" not in everything["topics"][0]["partitions"][0]


def test_the_list_as_json_is_the_json_object() -> None:
    assert run("-L", "-J").stdout == run("-J").stdout


def test_pretty_json() -> None:
    assert run("-J", "--pretty").stdout.startswith('{\n  "query"')
    assert run("-J", "--compact").stdout.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        (["-n", "-L"], "it excludes -L and -J"),
        (["-n", "-J"], "it excludes -L and -J"),
        (["--names", "--offsets"], "--names excludes --offsets"),
        (["--pretty"], "--pretty and --compact need -J"),
        ([""], "a topic name is empty"),
        (["-X", "nonsense=1"], "unknown option 'nonsense'"),
    ],
)
def test_wrong_usage(arguments: list[str], reason: str) -> None:
    result = run(*arguments)
    assert (result.exit_code, result.stdout) == (2, "")
    assert reason in result.stderr
