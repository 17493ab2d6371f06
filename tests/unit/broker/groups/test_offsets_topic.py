"""`__consumer_offsets`: the bytes of its records, and when they are written.

The bytes are those that Kafka 4.4.0 wrote for the same commits, of a topic whose id is TOPIC_ID.
"""

from __future__ import annotations

import uuid
from pathlib import Path

import pytest

from kafwire import protocol
from kafwire.broker.groups.classic_member import Member
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import (
    OFFSETS_TOPIC,
    Committed,
    Stored,
    group_key,
    group_value,
    offset_key,
    offset_value,
)
from kafwire.broker.log.log import FileSpan, read_span
from kafwire.broker.state import WALL_MS, ClusterState
from kafwire.broker.storage.storage import Storage
from kafwire.errors import ErrorCode
from kafwire.records import decode_batches
from tests.support.broker.driver import ask

TOPIC_ID = uuid.UUID(bytes=b"\xcd\xb8p\x95l\xd3K\x08\xad\xca\rK\x00\x82\x11\x1c")
OFFSET_KEY = b"\x00\x01\x00\x02g1\x00\x03src\x00\x00\x00\x00"
OFFSET_VALUE = (
    b"\x00\x04\x00\x00\x00\x00\x00\x00\x00\x01\x00\x00\x00\x00\x01\x00\x00\x01\xa2 9_}"
    b"\x01\x00\x10\xcd\xb8p\x95l\xd3K\x08\xad\xca\rK\x00\x82\x11\x1c"
)
MEMBER_ID = "i1-5219fa44-7b8b-489d-95b5-1a9e8f9346e4"
SUBSCRIPTION = b"\x00\x03\x00\x00\x00\x01\x00\x03src\x00\x00\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00"
ASSIGNMENT = b"\x00\x00\x00\x00\x00\x01\x00\x03src\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x00"
GROUP_VALUE = (
    b"\x00\x03\x00\x08consumer\x00\x00\x00\x01\x00\x05range\x00'" + MEMBER_ID.encode() + b"\x00\x00\x01\xa2 9^\x95"
    b"\x00\x00\x00\x01\x00'"
    + MEMBER_ID.encode()
    + b"\x00\x02i1\x00\x03cid\x00\n/127.0.0.1\x00\x04\x93\xe0\x00\x00\xaf\xc8"
    b"\x00\x00\x00\x19" + SUBSCRIPTION + b"\x00\x00\x00\x17" + ASSIGNMENT
)


def test_offsets_have_kafka_s_bytes() -> None:
    assert offset_key("g1", ("src", 0)) == OFFSET_KEY
    committed = Committed(1, 0, "", int.from_bytes(b"\x00\x00\x01\xa2 9_}", "big"))
    assert offset_value(committed, TOPIC_ID) == OFFSET_VALUE
    assert offset_value(committed, None) == OFFSET_VALUE[:-19] + b"\0"
    long = offset_value(committed._replace(metadata="m" * 200), None)
    assert long[14:16] == b"\xc9\x01", "the length of a compact string is a varint"


def test_groups_have_kafka_s_bytes() -> None:
    assert group_key("g1") == b"\x00\x02\x00\x02g1"
    since_ms = int.from_bytes(b"\x00\x00\x01\xa2 9^\x95", "big")
    member = Member(
        MEMBER_ID, "i1", "cid", "/127.0.0.1", 45000, 300000, "consumer", [("range", SUBSCRIPTION)], ASSIGNMENT
    )
    assert group_value(Stored(1, "consumer", "range", MEMBER_ID, since_ms, [member])) == GROUP_VALUE
    empty = group_value(Stored(0, None, None, None, since_ms))
    assert empty == b"\x00\x03\x00\x00\x00\x00\x00\x00\xff\xff\xff\xff\x00\x00\x01\xa2 9^\x95\x00\x00\x00\x00"


def written(state: ClusterState) -> list[tuple[bytes | None, bytes | None]]:
    """Keys and values of all records, without those of markers; of values the version and what follows."""
    found = []
    for partition in state.topics.by_name[OFFSETS_TOPIC].partitions:
        data = partition.log.read(partition.log.start_offset, partition.log.size)
        data = read_span(data) if isinstance(data, FileSpan) else data
        found += [(r.key, r.value) for batch in decode_batches(data) if not batch.is_control for r in batch]
    return found


def commit(state: ClusterState, group: str, offset: int) -> None:
    request = protocol.OffsetCommitRequest
    part = request.OffsetCommitRequestPartition(partition_index=0, committed_offset=offset, committed_metadata="m")
    topic = request.OffsetCommitRequestTopic(name="t", partitions=[part])
    response = ask(state, request(group_id=group, topics=[topic]), 8)
    assert response.topics[0].partitions[0].error_code == 0


