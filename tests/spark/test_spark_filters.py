"""Filters that a batch read takes from Spark: the same rows as without, and fewer records read."""

from __future__ import annotations

import datetime as dt
import pickle
import random
from collections.abc import Callable, Iterator
from typing import Any, cast

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession
from pyspark.sql.datasource import (
    DataSourceReader,
    EqualNullSafe,
    EqualTo,
    Filter,
    GreaterThan,
    GreaterThanOrEqual,
    In,
    IsNotNull,
    IsNull,
    LessThan,
    LessThanOrEqual,
    Not,
    StringStartsWith,
)

import kafwire
from kafwire.broker.embedded import EmbeddedKafka
from kafwire.errors import ConfigError
from kafwire.spark import KafwireDataSource
from kafwire.spark.plan import OffsetRange
from kafwire.spark.pushed_filters import PushedFilters, push
from kafwire.spark.reader import FilteringReader, KafwireReader
from tests.support.seeds import examples, of_test

pytestmark = pytest.mark.timeout(400)  # the first query starts the session and its workers
CONF = "spark.sql.python.filterPushdown.enabled"
START = 1_357_016_400_000
Row = dict[str, Any]


def at(ms: float) -> dt.datetime:
    return dt.datetime(1970, 1, 1, tzinfo=dt.UTC) + dt.timedelta(milliseconds=ms)


def passes(row: Row, given: Filter) -> bool | None:
    """SQL's result of a filter; None is neither true nor false."""
    if isinstance(given, Not):
        found = passes(row, given.child)
        return None if found is None else not found
    compared: Any = given
    value = row[compared.attribute[0]]
    if isinstance(given, IsNull | IsNotNull):
        return (value is None) is isinstance(given, IsNull)
    if isinstance(given, EqualNullSafe):
        return bool(value == compared.value)
    if value is None:
        return None
    if isinstance(given, In):
        return value in given.value
    wanted = compared.value
    results: dict[type[Filter], bool] = {
        EqualTo: value == wanted,
        GreaterThan: value > wanted,
        GreaterThanOrEqual: value >= wanted,
        LessThan: value < wanted,
        LessThanOrEqual: value <= wanted,
    }
    return results[type(given)]


def drawn(chance: random.Random) -> Filter:
    """A filter, as Spark has them."""
    column = chance.choice(["topic", "partition", "offset", "timestamp"])
    draw: Callable[[], Any] = {
        "topic": lambda: chance.choice(["a", "b", "c"]),
        "partition": lambda: chance.randrange(-1, 4),
        "offset": lambda: chance.randrange(-2, 13),
        "timestamp": lambda: at(chance.choice([-5, 0, 1.5, *(START + n * 0.5 for n in range(-3, 25))])),
    }[column]
    kind = chance.choice([EqualTo, EqualNullSafe, GreaterThan, GreaterThanOrEqual, LessThan, LessThanOrEqual, In])
    value = tuple(draw() for _ in range(chance.randint(1, 3))) if kind is In else draw()
    made: Any = kind((column,), value)
    if chance.random() < 0.1:
        made = chance.choice([IsNotNull, IsNull])((column,))
    return Not(made) if chance.random() < 0.2 else made


def test_applied_filters_and_the_rest_give_the_rows_of_all_filters() -> None:
    first, narrowed = of_test(), 0
    for seed in range(first, first + examples(2000)):
        chance = random.Random(seed)
        rows: list[Row] = [
            {
                "topic": topic,
                "partition": partition,
                "offset": offset,
                "ms": ms,
                "timestamp": None if ms < 0 else at(ms),
            }
            for topic in "ab"
            for partition in range(3)
            for offset in range(10)
            for ms in [chance.choice([-1, 0, START + chance.randrange(10)])]
        ]
        filters = [drawn(chance) for _ in range(chance.randint(1, 4))]
        pushed, left = push(filters)
        assert all(any(each is one for one in filters) for each in left)
        ranges = {(t, p): pushed.narrowed(OffsetRange(t, p, 0, 10)) for t in "ab" for p in range(3)}
        low, high = pushed.window or (None, None)
        read = [
            row
            for row in rows
            if ranges[row["topic"], row["partition"]].start
            <= row["offset"]
            < ranges[row["topic"], row["partition"]].end
            and (low is None or row["ms"] >= low)
            and (high is None or -1 < row["ms"] < high)
        ]
        wanted = [row for row in rows if all(passes(row, each) for each in filters)]
        assert [row for row in read if all(passes(row, each) for each in left)] == wanted, f"seed {seed}: {filters}"
        narrowed += len(read) < len(rows)
    assert narrowed > examples(2000) / 2


def test_filters_that_no_read_applies_are_left_to_spark() -> None:
    given: list[Filter] = [
        EqualTo(("value",), b"x"),
        GreaterThan(("headers", "key"), "x"),
        StringStartsWith(("topic",), "a"),
        EqualTo(("offset",), None),
        GreaterThan(("timestamp",), dt.datetime(2013, 1, 1)),  # noqa: DTZ001 - no point in time
    ]
    assert push(given) == (PushedFilters(), given)
    bounding: list[Filter] = [In(("offset",), (1, 9)), Not(EqualTo(("offset",), 3)), IsNotNull(("timestamp",))]
    pushed, left = push(bounding)
    assert left == bounding
    assert pushed.narrowed(OffsetRange("a", 0, 0, 20)) == OffsetRange("a", 0, 1, 10)
    assert pushed.window is None
    _, left = push([In(("offset",), (3, 1, 2)), IsNotNull(("offset",)), Not(In(("partition",), (0, 7)))])
    assert left == []


