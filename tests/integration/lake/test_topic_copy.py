"""`kafwire copy --to topic:`: each record once, whenever the copier is killed; a second copier ends the first."""

from __future__ import annotations

import signal
import subprocess
from dataclasses import replace
from typing import Any

import pytest

import kafwire
from kafwire.admin import ConfigResource
from kafwire.errors import ConfigError, KafkaError
from kafwire.lake.topic_copy import STATE_TOPIC, TopicCopy
from kafwire.testing.cluster import KafkaCluster
from tests.support import killed_steps
from tests.support.real_topics import committed

pytestmark = pytest.mark.either_kafka

IMPORTS = "from kafwire import Client, Producer"
STEPS = (
    *("Client.create_topic", "Producer.init_transactions", "Producer.begin_transaction"),
    *("Producer.send_batch", "Producer.send", "Producer.commit_transaction"),
)


def copy(cluster: KafkaCluster, topic: str, *more: str, step: int = 0) -> subprocess.CompletedProcess[str]:
    words = [topic, "--to", f"topic:{topic}-2", "-b", cluster.bootstrap, *more]
    return killed_steps.copy(IMPORTS, STEPS, words, step=step)


def create(cluster: KafkaCluster, topic: str, partitions: int = 2, targets: int = 2) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic, partitions=partitions)
        client.create_topic(f"{topic}-2", partitions=targets)


def send(cluster: KafkaCluster, topic: str, first: int, count: int, partitions: int = 2) -> None:
    with kafwire.Producer(cluster.bootstrap) as producer:
        for number in range(first, first + count):
            value = None if number % 7 == 6 else b"%d" % number
            headers = [("h", b"%d" % number), ("none", None)]
            stamp = 1_700_000_000_000 + number
            key = b"k%d" % number
            producer.send(topic, value, key=key, headers=headers, timestamp_ms=stamp, partition=number % partitions)


def contents(cluster: KafkaCluster, topic: str) -> list[tuple[Any, ...]]:
    """Of each partition, the records in their order, without offsets: the target's are others."""
    return [
        (record.partition, record.timestamp_ms, record.key, record.value, record.headers)
        for batch in kafwire.scan(cluster.bootstrap, topic, isolation_level="read_committed").batches()
        for record in batch
    ]


def own_copy(cluster: KafkaCluster, client: kafwire.Client, topic: str, rows: int = 10, **options: Any) -> TopicCopy:
    reading = {"isolation_level": "read_committed"}
    made = {"skip_lost": False, "name": topic, **options}
    return TopicCopy(client, topic, f"{topic}-2", rows=rows, options=reading, producer=at(cluster), **made)


def at(cluster: KafkaCluster) -> dict[str, Any]:
    return {"bootstrap_servers": cluster.bootstrap}


def test_each_record_is_copied_once_although_each_step_is_killed(cluster: KafkaCluster, topic_name: str) -> None:
    create(cluster, topic_name)
    step, killed, done = 0, 0, False
    while not done:
        step += 1
        send(cluster, topic_name, 3 * step, 3)
        ran = copy(cluster, topic_name, "--rows", "1", step=step)
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        killed += ran.returncode != 0
        done = ran.returncode == 0
    assert killed > 12
    assert sorted(contents(cluster, f"{topic_name}-2")) == sorted(contents(cluster, topic_name))
    again = copy(cluster, topic_name)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "")


def test_other_numbers_of_partitions_go_by_the_keys(cluster: KafkaCluster, topic_name: str) -> None:
    create(cluster, topic_name, 2, 3)
    send(cluster, topic_name, 0, 60)
    ran = copy(cluster, topic_name)
    assert (ran.returncode, ran.stdout) == (0, f"topic:{topic_name}-2: 60 records\n"), ran.stderr
    found = contents(cluster, f"{topic_name}-2")
    assert sorted(each[1:] for each in found) == sorted(each[1:] for each in contents(cluster, topic_name))
    with kafwire.Producer(cluster.bootstrap) as producer:
        chosen = {each[2]: producer.send(f"{topic_name}-2", b"", key=each[2]).result(10).partition for each in found}
    assert {each[2]: each[0] for each in found} == chosen


