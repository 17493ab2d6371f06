"""`broker.api.fetch`, as readers see it: sessions, replicas, epochs, waiting."""

from __future__ import annotations

import itertools
import uuid
from typing import Any

import pytest

from kafwire import protocol
from kafwire.records import decode_batches, encode_batch
from kafwire.testing.simulation.calls import Call
from tests.support.simulated.world import World

VERSION = 18
Reported = dict[tuple[str, int], Any]


class Reader:
    """Asks one broker, as a client on a connection of its own."""

    def __init__(self, world: World, node: int = 1, *, version: int = VERSION, **options: Any) -> None:
        self.world = world
        self.node = node
        self.version = version
        self.options = {"min_bytes": 1, "max_wait_ms": 0, "max_bytes": 1 << 20} | options
        self.response: Any = None

    def ask(
        self, session: tuple[int, int], wanted: dict[tuple[str, int], Any] | None = None, *forget: tuple[str, int]
    ) -> Reported:
        """Partitions of the response by name; values of `wanted` are offsets or FetchPartition fields."""
        request = protocol.FetchRequest(session_id=session[0], session_epoch=session[1], **self.options)
        for (name, index), asked in (wanted or {}).items():
            fields = asked if isinstance(asked, dict) else {"fetch_offset": asked}
            part = request.FetchPartition(partition=index, **({"partition_max_bytes": 1 << 20} | fields))
            request.topics.append(request.FetchTopic(**self._named(name), partitions=[part]))
        for name, index in forget:
            request.forgotten_topics_data.append(request.ForgottenTopic(**self._named(name), partitions=[index]))
        call = Call(self.world.engine.now_ms(), self.node, 0, self.version, 1, request)
        self.response = self.world.run(self.world.response_to(call))
        names = {topic.topic_id: name for name, topic in self.world.topics.items()}
        return {
            (topic.topic or names.get(topic.topic_id, "?"), part.partition_index): part
            for topic in self.response.responses
            for part in topic.partitions
        }

    def _named(self, name: str) -> dict[str, Any]:
        topic = self.world.topics.get(name)
        by_id = {"topic_id": topic.topic_id if topic else uuid.UUID(int=1)}
        return by_id if self.version >= 13 else {"topic": name}


def values(part: Any) -> list[bytes | None]:
    return [record.value for batch in decode_batches(part.records) for record in batch]


@pytest.mark.parametrize("version", [12, 18])
def test_a_session_returns_only_changes(version: int) -> None:
    with World() as world:
        first, second = world.create_topic("t", partitions=2).partitions
        reader = Reader(world, version=version)
        assert len(reader.ask((0, 0), {("t", 0): 0, ("t", 1): 0})) == 2
        session = reader.response.session_id
        assert session > 0
        assert reader.ask((session, 1)) == {}
        first.append_values([b"a"])
        assert values(reader.ask((session, 2))["t", 0]) == [b"a"]
        assert reader.ask((session, 3), {("t", 0): 1}) == {}
        second.stable_at = 0
        assert reader.ask((session, 4)) == {}
        second.append_values([b"b"])
        assert set(reader.ask((session, 5), None, ("t", 1))) == set()
        assert reader.response.session_id == session
        assert reader.ask((session, 6), None, ("t", 0)) == {}
        assert (reader.response.error_code, reader.response.session_id) == (0, 0)


def test_session_errors() -> None:
    with World() as world:
        world.create_topic("t")
        reader = Reader(world)
        reader.ask((0, 0), {("t", 0): 0})
        session = reader.response.session_id
        for where, error in (((session + 1, 1), 70), ((session, 2), 71), ((session, 1), 0)):
            reader.ask(where)
            assert reader.response.error_code == error
        reader.version = 12
        reader.ask((session, 2))
        assert reader.response.error_code == 106
        reader.version = 18
        world.kill(1)
        reader.ask((session, 2))
        assert reader.response.error_code == 70


def test_no_slot_no_session() -> None:
    with World() as world:
        world.create_topic("t")
        world.keep_sessions(1)
        reader = Reader(world)
        ids = []
        for _ in range(2):
            assert len(reader.ask((0, 0), {("t", 0): 0})) == 1
            ids.append(reader.response.session_id)
        assert ids[0] > 0
        assert ids[1] == 0


