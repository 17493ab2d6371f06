"""`kafwire.frames.dataset`: the rows that DuckDB and pyarrow would keep of all records, from a read of fewer."""

from __future__ import annotations

import pickle
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import duckdb
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds
import pytest
from pyarrow.acero import Declaration, ScanNodeOptions

import kafwire
from kafwire.errors import ConfigError
from kafwire.frames import TopicDataset, dataset
from kafwire.frames.arrow_filter import ArrowFilter
from kafwire.testing.cluster import KafkaCluster
from tests.support.frame_rows import RECORDS, START_MS, fill
from tests.support.seeds import examples, of_test

pytestmark = pytest.mark.either_kafka

sql: Any = duckdb.sql


@pytest.fixture
def flights(cluster: KafkaCluster, topic_name: str) -> TopicDataset:
    fill(cluster.bootstrap, topic_name, random.Random(2))
    return dataset(cluster.bootstrap, topic_name)


def drawn(chance: random.Random) -> str:
    def one() -> str:
        offset, ms = chance.randrange(-2, RECORDS + 5), START_MS + chance.randrange(-5000, 1000 * RECORDS)
        return chance.choice(
            [
                f'"offset" >= {offset}',
                f'"offset" < {offset}',
                f'"offset" IN ({offset}, {offset + 3}, 17)',
                f'"offset" BETWEEN {offset} AND {offset + 9}',
                f"partition = {chance.randrange(3)}",
                f"partition IN (0, {chance.randrange(4)})",
                f"timestamp >= make_timestamptz({ms * 1000})",
                f"timestamp < make_timestamptz({ms * 1000})",
                "timestamp IS NOT NULL",
                "topic = 'other'",
                "value > '5'::BLOB",
            ]
        )

    return f"{chance.choice(['', 'NOT '])}({one()} {chance.choice(['AND', 'OR'])} {one()}) AND {one()}"


def test_a_query_of_duckdb_has_the_rows_of_all_records(flights: TopicDataset) -> None:
    whole = flights.to_table()
    assert whole.num_rows == 2 * RECORDS
    first = of_test()
    for seed in range(first, first + examples(30)):
        query = f'SELECT partition, "offset" FROM %s WHERE {drawn(random.Random(seed))} ORDER BY ALL'
        found = sql(query % "flights").fetchall()
        assert found == sql(query % "whole").fetchall(), f"seed {seed}: {query}"


def test_a_data_set_is_read_as_pyarrow_reads_any(flights: TopicDataset) -> None:
    offset = pc.field("offset")
    assert isinstance(flights, ds.Dataset)
    assert flights.schema == flights.to_table().schema
    assert flights.count_rows() == 2 * RECORDS
    assert flights.count_rows(filter=offset < 3) == 6
    assert sql("SELECT sum(partition), count(*) FROM flights").fetchall() == [(RECORDS, 2 * RECORDS)]
    assert sql("SELECT count(*), count(DISTINCT 1) FROM flights").fetchall() == [(2 * RECORDS, 1)]
    assert flights.to_table(columns={"one": pc.scalar(1)})["one"].to_pylist() == [1] * 2 * RECORDS
    assert flights.to_table(columns=[]).shape == (2 * RECORDS, 0)
    assert flights.head(5, columns=["value"]).shape == (5, 1)
    assert flights.take([1, 3]).num_rows == 2
    assert sum(batch.num_rows for batch in flights.to_batches(columns=["offset"], filter=offset >= 50)) == 20
    named = flights.to_table(columns={"next": offset + 1}, filter=pc.field("partition") == 0)
    assert sorted(named["next"].to_pylist()) == list(range(1, RECORDS + 1))
    few = flights.filter(offset > 7).filter(offset < 10)
    assert few.count_rows() == few.to_table(columns=["value"]).num_rows == 4
    assert few.to_table(filter=offset != 8)["offset"].to_pylist() == [9, 9]
    assert pl.scan_pyarrow_dataset(flights).filter(pl.col("offset") > 57).collect().height == 4
    assert sql('SELECT count(*) FROM flights a JOIN flights b USING (partition, "offset")').fetchall() == [(120,)]
    assert repr(flights).endswith(": 120 offsets>")


def test_only_offsets_that_can_pass_are_read(flights: TopicDataset) -> None:
    snapshot = flights._snapshot
    filters: list[tuple[Any, list[Any]]] = [
        (pc.field("partition") == 1, [(1, 0, 60)]),
        (pc.field("offset").isin([3, 5]) & (pc.field("partition") == 0), [(0, 3, 6)]),
        (pc.field("topic") == "other", []),
    ]
    for given, expected in filters:
        row_filter = ArrowFilter(given, flights.schema, snapshot.filtered)
        with snapshot.scan(["value"], row_filter) as scan:
            assert [(r.partition, r.start, r.end) for r in scan.ranges] == expected


def test_an_unknown_column_is_pyarrows_error(flights: TopicDataset) -> None:
    with pytest.raises(pa.ArrowInvalid, match="valu"):
        flights.to_table(columns=["valu"])
    with pytest.raises(pa.ArrowInvalid, match="valu"):
        flights.to_table(filter=pc.field("valu") == 1)


def test_a_field_by_its_number_is_one_of_all_columns(flights: TopicDataset) -> None:
    """`partition` is the field 1 of the data set, and `offset` that of the columns that are decoded."""
    found = flights.to_table(columns=["topic", "offset"], filter=pc.field(1) == 0)
    assert sorted(found["offset"].to_pylist()) == list(range(RECORDS))