def test_a_commit_is_readable_and_its_end_a_tombstone() -> None:
    state = ClusterState()
    topic = state.topics.create("t")
    assert OFFSETS_TOPIC not in state.topics.by_name, "it is made by the first commit"
    commit(state, "g", 7)
    key = offset_key("g", ("t", 0))
    value = offset_value(Committed(7, -1, "m", state.wall_ms), topic.topic_id)
    assert written(state) == [(key, value)]
    internal = state.topics.by_name[OFFSETS_TOPIC]
    assert (internal.is_internal, len(internal.partitions), internal.configs["cleanup.policy"]) == (True, 50, "compact")
    index = state.part(OffsetStore).place_of("g")[1]
    assert internal.partitions[index].log.end_offset == 1
    response = ask(state, protocol.DeleteGroupsRequest(groups_names=["g"]))
    assert response.results[0].error_code == 0
    assert written(state)[1:] in ([(key, None), (group_key("g"), None)], [(group_key("g"), None), (key, None)])


def test_a_deleted_topic_takes_its_offsets_along() -> None:
    state = ClusterState()
    topic = state.topics.create("t")
    commit(state, "g", 7)
    state.topics.delete(topic)
    assert written(state)[1:] == [(offset_key("g", ("t", 0)), None)]


def test_offsets_of_a_transaction_are_between_its_begin_and_its_marker() -> None:
    state = ClusterState()
    state.topics.create("t")
    store: OffsetStore = state.part(OffsetStore)
    _, index = store.place_of("g")
    for commits, end in ((True, 2), (False, 4)):
        store.add_pending("g", 5, 0, ("t", 0), Committed(3 if commits else 9))
        partition = state.topics.by_name[OFFSETS_TOPIC].partitions[index]
        assert (partition.last_stable_offset, partition.high_watermark) == (end - 2, end - 1)
        store.end_transaction(5, index, commit=commits)
        assert partition.last_stable_offset == partition.log.end_offset == end
    assert store.of("g")["t", 0].offset == 3
    assert len(partition.producers.aborted) == 1
    assert len(written(state)) == 2, "the end of a transaction writes its marker alone"


@pytest.mark.parametrize("index", [-1, 50])
def test_a_marker_needs_a_partition_that_exists(index: int) -> None:
    state = ClusterState()
    request = protocol.WriteTxnMarkersRequest
    topic = request.WritableTxnMarkerTopic(name=OFFSETS_TOPIC, partition_indexes=[index])
    marker = request.WritableTxnMarker(producer_id=7, producer_epoch=0, transaction_result=True, topics=[topic])

    def error() -> int:
        return int(ask(state, request(markers=[marker])).markers[0].topics[0].partitions[0].error_code)

    assert error() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert OFFSETS_TOPIC not in state.topics.by_name, "a marker creates no topic"
    state.topics.create("t")
    commit(state, "g", 7)
    assert error() == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_recreated_topic_has_another_id() -> None:
    """Also in a broker that starts later: it has counted no topics, and may have the cluster's id."""
    ids = []
    for state in (ClusterState(), ClusterState(wall_ms=WALL_MS + 1)):
        state.topics.create("t", 1)
        for offset in range(3):
            commit(state, "g", offset)
            ids.append(state.topics.by_name[OFFSETS_TOPIC].topic_id)
            state.topics.delete(state.topics.by_name[OFFSETS_TOPIC])
    assert len(set(ids)) == 6


def test_a_transaction_ends_after_its_partition_was_deleted() -> None:
    state = ClusterState()
    state.topics.create("t")
    store: OffsetStore = state.part(OffsetStore)
    _, index = store.place_of("g")
    store.add_pending("g", 5, 0, ("t", 0), Committed(3))
    state.topics.delete(state.topics.by_name[OFFSETS_TOPIC])
    store.end_transaction(5, index, commit=True)
    assert OFFSETS_TOPIC not in state.topics.by_name


def test_the_topic_and_offsets_in_effect_survive_a_restart(tmp_path: Path) -> None:
    state = ClusterState(configs={"offsets.topic.num.partitions": "3"})
    storage = Storage(state, tmp_path / "data")
    state.topics.create("t")
    commit(state, "g", 7)
    before = written(state)
    storage.close()
    state = ClusterState()
    storage = Storage(state, tmp_path / "data")
    assert len(state.topics.by_name[OFFSETS_TOPIC].partitions) == 3, "as many as it was made with"
    assert written(state) == before
    commit(state, "g", 8)
    assert len(written(state)) == 2
    assert state.part(OffsetStore).of("g")["t", 0].offset == 8
    storage.close()