def test_partitions_that_gave_records_stand_at_the_back() -> None:
    with World() as world:
        for log in world.create_topic("t", partitions=3).partitions:
            for _ in range(3):
                log.append_values([b"x" * 100])
        reader = Reader(world, max_bytes=1)
        served = list(reader.ask((0, 0), {("t", p): 0 for p in range(3)}))
        session = reader.response.session_id
        assert served == [("t", 0), ("t", 1), ("t", 2)]
        order = []
        for epoch in range(1, 7):
            order += [index for (_, index), part in reader.ask((session, epoch)).items() if part.records]
        # A new session has the order of its response, although the first has given records.
        assert order == [0, 1, 2, 0, 1, 2]


def test_first_partition_with_data_gives_a_whole_batch_and_others_batches_that_fit() -> None:
    with World() as world:
        logs = world.create_topic("t", partitions=4).partitions
        for log in logs[1:]:
            log.append_values([b"x" * 100])
            log.append_values([b"y" * 100])
        size = len(logs[1].batches[0].data)
        for room, expected in [(1, [0, size, 0, 0]), (2 * size + 9, [0, 2 * size, 0, 0]), (3 * size, [0, 2, 1, 0])]:
            reader = Reader(world, max_bytes=room)
            reported = reader.ask((0, -1), {("t", p): 0 for p in range(4)})
            sizes = [len(part.records) for part in reported.values()]
            assert sizes == [n * size if n < 9 else n for n in expected]
        reader = Reader(world)
        reported = reader.ask(
            (0, -1), {("t", p): {"fetch_offset": 0, "partition_max_bytes": size + 1} for p in range(4)}
        )
        assert [len(part.records) for part in reported.values()] == [0, size + 1, size + 1, size + 1]


def test_waiting_for_records() -> None:
    with World() as world:
        log = world.create_topic("t").partitions[0]
        reader = Reader(world, max_wait_ms=500)
        begin = world.engine.now_ms()
        reader.ask((0, -1), {("t", 0): 0})
        assert world.engine.now_ms() - begin == pytest.approx(500)
        world.loop.call_later(0.1, log.append_values, [b"a"])
        assert values(reader.ask((0, -1), {("t", 0): 0})["t", 0]) == [b"a"]
        assert world.engine.now_ms() - begin == pytest.approx(600)
        reader.ask((0, -1), {("t", 0): 7})
        assert world.engine.now_ms() - begin == pytest.approx(600)


def test_aborted_transactions_of_the_returned_records() -> None:
    with World() as world:
        log = world.create_topic("t").partitions[0]
        for producer in (7, 8, 9):
            of = {"transactional": True, "producer_id": producer, "producer_epoch": 0}
            log.append(encode_batch([b"x" * 50], base_sequence=0, **of))  # type: ignore[arg-type]
            log.append(encode_batch([(b"\0\0\0\0", b"\0" * 6)], control=True, **of))  # type: ignore[arg-type]
        for producer, first in ((9, 4), (7, 0), (8, 2)):
            log.abort(producer, first)
        size = sum(len(stored.data) for stored in log.batches[2:4])
        reader = Reader(world, isolation_level=1)
        asked = {"fetch_offset": 2, "partition_max_bytes": size}
        reported = reader.ask((0, -1), {("t", 0): asked})["t", 0]
        # The list has transactions behind the records as well, as far as the index does not know better.
        assert [(a.producer_id, a.first_offset) for a in reported.aborted_transactions] == [(9, 4), (8, 2)]
        log.append_values([b"x" * 5000])
        log.append_values([b"y"])
        log.abort(6, 8)
        reported = reader.ask((0, -1), {("t", 0): asked})["t", 0]
        assert [(a.producer_id, a.first_offset) for a in reported.aborted_transactions] == [(9, 4), (8, 2)]
        log.producers.aborted.pop()
        reported = reader.ask((0, -1), {("t", 0): 0})["t", 0]
        assert len(reported.aborted_transactions) == 3
        assert not Reader(world).ask((0, -1), {("t", 0): 0})["t", 0].aborted_transactions


