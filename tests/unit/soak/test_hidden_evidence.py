"""`soak.hidden_evidence`: batches, markers, indices and transaction states as lines."""

from __future__ import annotations

import struct
from pathlib import Path

from kafwire.protocol.framing import encode_versioned
from kafwire.records import encode_batch
from tests.soak.hidden_evidence import (
    TransactionLogKey,
    TransactionLogValue,
    aborted_of,
    batches_of,
    count_markers,
    state_line,
    write_partition,
    write_state,
)

REFUSED = (
    "node 2: Sending hidden-0's transaction marker for partition sink-0 has permanently failed with error "
    "org.apache.kafka.common.errors.InvalidProducerEpochException with the current coordinator epoch 4; "
    "cancel sending any more transaction markers TxnMarkerEntry{} to the brokers"
)


def state(status: int, epoch: int) -> bytes:
    places = [TransactionLogValue.PartitionsSchema(topic="sink", partition_ids=[0, 1])]
    value = TransactionLogValue(
        producer_id=1001,
        producer_epoch=epoch,
        transaction_timeout_ms=10_000,
        transaction_status=status,
        transaction_partitions=places,
        transaction_last_update_timestamp_ms=7,
        transaction_start_timestamp_ms=5,
        client_transaction_version=2,
    )
    return encode_versioned(value, 1)


def key(name: str) -> bytes:
    return encode_versioned(TransactionLogKey(transactional_id=name), 0)


def test_lines_of_refused_and_dropped_markers_are_counted() -> None:
    other = "node 1: I am no longer the coordinator for hidden-1; cancel sending transaction markers TxnMarkerEntry{}"
    again = "node 1: Idempotent transaction marker retry detected for producer 1000 epoch 20."
    assert count_markers([REFUSED, other, again, "node 3: nothing of this"]) == {
        "refused InvalidProducerEpochException": 1,
        "dropped": 2,
        "written again": 1,
    }


def test_a_state_of_a_transactional_id_is_one_line() -> None:
    name, line = state_line(key("hidden-0"), state(2, 7))
    assert name == "hidden-0"
    assert line.startswith("PrepareCommit, producer 1001 (before -1, next -1) epoch 7, transaction version 2, ")
    assert "partitions sink-0, sink-1, started 5, updated 7" in line
    assert state_line(key("hidden-0"), None) == ("hidden-0", "removed")


def test_states_of_one_id_are_written_in_order(tmp_path: Path) -> None:
    records = [(key("hidden-0"), state(1, 7)), (key("other"), state(1, 0)), (key("hidden-0"), state(2, 7))]
    log = encode_batch(records)
    (tmp_path / f"{0:020}.log").write_bytes(log)
    write_state(tmp_path, "hidden-0", tmp_path / "out.txt")
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert [line.split(": ")[1].split(",")[0] for line in lines] == ["Ongoing", "PrepareCommit"]


def marker(commit: bool, offset: int) -> bytes:
    """A marker of producer 9, of coordinator epoch 4."""
    record = (struct.pack(">hh", 0, int(commit)), struct.pack(">hi", 0, 4))
    return encode_batch([record], base_offset=offset, producer_id=9, producer_epoch=3, transactional=True, control=True)


def test_a_producer_with_hidden_values_is_written_down_with_its_markers_and_the_index(tmp_path: Path) -> None:
    written = [
        encode_batch([b"0/1", b"0/2"], producer_id=9, producer_epoch=2, base_sequence=0, transactional=True),
        encode_batch([b"0/7"], base_offset=2, producer_id=8, producer_epoch=0, base_sequence=0, transactional=True),
        marker(commit=False, offset=3),
        encode_batch([b"0/3"], base_offset=4, producer_id=9, producer_epoch=3, base_sequence=0, transactional=True),
        marker(commit=True, offset=5),
    ]
    torn = written[0][:20]  # the end is written now
    (tmp_path / f"{0:020}.log").write_bytes(b"".join([*written, torn]))
    entries = [struct.pack(">hqqqq", 0, 9, 0, 3, 2), struct.pack(">hqqqq", 0, 7, 0, 4, 5), b"torn"]
    (tmp_path / f"{0:020}.txnindex").write_bytes(b"".join(entries))
    assert len(list(batches_of(tmp_path))) == len(written)
    assert aborted_of(tmp_path) == [(9, 0, 3, 2), (7, 0, 4, 5)]
    assert write_partition(tmp_path, [b"0/2"], tmp_path / "out.txt") == {9}
    lines = (tmp_path / "out.txt").read_text().splitlines()
    assert lines[0].startswith("HIDDEN 0 to 1, producer 9 epoch 2 sequence 0, ")
    assert lines[1].startswith("3 to 3, producer 9 epoch 3 ")
    assert lines[1].endswith(": ABORT of coordinator epoch 4")
    assert lines[2].startswith("4 to 4, ")
    assert lines[3].endswith(": COMMIT of coordinator epoch 4")
    assert lines[4:] == [
        "aborted: producer 9, 0 to 3, last stable offset 2",
        "of another producer: aborted: producer 7, 0 to 4, last stable offset 5",
    ]
    assert write_partition(tmp_path, [b"0/9"], tmp_path / "out.txt") == set()
