"""Fixtures of copies in a data lake."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import kafwire
from kafwire.testing.cluster import KafkaCluster

if TYPE_CHECKING:
    from tests.support.lakes import Lake


@pytest.fixture
def lake(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> Lake:
    """A catalog, and a topic of two partitions."""
    from tests.support.lakes import Lake

    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name, partitions=2)
    return Lake(cluster, topic_name, tmp_path)


@pytest.fixture
def client(cluster: KafkaCluster) -> Iterator[kafwire.Client]:
    """A client of the cluster."""
    with kafwire.Client(cluster.bootstrap) as found:
        yield found
