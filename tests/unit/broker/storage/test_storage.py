from pathlib import Path
from typing import Any

import pytest

from kafwire.broker.groups.group_coordinator import GroupCoordinator
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed
from kafwire.broker.quotas import Quotas
from kafwire.broker.security.acls import Acl
from kafwire.broker.security.credentials import Credentials
from kafwire.broker.security.delegation_tokens import DelegationTokens
from kafwire.broker.share.in_flight import RecordState
from kafwire.broker.share.share_states import Run, ShareStates
from kafwire.broker.state import ClusterState
from kafwire.broker.storage.data_folder import FolderError
from kafwire.broker.storage.storage import Storage
from kafwire.broker.storage.stored_parts import dump_parts
from kafwire.broker.topics.config_store import ConfigStore, Operation
from kafwire.broker.transactions.transactions import Transactions
from kafwire.producer.outcome.sequencer import Identity
from kafwire.records import encode_batch
from kafwire.testing import EmbeddedKafka


def begin(path: Any, **how: Any) -> Any:
    state = ClusterState(**how)
    return state, Storage(state, path)


def end(storage: Any, how: Any) -> None:
    storage.close() if how == "closed" else storage.abandon()


ENDS = pytest.mark.parametrize("how", ["closed", "abandoned"])


@ENDS
def test_topics_and_records_are_back(tmp_path: Any, how: Any) -> None:
    state, storage = begin(tmp_path)
    topic = state.topics.create("a", 2, configs={"segment.bytes": "1048576"})
    state.topics.add_partitions(topic, 1)
    state.topics.delete(state.topics.create("gone"))
    topic.partitions[2].append_values([b"1", b"2"])
    end(storage, how)
    again, _ = begin(tmp_path)
    (found,) = again.topics
    assert (found.name, found.topic_id, found.configs) == ("a", topic.topic_id, topic.configs)
    assert [partition.values() for partition in found.partitions] == [[], [], [b"1", b"2"]]
    assert again.cluster_id == state.cluster_id
    assert found.partitions[2].leader_epoch > topic.partitions[2].leader_epoch
    assert again.topics.create("b").topic_id not in (topic.topic_id, None)
    assert not (tmp_path / "gone-0").exists()


@ENDS
def test_a_log_begins_where_records_were_deleted(tmp_path: Any, how: Any) -> None:
    state, storage = begin(tmp_path)
    partition = state.topics.create("a").partitions[0]
    for _ in range(5):
        partition.append_values([b"x"])
    partition.delete_before(3)
    end(storage, how)
    again, _ = begin(tmp_path)
    assert again.topics.partition("a", 0).log.start_offset == 3


@ENDS
def test_a_restart_restores_the_state_of_parts(tmp_path: Any, how: Any) -> None:
    state, storage = begin(tmp_path)
    state.topics.create("a", 2)
    offsets, quotas = state.part(OffsetStore), state.part(Quotas)
    offsets.commit("g", ("a", 0), Committed(5, 1, "m", 9))
    offsets.commit("g", ("a", 1), Committed(6))
    offsets.delete("g", ("a", 1))
    offsets.add_pending("g", 1000, 0, ("a", 1), Committed(8))
    state.authorizer.add([Acl("User:a", "Read", "Topic", "a"), Acl("User:b", "Read", "Topic", "a")])
    state.authorizer.remove([Acl("User:b", "Read", "Topic", "a")])
    state.part(Credentials).add_scram("alice", "secret")
    quotas.set({"user": None}, {"producer_byte_rate": 5.0})
    state.part(ConfigStore).alter_broker(
        "", [("log.segment.bytes", Operation.SET, "2000000")], asked=1, validate_only=False
    )
    state.part(ConfigStore).alter_group(
        "g", [("consumer.session.timeout.ms", Operation.SET, "50000")], validate_only=False
    )
    tokens: DelegationTokens = state.part(DelegationTokens)
    tokens.create("User:alice", "User:bob", ["User:carol"], -1)
    ended = tokens.create("User:alice", "User:alice", [], -1)
    assert tokens.expire(tokens.secret_of(ended.token_id), "User:alice", -1) == state.wall_ms
    state.set_features({"share.version": 1})
    state.part(ConfigStore).alter_metrics("m", [("interval.ms", Operation.SET, "1000")], validate_only=False)
    before = list(dump_parts(state))
    assert len(before) == 11
    end(storage, how)
    again, _ = begin(tmp_path)
    assert list(dump_parts(again)) == before
    assert again.config("log.segment.bytes") == "2000000"
    assert (again.features["share.version"], again.features_epoch) == (1, 2)
    assert again.group_config_int("g", "consumer.session.timeout.ms") == 50000
    assert again.part(ConfigStore).of_metrics == {"m": {"interval.ms": "1000"}}
    again.part(OffsetStore).end_transaction(1000, offsets.place_of("g")[1], commit=True)
    assert again.part(OffsetStore).of("g")[("a", 1)].offset == 8


