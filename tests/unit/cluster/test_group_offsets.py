"""`cluster.group_offsets`: a group's offsets from outside its membership, in a simulated world."""

from __future__ import annotations

import asyncio
import random
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from kafwire import protocol
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.groups.offsets_topic import Committed as Kept
from kafwire.cluster.group_offsets import Committed, GroupOffsets, OffsetToCommit
from kafwire.errors import (
    BrokerError,
    CommitFailedError,
    ConfigError,
    ErrorCode,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
)
from kafwire.testing.simulation.calls import HANGUP, NEVER, Call, Response
from kafwire.types import ConsumerGroupMetadata
from tests.support.simulated.group_offsets import Where, commit, fetch, make
from tests.support.simulated.world import World


@pytest.fixture
def world() -> Iterator[World]:
    with World(brokers=3) as it:
        it.create_topic("t", partitions=3)
        it.create_topic("u", partitions=2)
        yield it


VERSIONS = [(7 + i % 4, 2 + i % 9, i % 7) for i in range(9)]


@pytest.mark.parametrize(("fetch_version", "commit_version", "find_version"), VERSIONS)
def test_committed_offsets_are_fetched_in_every_version(
    world: World, fetch_version: int, commit_version: int, find_version: int
) -> None:
    for node in world.nodes.values():
        node.versions = {
            "OffsetFetch": (1, fetch_version),
            "OffsetCommit": (2, commit_version),
            "FindCoordinator": (0, find_version),
        }
    world.move_coordinator("g", 2)
    offsets = make(world)
    asked = [("t", 0), ("u", 1), ("t", 2), ("u", 0)]
    assert fetch(world, offsets, asked) == dict.fromkeys(asked)
    world.run(offsets.commit({("t", 0): OffsetToCommit(7, 3, "text"), ("u", 1): OffsetToCommit(1 << 40)}))
    found = fetch(world, offsets, asked)
    assert list(found) == asked
    epoch_and_text = (3 if commit_version >= 6 else -1, "text")
    assert found == {
        ("t", 0): Committed(7, *epoch_and_text),
        ("u", 1): Committed(1 << 40, -1, ""),
        ("t", 2): None,
        ("u", 0): None,
    }
    assert {call.version for call in world.made("OffsetFetch")} == {fetch_version}
    assert {call.version for call in world.made("OffsetCommit")} == {commit_version}
    assert {call.version for call in world.made("FindCoordinator")} == {find_version}
    message = world.made("OffsetCommit")[-1].message
    assert (message.generation_id_or_member_epoch, message.member_id) == (-1, "")
    assert {call.node for name in ("OffsetFetch", "OffsetCommit") for call in world.made(name)} == {2}


def test_a_text_that_is_null_is_an_empty_one(world: World) -> None:
    world.committed["g"]["t", 0] = Kept(3, -1, None)
    assert fetch(world, make(world), [("t", 0)]) == {("t", 0): Committed(3, -1, "")}


def test_topics_without_ids_are_named() -> None:
    with World(topic_ids=False) as world:
        world.create_topic("t")
        offsets = make(world)
        commit(world, offsets, {("t", 0): 5})
        assert fetch(world, offsets, [("t", 0)]) == {("t", 0): Committed(5, -1, "")}
        assert {call.version for name in ("OffsetFetch", "OffsetCommit") for call in world.made(name)} == {9}


def test_calls_without_partitions_send_no_request(world: World) -> None:
    offsets = make(world)
    assert fetch(world, offsets, []) == {}
    commit(world, offsets, {})
    assert not world.calls


def test_the_coordinator_is_looked_up_once(world: World) -> None:
    async def together(offsets: GroupOffsets) -> None:
        await asyncio.gather(*(offsets.fetch([("t", number)]) for number in range(3)))

    offsets = make(world)
    assert offsets.coordinator is None
    started = world.engine.now_ms()
    world.run(together(offsets))
    assert world.engine.now_ms() - started < 50, "nothing had to be tried again"
    commit(world, offsets, {("t", 0): 5})
    assert len(world.made("FindCoordinator")) == 1
    assert offsets.coordinator == world.state.coordinator("g")


