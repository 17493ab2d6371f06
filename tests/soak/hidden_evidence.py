"""The evidence of hidden transactions: the brokers' lines on markers, and each node's batches, markers and indices."""

from __future__ import annotations

import re
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from kafwire.errors import ProtocolError
from kafwire.protocol.framing import decode_versioned
from kafwire.protocol.log import LogReader
from kafwire.protocol.spec import Data, Struct, field, int8, int16, int32, int64
from kafwire.protocol.transaction_index import aborted_transactions
from kafwire.records import RecordBatch
from kafwire.testing.cluster import KafkaCluster
from tests.soak.cluster import CONSUMER_OFFSETS, TRANSACTION_STATE

# Lines that a broker logs if it refuses a marker, drops those of a transaction, or sends them again.
MARKER_LINES = re.compile(
    r"INVALID_PRODUCER_EPOCH|InvalidProducerEpoch|TRANSACTION_COORDINATOR_FENCED|TransactionCoordinatorFenced"
    r"|transaction marker|cancel sending|permanently failed|Loading transaction|Finished loading .*transaction"
)
REFUSED = re.compile(r"permanently failed with error ([\w.]+)")
# A broker takes the same marker twice only if the transaction is over in its partition.
COUNTED = {"dropped": re.compile(r"cancel sending"), "written again": re.compile(r"marker retry detected")}
STATES = (
    "Empty",
    "Ongoing",
    "PrepareCommit",
    "PrepareAbort",
    "CompleteCommit",
    "CompleteAbort",
    "Dead",
    "PrepareEpochFence",
)
_FEW = 4  # records of a batch that are shown whole
_CHUNK = 1 << 20


class TransactionLogKey(Data, versions="0"):
    """The key of a record of `__transaction_state`, after the version."""

    transactional_id: str = field("0+")


class TransactionLogValue(Data, versions="0-1", flexible="1+"):
    """The value of a record of `__transaction_state`, after the version: one state of a transactional id (KIP-890)."""

    class PartitionsSchema(Struct):
        topic: str = field("0+")
        partition_ids: list[int32] = field("0+")

    producer_id: int64 = field("0+")
    previous_producer_id: int64 = field("1+", tag=0, default=-1)
    next_producer_id: int64 = field("1+", tag=1, default=-1)
    producer_epoch: int16 = field("0+")
    transaction_timeout_ms: int32 = field("0+")
    transaction_status: int8 = field("0+")
    transaction_partitions: list[TransactionLogValue.PartitionsSchema] | None = field("0+", nullable="0+")
    transaction_last_update_timestamp_ms: int64 = field("0+")
    transaction_start_timestamp_ms: int64 = field("0+")
    client_transaction_version: int16 = field("1+", tag=2)


class BrokerLogs:
    """The nodes' logs, from one look to the next."""

    def __init__(self, cluster: KafkaCluster) -> None:
        self._cluster = cluster
        self._at = {node.id: len(node.log()) for node in cluster.nodes}

    def news(self) -> list[str]:
        """The lines on markers since the last call, each with its node."""
        found = []
        for node in self._cluster.nodes:
            text = node.log()
            new, self._at[node.id] = text[self._at[node.id] :], len(text)
            found += [f"node {node.id}: {line}" for line in new.splitlines() if MARKER_LINES.search(line)]
        return found


def count_markers(lines: Iterable[str]) -> dict[str, int]:
    """How many markers were refused, by error, how many a coordinator gave up, how many were written again."""
    counts: Counter[str] = Counter()
    for line in lines:
        refused = REFUSED.search(line)
        if refused is not None:
            counts[f"refused {refused[1].rpartition('.')[2]}"] += 1
        counts.update(name for name, pattern in COUNTED.items() if pattern.search(line))
    return dict(counts)


def batches_of(folder: Path) -> Iterator[RecordBatch]:
    """The batches of a partition's segments; a batch that is written meanwhile is left out."""
    for file in sorted(folder.glob("*.log")):
        reader = LogReader()
        with file.open("rb") as segment:
            while data := segment.read(_CHUNK):
                reader.feed(data)
                try:
                    yield from (entry.batch for entry in reader.batches())
                except ProtocolError:  # space that is allocated and not written
                    break


def aborted_of(folder: Path) -> list[tuple[int, int, int, int]]:
    """The entries of a partition's `.txnindex` files: producer id, first and last offset, last stable offset."""
    index = b"".join(path.read_bytes() for path in sorted(folder.glob("*.txnindex")))
    return [
        (entry.producer_id, entry.first_offset, entry.last_offset, entry.last_stable_offset)
        for entry in aborted_transactions(index)
    ]