def test_a_second_copier_of_a_name_ends_the_first(cluster: KafkaCluster, topic_name: str) -> None:
    create(cluster, topic_name)
    send(cluster, topic_name, 0, 40)
    with kafwire.Client(cluster.bootstrap) as client:
        first = own_copy(cluster, client, topic_name).run()
        assert next(first) >= 10
        second = list(own_copy(cluster, client, topic_name).run())
        with pytest.raises(KafkaError, match=f"another copier of the name '{topic_name}' took over"):
            list(first)
        assert second
    assert sorted(contents(cluster, f"{topic_name}-2")) == sorted(contents(cluster, topic_name))


def test_a_copy_that_the_log_does_not_continue_is_refused(cluster: KafkaCluster, topic_name: str) -> None:
    create(cluster, topic_name)
    send(cluster, topic_name, 0, 40)
    with kafwire.Client(cluster.bootstrap) as client, kafwire.Admin(cluster.bootstrap) as admin:
        list(own_copy(cluster, client, topic_name).run())
        send(cluster, topic_name, 40, 40)
        admin.delete_records({kafwire.TopicPartition(topic_name, 0): 30})
        with pytest.raises(KafkaError, match=r"from 20 to 30 \(exclusive\) were deleted before they were copied"):
            list(own_copy(cluster, client, topic_name).run())
        assert sum(own_copy(cluster, client, topic_name, skip_lost=True).run()) == 30
        other = f"{topic_name}-other"
        client.create_topic(other)
        with pytest.raises(KafkaError, match=f"is of the topic '{topic_name}': give this copy another --name"):
            list(replace(own_copy(cluster, client, topic_name), topic=other).run())
        client.delete_topic(topic_name)
        client.create_topic(topic_name, partitions=2)
        with pytest.raises(KafkaError, match=f"{topic_name} was deleted and recreated since the progress"):
            list(own_copy(cluster, client, topic_name).run())


def test_a_state_topic_that_loses_progress_and_damaged_progress_are_refused(
    cluster: KafkaCluster, topic_name: str
) -> None:
    create(cluster, topic_name)
    send(cluster, topic_name, 0, 4)
    with kafwire.Client(cluster.bootstrap) as client, kafwire.Admin(cluster.bootstrap) as admin:
        list(own_copy(cluster, client, topic_name).run())
        with kafwire.Producer(cluster.bootstrap) as producer:
            producer.send(STATE_TOPIC, b"{}", key=f"kafwire-copy-{topic_name}".encode(), partition=0).result(10)
        with pytest.raises(KafkaError, match="is damaged .*: delete it, or copy under another --name"):
            list(own_copy(cluster, client, topic_name).run())
        policy = ConfigResource.topic(STATE_TOPIC)
        admin.alter_configs({policy: {"cleanup.policy": "delete"}})
        try:
            with pytest.raises(ConfigError, match=f"'{STATE_TOPIC}' has cleanup.policy=delete: records whose progress"):
                list(own_copy(cluster, client, topic_name, name="another").run())
        finally:
            admin.alter_configs({policy: {"cleanup.policy": "compact"}})
    assert len(committed(cluster, f"{topic_name}-2")) == 4


@pytest.mark.parametrize(
    ("words", "text"),
    [
        (("--to", "topic:{0}"), "cannot be copied to itself"),
        (("--offsets", "0=1"), "--offsets is for Iceberg tables"),
        (("--value", "json"), "a copy in a topic has the same bytes"),
        (("--to", "topic:{0}-missing"), "missing"),
    ],
)
def test_words_that_do_not_fit_are_refused(
    cluster: KafkaCluster, topic_name: str, words: tuple[str, ...], text: str
) -> None:
    create(cluster, topic_name)
    ran = copy(cluster, topic_name, *(word.format(topic_name) for word in words))
    assert ran.returncode in (1, 2)
    assert text in ran.stderr
    assert "Traceback" not in ran.stderr