def test_followers_serve_and_leaders_name_them() -> None:
    with World(brokers=3) as world:
        for number, rack in enumerate("abc", 1):
            world.nodes[number].rack = rack
        log = world.create_topic("t", replicas=2).partitions[0]
        log.append_values([b"a", b"b"])
        log.append_values([b"c"])
        leader = Reader(world, rack_id="b")
        reported = leader.ask((0, 0), {("t", 0): 0})["t", 0]
        assert (reported.preferred_read_replica, reported.records, reported.high_watermark) == (2, b"", 3)
        # Named again and again, although nothing changes.
        assert leader.ask((leader.response.session_id, 1))["t", 0].preferred_read_replica == 2
        log.replica_ends[2] = 2
        follower = Reader(world, 2, rack_id="b")
        reported = follower.ask((0, -1), {("t", 0): 0})["t", 0]
        assert (values(reported), reported.high_watermark, reported.preferred_read_replica) == ([b"a", b"b"], 2, -1)
        assert follower.ask((0, -1), {("t", 0): 3})["t", 0].error_code == 1
        assert leader.ask((0, -1), {("t", 0): 3})["t", 0].preferred_read_replica == -1
        assert follower.ask((0, -1), {("t", 0): {"fetch_offset": 0, "current_leader_epoch": 0}})["t", 0].records
        for rack in ("a", "c", ""):
            assert Reader(world, rack_id=rack).ask((0, -1), {("t", 0): 0})["t", 0].preferred_read_replica == -1
        assert Reader(world, 3, rack_id="b").ask((0, -1), {("t", 0): 0})["t", 0].error_code == 6
        old = Reader(world, 2, version=10)
        assert old.ask((0, -1), {("t", 0): 0})["t", 0].error_code == 6


def test_truncated_log_diverges() -> None:
    with World(brokers=2) as world:
        log = world.create_topic("t", replicas=2).partitions[0]
        for _ in range(5):
            log.append_values([b"old"])
        world.move_leader("t", 0, 2)
        log.append_values([b"lost"])
        world.lose_records("t", 0, 1, 3)
        log.append_values([b"new"])
        assert log.epochs == [(0, 0), (2, 3)]
        reader = Reader(world)
        for offset, epoch, expected in [
            (6, 1, (0, 3)),
            (5, 0, (0, 3)),
            (3, 0, (-1, -1)),
            (4, 2, (-1, -1)),
            (5, 2, (2, 4)),
        ]:
            reported = reader.ask((0, -1), {("t", 0): {"fetch_offset": offset, "last_fetched_epoch": epoch}})["t", 0]
            diverging = reported.diverging_epoch
            assert (diverging.epoch, diverging.end_offset, reported.error_code) == (*expected, 0)
        reported = reader.ask((0, -1), {("t", 0): {"fetch_offset": 3, "last_fetched_epoch": 9}})["t", 0]
        assert reported.error_code == 1
        batch = decode_batches(reader.ask((0, -1), {("t", 0): 3})["t", 0].records)[0]
        assert batch.partition_leader_epoch == 2


def test_end_of_epoch() -> None:
    with World(brokers=2) as world:
        log = world.create_topic("t").partitions[0]
        log.append_values([b"a", b"b"])
        world.move_leader("t", 0, 2)
        world.move_leader("t", 0, 1)
        log.append_values([b"c"])
        ends = {}
        for epoch in (-1, 0, 1, 2, 3):
            request = protocol.OffsetForLeaderEpochRequest(replica_id=-1)
            asked = request.OffsetForLeaderPartition(partition=0, leader_epoch=epoch, current_leader_epoch=2)
            request.topics = [request.OffsetForLeaderTopic(topic="t", partitions=[asked])]
            response = world.serve(Call(0, 1, 0, 4, 1, request))
            end = response.topics[0].partitions[0]
            ends[epoch] = (end.error_code, end.leader_epoch, end.end_offset)
        assert ends == {-1: (0, -1, -1), 0: (0, 0, 2), 1: (0, 1, 2), 2: (0, 2, 3), 3: (0, -1, -1)}
        for node, epoch, error in [(2, 2, 6), (1, 1, 74), (1, 3, 75)]:
            asked.current_leader_epoch = epoch
            response = world.serve(Call(0, node, 0, 4, 1, request))
            assert response.topics[0].partitions[0].error_code == error