# The public methods of a scanner, but those that make one. `dataset_schema` has the columns that are decoded.
OF_SCANNER: dict[str, Callable[[Any], Any]] = {
    "count_rows": lambda scanner: scanner.count_rows(),
    "dataset_schema": lambda scanner: scanner.dataset_schema.field("offset"),
    "head": lambda scanner: scanner.head(2),
    "projected_schema": lambda scanner: scanner.projected_schema,
    "scan_batches": lambda scanner: pa.Table.from_batches(each.record_batch for each in scanner.scan_batches()),
    "take": lambda scanner: scanner.take(pa.array([3, 0, 3])),
    "to_batches": lambda scanner: pa.Table.from_batches(scanner.to_batches()),
    "to_reader": lambda scanner: scanner.to_reader().read_all(),
    "to_table": lambda scanner: scanner.to_table(),
}


def test_a_scanner_has_the_results_of_a_table_once(flights: TopicDataset) -> None:
    public = {name for name in dir(ds.Scanner) if not name.startswith("_")}
    assert public - set(OF_SCANNER) == {"from_batches", "from_dataset", "from_fragment"}
    table = ds.dataset(flights.to_table())
    chosen = {"columns": ["offset"], "filter": (pc.field("partition") == 0) & (pc.field("offset") < 7)}
    for name, call in OF_SCANNER.items():
        scanner = flights.scanner(**chosen)
        assert call(scanner) == call(table.scanner(**chosen)), name
        if not name.endswith("schema"):
            with pytest.raises(pa.ArrowInvalid, match="already scanned"):
                call(scanner)


# Calls of a data set that go through its `scanner`, or read nothing.
OWN = {"count_rows", "filter", "head", "partition_expression", "scanner", "schema", "take", "to_batches", "to_table"}
# And those that see Arrow's C++ data set.
REFUSED: dict[str, Callable[[Any], Any]] = {
    "children": lambda flights: flights.children[0].to_table(),
    "get_fragments": lambda flights: [each.count_rows() for each in flights.get_fragments()],
    "join": lambda flights: flights.join(ds.dataset(pa.table({"offset": [1]})), "offset"),
    "join_asof": lambda flights: flights.join_asof(pa.table({"offset": [1]}), "offset", [], 1),
    "replace_schema": lambda flights: flights.replace_schema(flights.schema).to_table(),
    "sort_by": lambda flights: flights.sort_by("offset"),
}
OF_OTHERS: list[Callable[[Any], Any]] = [
    lambda flights: ds.Scanner.from_dataset(flights).to_table(),
    lambda flights: ds.Scanner.from_dataset(flights).count_rows(),
    lambda flights: ds.Scanner.from_dataset(flights, columns=["offset"], filter=pc.field("offset") == 1).head(1),
    lambda flights: ds.dataset([flights, flights]).count_rows(),
    lambda flights: ds.dataset(pa.table({"offset": [1]})).join(flights, "offset"),
    lambda flights: Declaration("scan", ScanNodeOptions(flights)).to_table(),
    pickle.dumps,
]


@pytest.mark.usefixtures("flights")
def test_calls_of_pyarrow_read_the_topic_or_are_refused(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    """Arrow's C++ code cannot read a topic: it must not find an empty table instead."""
    flights = dataset(cluster.bootstrap, topic_name, columns=["partition", "offset"])  # types that Arrow joins
    public = {name for name in dir(flights) if not name.startswith("_")}
    assert public - {"join_asof"} == OWN | set(REFUSED) - {"join_asof"}  # pyarrow 15 has no join_asof
    for call in [*(REFUSED[name] for name in public - OWN), *OF_OTHERS]:
        with pytest.raises(NotImplementedError, match="a data set of (topics has no files|a topic cannot be pickled)"):
            call(flights)
    ds.write_dataset(flights, tmp_path, format="parquet")
    assert ds.dataset(tmp_path).count_rows() == 2 * RECORDS


def test_a_topic_without_records_is_a_data_set_too(cluster: KafkaCluster, topic_name: str) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
    empty = dataset(cluster.bootstrap, topic_name)
    assert empty.to_table(filter=pc.field("offset") > 1).num_rows == empty.count_rows() == 0


def test_columns_of_the_same_name_are_refused(cluster: KafkaCluster, topic_name: str) -> None:
    """The last of them would be read in place of the others."""
    fill(cluster.bootstrap, topic_name, random.Random(3))
    with pytest.raises(ConfigError, match="two columns have the same name"):
        dataset(cluster.bootstrap, topic_name, layout={"names": {"key": "offset"}})
    swapped = dataset(cluster.bootstrap, topic_name, layout={"names": {"key": "value", "value": "key"}})
    assert set(swapped.to_table()["value"].to_pylist()) == {None}


def test_columns_may_be_an_iterator(cluster: KafkaCluster, topic_name: str) -> None:
    fill(cluster.bootstrap, topic_name, random.Random(3))
    assert pa.table(kafwire.scan(cluster.bootstrap, topic_name, columns=iter(["key"]))).column_names == ["key"]  # type: ignore[arg-type]
    assert dataset(cluster.bootstrap, topic_name, columns=iter(["key"])).to_table().column_names == ["key"]  # type: ignore[arg-type]


def test_pandas_takes_a_scan_in_one_call(cluster: KafkaCluster, topic_name: str) -> None:
    fill(cluster.bootstrap, topic_name, random.Random(3))
    frame = kafwire.scan(cluster.bootstrap, topic_name, columns=["offset", "value"]).to_reader().read_pandas()
    assert frame.shape == (2 * RECORDS, 2)
