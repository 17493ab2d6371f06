"""A transactional producer's engine side in the simulated world, and brokers that refuse."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from kafwire import protocol
from kafwire.producer.outcome.sequencer import Identity
from kafwire.producer.transactions.manager import Transactions
from kafwire.testing.simulation.calls import HANGUP, Call, Response
from kafwire.types import ConsumerGroupMetadata, TopicPartition
from tests.support.simulated.producer import Work, committed_values, errors
from tests.support.simulated.world import World

IN = TopicPartition("in", 0)


class Transacting(Work):
    """A producer with transactional id "x"; topic "t" is known to it."""

    def __init__(self, world: World, transactional_id: str = "x", **options: Any) -> None:
        defaults = {"linger_ms": 0, "retry_backoff_ms": 10, "retry_backoff_max_ms": 100}
        super().__init__(world, "t", transactional_id=transactional_id, **defaults | options)

    @property
    def transactions(self) -> Transactions:
        found = self.core.transactions
        assert found is not None
        return found

    @property
    def identity(self) -> Identity:
        """The identity of the producer."""
        found = self.core.identity
        assert found is not None
        return found

    def initialize(self, timeout_s: float | None = None) -> None:
        self.world.run(self.transactions.initialize(timeout_s))

    def begin(self) -> None:
        self.world.run(self.transactions.begin())

    def commit(self, timeout_s: float | None = None) -> None:
        self.world.run(self.transactions.commit(timeout_s))

    def abort(self, timeout_s: float | None = None) -> None:
        self.world.run(self.transactions.abort(timeout_s))

    def send_offsets(self, offset: int, group: str = "g", timeout_s: float | None = None) -> None:
        self.world.run(self.transactions.send_offsets({IN: offset}, ConsumerGroupMetadata(group), timeout_s))

    def transact(self, *values: bytes) -> None:
        """A whole transaction."""
        self.begin()
        for value in values:
            self.send("t", value)
        self.commit()

    @property
    def seen(self) -> list[bytes | None]:
        """The committed records of "t", all partitions, once the markers are written."""
        self.world.pass_time(1)
        return [value for log in self.world.topics["t"].partitions for value in committed_values(log)]

    @property
    def offset(self) -> int | None:
        """The offset that the group has committed."""
        kept = self.world.committed["g"].get(IN)
        return None if kept is None else kept.offset


def refusal(call: Call, code: int) -> Response:
    """A response to `call` that says `code` of everything in it."""
    message = call.message
    if call.name == "Produce":
        return errors(code)(call)
    if call.name == "AddPartitionsToTxn":
        response: Any = protocol.AddPartitionsToTxnResponse
        return response(
            results_by_topic_v3_and_below=[
                response.AddPartitionsToTxnTopicResult(
                    name=topic.name,
                    results_by_partition=[
                        response.AddPartitionsToTxnPartitionResult(partition_index=index, partition_error_code=code)
                        for index in topic.partitions
                    ],
                )
                for topic in message.v3_and_below_topics
            ]
        )
    if call.name == "TxnOffsetCommit":
        response = protocol.TxnOffsetCommitResponse
        return response(
            topics=[
                response.TxnOffsetCommitResponseTopic(
                    name=topic.name,
                    topic_id=topic.topic_id,
                    partitions=[
                        response.TxnOffsetCommitResponsePartition(partition_index=part.partition_index, error_code=code)
                        for part in topic.partitions
                    ],
                )
                for topic in message.topics
            ]
        )
    if call.name == "FindCoordinator":
        response = protocol.FindCoordinatorResponse
        return response(
            coordinators=[
                response.Coordinator(key=key, node_id=-1, host="", port=-1, error_code=code)
                for key in message.coordinator_keys
            ]
        )
    return type(message).response(error_code=code)


def refuse(world: World, api: str, *codes: int, when: Callable[[Call], bool] = lambda _: True) -> list[int]:
    """The next requests of `api` get these error codes, one after the other; returns those that are left."""
    left = list(codes)
    world.on(api, lambda call: refusal(call, left.pop(0)) if left and when(call) else None)
    return left


def lose(world: World, api: str, count: int = 1) -> None:
    """The next requests of `api` are executed, and their connection breaks instead of a response."""
    left = [None] * count

    def handler(call: Call) -> Response:
        if not left:
            return None
        left.pop()
        world.serve(call)
        return HANGUP

    world.on(api, handler)
