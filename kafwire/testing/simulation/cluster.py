"""A simulated world whose brokers are the embedded broker's: its state, driven by a simulated network and clock.

    with ClusterWorld(brokers=3, seed=7) as world:
        world.state.topics.create("flights", partitions=3, replicas=3)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("flights", b"EWR-IAH").result(10)

The same state is driven by sockets in `EmbeddedKafka`. One seed decides everything.
"""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.errors import ErrorCode
from kafwire.testing.broker import request as broker
from kafwire.testing.broker.api.fetch import FetchSessions
from kafwire.testing.broker.frames import read_request
from kafwire.testing.broker.request import Request
from kafwire.testing.broker.state import ClusterState
from kafwire.testing.simulation.clock import WALL_S
from kafwire.testing.simulation.kafka import HANGUP
from kafwire.testing.simulation.links import Link
from kafwire.testing.simulation.network import Answered, BaseNode, Connection
from kafwire.testing.simulation.world import BaseWorld

if TYPE_CHECKING:
    from asyncio import TimerHandle

LISTENER = "PLAINTEXT"
PORT = 9092
_NO_ANSWER = b""


class ClusterNode:
    """One broker of the state, at its address in the simulated network."""

    def __init__(self, world: ClusterWorld, number: int) -> None:
        self._world = world
        self.number = number
        self.host, self.port = f"10.0.0.{number}", PORT
        self.silent = False
        self._connections: dict[Connection, broker.Connection] = {}
        self._asked: dict[Connection, Request] = {}

    @property
    def down(self) -> bool:
        """Whether nobody is there."""
        return not self._world.state.nodes[self.number].is_up

    def receive(self, connection: Connection, data: bytes, answered: Answered) -> None:
        """See `BaseNode`."""
        known = self._connections.get(connection)
        if known is None:
            known = self._connections[connection] = self._world.state.connect(self.number, LISTENER, "10.1.0.1")
        request = self._asked[connection] = read_request(known, data)
        self._world.ask(request, answered)

    def disconnected(self, connection: Connection) -> None:
        """See `BaseNode`."""
        asked = self._asked.pop(connection, None)
        if asked is not None:
            self._world.forget(asked)
        known = self._connections.pop(connection, None)
        if known is not None:
            self._world.state.disconnect(known)


