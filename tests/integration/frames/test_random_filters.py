"""Random filters of polars, DuckDB and pyarrow: a topic has the rows of the same filter on the whole frame."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import kafwire
from kafwire.admin import ConfigResource
from kafwire.frames import append_time, dataset
from kafwire.polars import scan_kafka
from kafwire.testing.cluster import KafkaCluster
from tests.support import drawn_filters
from tests.support.deadlines import until
from tests.support.drawn_filters import Drawn
from tests.support.frame_rows import START_MS
from tests.support.seeds import examples, of_test

pytestmark = pytest.mark.either_kafka

PARTITIONS, BURSTS = 3, 8
APPEND_TIME = {"message.timestamp.type": "LogAppendTime"}
Rows = list[tuple[int, int]]
Query = Callable[[Drawn], tuple[Any, Callable[[Any], Rows]]]


@pytest.fixture
def topic(cluster: KafkaCluster, topic_name: str, request: pytest.FixtureRequest) -> str:
    """Records whose times are in disorder, of producers or of brokers or first of those and then of these."""
    chance = random.Random(1)
    with kafwire.Client(cluster.bootstrap) as client, kafwire.Admin(cluster.bootstrap) as admin:
        client.create_topic(topic_name, partitions=PARTITIONS, config=APPEND_TIME if request.param == "brokers" else {})
        for burst in range(BURSTS):
            if request.param == "both" and burst == BURSTS // 2:
                admin.alter_configs({ConfigResource.topic(topic_name): APPEND_TIME})
                until(lambda: client.topic_config(topic_name)["message.timestamp.type"] == "LogAppendTime")
            send(cluster, topic_name, chance, is_aborted=burst % 4 == 3)
    return topic_name


def send(cluster: KafkaCluster, topic: str, chance: random.Random, *, is_aborted: bool) -> None:
    """Send some records in small batches, in a transaction."""
    with kafwire.Producer(cluster.bootstrap, linger_ms=0, batch_size=150, transactional_id=topic) as producer:
        producer.init_transactions()
        producer.begin_transaction()
        for number in range(30):
            at = chance.choice([0, START_MS, START_MS + chance.randrange(40), START_MS + chance.randrange(10**6)])
            key, value = chance.choice([None, b"", b"k1"]), chance.choice([None, b"", b"%d" % number])
            producer.send(topic, value, key=key, partition=chance.randrange(PARTITIONS), timestamp_ms=at)
        if is_aborted:
            producer.flush()
            producer.abort_transaction()
        else:
            producer.commit_transaction()


def rows_of(table: Any) -> Rows:
    return sorted(zip(table["partition"].to_pylist(), table["offset"].to_pylist(), strict=True))


def of_polars(drawn: Drawn) -> tuple[Any, Callable[[Any], Rows]]:
    predicate = drawn_filters.of_polars(drawn)
    engine: Any = drawn.chance.choice(["in-memory", "streaming"])
    columns = ["partition", "offset"]
    return predicate, lambda frame: sorted(frame.lazy().filter(predicate).select(columns).collect(engine=engine).rows())


def of_duckdb(drawn: Drawn) -> tuple[Any, Callable[[Any], Rows]]:
    order = drawn.chance.choice(["", "", 'ORDER BY "offset" DESC, partition LIMIT 5', "ORDER BY ALL LIMIT 4"])
    query = f'SELECT partition, "offset" FROM data WHERE {drawn_filters.of_duckdb(drawn)} {order}'

    def rows(data: Any) -> Rows:
        with duckdb.connect() as connection:
            connection.register("data", data)
            return sorted(connection.execute(query).fetchall())

    return query, rows


def of_arrow(drawn: Drawn) -> tuple[Any, Callable[[Any], Rows]]:
    given = drawn_filters.of_arrow(drawn)
    columns = ["partition", "offset"]
    return given, lambda data: rows_of(data.to_table(columns=columns, filter=given))


def outcome(rows: Callable[[Any], Rows], data: Any) -> Rows | str:
    """Return the rows, or that the library refuses the filter."""
    try:
        return rows(data)
    except (pl.exceptions.PolarsError, duckdb.Error, pa.ArrowException, OverflowError) as error:
        assert "kafwire" not in str(error)
        return "refused"


@pytest.fixture
def exact_clocks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(append_time, "CLOCKS_DIFFER_MS", 0)


@pytest.mark.usefixtures("exact_clocks")
@pytest.mark.parametrize("topic", ["producers", "brokers", "both"], indirect=True)
def test_a_filter_has_the_rows_of_the_whole_frame(cluster: KafkaCluster, topic: str) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        kept: Any = {"isolation_level": "read_committed"}
        whole = pa.table(client.scan(topic, **kept))
        times = [int(each) for each in whole["timestamp"].cast(pa.int64()).to_pylist()]
    first, refused, fewer = of_test(), 0, 0
    count = examples(15)
    for number, seed in enumerate(range(first, first + count)):
        chance = random.Random(seed)
        drawn = Drawn(chance, topic, times, 90)
        unit: Any = ["ms", "us"][number % 2]
        arguments: Any = {"layout": {"timestamp_unit": unit}, **kept}
        data = dataset(cluster.bootstrap, topic, **arguments)
        frame = whole.set_column(3, "timestamp", whole["timestamp"].cast(pa.timestamp(unit, "UTC")))
        cases: list[tuple[Query, Any, Any]] = [
            (of_polars, scan_kafka(cluster.bootstrap, topic, **arguments), pl.DataFrame(frame)),
            (of_duckdb, data, frame),
            (of_arrow, data, ds.dataset(frame)),
        ]
        for draw, lazy, table in cases:
            given, rows = draw(drawn)
            expected = outcome(rows, table)
            if expected == "refused":  # the library does not look at a filter of no records
                refused += 1
                continue
            assert outcome(rows, lazy) == expected, f"seed {seed}, {unit}: {given}"
            fewer += 0 < len(expected) < whole.num_rows
    print(f"{3 * count} filters: {refused} refused by the library, {fewer} with some rows")
    assert refused < count
    assert fewer > count / 2