@ENDS
def test_how_far_share_groups_have_come_is_back(tmp_path: Any, how: Any) -> None:
    state, storage = begin(tmp_path)
    topics = [state.topics.create(name, 2).topic_id for name in "ab"]
    shared: ShareStates = state.part(ShareStates)
    for topic_id in topics:
        shared.initialize("g", topic_id, 2)
    stored = shared.of("g", topics[0], 1)
    assert stored is not None
    stored.write(3, 2, [Run(4, 5, RecordState.ACKNOWLEDGED, 1), Run(6, 6, RecordState.AVAILABLE, 2)])
    stored.lead(7)
    shared.reset("g", topics[0], 0, 9)
    shared.forget("g", topics[1])
    shared.initialize("gone", topics[0], 1)
    shared.forget_group("gone")
    end(storage, how)
    again, _ = begin(tmp_path)
    assert sorted(again.part(ShareStates).entries()) == sorted(shared.entries())
    groups: GroupCoordinator = again.part(GroupCoordinator)
    assert {name: group.type.value for name, group in groups.groups.items()} == {"g": "share"}


@ENDS
def test_markers_that_are_owed_are_written_after_the_next_start(tmp_path: Any, how: Any) -> None:
    state, storage = begin(tmp_path)
    partition = state.topics.create("a").partitions[0]
    transactions = state.part(Transactions)
    _, producer = transactions.initialize("t", Identity(-1, -1), 60_000)
    transactions.add("t", producer, {("a", 0)})
    data = bytearray(
        encode_batch(
            [b"1"], producer_id=producer.producer_id, producer_epoch=producer.epoch, base_sequence=0, transactional=True
        )
    )
    partition.append(data)
    transactions.end("t", producer, commit=True, version=2)
    end(storage, how)
    again, _ = begin(tmp_path)
    found = again.topics.partition("a", 0)
    assert found.last_stable_offset == 0
    again.advance(100)
    assert found.last_stable_offset == found.log.end_offset == 2
    assert again.part(Transactions).by_id["t"].coordinator.state.value == "CompleteCommit"
    assert again.part(Transactions).new_producer_id() > producer.producer_id


def test_a_folder_is_used_by_one_broker_at_a_time(tmp_path: Any) -> None:
    _, storage = begin(tmp_path)
    with pytest.raises(FolderError, match="used by another broker"):
        begin(tmp_path)
    storage.close()
    begin(tmp_path)[1].close()


@pytest.mark.parametrize(
    ("name", "text", "problem"),
    [
        ("meta.properties", "version=1\n", "Apache Kafka"),
        ("notes.txt", "mine", "not a data folder"),
        ("kafwire-broker.properties", "version=99\ncluster.id=x\n", "format version 99"),
        ("kafwire-broker.properties", "\0\xff", "format version none"),
    ],
)
def test_a_folder_of_others_is_refused_and_left_alone(tmp_path: Any, name: Any, text: Any, problem: Any) -> None:
    (tmp_path / name).write_text(text)
    with pytest.raises(FolderError, match=problem):
        begin(tmp_path)
    assert [each.name for each in tmp_path.iterdir()] == [name]
    assert (tmp_path / name).read_text() == text


def test_a_folder_of_no_topic_is_put_aside(tmp_path: Any) -> None:
    begin(tmp_path)[1].close()
    (tmp_path / "lost-0").mkdir()
    (tmp_path / "lost-0/00000000000000000000.log").write_bytes(b"x")
    (tmp_path / "old-0.1-delete").mkdir()
    begin(tmp_path)[1].close()
    (stray,) = tmp_path.glob("lost-0.*-stray")
    assert (stray / "00000000000000000000.log").read_bytes() == b"x"
    assert not list(tmp_path.glob("old*"))


def test_files_are_readable_by_their_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "data"
    with EmbeddedKafka(security="SASL_PLAINTEXT", data=folder) as kafka:
        kafka.create_topic("t", 1)
    (folder / "journal.tmp").write_bytes(b"of a crash")
    (folder / "journal.tmp").chmod(0o644)
    with EmbeddedKafka(security="SASL_PLAINTEXT", data=folder):
        pass
    modes = {each.name: each.stat().st_mode & 0o777 for each in folder.rglob("*") if each.is_file()}
    assert modes["journal"] == 0o600
    assert {*modes.values()} == {0o600}, modes
