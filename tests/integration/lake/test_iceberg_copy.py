"""`kafwire copy --to iceberg:`: each record once, whenever the copier is killed; one copier of a name."""

from __future__ import annotations

import signal
from typing import Any

import pyarrow as pa
import pytest

import kafwire
from kafwire.errors import KafkaError
from kafwire.lake.snapshot_offsets import newest, property_of
from tests.support.deadlines import until

pytest.importorskip("pyiceberg")

from kafwire.lake import iceberg_copy
from kafwire.lake.iceberg_copy import IcebergCopy
from tests.support.lakes import READING, Lake

pytestmark = pytest.mark.either_kafka


def test_each_record_is_copied_once_although_each_step_is_killed(lake: Lake) -> None:
    step, killed = 0, 0
    ran = None
    while ran is None or ran.returncode:
        step += 1
        lake.send(3)
        ran = lake.run(step=step)
        assert ran.returncode in (0, -signal.SIGKILL), ran.stderr
        killed += ran.returncode != 0
    assert killed > 9
    assert lake.copied() == lake.sent()
    again = lake.run()
    assert (again.returncode, again.stdout) == (0, "")
    [row, *_] = lake.table.scan().to_arrow().to_pylist()
    assert (row["topic"], row["key"], row["value"]) == (lake.topic, b"k", b"0")
    assert row["headers"] == [{"key": "h", "value": None}]


