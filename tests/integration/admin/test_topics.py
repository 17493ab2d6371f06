"""`Admin` about topics: the same scenario for both faces, on the newest and the oldest tested Kafka."""

from __future__ import annotations

import uuid

import pytest

import kafwire
from kafwire.admin import NewPartitions, NewTopic
from kafwire.errors import AdminError, BrokerError
from tests.support import seeds
from tests.support.deadlines import until
from tests.support.kafka_versions import CLUSTERS

pytestmark = pytest.mark.either_kafka


@pytest.fixture(params=seeds.sampled(CLUSTERS.values(), "cluster", "cluster_391"))
def bootstrap(request: pytest.FixtureRequest) -> str:
    return str(request.getfixturevalue(request.param).bootstrap)


def test_topics_from_their_creation_to_their_deletion(bootstrap: str, topic_name: str) -> None:
    one, two = f"{topic_name}-one", f"{topic_name}-two"
    with kafwire.Admin(bootstrap) as admin:
        created = admin.create_topics([NewTopic(one, partitions=3), NewTopic(two, assignment=[[1]])])
        ids = {name: topic.topic_id for name, topic in created.items()}
        until(lambda: {one, two} <= set(admin.list_topics()), "the broker knows both topics")
        listed = admin.list_topics()
        assert {name: listed[name].topic_id for name in (one, two)} == ids
        admin.create_partitions({two: NewPartitions(3, assignment=[[1], [1]])})
        until(lambda: len(admin.describe_topics([two])[two].partitions) == 3, "the broker knows the partitions")
        described = admin.describe_topics([two, one], authorized_operations=True)
        assert list(described) == [two, one]
        for name, topic in described.items():
            assert (topic.name, topic.topic_id, topic.is_internal) == (name, ids[topic.name], False)
            assert [(part.partition, part.leader, part.replicas, part.isr) for part in topic.partitions] == [
                (number, 1, (1,), (1,)) for number in range(3)
            ]
            assert topic.authorized_operations is not None
            assert {"Read", "Write", "AlterConfigs"} <= topic.authorized_operations
        first, second = ids[one], ids[two]
        assert first is not None
        assert second is not None
        by_id = admin.describe_topics([second, first])
        assert [topic.name for topic in by_id.values()] == [two, one]
        unknown = uuid.uuid4()
        with pytest.raises(AdminError, match=f"1 of 2 failed: {unknown}: UNKNOWN_TOPIC_ID"):
            admin.delete_topics([unknown, first])
        until(lambda: one not in admin.list_topics(), "the broker knows of the deletion")
        with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION"):
            admin.describe_topics([one])
        admin.delete_topics([two])
        until(lambda: two not in admin.list_topics(internal=True), "the broker knows of both deletions")
