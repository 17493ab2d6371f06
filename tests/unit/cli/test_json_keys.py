"""The keys of -J: one meaning and one type in all commands, as the table of docs/reference/cli.md says."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import kafwire
from kafwire import TopicPartition
from kafwire.admin import QuotaEntity, QuotaMatch, ScramUpsertion
from kafwire.broker.security.acls import Acl
from kafwire.cli import main
from kafwire.protocol import encode_versioned
from kafwire.protocol.group_records import OffsetCommitKey, OffsetCommitValue
from kafwire.stream.failed_record import ERROR_STEP, ORIGIN_OFFSET, ORIGIN_PARTITION, ORIGIN_TOPIC
from kafwire.testing import EmbeddedKafka
from tests.support.group.classic_member import joined_classic

DOCUMENT = Path(__file__).parents[3] / "docs" / "reference" / "cli.md"
TYPES = {"text": str, "number": int, "flag": bool, "list": list, "object": dict, "null": type(None)}
COMMANDS = [
    "acls list -J",
    "cluster describe -J",
    "cluster features -J",
    "cluster log-dirs -J",
    "cluster quorum -J",
    "consume orders -e -J",
    "consume __consumer_offsets -e -J -p 0",
    "doctor SERVER -J",
    "groups describe g -J",
    "groups lag g -J",
    "groups list -J",
    "groups members g -J",
    "groups reset-offsets idle --to-latest --dry-run -J",
    "letters list dead -J",
    "offsets orders -J",
    "offsets orders --at 99999999999999 -J",
    "quotas list -J",
    "reassign move orders --to 1,2 --replication-factor 2 -J",
    "spark lag --group idle -J",
    "topics alter orders --config retention.ms=1 --config segment.ms=9 --dry-run -J",
    "topics configs orders --all -J",
    "topics describe orders --offsets -J",
    "topics list --offsets -J",
    "users list -J",
    "transactions describe billing -J",
    "transactions list -J",
]


def table() -> dict[str, set[type]]:
    """The types of each key by docs/reference/cli.md; no types for kcat's own object."""
    section = DOCUMENT.read_text().split("\n## JSON\n")[1].split("\n## ")[0]
    found = {}
    for line in section.splitlines():
        row = re.fullmatch(r"\| ((?:`\w+` ?)+) \| ([^|]+) \| [^|]+ \|", line)
        if row:
            words = re.findall(r"\w+", row[2])
            types = set() if words == ["as", "in", "kcat"] else {TYPES[word] for word in words if word != "or"}
            found.update(dict.fromkeys(re.findall(r"\w+", row[1]), types))
    return found


def known_topics(kafka: EmbeddedKafka) -> set[str]:
    with kafwire.Client(kafka.bootstrap) as client:
        return {topic.name for topic in client.metadata().topics}


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    rule = Acl("User:alice", "Read", "Topic", "orders")
    with EmbeddedKafka(nodes=2, acls=[rule], configs={"super.users": "User:ANONYMOUS"}) as running:
        quota = {QuotaEntity(user="alice", client_id=QuotaMatch.DEFAULT): {"producer_byte_rate": 1}}
        with kafwire.Admin(running.bootstrap) as admin:
            admin.alter_client_quotas({**quota, QuotaEntity(ip="10.0.0.1"): {"connection_creation_rate": 5}})
            admin.alter_user_scram_credentials([ScramUpsertion("alice", "SCRAM-SHA-256", "secret")])
        for topic in ("orders", "dead", "__consumer_offsets"):
            if topic not in known_topics(running):
                running.create_topic(topic, partitions=1)
        with kafwire.Producer(running.bootstrap) as producer:
            producer.send("orders", b"\xff", key=b"k", headers=[("n", b"v")])
            letter = {ORIGIN_TOPIC: b"orders", ORIGIN_PARTITION: b"0", ORIGIN_OFFSET: b"0", ERROR_STEP: b"charge"}
            producer.send("dead", b"v", key=b"\xff", headers=list(letter.items()))
        # The one client id that brokers let write there.
        with kafwire.Producer(running.bootstrap, client_id="__admin_client") as producer:
            key = (1).to_bytes(2, "big") + OffsetCommitKey(group="g", topic="orders", partition=0).encode(0)
            producer.send("__consumer_offsets", encode_versioned(OffsetCommitValue(), 3), key=key, partition=0)
        where = TopicPartition("orders", 0)
        with kafwire.Admin(running.bootstrap) as admin:
            admin.fence_producers(["billing"])
        with kafwire.Consumer(running.bootstrap, assign=[where], group_id="idle") as consumer:
            consumer.commit({where: 0})
        with joined_classic(running.bootstrap, "g", {"orders": [0]}):
            yield running


def items(value: Any) -> Iterator[tuple[str, Any]]:
    """All keys and values of an object and those in it, but the fields of Kafka's own messages."""
    if isinstance(value, list):
        for each in value:
            yield from items(each)
    elif isinstance(value, dict):
        for key, inner in value.items():
            yield key, inner
            if key != "body":
                yield from items(inner)


@pytest.mark.parametrize("command", COMMANDS)
def test_keys_and_types_are_those_of_the_table(kafka: EmbeddedKafka, command: str) -> None:
    words = command.replace("SERVER", kafka.bootstrap.partition(",")[0]).split()
    more = [] if "doctor" in words else ["-b", kafka.bootstrap]
    result = CliRunner().invoke(main, [*words, *more])
    assert result.exit_code == 0
    assert not result.stderr or result.stderr.endswith("this is only the plan: add --execute to apply it\n")
    known = table()
    for line in result.stdout.splitlines():
        for key, value in items(json.loads(line)):
            assert key in known, key
            assert not known[key] or type(value) in known[key], (key, value)
    assert result.stdout


def test_each_key_is_in_one_row_of_the_table() -> None:
    text = DOCUMENT.read_text().split("\n## JSON\n")[1].split("\n## ")[0]
    rows = (line.split("|")[1] for line in text.splitlines() if line.startswith("| `"))
    keys = [key for row in rows for key in re.findall(r"`(\w+)`", row)]
    assert len(keys) == len(set(keys)) == len(table())
