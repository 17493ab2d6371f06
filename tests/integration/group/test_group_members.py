"""Groups of kafwire's members and of others: on an embedded broker, and on Apache Kafka.

Each client commits before it gives up partitions, so nothing may be read twice, whatever joins, leaves and moves.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewTopic

from kafwire.broker.embedded import EmbeddedKafka
from kafwire.testing import KafkaCluster
from tests.support.group.clients import JavaMembers
from tests.support.group.stage import PARTITIONS, GroupStage

OFTEN: dict[str, object] = {
    "group.consumer.heartbeat.interval.ms": 300,
    "group.consumer.min.heartbeat.interval.ms": 300,
    "group.consumer.assignment.interval.ms": 0,
    "group.initial.rebalance.delay.ms": 0,
}
HOW: dict[str, dict[str, Any]] = {
    "eager": {},
    "cooperative": {"partition_assignment_strategy": "cooperative-sticky"},
    "consumer": {"group_protocol": "consumer"},
}
# aiokafka has one protocol alone.
CASES = [
    *(("aiokafka", "eager"), ("confluent", "eager"), ("java", "eager")),
    *(("confluent", "cooperative"), ("java", "cooperative")),
    *(("confluent", "consumer"), ("java", "consumer"), ("kafwire", "consumer")),
]
EVERY_RUN = (("java", "eager"), ("confluent", "cooperative"), ("java", "consumer"))


@pytest.fixture(scope="module")
def java() -> Iterator[JavaMembers]:
    with JavaMembers() as process:
        yield process


@pytest.fixture(scope="module", params=["embedded", "real"])
def bootstrap(request: pytest.FixtureRequest) -> Iterator[str]:
    """A broker in whose groups heartbeats are frequent."""
    if request.param == "real":
        with KafkaCluster(properties=OFTEN) as cluster:
            yield cluster.bootstrap
    else:
        with EmbeddedKafka(configs=OFTEN) as kafka:
            yield kafka.bootstrap


@pytest.fixture
def stage(bootstrap: str, java: JavaMembers, request: pytest.FixtureRequest) -> Iterator[GroupStage]:
    """A topic and a group of this test's own."""
    name = "".join(each if each.isalnum() else "-" for each in request.node.name)
    admin = AdminClient({"bootstrap.servers": bootstrap})
    admin.create_topics([NewTopic(name, PARTITIONS)])[name].result(30)
    made = GroupStage(bootstrap, java, topic=name, group=name)
    yield made
    made.close()


@pytest.mark.parametrize(
    ("other", "how"), [pytest.param(*case, marks=[] if case in EVERY_RUN else pytest.mark.long) for case in CASES]
)
def test_kafwire_and_another_share_a_topic(stage: GroupStage, other: str, how: str) -> None:
    stage.write()
    first = stage.join("kafwire", **HOW[how])
    stage.shared(first)
    stage.all_is_read()
    second = stage.join(other, **HOW[how])
    stage.shared(first, second)
    stage.write()
    stage.all_is_read()
    third = stage.join("kafwire", **HOW[how])
    stage.shared(first, second, third)
    stage.write()
    stage.all_is_read()
    first.close()
    stage.shared(second, third)
    stage.write()
    stage.all_is_read()
    second.close()
    stage.shared(third)
    stage.write()
    stage.all_is_read()
    assert [member.look()[2] for member in stage.members] == [None] * 3
    assert len(stage.read()) == 50 * PARTITIONS
