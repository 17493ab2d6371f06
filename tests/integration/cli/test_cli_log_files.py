"""`kafwire decode` on the files of a real broker's partitions, beside Kafka's own tool, DumpLogSegments."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple
from uuid import uuid4

import pytest
from click.testing import CliRunner

import kafwire
from kafwire import TopicPartition, protocol
from kafwire.cli import main
from kafwire.testing.cluster import KafkaCluster
from kafwire.testing.cluster.kafka import class_path, java
from tests.support.deadlines import until
from tests.support.stream.streams_group_walk import subtopology

TOPIC = "orders"
GROUP = "größe"  # names of groups are any text
INTERNAL = {
    "__consumer_offsets": "--offsets-decoder",
    "__transaction_state": "--transaction-log-decoder",
    "__share_group_state": "--share-group-state-decoder",
}
PROPERTIES = {
    "log.index.interval.bytes": 200,
    "offsets.topic.num.partitions": 1,
    "transaction.state.log.num.partitions": 1,
    "share.coordinator.state.topic.num.partitions": 1,
    "group.share.initialize.retry.interval.ms": 1000,
}


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A copy of a broker's folder of logs, of a topic with two segments and of groups of every type."""
    target = tmp_path_factory.mktemp("copied") / "data"
    with KafkaCluster(properties=PROPERTIES) as cluster:
        with kafwire.Client(cluster.bootstrap) as client:
            client.create_topic(TOPIC, partitions=2, config={"segment.bytes": str(1 << 20)})
            send(cluster.bootstrap)
            join_groups(client, cluster.bootstrap)
            data = cluster.node(1).data
            until(lambda: any(data.rglob(f"{TOPIC}-0/*[1-9]*.snapshot")))
            until(lambda: any(path.stat().st_size for path in data.rglob("__share_group_state-0/*.log")))
            shutil.copytree(data, target)
        # The broker trims the indexes of open segments when it stops.
        yield target


def send(bootstrap: str) -> None:
    """More than a segment of one partition, by transactions; one transaction stays open."""
    with kafwire.Producer(bootstrap, transactional_id="bücher", batch_size=2000) as producer:
        for number in range(30):
            producer.begin_transaction()
            for each in range(20):
                producer.send(TOPIC, b"x" * 2000, partition=0, timestamp_ms=1_700_000_000_000 + 1000 * number + each)
            if number % 3:
                producer.commit_transaction()
            else:
                producer.abort_transaction()
    with kafwire.Producer(bootstrap, transactional_id="open") as producer:
        producer.begin_transaction()
        producer.send(TOPIC, b"open", partition=1)
        producer.flush()
    with kafwire.Consumer(bootstrap, assign=[TopicPartition(TOPIC, 0)], group_id=GROUP) as consumer:
        consumer.commit({TopicPartition(TOPIC, 0): 7})


def join_groups(client: kafwire.Client, bootstrap: str) -> None:
    """Join a group of each type, and leave some."""
    groups: dict[str, dict[str, Any]] = {
        "classic": {"topics": [TOPIC], "group_protocol": "classic"},
        "consumer": {"topics": [TOPIC], "group_protocol": "consumer"},
        "pattern": {"pattern": "ord.*", "group_protocol": "consumer"},
    }
    for group, options in groups.items():
        with kafwire.Consumer(bootstrap, group_id=group, auto_offset_reset="earliest", **options) as one:
            assert one.poll(timeout=30)
    alter: Any = protocol.IncrementalAlterConfigsRequest
    setting = alter.AlterableConfig(name="share.auto.offset.reset", value="earliest")
    asked = alter(resources=[alter.AlterConfigsResource(resource_type=32, resource_name="share", configs=[setting])])
    assert not client.call(asked).responses[0].error_code
    with kafwire.ShareConsumer(bootstrap, topics=[TOPIC], group_id="share") as sharing:
        assert sharing.poll(timeout=20)
    heartbeat: Any = protocol.StreamsGroupHeartbeatRequest
    client.call(
        heartbeat(
            group_id="streams",
            member_id=str(uuid4()),
            member_epoch=0,
            rebalance_timeout_ms=60_000,
            process_id="p",
            topology=heartbeat.Topology(subtopologies=[subtopology("0", (TOPIC,))]),
            active_tasks=[],
            standby_tasks=[],
            warmup_tasks=[],
        ),
        broker=1,
    )


