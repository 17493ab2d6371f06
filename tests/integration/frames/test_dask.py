"""`kafwire.dask.read_kafka`: a topic as the partitions of a Dask frame."""

from __future__ import annotations

import pickle
import random
from typing import Any

import pandas as pd
import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import ConfigError
from kafwire.testing.cluster import KafkaCluster
from tests.support.frame_rows import RECORDS, fill

pytest.importorskip("dask.dataframe")
pytestmark = pytest.mark.either_kafka


def test_a_frame_has_each_record_once(cluster: KafkaCluster, topic_name: str) -> None:
    from kafwire.dask import read_kafka

    fill(cluster.bootstrap, topic_name, random.Random(4))
    whole = pa.table(kafwire.scan(cluster.bootstrap, topic_name)).to_pandas(types_mapper=pd.ArrowDtype)
    for pieces, expected in ((None, 2), (1, 1), (7, 7)):
        frame = read_kafka(cluster.bootstrap, topic_name, pieces=pieces)
        assert frame.npartitions == expected
        found = frame.compute(scheduler="synchronous")
        assert list(found.columns) == list(whole.columns)
        order = ["partition", "offset"]
        left, right = (each.sort_values(order).reset_index(drop=True) for each in (found, whole))
        assert left["value"].to_list() == right["value"].to_list()
        assert left.equals(right)
    with pytest.raises(ConfigError, match="one piece or more"):
        read_kafka(cluster.bootstrap, topic_name, pieces=0)


def test_a_query_decodes_the_columns_that_it_uses(
    cluster: KafkaCluster, topic_name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    from kafwire.dask import read_kafka
    from kafwire.frames.snapshot import Snapshot

    fill(cluster.bootstrap, topic_name, random.Random(5))
    decoded: list[Any] = []
    whole = Snapshot.scan

    def scan(self: Snapshot, columns: list[str]) -> Any:
        decoded.append(columns)
        return whole(self, columns)

    monkeypatch.setattr(Snapshot, "scan", scan)
    frame = read_kafka(cluster.bootstrap, topic_name)
    largest = frame.groupby("partition")["offset"].max().compute(scheduler="synchronous")
    assert largest.to_dict() == {0: RECORDS - 1, 1: RECORDS - 1}
    assert decoded
    assert all(sorted(columns) == ["offset", "partition"] for columns in decoded)


def test_a_part_goes_to_another_process(cluster: KafkaCluster, topic_name: str) -> None:
    from kafwire.frames.snapshot import Snapshot

    fill(cluster.bootstrap, topic_name, random.Random(6))
    snapshot = Snapshot.take(cluster.bootstrap, topic_name, columns=["offset"])
    with pickle.loads(pickle.dumps(snapshot)).scan(["offset"]) as scan:
        assert sum(1 for _ in scan) == 2 * RECORDS
