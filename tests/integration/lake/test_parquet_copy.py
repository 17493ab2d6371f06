"""`kafwire copy`: each record once, whenever the copier is killed; one copier at a time."""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import kafwire
from kafwire.admin import NewTopic
from kafwire.errors import KafkaConnectionError, KafkaError
from kafwire.lake import parquet_copy
from kafwire.lake.copy_lock import locked
from kafwire.lake.offset_files import OffsetFile
from kafwire.lake.parquet_copy import ParquetCopy
from kafwire.testing.cluster import KafkaCluster
from tests.support import killed_steps
from tests.support.deadlines import until
from tests.support.seeds import of_test

pytestmark = pytest.mark.either_kafka

sql: Any = duckdb.sql

IMPORTS = """
import os
from pathlib import Path
from pyarrow.parquet import ParquetWriter
"""
STEPS = (
    *("ParquetWriter.__init__", "ParquetWriter.write_table", "ParquetWriter.close"),
    *("os.fsync", "Path.rename", "Path.unlink", "Path.mkdir"),
)


def copy(
    cluster: KafkaCluster, topic: str, folder: Path, *more: str, step: int = 0, largest: int | None = None
) -> subprocess.CompletedProcess[str]:
    """Run the command, with files of at most `largest` kilobytes."""
    prefix = [] if largest is None else ["sh", "-c", f'ulimit -f {largest}; exec "$@"', "sh"]
    words = [topic, "--to", str(folder), "-b", cluster.bootstrap, *more]
    return killed_steps.copy(IMPORTS, STEPS, words, step=step, prefix=prefix)


def send(cluster: KafkaCluster, topic: str, count: int, partitions: int = 2, size: int = 1) -> None:
    chance = random.Random(of_test())
    with kafwire.Producer(cluster.bootstrap, linger_ms=0, batch_size=200) as producer:
        for number in range(count):
            value = chance.randbytes(size)
            producer.send(topic, value, key=b"k", headers=[("h", b"1")], partition=number % partitions)


def copied(folder: Path, topic: str) -> list[tuple[int, int]]:
    query = f"SELECT partition, \"offset\" FROM '{folder}/{topic}/*/*.parquet' ORDER BY ALL"
    found: list[tuple[int, int]] = sql(query).fetchall()
    return found


def everything(cluster: KafkaCluster, topic: str) -> list[tuple[int, int]]:
    return sorted((record.partition or 0, record.offset) for record in kafwire.scan(cluster.bootstrap, topic))


