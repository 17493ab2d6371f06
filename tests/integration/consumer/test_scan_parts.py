"""A scan by time, in pieces, and with a progress bar; on a real broker."""

from __future__ import annotations

import datetime as dt
import multiprocessing
import os
import pickle
import pty
import random
import re
import subprocess
import sys
import textwrap
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import BrokerError, ConfigError, KafkaError
from kafwire.testing.cluster import KafkaCluster
from tests.support.complaints import complaints

pytestmark = pytest.mark.either_kafka

NOW_MS = 1_760_000_000_000
MINUTE_MS = 60_000
Row = tuple[int, int, int]


def make_topic(
    cluster: KafkaCluster, name: str, sizes: Sequence[int], *, seed: int = 0, config: dict[str, str] | None = None
) -> list[Row]:
    """Partitions of `sizes` records in batches of about 20, a record each second, give or take a minute.

    Returns (partition, offset, timestamp) of each.
    """
    chance = random.Random(seed)
    rows: list[Row] = []
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(name, partitions=len(sizes), config=config)
    options: Any = {"batch_size": 2_000, "linger_ms": 0, "compression_type": "lz4"}
    with kafwire.Producer(cluster.bootstrap, **options) as producer:
        for partition, size in enumerate(sizes):
            times = [NOW_MS + 1000 * i + chance.randint(-MINUTE_MS, MINUTE_MS) for i in range(size)]
            values = [b"%d-%d" % (partition, i) + bytes(80) for i in range(size)]
            columns = {
                "value": values,
                "partition": pa.array([partition] * size, pa.int32()),
                "timestamp": pa.array(times, pa.timestamp("ms", "UTC")),
            }
            producer.send_batch(name, pa.table(columns))
            rows += [(partition, offset, when) for offset, when in enumerate(times)]
        producer.flush(30)
    return rows


def rows_of(source: Any) -> list[Row]:
    table = pa.table(source).select(["partition", "offset", "timestamp"])
    table = table.set_column(2, "timestamp", table["timestamp"].cast(pa.int64()))
    return list(zip(*(table[name].to_pylist() for name in table.column_names), strict=True))


# -- by time


