"""`consumer/fetch/response_parts.py`: the actions that the verdicts on a response's partitions require."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from kafwire.consumer.fetch.actions import Fail, Finish, Halt, LeaveReplica, Lose, Move, ResetPosition, Truncate
from kafwire.consumer.fetch.cursor import NO_END
from kafwire.consumer.fetch.errors import FetchDisposition
from kafwire.consumer.fetch.response_parts import PartActions, ends_of_empty
from kafwire.consumer.fetch.truncation import Divergence
from kafwire.errors import BrokerError
from tests.support.simulated.consumer import Consuming, fill
from tests.support.simulated.world import World


@dataclass
class Part:
    error_code: int = 0
    preferred_read_replica: int = -1
    diverging_epoch: int = -1
    diverging_end_offset: int = -1
    leader_id: int = -1
    leader_epoch: int = -1
    high_watermark: int = -1
    last_stable_offset: int = -1


@dataclass
class Response:
    endpoints: tuple[()] = ()


def note(actions: PartActions, verdict: FetchDisposition, part: Any, cursor: Any) -> Any:
    response: Any = Response()
    return actions.note(verdict, part, cursor, response)


def test_a_verdict_on_one_cursor_is_an_action_of_its_own() -> None:
    with World() as world:
        fill(world, "t")
        with Consuming(world, topics="t") as consuming:
            cursor, actions = consuming.cursor(), PartActions(consuming.fetcher.context, "broker 1")
            assert note(actions, FetchDisposition.DOUBT, Part(), cursor) == LeaveReplica(cursor, doubt=True)
            assert note(actions, FetchDisposition.TRUNCATED, Part(0, -1, 3, 7), cursor) == Truncate(
                cursor, Divergence(3, 7), "broker 1"
            )
            assert note(actions, FetchDisposition.OUT_OF_RANGE, Part(1), cursor) == ResetPosition(cursor, "broker 1")
            failed = note(actions, FetchDisposition.FAILED, Part(29), cursor)
            assert isinstance(failed, Halt)
            assert isinstance(failed.error, BrokerError)
            assert (failed.cursor, failed.error.code) == (cursor, 29)
            assert f"fetching t-0 at offset {cursor.position} from broker 1" in str(failed.error)
            assert actions.moves() == []


def test_moves_come_together_and_in_order() -> None:
    """Lost cursors by their error, then the moves, then those that return from a replica."""
    with World(brokers=2) as world:
        fill(world, "t", partitions=6)
        with Consuming(world, topics="t") as consuming:
            a, b, c, d, e, f = (consuming.cursor(number=number) for number in range(6))
            actions = PartActions(consuming.fetcher.context, "broker 1")
            metadata = consuming.cluster.metadata
            epoch = metadata.leader_epoch("t", 3)
            assert note(actions, FetchDisposition.FOLLOW, Part(preferred_read_replica=99), a) is None
            assert note(actions, FetchDisposition.RETURN, Part(6), b) is None
            assert note(actions, FetchDisposition.FOLLOW, Part(preferred_read_replica=2), c) is None
            assert note(actions, FetchDisposition.FIND_LEADER, Part(6, leader_id=2, leader_epoch=epoch + 1), d) is None
            assert note(actions, FetchDisposition.FIND_LEADER, Part(6), e) is None
            assert note(actions, FetchDisposition.FIND_LEADER, Part(-1), f) is None
            assert metadata.leader("t", 3) == 2, "the response's hint is applied (KIP-951)"
            lost, unknown, *rest = actions.moves()
            assert isinstance(lost, Lose)
            assert isinstance(unknown, Lose)
            assert (lost.cursors, unknown.cursors) == ([e], [f])
            assert rest == [Move([c, d]), LeaveReplica(b), LeaveReplica(a, unknown=True)]
            assert (c.replica, a.replica, e.warned, f.warned) == (2, 99, False, True)
            c.replica = a.replica = -1


def test_a_response_without_records_finishes_partitions_up_to_their_end() -> None:
    """Records of the others may come late, or never: then the read fails."""
    with World() as world:
        fill(world, "t", partitions=5)
        with Consuming(world, topics="t", isolation_level="read_committed") as consuming:
            context = consuming.fetcher.context
            cursors = [consuming.cursor(number=number) for number in range(5)]
            for cursor in cursors:
                cursor.end = 20
            ended, behind_replica, open_transaction, unnamed, stalled = cursors
            parts: list[Any] = [
                Part(high_watermark=20, last_stable_offset=20),
                Part(high_watermark=20, last_stable_offset=20, preferred_read_replica=2),
                Part(high_watermark=20, last_stable_offset=19),
                None,
                Part(high_watermark=19, last_stable_offset=19),
            ]
            late_ms = context.config.default_api_timeout_ms + 1
            stalled.failing_since_ms = consuming.cluster.engine.now_ms() - late_ms
            finished, failed = ends_of_empty(context, list(zip(cursors, parts, strict=True)))
            assert finished == Finish(ended)
            assert isinstance(failed, Fail)
            assert "t-4 gave no records from offset" in str(failed.error)
            assert [each.ended for each in (ended, behind_replica, open_transaction, unnamed)] == [True] + 3 * [False]
            for cursor in cursors:
                cursor.end = NO_END
                cursor.failing_since_ms = None
                cursor.ended = False