def test_each_record_is_copied_once_although_each_step_is_killed(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
    step, killed, done = 0, 0, False
    while not done:
        step += 1
        send(cluster, topic_name, 3, 1)
        ran = copy(cluster, topic_name, tmp_path, step=step)
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        killed += ran.returncode != 0
        done = ran.returncode == 0
    assert killed > 12
    assert copied(tmp_path, topic_name) == everything(cluster, topic_name)
    again = copy(cluster, topic_name, tmp_path)
    assert (again.returncode, again.stdout) == (0, "")
    names = sorted(path.name for path in (tmp_path / topic_name / "0").iterdir() if path.suffix)
    bounds = [(int(name[:20]), int(name[21:41])) for name in names]
    assert all(before[1] == behind[0] for before, behind in itertools.pairwise(bounds))
    first = pq.read_table(tmp_path / topic_name / "0" / names[0])
    assert first.schema.remove_metadata() == kafwire_schema(cluster, topic_name)


def kafwire_schema(cluster: KafkaCluster, topic: str) -> object:
    return kafwire.scan(cluster.bootstrap, topic).to_reader().schema


def test_a_second_copier_of_a_folder_is_refused(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
    send(cluster, topic_name, 3, 1)
    folder = tmp_path / topic_name
    folder.mkdir()
    with locked(folder):
        refused = copy(cluster, topic_name, tmp_path)
    assert refused.returncode == 1
    assert f"another copier writes {folder} (process {os.getpid()} on " in refused.stderr
    assert copy(cluster, topic_name, tmp_path).returncode == 0
    assert len(copied(tmp_path, topic_name)) == 3
    with locked(folder), pytest.raises(KafkaError, match="another copier writes"), locked(folder):
        pass


def test_a_full_disk_is_an_error_that_leaves_nothing(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, 900, 1, size=1000)
    folder = tmp_path / topic_name
    full = copy(cluster, topic_name, tmp_path, largest=100)
    assert (full.returncode, full.stdout) == (1, "")
    assert full.stderr == f"kafwire: {folder}/0/.unfinished: File too large\n"
    assert list((folder / "0").iterdir()) == []
    assert copy(cluster, topic_name, tmp_path).returncode == 0
    assert copied(tmp_path, topic_name) == everything(cluster, topic_name)


def test_an_error_of_a_broker_names_no_file(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_: object, **__: object) -> None:
        raise KafkaConnectionError("no broker")

    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, 1, 1)
        monkeypatch.setattr(client, "scan", fail)
        with pytest.raises(KafkaConnectionError) as caught:
            next(ParquetCopy(client, topic_name, tmp_path, 10, False, {"isolation_level": "read_committed"}).run())
    assert caught.value.filename is None


def test_nulls_and_partitions_that_were_added_are_copied(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path
) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        with kafwire.Producer(cluster.bootstrap) as producer:
            producer.send(topic_name, None, partition=0)
            producer.send(topic_name, b"", key=b"", headers=[("none", None)], partition=0)
        assert copy(cluster, topic_name, tmp_path).returncode == 0
        with kafwire.Admin(cluster.bootstrap) as admin:
            admin.create_partitions({topic_name: 3})
        with kafwire.Producer(cluster.bootstrap) as producer:
            producer.send(topic_name, b"new", partition=2)
            producer.send(topic_name, b"old", partition=0)
        assert copy(cluster, topic_name, tmp_path).returncode == 0
    folder = tmp_path / topic_name
    rows = [row for path in sorted(folder.glob("*/*.parquet")) for row in pq.ParquetFile(path).read().to_pylist()]
    read = pa.table(kafwire.scan(cluster.bootstrap, topic_name)).to_pylist()
    assert rows == sorted(read, key=lambda row: (row["partition"], row["offset"]))
    assert [(row["key"], row["value"], row["headers"]) for row in rows[:2]] == [
        (None, None, []),
        (b"", b"", [{"key": "none", "value": None}]),
    ]


def test_a_copy_that_does_not_fit_to_the_topic_is_refused(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {"isolation_level": "read_committed"}
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, 2, 1)
        [written] = ParquetCopy(client, topic_name, tmp_path, 10, False, options).run()
        ahead = written.path.rename(written.path.with_name(OffsetFile(0, 9).name))
        with pytest.raises(KafkaError, match="ends at 2, before the offset 9 of the last file"):
            next(ParquetCopy(client, topic_name, tmp_path, 10, False, options).run())
        damaged = ahead.rename(written.path)
        whole = damaged.read_bytes()
        damaged.write_bytes(whole[:-1])
        with pytest.raises(KafkaError, match="is no whole Parquet file"):
            next(ParquetCopy(client, topic_name, tmp_path, 10, False, options).run())
        damaged.write_bytes(whole)
        send(cluster, topic_name, 1, 1)
        scan = client.scan

        def of_another_topic(*arguments: Any, **given: Any) -> kafwire.Scan:
            with kafwire.Admin(cluster.bootstrap) as admin:
                admin.delete_topics([topic_name])
                until(lambda: topic_name not in admin.list_topics(), "the topic is gone")
                admin.create_topics([NewTopic(topic_name, 1, 1)])
            send(cluster, topic_name, 3, 1)
            return scan(*arguments, **given)

        monkeypatch.setattr(client, "scan", of_another_topic)
        with pytest.raises(KafkaError, match="deleted and recreated during the copy"):
            next(ParquetCopy(client, topic_name, tmp_path, 10, False, options).run())


def test_files_and_folders_are_on_the_disk_before_their_names_count(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    flushed: list[str] = []
    flush, rename = os.fsync, Path.rename

    def fsync(descriptor: int) -> None:
        flushed.append(Path(f"/proc/self/fd/{descriptor}").resolve().name)
        flush(descriptor)

    def renamed(path: Path, target: Path) -> Path:
        flushed.append("renamed")
        return rename(path, target)

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", renamed)
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, 2, 1)
        list(ParquetCopy(client, topic_name, tmp_path, 10, False, {"isolation_level": "read_committed"}).run())
    assert flushed == [tmp_path.name, topic_name, ".unfinished", "renamed", "0"]


def test_an_unknown_topic_leaves_no_folder(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    for name in (topic_name, "../elsewhere"):
        refused = copy(cluster, name, tmp_path / "lake")
        assert refused.returncode == 1
        assert name in refused.stderr
    assert list(tmp_path.iterdir()) == []


def test_files_and_row_groups_end_at_their_sizes(
    cluster: KafkaCluster, topic_name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, 60, 1, size=300)
        ends = len(everything(cluster, topic_name))
        monkeypatch.setattr(parquet_copy, "ROW_GROUP_BYTES", 1)
        options = {"isolation_level": "read_committed", "chunk_bytes": 1024}
        first = next(work := ParquetCopy(client, topic_name, tmp_path, 10, False, options).run())
        send(cluster, topic_name, 60, 1, size=300)  # of the next run
        written = [first, *work]
        assert len(written) > 2
        assert sum(each.rows for each in written) == ends == 60
        assert all(each.rows >= 10 for each in written[:-1])
        groups = [pq.ParquetFile(each.path).metadata for each in written]
        assert all(found.row_group(n).num_rows for found in groups for n in range(found.num_row_groups))
        assert any(found.num_row_groups > 1 for found in groups)
        for _ in ParquetCopy(client, topic_name, tmp_path, 10, False, options).run():
            break  # a copy that is left unfinished
        assert not list(tmp_path.rglob(".unfinished"))
        assert all(each.rows for each in ParquetCopy(client, topic_name, tmp_path, 10, False, options).run())
    assert copied(tmp_path, topic_name) == everything(cluster, topic_name)


def test_deleted_records_are_an_error_or_a_gap(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with kafwire.Admin(cluster.bootstrap) as admin:
        admin.create_topics([topic_name])
        send(cluster, topic_name, 5, 1)
        assert copy(cluster, topic_name, tmp_path).returncode == 0
        send(cluster, topic_name, 5, 1)
        admin.delete_records({kafwire.TopicPartition(topic_name, 0): 8})
    refused = copy(cluster, topic_name, tmp_path)
    assert refused.returncode == 1
    assert "the records from 5 to 8 (exclusive) were deleted before they were copied" in refused.stderr
    assert copy(cluster, topic_name, tmp_path, "--skip-lost").returncode == 0
    assert copied(tmp_path, topic_name) == [(0, offset) for offset in (0, 1, 2, 3, 4, 8, 9)]


def test_a_topic_that_was_recreated_is_refused(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
        send(cluster, topic_name, 3, 1)
        assert copy(cluster, topic_name, tmp_path).returncode == 0
        client.delete_topic(topic_name)
        until(lambda: topic_name not in {each.name for each in client.metadata().topics}, "the topic is gone")
        client.create_topic(topic_name)
        send(cluster, topic_name, 9, 1)
    refused = copy(cluster, topic_name, tmp_path)
    assert refused.returncode == 1
    assert f"{topic_name}-0 was deleted and recreated" in refused.stderr


def test_aborted_records_are_not_copied(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
    with kafwire.Producer(cluster.bootstrap, transactional_id=topic_name) as producer:
        with producer.transaction():
            producer.send(topic_name, b"kept")
        with pytest.raises(RuntimeError), producer.transaction():
            producer.send(topic_name, b"aborted")
            producer.flush(30)
            raise RuntimeError
        with producer.transaction():
            producer.send(topic_name, b"kept")
    assert copy(cluster, topic_name, tmp_path).returncode == 0
    with kafwire.Producer(cluster.bootstrap, transactional_id=topic_name) as producer, producer.transaction():
        producer.send(topic_name, b"of an open transaction")
        producer.flush(30)
        assert copy(cluster, topic_name, tmp_path).returncode == 0  # at once, without the open transaction's end
    found = sql(f"SELECT decode(value) FROM '{tmp_path}/{topic_name}/*/*.parquet'").fetchall()
    assert found == [("kept",), ("kept",)]


def test_formats_make_text_of_keys_and_values(cluster: KafkaCluster, topic_name: str, tmp_path: Path) -> None:
    with kafwire.Client(cluster.bootstrap) as client:
        client.create_topic(topic_name)
    with kafwire.Producer(cluster.bootstrap) as producer:
        for number in range(3):
            producer.send(topic_name, b"%d" % number, key=b"k")
    ran = copy(cluster, topic_name, tmp_path, "--key", "text", "--value", "json")
    assert ran.returncode == 0, ran.stderr
    table = pq.read_table(next((tmp_path / topic_name / "0").glob("*.parquet")))
    assert table["key"].to_pylist() == ["k"] * 3
    assert table["value"].to_pylist() == ["0", "1", "2"]
