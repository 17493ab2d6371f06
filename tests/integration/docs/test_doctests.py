"""The examples in public docstrings that need a broker run as they stand.

They find `bootstrap`, the broker's address; `topic`, which has three records in its one `partition`; `other_topic`,
which has one partition and no records; `new_topic`, a name that is free; a `client`, a `producer`, and a `consumer`
of the partition that begins with the first record; and `cluster`, the `KafkaCluster` itself. `share_group` is a share
group that begins with the first record too; `group` has committed the offset 1 in the partition. `sasl_options` are
those of a client of a secured cluster, where it is `admin`. `folder` is an empty one.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.testing import KafkaCluster, Security
from tests.support.public_names import Documented, documented, run_example

RECORDS = [(b"UA", b"EWR-IAH"), (b"AA", b"JFK-MIA"), (b"B6", b"JFK-BQN")]
FIRST_MS = 1_700_000_000_000


@pytest.fixture
def names(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> Iterator[dict[str, Any]]:
    """The names that examples use."""
    bootstrap = cluster.bootstrap
    partition = kafwire.TopicPartition(f"{topic_name}-flights", 0)
    other_topic = f"{topic_name}-other"
    with kafwire.Client(bootstrap) as client, kafwire.Producer(bootstrap, linger_ms=0) as producer:
        for name in (partition.topic, other_topic):
            client.create_topic(name, partitions=1)
        for number, (key, value) in enumerate(RECORDS):
            producer.send(partition.topic, value, key=key, timestamp_ms=FIRST_MS + number)
        producer.flush(timeout=30)
        with kafwire.Consumer(bootstrap, assign=[partition], start="earliest", group_id="billing") as consumer:
            yield {
                "asyncio": asyncio,
                "kafwire": kafwire,
                "pa": pa,
                "bootstrap": bootstrap,
                "topic": partition.topic,
                "partition": partition,
                "other_topic": other_topic,
                "new_topic": f"{topic_name}-new",
                "group": group_with_offset(bootstrap, f"{topic_name}-readers", partition),
                "share_group": share_group(client, f"{topic_name}-workers"),
                "client": client,
                "producer": producer,
                "consumer": consumer,
                "cluster": cluster,
                "folder": tmp_path,
            }


def group_with_offset(bootstrap: str, name: str, partition: kafwire.TopicPartition) -> str:
    """Let a group without members have read one record."""
    with kafwire.Admin(bootstrap) as admin:
        admin.alter_group_offsets(name, {partition: 1})
    return name


def share_group(client: kafwire.Client, name: str) -> str:
    """Let a share group begin with the first records."""
    alter = kafwire.protocol.IncrementalAlterConfigsRequest
    config = alter.AlterableConfig(name="share.auto.offset.reset", config_operation=0, value="earliest")
    client.call(alter(resources=[alter.AlterConfigsResource(resource_type=32, resource_name=name, configs=[config])]))
    return name


@pytest.fixture(scope="module")
def sasl_options() -> Iterator[dict[str, Any]]:
    with KafkaCluster(security=Security("SASL_PLAINTEXT", delegation_tokens=True)) as secured:
        made: dict[str, Any] = secured.client_options("admin")
        yield {name.replace(".", "_"): value for name, value in made.items()}


@pytest.mark.parametrize("example", [one for one in documented() if one.needs_broker], ids=str)
def test_example_runs(example: Documented, names: dict[str, Any], request: pytest.FixtureRequest) -> None:
    if "sasl_options" in example.doc:
        names["sasl_options"] = request.getfixturevalue("sasl_options")
    assert run_example(example, names) == ""