def test_requests_to_the_coordinator_have_a_connection(world: World) -> None:
    """Heartbeat and OffsetCommit never share a socket with Fetch or Metadata."""
    offsets = make(world)
    commit(world, offsets, {("t", 0): 5})
    assert world.made("OffsetCommit")[-1].connection != world.made("Metadata")[-1].connection
    assert len(world.connections) == 2
    connection = offsets._cluster.connection(world.state.coordinator("g"), "fetch")
    world.run(connection.open())
    fetching = world.calls[-1].connection
    commit(world, offsets, {("t", 0): 6})
    assert world.made("OffsetCommit")[-1].connection != fetching


@pytest.mark.parametrize(
    "code", [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
)
@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetFetch", "OffsetCommit"])
def test_a_coordinator_that_is_not_ready_is_waited_for(world: World, api: str, code: int) -> None:
    async def heal() -> None:
        await asyncio.sleep(5)
        world.set_finding_error(0)
        world.set_group_error(0)

    async def both(work: Any) -> None:
        await asyncio.gather(work, heal())

    offsets = make(world)
    world.committed["g"]["t", 0] = Kept(3, -1, "")
    if api == "FindCoordinator":
        world.set_finding_error(code)
    else:
        world.set_group_error(code)
    if api == "OffsetCommit":
        world.run(both(offsets.commit({("t", 0): OffsetToCommit(9)})))
        assert world.committed["g"]["t", 0][:3] == (9, -1, "")
    else:
        world.run(both(offsets.fetch([("t", 0)])))
    assert 4 < len(world.made(api)) < 30, "with backoff"
    if code in (ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR):
        assert len(world.made("FindCoordinator")) > 4


def test_a_coordinator_that_moved_is_found_again(world: World) -> None:
    offsets = make(world)
    commit(world, offsets, {("t", 0): 5})
    world.move_coordinator("g", 3)
    commit(world, offsets, {("t", 0): 6, ("t", 1): 7})
    world.move_coordinator("g", 2)
    assert fetch(world, offsets, [("t", 0)]) == {("t", 0): Committed(6, -1, "")}
    assert [call.node for call in world.made("OffsetCommit")] == [1, 1, 3]
    assert [call.node for call in world.made("OffsetFetch")] == [3, 2]


@pytest.mark.parametrize("response", [HANGUP, NEVER], ids=["closed", "silent"])
@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetFetch", "OffsetCommit"])
def test_a_lost_connection_is_looked_up_and_tried_again(world: World, api: str, response: Any) -> None:
    left = 2

    def lose(call: Call) -> Response:
        nonlocal left
        left -= 1
        return response if left >= 0 else None

    world.on(api, lose)
    offsets = make(world, request_timeout_ms=2_000)
    commit(world, offsets, {("t", 0): 5})
    assert fetch(world, offsets, [("t", 0)]) == {("t", 0): Committed(5, -1, "")}
    assert left < 0


def test_a_broker_that_only_closes_is_looked_up_again(world: World) -> None:
    offsets = make(world)
    commit(world, offsets, {("t", 0): 5})
    world.on("OffsetCommit", lambda call: HANGUP if call.node == 1 else None)
    world.move_coordinator("g", 2)
    commit(world, offsets, {("t", 0): 6})
    assert world.committed["g"]["t", 0][:3] == (6, -1, "")


def test_one_broker_after_the_other_is_asked_for_the_coordinator(world: World) -> None:
    offsets = make(world)
    world.run(offsets._cluster.refresh())
    world.kill(1)
    world.kill(2)
    world.move_coordinator("g", 3)
    started = world.engine.now_ms()
    commit(world, offsets, {("t", 0): 5})
    assert world.engine.now_ms() - started < 50, "nothing had to be tried again"


def test_when_all_known_brokers_are_gone_others_are_learnt(world: World) -> None:
    world.nodes[1].down = True
    offsets = make(world)
    world.run(offsets._cluster.refresh())
    world.kill(2)
    world.kill(3)
    world.nodes[1].down = False
    commit(world, offsets, {("t", 0): 5})
    assert world.made("OffsetCommit")[-1].node == 1


def test_a_coordinator_that_died_is_left_for_the_next(world: World) -> None:
    offsets = make(world)
    commit(world, offsets, {("t", 0): 5})
    world.kill(1)
    world.move_coordinator("g", 2)
    commit(world, offsets, {("t", 0): 6})
    assert world.committed["g"]["t", 0][:3] == (6, -1, "")


def test_a_coordinator_that_metadata_does_not_know_yet_is_learnt(world: World) -> None:
    world.nodes[3].down = True  # not in metadata
    offsets = make(world)
    world.run(offsets._cluster.refresh())
    assert 3 not in offsets._cluster.metadata.brokers
    world.nodes[3].down = False
    world.move_coordinator("g", 3)
    commit(world, offsets, {("t", 0): 5})
    assert world.made("OffsetCommit")[-1].node == 3


@pytest.mark.parametrize("work", ["fetch", "commit"])
def test_without_a_coordinator_the_error_names_cause_and_partitions_in_time(world: World, work: str) -> None:
    world.set_finding_error(ErrorCode.COORDINATOR_NOT_AVAILABLE)
    offsets = make(world, default_api_timeout_ms=5_000)
    started = world.engine.now_ms()
    with pytest.raises(KafkaTimeoutError, match=r"t-0, t-2 of group 'g' .*within 5 s: COORDINATOR_NOT_AVAILABLE"):
        if work == "fetch":
            fetch(world, offsets, [("t", 0), ("t", 2)])
        else:
            commit(world, offsets, {("t", 0): 1, ("t", 2): 2})
    assert 3_000 < world.engine.now_ms() - started <= 5_001


def test_an_unreachable_coordinator_is_an_error(world: World) -> None:
    offsets = make(world, default_api_timeout_ms=3_000, retry_backoff_max_ms=200)
    commit(world, offsets, {("t", 0): 5})
    for node in list(world.nodes):
        world.kill(node)
    with pytest.raises(KafkaConnectionError, match=r"committing t-0 of group 'g' did not succeed within 3 s"):
        commit(world, offsets, {("t", 0): 6})


# -- errors for good


@pytest.mark.parametrize("code", [22, 25, 27, 82, 110, 113])
def test_a_commit_beside_members_is_refused_with_the_remedy(world: World, code: int) -> None:
    world.set_group_error(code)
    with pytest.raises(
        BrokerError, match=r"the group has members.*another group_id \[committing t-0 of group 'g'"
    ) as e:
        commit(world, make(world), {("t", 0): 5})
    assert (e.value.code, e.value.retriable) == (code, False)
    assert len(world.made("OffsetCommit")) == 1


class Rejoining:
    """A member that joins again after a refused commit."""

    def __init__(self) -> None:
        self.generation = 1
        self.refused: list[tuple[int, int]] = []  # codes, and the generations of the refused requests

    def metadata(self) -> ConsumerGroupMetadata:
        return ConsumerGroupMetadata("g", self.generation, "m", None)

    def metadata_of_read(self) -> ConsumerGroupMetadata:
        return self.metadata()

    def fenced(self, code: int, sent_as: ConsumerGroupMetadata) -> None:
        self.refused.append((code, sent_as.generation_id))
        self.generation = 3


@pytest.mark.parametrize("code", [22, 25, 27, 69, 110, 113])
def test_a_refused_commit_names_the_member_of_its_request(world: World, code: int) -> None:
    """A membership drops the partitions of its present member only."""
    offsets = make(world)
    member = offsets.member = Rejoining()

    def find(_: Call) -> None:
        member.generation = 2

    def refuse(call: Call) -> Any:
        response = type(call.message).response
        refused = call.message.generation_id_or_member_epoch < 3
        part = response.OffsetCommitResponsePartition(partition_index=0, error_code=code if refused else 0)
        topic_id = call.message.topics[0].topic_id
        return response(topics=[response.OffsetCommitResponseTopic(name="t", topic_id=topic_id, partitions=[part])])

    world.on("FindCoordinator", find)
    world.on("OffsetCommit", refuse)
    commit(world, offsets, {("t", 0): 5})
    assert member.refused == [(code, 2)]
    sent = [call.message.generation_id_or_member_epoch for call in world.made("OffsetCommit")]
    assert sent == [2, 3]


def test_a_member_whose_instance_id_has_another_member_ends(world: World) -> None:
    offsets = make(world)
    member = offsets.member = Rejoining()
    world.set_group_error(ErrorCode.FENCED_INSTANCE_ID)
    with pytest.raises(BrokerError, match="FENCED_INSTANCE_ID"):
        commit(world, offsets, {("t", 0): 5})
    assert member.refused == []


@pytest.mark.parametrize("work", ["fetch", "commit"])
def test_a_group_that_keeps_no_offsets_is_an_error(world: World, work: str) -> None:
    world.set_group_error(69)
    with pytest.raises(BrokerError, match=r"GROUP_ID_NOT_FOUND.*a group without offsets.*t-0 of group 'g'"):
        if work == "fetch":
            fetch(world, make(world), [("t", 0)])
        else:
            commit(world, make(world), {("t", 0): 5})


@pytest.mark.parametrize("code", [12, 28, 29])
def test_an_error_of_one_partition_names_it_alone_and_the_others_are_committed(world: World, code: int) -> None:
    world.offset_errors["t", 1] = code
    with pytest.raises(BrokerError, match=r"\[committing t-1 of group 'g'\]") as caught:
        commit(world, make(world), {("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    assert caught.value.code == code
    assert set(world.committed["g"]) == {("t", 0), ("u", 0)}


def test_an_error_for_good_is_raised_before_one_that_may_pass(world: World) -> None:
    world.offset_errors = {("t", 0): ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ("t", 1): 29}
    with pytest.raises(BrokerError, match=r"TOPIC_AUTHORIZATION_FAILED.*\[fetching the offsets t-1 of"):
        fetch(world, make(world), [("t", 0), ("t", 1)])


def test_many_partitions_are_not_all_named() -> None:
    with World() as world:
        world.create_topic("t", partitions=9)
        world.set_group_error(30)
        with pytest.raises(BrokerError, match=r"t-0, t-1, t-2, t-3 and 5 more of group 'g'"):
            commit(world, make(world), {("t", number): 1 for number in range(9)})


@pytest.mark.parametrize("offset", [-1, 1 << 63])
def test_an_impossible_offset_is_refused_here(world: World, offset: int) -> None:
    with pytest.raises(ConfigError, match=rf"t-0 is {offset}: it must be >= 0"):
        commit(world, make(world), {("t", 0): offset})
    assert not world.calls


def test_only_failed_partitions_are_retried(world: World) -> None:
    async def heal(work: Any) -> None:
        task = asyncio.ensure_future(work)
        await asyncio.sleep(1)
        world.offset_errors.clear()
        await task

    world.offset_errors["t", 1] = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
    world.run(heal(make(world).commit({("t", 0): OffsetToCommit(1), ("t", 1): OffsetToCommit(2)})))
    asked = [
        [p.partition_index for topic in call.message.topics for p in topic.partitions]
        for call in world.made("OffsetCommit")
    ]
    assert asked[0] == [0, 1]
    assert all(each == [1] for each in asked[1:])
    assert world.committed["g"]["t", 1][:3] == (2, -1, "")


# -- topics that are not there


@pytest.mark.parametrize("versions", [9, 10])
def test_a_topic_made_a_moment_ago_is_waited_for(world: World, versions: int) -> None:
    for node in world.nodes.values():
        node.versions["OffsetCommit"] = (2, versions)
    codes = iter([100 if versions == 10 else 3] * 2)

    def lag(call: Call) -> Response:
        code = next(codes, 0)
        if not code:
            return None
        response = protocol.OffsetCommitResponse
        return response(
            topics=[
                response.OffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        response.OffsetCommitResponsePartition(partition_index=p.partition_index, error_code=code)
                        for p in topic.partitions
                    ],
                )
                for topic in call.message.topics
            ]
        )

    world.on("OffsetCommit", lag)
    commit(world, make(world), {("t", 0): 5})
    assert len(world.made("OffsetCommit")) == 3


@pytest.mark.parametrize("versions", [9, 10])
@pytest.mark.parametrize("where", [("nope", 0), ("t", 7)])
def test_a_commit_for_a_missing_partition_is_refused_soon(world: World, where: Where, versions: int) -> None:
    for node in world.nodes.values():
        node.versions["OffsetCommit"] = (2, versions)
    started = world.engine.now_ms()
    with pytest.raises(BrokerError, match="UNKNOWN_TOPIC_OR_PARTITION.*" + where[0]):
        commit(world, make(world), {("t", 0): 5, where: 6})
    assert world.engine.now_ms() - started < 5_000


def test_a_topic_that_was_made_again_is_not_given_the_old_ones_offsets(world: World) -> None:
    offsets = make(world)
    commit(world, offsets, {("t", 0): 5})
    world.committed.clear()
    world.topics["t"].topic_id = uuid.uuid4()
    with pytest.raises(KafkaError, match=r"topic 't' was deleted and recreated.*group 'g' belong to the old one"):
        commit(world, offsets, {("t", 0): 6})
    assert not world.committed


def test_the_offsets_of_a_topic_that_was_made_again_are_fetched_by_its_new_id(world: World) -> None:
    offsets = make(world)
    fetch(world, offsets, [("t", 0)])
    world.topics["t"].topic_id = uuid.uuid4()
    world.committed["g"]["t", 0] = Kept(1, -1, "")
    assert fetch(world, offsets, [("t", 0)]) == {("t", 0): Committed(1, -1, "")}


# -- partitions that go


def test_a_partition_that_goes_while_its_topic_id_is_looked_up_is_not_committed(world: World) -> None:
    def was_looked_up() -> bool:
        return any(topic.name == "t" for call in world.made("Metadata") for topic in call.message.topics or ())

    def is_owned(where: tuple[str, int]) -> bool:
        return where == ("u", 0) or not was_looked_up()

    wanted = {("t", 0): OffsetToCommit(5), ("u", 0): OffsetToCommit(6)}
    with pytest.raises(CommitFailedError) as raised:
        world.run(make(world).commit(wanted, is_owned=is_owned))
    assert was_looked_up()
    assert raised.value.partitions == (("t", 0),)
    assert world.committed["g"].keys() == {("u", 0)}


# -- open transactions (KIP-447)


def test_stable_offsets_are_asked_for_and_the_transaction_is_waited_for(world: World) -> None:
    async def end(work: Any) -> Any:
        task = asyncio.ensure_future(work)
        await asyncio.sleep(20)
        pending.end_transaction(1, pending.place_of("g")[1], commit=True)
        return await task

    pending: OffsetStore = world.state.part(OffsetStore)
    pending.add_pending("g", 1, 0, ("t", 0), Kept(8, -1, ""))
    found = world.run(end(make(world).fetch([("t", 0), ("t", 1)])))
    assert found == {("t", 0): Committed(8, -1, ""), ("t", 1): None}
    asked = world.made("OffsetFetch")
    assert all(call.message.require_stable for call in asked)
    assert 20 <= len(asked) <= 30  # with exponential backoff up to a second


def test_a_transaction_that_does_not_end_is_an_error_in_time(world: World) -> None:
    world.state.part(OffsetStore).add_pending("g", 1, 0, ("t", 0), Kept(8, -1, ""))
    with pytest.raises(KafkaTimeoutError, match=r"within 5 s: UNSTABLE_OFFSET_COMMIT .*t-0 of group 'g'"):
        fetch(world, make(world, default_api_timeout_ms=5_000), [("t", 0)])


def test_an_old_broker_that_cannot_be_asked_for_stable_offsets_is_an_error(world: World) -> None:
    for node in world.nodes.values():
        node.versions["OffsetFetch"] = (1, 6)
    with pytest.raises(ProtocolError, match="no common version of OffsetFetchRequest"):
        fetch(world, make(world), [("t", 0)])


# -- order


def test_a_later_commit_never_loses_to_an_earlier_ones_retry(world: World) -> None:
    async def two(offsets: GroupOffsets) -> None:
        first = asyncio.ensure_future(offsets.commit({("t", 0): OffsetToCommit(1), ("t", 1): OffsetToCommit(1)}))
        await asyncio.sleep(0.5)
        second = asyncio.ensure_future(offsets.commit({("t", 0): OffsetToCommit(2)}))
        await asyncio.sleep(0.5)
        world.offset_errors.clear()
        await asyncio.gather(first, second)

    world.offset_errors = {("t", 0): ErrorCode.COORDINATOR_LOAD_IN_PROGRESS}
    world.run(two(make(world)))
    assert {where: kept[:3] for where, kept in world.committed["g"].items()} == {
        ("t", 0): (2, -1, ""),
        ("t", 1): (1, -1, ""),
    }


def test_commits_at_once_are_made_in_the_order_of_their_calls(world: World) -> None:
    async def many(offsets: GroupOffsets) -> None:
        await asyncio.gather(*(offsets.commit({("t", 0): OffsetToCommit(number)}) for number in range(20)))

    world.run(many(make(world)))
    sent = [call.message.topics[0].partitions[0].committed_offset for call in world.made("OffsetCommit")]
    assert sent == list(range(20))


def test_a_cancelled_commit_makes_way_for_the_next(world: World) -> None:
    async def cancelled(offsets: GroupOffsets) -> None:
        first = asyncio.ensure_future(offsets.commit({("t", 0): OffsetToCommit(1)}))
        await asyncio.sleep(1)
        first.cancel()
        with pytest.raises(asyncio.CancelledError):
            await first
        world.set_group_error(0)
        await offsets.commit({("t", 0): OffsetToCommit(2)})

    world.set_group_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.run(cancelled(make(world)))
    assert world.committed["g"]["t", 0][:3] == (2, -1, "")


def test_a_commit_that_cannot_begin_in_time_says_so(world: World) -> None:
    async def two(offsets: GroupOffsets) -> None:
        first = asyncio.ensure_future(offsets.commit({("t", 0): OffsetToCommit(1)}))
        await asyncio.sleep(1)
        with pytest.raises(KafkaTimeoutError, match=r"t-1 of group 'g' did not begin within 0\.5 s"):
            await offsets.commit({("t", 1): OffsetToCommit(2)}, timeout_ms=500)
        world.set_group_error(0)
        await first

    world.set_group_error(ErrorCode.COORDINATOR_LOAD_IN_PROGRESS)
    world.run(two(make(world)))


def trouble(world: World) -> None:
    """One thing that goes wrong, or heals."""
    where = ("t", random.randrange(3))
    kind = random.randrange(8)
    if kind == 0:
        world.offset_errors[where] = random.choice(
            [3, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
        )
    elif kind == 1:
        world.set_group_error(
            random.choice(
                [ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE, ErrorCode.NOT_COORDINATOR]
            )
        )
    elif kind == 2:
        world.move_coordinator("g", random.choice(list(world.nodes)))
    elif kind == 3:
        world.break_connections(random.choice(list(world.nodes)))
    elif kind == 4:
        lost = random.choice(["FindCoordinator", "OffsetCommit"])
        responses = iter(random.choices([HANGUP, NEVER, None], k=random.randrange(1, 4)))
        world.on(lost, lambda _: next(responses, None))
    elif kind == 5:
        world.set_finding_error(
            random.choice([ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, ErrorCode.COORDINATOR_NOT_AVAILABLE])
        )
    else:
        world.offset_errors.clear()
        world.set_group_error(0)
        world.set_finding_error(0)


@pytest.mark.parametrize("part", range(10))
def test_whatever_goes_wrong_no_commit_is_undone_by_one_before_it(part: int) -> None:
    """Offsets rise from call to call; so they rise at the coordinator, and none that was acknowledged is lost."""

    async def play(world: World, offsets: GroupOffsets) -> None:
        pending: list[tuple[dict[Where, int], asyncio.Task[None]]] = []
        for number in range(1, 40):
            for _ in range(random.randrange(3)):
                trouble(world)
            asked = {("t", each): number for each in random.sample(range(3), random.randrange(1, 4))}
            work = offsets.commit({where: OffsetToCommit(value) for where, value in asked.items()})
            pending.append((asked, asyncio.ensure_future(work)))
            if random.random() < 0.2:
                random.choice(pending)[1].cancel()
            await asyncio.sleep(random.choice([0, 0.0005, 0.001, 0.01, 0.3, 2]))
        world.offset_errors.clear()
        world.set_group_error(0)
        world.set_finding_error(0)
        world.off("FindCoordinator")
        world.off("OffsetCommit")
        final = {("t", each): 100 for each in range(3)}
        await offsets.commit({where: OffsetToCommit(value) for where, value in final.items()})
        for asked, task in pending:
            await asyncio.wait([task])
            if task.cancelled() or task.exception() is not None:
                continue
            for where, value in asked.items():
                assert value in world.history[where], f"{where}: {value} was acknowledged and is not there"

    for _ in range(10):
        with World(brokers=3) as world:
            world.create_topic("t", partitions=3)
            world.run(play(world, make(world, request_timeout_ms=1_000, default_api_timeout_ms=20_000)))
            for where, history in world.history.items():
                assert history == sorted(history), f"{where}: {history}"
                assert world.committed["g"][where][0] == 100


# -- responses that do not match their request


def leave_out(api: str) -> Callable[[Call], Response]:
    def respond(call: Call) -> Response:
        if api == "FindCoordinator":
            return protocol.FindCoordinatorResponse(coordinators=[])
        if api == "OffsetCommit":
            return protocol.OffsetCommitResponse(topics=[])
        if api == "OffsetFetch":
            return protocol.OffsetFetchResponse(groups=[])
        response = protocol.OffsetFetchResponse
        return response(groups=[response.OffsetFetchResponseGroup(group_id="g", topics=[])])

    return respond


@pytest.mark.parametrize("api", ["FindCoordinator", "OffsetCommit", "OffsetFetch", "OffsetFetch topics"])
def test_a_response_without_a_requested_part_is_an_error(world: World, api: str) -> None:
    world.on(api.removesuffix(" topics"), leave_out(api))
    with pytest.raises(ProtocolError, match=r"sent a response.* without"):
        if api == "OffsetCommit":
            commit(world, make(world), {("t", 0): 5})
        else:
            fetch(world, make(world), [("t", 0)])


@pytest.mark.parametrize("error_code", [ErrorCode.NONE, ErrorCode.GROUP_AUTHORIZATION_FAILED])
def test_unrequested_partitions_of_a_response_are_ignored(world: World, error_code: int) -> None:
    """A damaged byte of a topic id or of a partition's number makes such a response."""
    offsets = make(world)
    commit(world, offsets, {("t", 0): 5})

    def more_offsets(call: Call) -> Response:
        response = protocol.OffsetFetchResponse
        found = [
            response.OffsetFetchResponsePartitions(partition_index=number, committed_offset=5, error_code=code)
            for number, code in ((0, ErrorCode.NONE), (7, error_code))
        ]
        topics = call.message.groups[0].topics
        other = uuid.UUID(int=9)
        named = [
            response.OffsetFetchResponseTopics(name=topics[0].name, topic_id=topics[0].topic_id, partitions=found),
            response.OffsetFetchResponseTopics(name="other", topic_id=other, partitions=found[1:]),
        ]
        return response(groups=[response.OffsetFetchResponseGroup(group_id="g", topics=named)])

    def more_commits(call: Call) -> Response:
        response = protocol.OffsetCommitResponse
        (topic,) = call.message.topics
        done = [
            response.OffsetCommitResponsePartition(partition_index=number, error_code=code)
            for number, code in ((0, ErrorCode.NONE), (7, error_code))
        ]
        return response(
            topics=[response.OffsetCommitResponseTopic(name=topic.name, topic_id=topic.topic_id, partitions=done)]
        )

    world.on("OffsetFetch", more_offsets)
    assert fetch(world, offsets, [("t", 0)]) == {("t", 0): Committed(5, -1, "")}
    found, failed = world.run(offsets.fetch_available([("t", 0)], {}, patience_ms=1_000))
    assert (set(found), failed) == ({("t", 0)}, {})
    world.on("OffsetCommit", more_commits)
    commit(world, offsets, {("t", 0): 6})


@pytest.mark.parametrize("lagging", ["nothing", "metadata", "coordinator"])
def test_a_coordinator_at_another_address_is_found(world: World, lagging: str) -> None:
    """Nothing is read from that broker or written to it, so no other news come that it has moved."""
    world.move_coordinator("g", 3)
    offsets = make(world)
    commit(world, offsets, {("t", 0): 1})
    old = world.nodes[3].host
    world.nodes[3].host = "10.0.9.9"
    world.break_connections(3)
    until_ms = world.engine.now_ms() + 2_000

    def lags(call: Call) -> Response:
        if call.name == "Metadata" if lagging == "metadata" else world.engine.now_ms() < until_ms:
            response = world.serve(call)
            for found in response.brokers if call.name == "Metadata" else response.coordinators:
                if found.node_id == 3:
                    found.host = old
            return response
        return None

    if lagging != "nothing":
        world.on("Metadata" if lagging == "metadata" else "FindCoordinator", lags)
    started = world.engine.now_ms()
    commit(world, offsets, {("t", 0): 2})
    assert world.engine.now_ms() - started < (2_000 if lagging == "nothing" else 5_000)
    assert fetch(world, offsets, [("t", 0)])["t", 0] == Committed(2, -1, "")


@pytest.mark.parametrize(
    ("code", "api", "words"),
    [
        (ErrorCode.GROUP_ID_NOT_FOUND, "OffsetCommit", "a group without offsets has this id"),
        (ErrorCode.GROUP_ID_NOT_FOUND, "OffsetFetch", "a group without offsets has this id"),
        (ErrorCode.UNKNOWN_MEMBER_ID, "OffsetCommit", "the group has members, and only they may commit"),
        (ErrorCode.OFFSET_METADATA_TOO_LARGE, "OffsetCommit", ErrorCode.OFFSET_METADATA_TOO_LARGE.message),
    ],
)
def test_a_hint_on_the_group_stands_behind_its_condition(code: ErrorCode, api: str, words: str) -> None:
    offsets: Any = object.__new__(GroupOffsets)
    offsets.group_id, offsets.member = "g", None
    assert words in offsets._explained(code, api, [("t", 0)], None).message