@pytest.fixture(scope="module")
def kafka() -> Iterator[EmbeddedKafka]:
    """A topic with two partitions; in each, offset n has the time START + 1000 n, but for offset 5, which is late."""
    with EmbeddedKafka() as running:
        running.create_topic("a", partitions=2)
        with kafwire.Producer(running.bootstrap) as producer:
            for offset in range(50):
                for partition in range(2):
                    late = START if offset == 20 else START + 1000 * offset
                    producer.send("a", b"%d" % offset, partition=partition, timestamp_ms=late)
        yield running


Make = Callable[..., KafwireReader]


@pytest.fixture
def make(kafka: EmbeddedKafka) -> Make:
    def reader(**options: str) -> KafwireReader:
        given = {"kafka.bootstrap.servers": kafka.bootstrap, "subscribe": "a", "pushfilters": "true", **options}
        source = KafwireDataSource(given)
        found = source.reader(source.schema())
        assert isinstance(found, KafwireReader)
        return found

    return reader


def read(reader: KafwireReader) -> list[tuple[int, int]]:
    worker = pickle.loads(pickle.dumps(reader))
    batches = [batch for piece in reader.partitions() for batch in worker.read(piece)]
    return sorted((row["partition"], row["offset"]) for batch in batches for row in batch.to_pylist())


@pytest.mark.parametrize(
    ("filters", "expected"),
    [
        ([EqualTo(("partition",), 1), GreaterThanOrEqual(("offset",), 48)], [(1, 48), (1, 49)]),
        ([In(("offset",), (3, 4))], [(0, 3), (0, 4), (1, 3), (1, 4)]),
        ([GreaterThan(("timestamp",), at(START + 48_000))], [(p, 49) for p in (0, 1)]),
        ([GreaterThan(("timestamp",), at(START + 47_999.5))], [(p, o) for p in (0, 1) for o in (48, 49)]),
        ([LessThan(("timestamp",), at(START + 1_000))], [(p, o) for p in (0, 1) for o in (0, 20)]),
        ([EqualTo(("timestamp",), at(START))], [(p, o) for p in (0, 1) for o in (0, 20)]),
        ([GreaterThan(("timestamp",), at(START + 60_000))], []),
        ([GreaterThan(("timestamp",), at(START + 9)), LessThan(("timestamp",), at(START + 2))], []),
        ([EqualTo(("topic",), "b")], []),
    ],
)
def test_a_read_has_only_the_records_that_can_pass(
    make: Make, filters: list[Filter], expected: list[tuple[int, int]]
) -> None:
    reader = make()
    assert isinstance(reader, FilteringReader)
    list(reader.pushFilters(filters))
    assert read(reader) == expected


def test_records_before_a_time_are_not_planned(make: Make) -> None:
    reader = make()
    assert isinstance(reader, FilteringReader)
    list(reader.pushFilters([GreaterThanOrEqual(("timestamp",), at(START + 30_000))]))
    assert [(piece.value.start, piece.value.end) for piece in reader.partitions()] == [(30, 50), (30, 50)]


def test_the_option_chooses_the_class(make: Make) -> None:
    plain = make(pushfilters="false")
    assert type(plain).pushFilters is DataSourceReader.pushFilters
    assert len(read(plain)) == len(read(make())) == 100
    source = KafwireDataSource({"kafka.bootstrap.servers": "h:1", "subscribe": "a", "pushFilters": "true"})
    with pytest.raises(ConfigError, match="option pushFilters: Spark pushes no filters down to a stream"):
        source.streamReader(source.schema()).initialOffset()


# A query, and whether Spark has a filter left: else all rows that the source read are in the result.
QUERIES = [
    ("partition = 1 and offset between 10 and 12", False),
    ("offset in (7, 8) or partition = 5", True),  # no simple comparison
    ("timestamp >= timestamp_millis(1357016445000) and topic = 'a' and partition <> 0", True),
    ("timestamp < timestamp_millis(1357016401000) and value is not null", True),
    ("offset > 10 and offset < 3 and topic in ('a', 'b')", False),
]


def test_a_session_finds_the_same_rows(kafka: EmbeddedKafka, spark: SparkSession) -> None:
    def found(query: str, **options: str) -> tuple[list[tuple[int, int]], bool]:
        """Rows, and whether the plan has a filter."""
        reader = spark.read.format("kafwire").option("kafka.bootstrap.servers", kafka.bootstrap)
        frame = reader.options(subscribe="a", **options).load().where(query).select("partition", "offset")
        rows = sorted((row.partition, row.offset) for row in frame.collect())
        plan = str(cast("Any", frame)._jdf.queryExecution().executedPlan().toString())
        return rows, "Filter " in plan

    with pytest.raises(PySparkException, match=rf"FilteringReader implements pushFilters.*{CONF}"):
        found(QUERIES[0][0], pushFilters="true")
    spark.conf.set(CONF, "true")
    try:
        for query, is_left in QUERIES:
            assert found(query, pushFilters="true") == (found(query)[0], is_left), query
    finally:
        spark.conf.unset(CONF)