def kafka_says(*files: Path, option: str = "") -> dict[str, list[str]]:
    """The lines of DumpLogSegments by file."""
    command = [java(), "-cp", class_path(), "org.apache.kafka.tools.DumpLogSegments", *([option] if option else [])]
    ran = subprocess.run(
        [*command, "--files", ",".join(map(str, files))], capture_output=True, text=True, check=True, timeout=120
    )
    found: dict[str, list[str]] = {}
    for line in ran.stdout.splitlines():
        if line.startswith("Dumping "):
            lines = found.setdefault(line.removeprefix("Dumping "), [])
        else:
            lines.append(line)
    return found


def decode(*arguments: object) -> list[dict[str, Any]]:
    result = CliRunner().invoke(main, ["decode", *map(str, arguments)])
    assert (result.exit_code, result.stderr) == (0, ""), result.exception
    return [json.loads(line) for line in result.stdout.splitlines()]


class Form(NamedTuple):
    """The line of Kafka's tool for an entry, and our name of each of its numbers."""

    line: re.Pattern[str]
    type: str
    names: dict[str, str]


FORMS = {
    ".index": Form(re.compile(r"offset: (?P<offset>-?\d+) position: (?P<logPosition>-?\d+)"), "indexEntry", {}),
    ".timeindex": Form(re.compile(r"timestamp: (?P<timestamp>-?\d+) offset: (?P<offset>-?\d+)"), "timeIndexEntry", {}),
    ".snapshot": Form(
        re.compile(
            r"producerId: (?P<producerId>-?\d+) producerEpoch: (?P<epoch>-?\d+) coordinatorEpoch: "
            r"(?P<coordinatorEpoch>-?\d+) currentTxnFirstOffset: (?P<first>\S+) lastTimestamp: (?P<timestamp>-?\d+) "
            r"(firstSequence: -?\d+ lastSequence: (?P<lastSequence>-?\d+) lastOffset: (?P<lastOffset>-?\d+) "
            r"offsetDelta: (?P<offsetDelta>-?\d+))?"
        ),
        "producer",
        {},
    ),
}


@pytest.mark.parametrize("suffix", FORMS)
def test_indexes_and_snapshots_are_as_kafkas_tool_shows_them(files: Path, suffix: str) -> None:
    form = FORMS[suffix]
    found = [path for path in sorted(files.rglob(f"*{suffix}")) if path.stat().st_size]
    seen = 0
    for name, lines in kafka_says(*found).items():
        theirs = [match.groupdict() for match in map(form.line.search, lines) if match]
        ours = decode(name)
        assert {each["type"] for each in ours} <= {form.type}
        # Kafka's tool shows the first place of an index that has no entries as one at the base offset.
        if suffix != ".snapshot" and not ours:
            assert all(not int(theirs[0][key]) for key in theirs[0] if key != "offset"), name
            continue
        for our, their in zip(ours, theirs, strict=True):
            first = their.pop("first", None)
            if first is not None:
                text = "OptionalLong.empty" if our["currentTxnFirstOffset"] < 0 else our["currentTxnFirstOffset"]
                assert str(text) in first
            assert {key: our[key] for key in their} == {
                key: our[key] if text is None else int(text) for key, text in their.items()
            }, name
        seen += len(ours)
    assert seen, suffix


RECORD = re.compile(r"^\| offset: (\d+) .*? key: (\{.*?\}) payload: (.*)$")


@pytest.mark.parametrize("topic", INTERNAL)
def test_records_of_internal_topics_are_as_kafkas_tool_shows_them(files: Path, topic: str) -> None:
    segments = [path for path in sorted(files.glob(f"{topic}-*/*.log")) if path.stat().st_size]
    types: Counter[str] = Counter()
    for name, lines in kafka_says(*segments, option=INTERNAL[topic]).items():
        theirs = {int(match[1]): (match[2], match[3]) for match in map(RECORD.match, lines) if match}
        ours = {each["offset"]: each for each in decode("--records", name) if "control" not in each}
        assert ours.keys() == theirs.keys()
        for offset, each in ours.items():
            key, value = theirs[offset]
            theirs_key = json.loads(key)
            assert each["key"]["body"] == theirs_key["data"], (each, key)
            types[each["key"]["message"]] += 1
            if each["value"] is None:
                assert value in ("<DELETE>", "null")
            else:
                theirs_value = json.loads(value)
                assert each["value"]["version"] == int(theirs_value["version"])
                assert each["value"]["body"] == theirs_value["data"], value
    wanted = {
        "__consumer_offsets": {"OffsetCommitKey", "GroupMetadataKey", "ConsumerGroupMetadataKey"}
        | {"ConsumerGroupRegularExpressionKey", "ShareGroupMetadataKey", "StreamsGroupTopologyKey"},
        "__transaction_state": {"TransactionLogKey"},
        "__share_group_state": {"ShareSnapshotKey"},
    }
    assert wanted[topic] <= set(types), types