def test_old_views_of_the_leader_are_refused_with_a_hint() -> None:
    with World(brokers=2) as world:
        world.create_topic("t")
        world.move_leader("t", 0, 2)
        for version, hint in [(16, (2, 1)), (15, (-1, -1))]:
            reported = Reader(world, 1, version=version).ask((0, -1), {("t", 0): 0})["t", 0]
            assert (reported.current_leader.leader_id, reported.current_leader.leader_epoch) == hint
        reader = Reader(world, 2)
        for epoch, error in [(-1, 0), (0, 74), (1, 0), (2, 75)]:
            reported = reader.ask((0, -1), {("t", 0): {"fetch_offset": 0, "current_leader_epoch": epoch}})["t", 0]
            assert reported.error_code == error
            hinted = error == 74
            assert reported.current_leader.leader_id == (2 if hinted else -1)
            assert [(n.node_id, n.host) for n in reader.response.node_endpoints] == [(2, "10.0.0.2")] * hinted


def test_throttled_readers_get_nothing_but_their_session_goes_on() -> None:
    with World() as world:
        world.create_topic("t").partitions[0].append_values([b"a"])
        reader = Reader(world)
        world.throttle = lambda _: 70
        assert reader.ask((0, 0), {("t", 0): 0}) == {}
        assert (reader.response.throttle_time_ms, reader.response.session_id) == (70, 0)
        world.throttle = lambda _: 0
        reader.ask((0, 0), {("t", 0): 0})
        session = reader.response.session_id
        world.throttle = lambda _: 70
        assert reader.ask((session, 1)) == {}
        assert (reader.response.throttle_time_ms, reader.response.session_id) == (70, session)
        world.throttle = lambda _: 0
        assert len(reader.ask((session, 2))) == 1


def test_topics_come_and_go() -> None:
    with World() as world:
        old = world.create_topic("t")
        reader = Reader(world)
        reader.ask((0, 0), {("t", 0): 0})
        session = reader.response.session_id
        again = world.create_topic("t", partitions=2)
        assert again.topic_id != old.topic_id
        assert [part.error_code for part in reader.ask((session, 1)).values()] == [100]
        world.add_partitions("t", 1)
        assert [part.error_code for part in reader.ask((0, -1), {("t", 2): 0, ("t", 3): 0}).values()] == [0, 3]
        world.delete_topic("t")
        assert [part.error_code for part in reader.ask((0, -1), {("t", 0): 0}).values()] == [100]
        by_name = Reader(world, version=12)
        assert [part.error_code for part in by_name.ask((0, -1), {("t", 0): 0}).values()] == [3]


def test_sessions_are_evicted_when_long_unused_or_small_and_old() -> None:
    with World() as world:
        world.create_topic("t", partitions=3)
        world.keep_sessions(2)
        reader = Reader(world)

        def open_session(partitions: int) -> int:
            reader.ask((0, 0), {("t", p): 0 for p in range(partitions)})
            return int(reader.response.session_id)

        small, large = open_session(1), open_session(2)
        assert open_session(3) == 0
        world.pass_time(121)
        for session in (small, large):
            reader.ask((session, 1))
        assert open_session(1) == 0
        larger = open_session(2)
        assert larger > 0
        assert set(world.sessions(1).sessions) == {large, larger}
        world.pass_time(121)
        reader.ask((large, 2))
        assert open_session(1) > 0
        assert larger not in world.sessions(1).sessions


def test_ids_of_sessions_differ_between_brokers() -> None:
    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        ids = []
        for node, _ in itertools.product((1, 2), range(2)):
            reader = Reader(world, node)
            reader.ask((0, 0), {("t", node - 1): 0})
            ids.append(reader.response.session_id)
        assert len({*ids} - {0}) == 4