class ClusterWorld(BaseWorld):
    """A cluster, the network to it and the time that both live in.

    Args:
        brokers: how many.
        seed: decides all that is left to chance, on both sides.
        configs: options of brokers, by Kafka's names.
    """

    def __init__(self, *, brokers: int = 1, seed: int = 0, configs: Mapping[str, str] | None = None) -> None:
        super().__init__(seed=seed)
        self.state = ClusterState(range(1, brokers + 1), configs=configs, seed=seed, wall_ms=WALL_S * 1000.0)
        self.nodes: dict[int, ClusterNode] = {n: ClusterNode(self, n) for n in range(1, brokers + 1)}
        for node in self.nodes.values():
            self.state.nodes[node.number].addresses[LISTENER] = node.host, node.port
        self.calm_since_s = 0.0  # no fault has begun or ended since then, and none goes on
        self.reachable_since_s = 0.0  # the same of faults of brokers and of the network
        self.throttles: dict[int, int] = {}  # by broker: the throttle time that its answers tell, in ms
        self._asked: dict[Request, Answered] = {}
        self._due: TimerHandle | None = None
        self._moves = itertools.count(1)
        self._stale: dict[int, Any] = {}  # by broker: what it answers Metadata with, as it lags
        self._denying: set[int] = set()  # lagging brokers that deny what they have not heard of
        self.state.interceptors.append(self._answer_stale)

    def listening(self) -> Mapping[int, BaseNode]:
        """See `BaseWorld`."""
        return self.nodes

    @property
    def links(self) -> dict[int, Link]:
        """The network to each broker."""
        return {number: self.link(number) for number in self.nodes}

    # --- requests

    def ask(self, request: Request, answered: Answered) -> None:
        """Have a request answered by the state, now or later."""
        self._asked[request] = answered
        self.state.receive(request, self.loop.time() * 1000.0)
        self._take()

    def forget(self, request: Request) -> None:
        """Nobody waits for this answer any more."""
        self._asked.pop(request, None)

    def in_flight(self) -> list[Request]:
        """The requests that wait for their answers."""
        return list(self._asked)

    def _take(self) -> None:
        """Give out the answers that there are."""
        # What is answered may ask for more.
        while replies := self.state.take_replies():
            for request, answer in replies:
                answered = self._asked.pop(request, None)
                if answered is not None:
                    answered(request, self._as_sent(request, answer))
        self._arrange()

    def _as_sent(self, request: Request, answer: Any) -> Any:
        if answer is broker.HANG_UP:
            return HANGUP
        if answer is broker.NO_ANSWER:
            return _NO_ANSWER
        throttle_ms = self.throttles.get(request.node, 0)
        kind: Any = type(answer)
        if throttle_ms and _tells_throttle(kind, request.version):
            answer.throttle_time_ms = throttle_ms
        return answer

    def _arrange(self) -> None:
        due_ms = self.state.next_due_ms
        if self._due is not None:
            self._due.cancel()
            self._due = None
        if due_ms is not None:
            self._due = self.loop.call_at(due_ms / 1000.0, self._advance)

    def _advance(self) -> None:
        self._due = None
        self.state.advance(self.loop.time() * 1000.0 + 1e-6)
        self._take()

    def changed(self) -> None:
        """The state was changed from outside: answers that are due by that are given."""
        self.state.advance(self.loop.time() * 1000.0)
        self._take()

    # --- brokers

    def kill(self, node: int, *, clean: bool = False) -> None:
        """A broker ends, in order or not; others lead what it led. Its connections are reset."""
        self.changed()
        self.state.part(FetchSessions).of(node).sessions.clear()
        self.state.stop(node, clean=clean)
        self.break_connections(node)
        self.changed()

    def revive(self, node: int) -> None:
        """A broker is back."""
        self.state.start(node)
        self.changed()

    def move_broker(self, node: int) -> None:
        """A broker listens at another address from now on; connections to the old one end."""
        self.nodes[node].host = f"10.0.{next(self._moves)}.{node}"
        self.state.nodes[node].addresses[LISTENER] = self.nodes[node].host, self.nodes[node].port
        self.break_connections(node)

    def lag(self, node: int, *, denies: bool = False) -> None:
        """From now on `node` answers Metadata with what is so now, until `catch_up`.

        `denies`: the broker answers that a newer topic does not exist; else it learns of a topic when asked for it.
        """
        if denies:
            self._denying.add(node)
        asked = Request(self.state.connect(node, LISTENER), protocol.MetadataRequest(topics=None), 13)
        self._asked[asked] = lambda _, answer: self._stale.__setitem__(node, answer)
        self.state.receive(asked, self.loop.time() * 1000.0)
        self._take()

    def catch_up(self, node: int) -> None:
        """A broker's metadata lag no more."""
        self._stale.pop(node, None)
        self._denying.discard(node)

    def _answer_stale(self, request: Request) -> Any:
        known = self._stale.get(request.node) if request.name == "Metadata" else None
        if known is None:
            return None
        response = protocol.MetadataResponse
        answer = response(
            brokers=known.brokers, cluster_id=known.cluster_id, controller_id=known.controller_id, topics=known.topics
        )
        if request.message.topics is not None:
            wanted = {topic.name or topic.topic_id for topic in request.message.topics}
            answer.topics = [topic for topic in known.topics if topic.name in wanted or topic.topic_id in wanted]
            if len(answer.topics) < len(wanted) and request.node not in self._denying:
                return None  # it has heard of what it is asked for only now
            found = {each for topic in answer.topics for each in (topic.name, topic.topic_id)}
            answer.topics += [_unknown(each) for each in wanted if each not in found]
        return answer


def _unknown(topic: str | uuid.UUID) -> Any:
    """The Metadata response's part for a topic that a broker has not heard of."""
    part = protocol.MetadataResponse.MetadataResponseTopic
    if isinstance(topic, str):
        return part(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=topic)
    return part(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic)


@functools.cache
def _tells_throttle(kind: Any, version: int) -> bool:
    """Whether an answer of this version has room for a throttle time; a client cannot heed what it is not told."""
    return any(
        field.name == "throttle_time_ms" and version in field.versions for field in getattr(kind, "__fields__", ())
    )