@pytest.mark.parametrize("log_append", [False, True])
def test_the_records_of_a_time_and_no_others(cluster: KafkaCluster, topic_name: str, *, log_append: bool) -> None:
    config = {"message.timestamp.type": "LogAppendTime"} if log_append else None
    made = make_topic(cluster, topic_name, [600, 50, 0, 300], config=config)
    everything = sorted(rows_of(kafwire.scan(cluster.bootstrap, topic_name)))
    assert log_append or everything == made
    assert len(everything) == len(made)
    times = sorted(when for _, _, when in everything)
    middle = times[len(times) // 2]
    for low, high in ((None, middle), (middle, None), (times[100], middle), (middle, middle), (times[-1] + 1, None)):
        timestamps = (low, high)
        found = rows_of(kafwire.scan(cluster.bootstrap, topic_name, timestamps=timestamps))
        expected = [row for row in everything if (low is None or low <= row[2]) and (high is None or row[2] < high)]
        assert sorted(found) == expected
        for partition in range(4):
            assert [row for row in found if row[0] == partition] == [row for row in expected if row[0] == partition]


def test_a_filter_by_datetimes_beside_bounds_by_offset(cluster: KafkaCluster, topic_name: str) -> None:
    made = make_topic(cluster, topic_name, [400])
    begin = dt.datetime.fromtimestamp(NOW_MS / 1000, dt.UTC)
    timestamps = (begin + dt.timedelta(minutes=2), begin + dt.timedelta(minutes=3, microseconds=1))
    low, high = NOW_MS + 2 * MINUTE_MS, NOW_MS + 3 * MINUTE_MS
    scan = kafwire.scan(
        cluster.bootstrap,
        topic_name,
        start={kafwire.TopicPartition(topic_name, 0): 130},
        end={kafwire.TopicPartition(topic_name, 0): 200},
        timestamps=timestamps,
    )
    assert scan.ranges[0].start >= 130
    assert rows_of(scan) == [row for row in made if 130 <= row[1] < 200 and low <= row[2] <= high]


def test_a_time_of_which_there_is_nothing_is_not_even_fetched(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, [100, 100])
    scan = kafwire.scan(cluster.bootstrap, topic_name, timestamps=(NOW_MS + 10**9, None))
    assert [(r.start, r.end) for r in scan.ranges] == [(100, 100), (100, 100)]
    assert rows_of(scan) == []


# -- in pieces


def read(split: Any) -> list[Row]:
    """Read a piece; in another process, too."""
    return rows_of(split)


@pytest.mark.parametrize("pieces", [1, 2, 3, 7, 40])
def test_the_pieces_together_are_the_rows_of_the_scan(cluster: KafkaCluster, topic_name: str, pieces: int) -> None:
    made = make_topic(cluster, topic_name, [700, 3, 0, 350, 352])
    splits = kafwire.scan(cluster.bootstrap, topic_name).split(pieces)
    assert len(splits) == pieces
    found = [rows_of(split) for split in splits]
    assert sorted(row for rows in found for row in rows) == made
    assert max(map(len, found)) <= len(made) / pieces * 1.25 + 1
    assert found[0] == rows_of(splits[0])  # it can be read again


def test_pieces_are_read_in_threads_and_in_processes(cluster: KafkaCluster, topic_name: str) -> None:
    made = make_topic(cluster, topic_name, [500, 500])
    timestamps = (NOW_MS + 2 * MINUTE_MS, None)
    expected = [row for row in made if row[2] >= timestamps[0]]
    splits = kafwire.scan(cluster.bootstrap, topic_name, timestamps=timestamps).split(4)
    with ThreadPoolExecutor(4) as pool:
        assert sorted(row for rows in pool.map(read, splits) for row in rows) == expected
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as processes:
        assert sorted(row for rows in processes.map(read, splits) for row in rows) == expected


def test_a_piece_has_the_columns_the_layout_and_the_options_of_its_scan(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, [100])
    with kafwire.Client(cluster.bootstrap, client_id="mine", request_timeout_ms=12_345) as client:
        scan = client.scan(
            topic_name,
            columns=["timestamp", "value"],
            layout={"names": {"timestamp": "ts"}, "timestamp_unit": "us"},
            isolation_level="read_committed",
        )
        schema = pa.schema(scan)
        splits = [pickle.loads(pickle.dumps(split)) for split in scan.split(2)]
    assert schema.names == ["ts", "value"]
    tables = [split.to_reader().read_all() for split in splits]
    assert [pa.schema(split) for split in splits] == [schema] * 2
    assert [table.schema for table in tables] == [schema] * 2
    values = [b"0-%d" % i + bytes(80) for i in range(100)]
    assert pa.concat_tables(tables)["value"].to_pylist() == values
    assert [record.value for split in splits for batch in split.batches() for record in batch] == values
    config = splits[0]._reading.config
    assert (config.client_id, config.request_timeout_ms, config.isolation_level) == ("mine", 12_345, "read_committed")


def test_a_scan_of_nothing_has_one_piece_that_is_empty(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, [0, 0])
    (split,) = kafwire.scan(cluster.bootstrap, topic_name).split(3)
    assert (split.ranges, rows_of(split)) == ((), [])


def test_a_scan_that_was_split_or_begun_is_not_split(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, [10])
    scan = kafwire.scan(cluster.bootstrap, topic_name)
    for pieces in (0, -1, True, 1.5, "2"):
        with pytest.raises(ConfigError, match="one piece or more"):
            scan.split(pieces)  # type: ignore[arg-type]
    assert len(scan.split(1)) == 1
    with pytest.raises(KafkaError, match="being read, or is closed"):
        scan.split(1)
    assert list(scan.batches()) == []
    begun = kafwire.scan(cluster.bootstrap, topic_name)
    next(begun.batches())
    with pytest.raises(KafkaError, match="being read, or is closed"):
        begun.split(2)
    begun.close()


def test_a_piece_of_a_recreated_topic_is_refused(cluster: KafkaCluster, topic_name: str) -> None:
    """Its offsets exist again, with other records."""
    make_topic(cluster, topic_name, [100])
    splits = kafwire.scan(cluster.bootstrap, topic_name).split(2)
    with kafwire.Client(cluster.bootstrap) as client:
        client.delete_topic(topic_name)
    make_topic(cluster, topic_name, [100])
    for split in splits:
        with pytest.raises(BrokerError, match="deleted and recreated since the scan was split") as caught:
            list(split.batches())
        assert caught.value.code == 100


# -- with a bar


def program(cluster: KafkaCluster, topic: str, code: str, **options: Any) -> subprocess.Popen[bytes]:
    head = f"import sys, kafwire, pyarrow as pa\nbootstrap, topic = {cluster.bootstrap!r}, {topic!r}\n"
    environment = {**os.environ, "COLUMNS": "150", "TERM": "xterm"}
    environment.pop("FORCE_COLOR", None)
    return subprocess.Popen([sys.executable, "-c", head + textwrap.dedent(code)], env=environment, **options)


def last_count(text: str) -> str | None:
    """The last count of the bar."""
    counts = re.findall(r"(\d+)/500", re.sub(r"\x1b\[[0-9;?]*[a-zA-Z]", "", text))
    return counts[-1] if counts else None


READS = {
    "stream": "rows = pa.table(kafwire.scan(bootstrap, topic, progress={progress})).num_rows",
    "batches": "rows = sum(len(b) for b in kafwire.scan(bootstrap, topic, progress={progress}).batches())",
}


@pytest.mark.parametrize("how", list(READS))
def test_a_bar_is_drawn_on_a_terminal(cluster: KafkaCluster, topic_name: str, how: str) -> None:
    make_topic(cluster, topic_name, [300, 200])
    master, slave = pty.openpty()
    code = READS[how].format(progress=True) + "\nprint('after it', file=sys.stderr)"
    with program(cluster, topic_name, code, stdout=subprocess.PIPE, stderr=slave) as process:
        os.close(slave)
        drawn = b""
        while True:
            try:
                more = os.read(master, 65536)
            except OSError:  # the end of a terminal, on Linux
                break
            if not more:
                break
            drawn += more
        out, _ = process.communicate(timeout=60)
    os.close(master)
    text = drawn.decode()
    assert (process.returncode, out) == (0, b""), text
    assert f"reading {topic_name}" in text
    assert last_count(text) == "500"
    assert text.rindex("\x1b[?25l") < text.rindex("\x1b[?25h") < text.index("after it")  # the cursor is shown again


@pytest.mark.parametrize("how", list(READS))
def test_a_bar_is_not_drawn_elsewhere_unless_forced(cluster: KafkaCluster, topic_name: str, how: str) -> None:
    make_topic(cluster, topic_name, [300, 200])
    code = READS[how].format(progress=True) + "\nprint(rows, 'rich' in sys.modules)"
    with program(cluster, topic_name, code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert (out, complaints(err)) == (b"500 False\n", b"")
    code = READS[how].format(progress="'force'") + "\nprint(rows)"
    with program(cluster, topic_name, code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert out == b"500\n"
    assert last_count(err.decode()) == "500"


def test_a_bar_shows_how_far_an_abandoned_read_was(cluster: KafkaCluster, topic_name: str) -> None:
    make_topic(cluster, topic_name, [500])
    code = """
    scan = kafwire.scan(bootstrap, topic, progress="force", chunk_bytes=1)
    batches = scan.batches()
    rows = len(next(batches)) + len(next(batches))
    scan.close()
    print(rows)
    """
    with program(cluster, topic_name, code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert process.returncode == 0
    assert last_count(err.decode()) == out.decode().strip() != "500"


def test_a_child_s_end_leaves_the_parent_s_bar_alone(cluster: KafkaCluster, topic_name: str) -> None:
    """Locks that the child inherits may belong to a thread that is not there, and the terminal is not its own."""
    make_topic(cluster, topic_name, [500])
    code = """
    import os, sys
    scan = kafwire.scan(bootstrap, topic, progress="force", chunk_bytes=1)
    batches = scan.batches()
    next(batches)
    child = os.fork()
    if child == 0:
        sys.exit(3)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), end=" ", flush=True)
    print("child is gone", file=sys.stderr, flush=True)
    print(sum(len(batch) for batch in batches) > 0)
    """
    with program(cluster, topic_name, code, stdout=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=60)
    assert out == b"3 True\n"
    before, after = err.decode().split("child is gone")
    assert (before.count("\x1b[?25h"), after.count("\x1b[?25h")) == (0, 1)
    assert last_count(after) == "500"


def test_a_bar_needs_rich(cluster: KafkaCluster, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ConfigError, match=r'progress is True, False or "force", not .yes'):
        kafwire.scan(cluster.bootstrap, "any", progress="yes")  # type: ignore[arg-type]
    monkeypatch.setattr("kafwire.scanner.reader.find_spec", lambda name: None)
    with pytest.raises(ConfigError, match=r'needs the package rich: pip install "kafwire\[progress\]"'):
        kafwire.scan(cluster.bootstrap, "any", progress=True)