def state_line(key: bytes | None, value: bytes | None) -> tuple[str, str]:
    """The transactional id of a record of `__transaction_state`, and the state as a line."""
    _, name = decode_versioned(TransactionLogKey, key or b"")
    if value is None:
        return name.transactional_id, "removed"
    version, state = decode_versioned(TransactionLogValue, value)
    places = [f"{each.topic}-{number}" for each in state.transaction_partitions or () for number in each.partition_ids]
    status = STATES[state.transaction_status] if state.transaction_status < len(STATES) else state.transaction_status
    return name.transactional_id, (
        f"{status}, producer {state.producer_id} "
        f"(before {state.previous_producer_id}, next {state.next_producer_id}) "
        f"epoch {state.producer_epoch}, transaction version {state.client_transaction_version}, "
        f"partitions {', '.join(places) or 'none'}, started {state.transaction_start_timestamp_ms}, "
        f"updated {state.transaction_last_update_timestamp_ms} (record version {version})"
    )


def write_state(folder: Path, transactional_id: str, out: Path) -> None:
    """All states of a transactional id that a node has in its copy of `__transaction_state`, a line each."""
    with out.open("w") as file:
        for batch in batches_of(folder):
            for record in () if batch.is_control else batch:
                name, line = state_line(record.key, record.value)
                if name == transactional_id:
                    print(f"{record.offset} (leader epoch {batch.partition_leader_epoch}): {line}", file=file)


def write_partition(folder: Path, hidden: Iterable[bytes], out: Path) -> set[int]:
    """Write down the batches and markers of each producer that has a hidden value in a partition, and the index.

    Returns those producers' ids. "HIDDEN" marks batches with a hidden value.
    """
    wanted = set(hidden)
    batches = list(batches_of(folder))
    concerned = {
        batch.producer_id for batch in batches if not batch.is_control and any(each.value in wanted for each in batch)
    }
    with out.open("w") as file:
        for batch in batches:
            if batch.producer_id in concerned:
                is_hidden = not batch.is_control and any(each.value in wanted for each in batch)
                print(f"{'HIDDEN ' if is_hidden else ''}{batch_line(batch)}", file=file)
        for producer, first, last, stable in aborted_of(folder):
            mark = "" if producer in concerned else "of another producer: "
            print(f"{mark}aborted: producer {producer}, {first} to {last}, last stable offset {stable}", file=file)
    return concerned


def batch_line(batch: RecordBatch) -> str:
    """A batch or marker as a line."""
    head = (
        f"{batch.base_offset} to {batch.last_offset}, producer {batch.producer_id} epoch {batch.producer_epoch} "
        f"sequence {batch.base_sequence}, leader epoch {batch.partition_leader_epoch}, at {batch.max_timestamp_ms}: "
    )
    if batch.is_control:
        kind = "COMMIT" if (batch[0].key or b"")[2:4] == b"\x00\x01" else "ABORT"
        return f"{head}{kind} of coordinator epoch {int.from_bytes((batch[0].value or b'')[2:6], 'big', signed=True)}"
    shown = [each.value for each in (batch if len(batch) <= _FEW else (batch[0], batch[-1]))]
    return f"{head}{len(batch)} records {shown}, {'transactional' if batch.is_transactional else 'plain'}"


def keep(cluster: KafkaCluster, folder: Path, hidden: dict[str, set[bytes]], ids: dict[str, str]) -> None:
    """Put everything on hidden values into the folder: the nodes' logs, the partitions' segments, the dumps.

    `hidden` has the values by sink, `ids` the transactional id that writes to each.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for node in cluster.nodes:
        shutil.copy(node.log_file, folder / f"node-{node.id}.log")
        for sink, values in hidden.items():
            for partition in sorted(node.data.glob(f"{sink}-[0-9]*")):
                write_partition(partition, values, folder / f"node-{node.id}-{partition.name}.txt")
            state = node.data / f"{TRANSACTION_STATE}-0"
            if state.is_dir():
                write_state(state, ids[sink], folder / f"node-{node.id}-{ids[sink]}-states.txt")
        names = [*hidden, TRANSACTION_STATE, CONSUMER_OFFSETS]
        for partition in [path for name in names for path in sorted(node.data.glob(f"{name}-[0-9]*"))]:
            shutil.copytree(partition, folder / "segments" / f"node-{node.id}" / partition.name, dirs_exist_ok=True)


def describe(response: Any) -> list[str]:
    """The states of a DescribeTransactions response, a line each, with the coordinator's own set of partitions."""
    return [
        f"{one.transactional_id}: error {one.error_code}, {one.transaction_state}, producer {one.producer_id} "
        f"epoch {one.producer_epoch}, partitions {[(topic.topic, list(topic.partitions)) for topic in one.topics]}"
        for one in response.transaction_states
    ]