def test_snapshots_end_at_their_size_and_the_last_one_at_the_ends(
    lake: Lake, client: kafwire.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create()
    lake.send(40, 2)
    monkeypatch.setattr(iceberg_copy, "COMMIT_BYTES", 1)
    first = next(work := lake.copy(client))
    lake.send(2, 2)  # of the next run
    written = [first, *work]
    assert len(written) > 1
    assert sum(each.rows for each in written) == 40
    assert [each.snapshot_id for each in written] == [each.snapshot_id for each in lake.table.history()]
    assert [each.rows for each in lake.copy(client, rows=1)] == [1, 1]
    assert lake.copied() == lake.sent()
    progress, expired = newest(lake.table.metadata, "orders")
    assert progress is not None
    assert (progress.topic, progress.offsets, expired) == (lake.topic, {0: 21, 1: 21}, False)


def test_a_second_copier_of_the_name_is_refused(lake: Lake, client: kafwire.Client) -> None:
    lake.create()
    lake.send(3)
    slow = lake.copy(client, rows=1)
    table = lake.table
    late = IcebergCopy(client, lake.topic, table, "orders", 100, False, {}, READING)
    assert [each.rows for each in slow] == [3]
    with pytest.raises(KafkaError, match=r"the copy 'orders' in the table sales.orders was continued or rolled back"):
        list(late.run())
    assert lake.copied() == lake.sent()
    assert [each.rows for each in lake.copy(client, "other")] == [3]
    assert len(lake.copied()) == 6


def at_commits(monkeypatch: pytest.MonkeyPatch, lake: Lake, *acts: Any) -> None:
    """Run an act before each of the next commits."""
    left, owner = list(acts), type(lake.load())
    commit = owner.commit_table

    def commit_table(self: Any, *arguments: Any, **given: Any) -> Any:
        if left:
            left.pop(0)()
        return commit(self, *arguments, **given)

    monkeypatch.setattr(owner, "commit_table", commit_table)


def test_a_commit_of_the_same_name_in_the_last_moment_is_refused(
    lake: Lake, client: kafwire.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    lake.create()
    lake.send(3)
    at_commits(monkeypatch, lake, lambda: list(lake.copy(client)))
    with pytest.raises(KafkaError, match="another copier of the same name runs"):
        list(lake.copy(client))
    assert lake.copied() == lake.sent()


def test_a_commit_of_another_writer_is_waited_for(
    lake: Lake, client: kafwire.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = pa.table(kafwire.scan(lake.cluster.bootstrap, lake.topic, end="earliest"))
    lake.create()
    lake.send(3)
    at_commits(monkeypatch, lake, lambda: lake.table.append(rows), lambda: None, lambda: lake.table.append(rows))
    assert [each.rows for each in lake.copy(client)] == [3]
    assert lake.copied() == lake.sent()
    lake.table.append(rows)
    lake.table.append(rows)
    lake.send(1)
    assert [each.rows for each in lake.copy(client)] == [1], "the offsets are behind the snapshots of others"
    assert lake.copied() == lake.sent()


def test_a_commit_whose_response_is_lost_is_not_repeated(
    lake: Lake, client: kafwire.Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    from pyiceberg.exceptions import CommitFailedException

    lake.create()
    lake.send(3)
    owner = type(lake.load())
    commit = owner.commit_table
    lost = [True]

    def commit_table(self: Any, *arguments: Any, **given: Any) -> Any:
        response = commit(self, *arguments, **given)
        if lost.pop() if lost else False:
            raise CommitFailedException("the gateway repeated the request")
        return response

    monkeypatch.setattr(owner, "commit_table", commit_table)
    [committed] = lake.copy(client)
    assert committed.snapshot_id == lake.table.current_snapshot().snapshot_id
    assert lake.copied() == lake.sent()


def test_expired_snapshots_are_an_error_until_the_offsets_are_given(lake: Lake, client: kafwire.Client) -> None:
    rows = lake.create().scan().to_arrow()
    lake.send(4, 2)
    [copied] = lake.copy(client)
    lake.table.append(rows)
    lake.table.maintenance.expire_snapshots().by_id(copied.snapshot_id).commit()
    lake.send(2, 2)
    refused = lake.run("--name", "orders")
    assert refused.returncode == 1
    assert "older snapshots were expired. Read the next offset of each partition" in refused.stderr
    refused = lake.run("--name", "orders", "--offsets", "0=2")
    assert f"--offsets must name the partitions of {lake.topic}: [0, 1]" in refused.stderr
    assert lake.run("--name", "orders", "--offsets", "0=2,1=2").returncode == 0
    assert lake.copied() == lake.sent()
    refused = lake.run("--name", "orders", "--offsets", "0=2,1=2")
    assert refused.returncode == 1
    assert "has offsets already" in refused.stderr


def test_a_table_that_was_rolled_back_gets_the_records_again(lake: Lake, client: kafwire.Client) -> None:
    lake.create()
    lake.send(2)
    [before] = lake.copy(client)
    lake.send(2)
    list(lake.copy(client))
    lake.table.manage_snapshots().rollback_to_snapshot(before.snapshot_id).commit()
    assert len(lake.copied()) == 2
    list(lake.copy(client))
    assert lake.copied() == lake.sent()


def test_a_copy_of_another_topic_or_table_is_refused(lake: Lake, client: kafwire.Client) -> None:
    lake.load().create_table("sales.orders", pa.schema([("name", pa.string())]))
    lake.send(1)
    with pytest.raises(KafkaError, match=r"(?s)the columns of the copy 'orders' .* do not fit to the topic's records"):
        list(lake.copy(client))
    lake.load().drop_table("sales.orders")
    lake.create()
    list(lake.copy(client))
    client.create_topic(lake.topic + "-2")
    with pytest.raises(KafkaError, match=f"is of the topic '{lake.topic}': give this copy another --name"):
        list(IcebergCopy(client, lake.topic + "-2", lake.table, "orders", 1, False, {}, READING).run())
    client.delete_topic(lake.topic)
    until(lambda: lake.topic not in {each.name for each in client.metadata().topics}, "the topic is gone")
    client.create_topic(lake.topic)
    with pytest.raises(KafkaError, match=f"{lake.topic} was deleted and recreated since the copy 'orders'"):
        list(lake.copy(client))


def test_words_that_name_no_table_are_errors(lake: Lake) -> None:
    assert "is not iceberg:CATALOG/NAMESPACE.TABLE" in lake.run("--to", "iceberg:orders").stderr
    missing = lake.run("--to", "iceberg:main/nowhere.orders")
    assert (missing.returncode, "create the namespace first" in missing.stderr) == (1, True)
    unknown = lake.run("--to", "iceberg:other/sales.orders")
    assert (unknown.returncode, "PYICEBERG_CATALOG__OTHER__URI" in unknown.stderr) == (1, True)
    assert "--name is for tables and topics" in lake.run("--to", "folder", "--name", "x").stderr
    assert "'0' is not PARTITION=OFFSET" in lake.run("--offsets", "0").stderr


def test_the_property_is_in_the_summary(lake: Lake, client: kafwire.Client) -> None:
    lake.create()
    lake.send(1)
    list(lake.copy(client))
    summary = lake.table.current_snapshot().summary.additional_properties
    assert '"offsets":{"0":1,"1":0}' in summary[property_of("orders")]
