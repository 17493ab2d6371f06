"""A simulated world with the embedded broker's state, driven by a simulated network and clock.

    with ClusterWorld(brokers=3, seed=7) as world:
        world.state.topics.create("flights", partitions=3, replicas=3)
        with kafwire.Producer(world.bootstrap, engine=world.engine) as producer:
            producer.send("flights", b"EWR-IAH").result(10)

`EmbeddedKafka` drives the same state by sockets. One seed decides everything.
"""

from __future__ import annotations

import functools
import itertools
import uuid
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.broker import dispatch
from kafwire.broker import request as broker
from kafwire.broker.api.fetch import FetchSessions
from kafwire.broker.frames import read_request
from kafwire.broker.request import Request
from kafwire.broker.state import ClusterState
from kafwire.errors import ErrorCode
from kafwire.testing.simulation.calls import HANGUP
from kafwire.testing.simulation.clock import WALL_S
from kafwire.testing.simulation.links import Link
from kafwire.testing.simulation.network import OnResponse, SimulatedConnection
from kafwire.testing.simulation.world import BaseWorld

if TYPE_CHECKING:
    from asyncio import TimerHandle

LISTENER = "PLAINTEXT"
PORT = 9092
_NO_RESPONSE = b""


class ClusterNode:
    """One broker of the state, at its address in the simulated network."""

    def __init__(self, world: ClusterWorld, number: int) -> None:
        self._world = world
        self.number = number
        self.silent = False
        self._address = world.state.nodes[number].addresses
        self._address[LISTENER] = f"10.0.0.{number}", PORT
        self._connections: dict[SimulatedConnection, broker.ClientConnection] = {}
        self._asked: dict[SimulatedConnection, Request] = {}

    @property
    def host(self) -> str:
        """Its host."""
        return self._address[LISTENER][0]

    @host.setter
    def host(self, host: str) -> None:
        self._address[LISTENER] = host, self.port

    @property
    def port(self) -> int:
        """Its port."""
        return self._address[LISTENER][1]

    @port.setter
    def port(self, port: int) -> None:
        self._address[LISTENER] = self.host, port

    @property
    def down(self) -> bool:
        """True if the broker is stopped."""
        return not self._world.state.nodes[self.number].is_up

    def receive(self, connection: SimulatedConnection, data: bytes, on_response: OnResponse) -> None:
        """See `BaseNode`."""
        known = self._connections.get(connection)
        if known is None:
            known = self._connections[connection] = self._world.state.connect(self.number, LISTENER, "10.1.0.1")
            known.number = connection.number
        request = self._asked[connection] = self.read(known, data)
        self._world.ask(request, on_response)

    def read(self, connection: broker.ClientConnection, data: bytes) -> Request:
        """Decode a request."""
        return read_request(connection, data)

    def disconnected(self, connection: SimulatedConnection) -> None:
        """See `BaseNode`."""
        asked = self._asked.pop(connection, None)
        if asked is not None:
            self._world.forget(asked)
        known = self._connections.pop(connection, None)
        if known is not None:
            self._world.state.disconnect(known)


class ClusterWorld(BaseWorld):
    """A cluster, the network to it and the time of both.

    Args:
        brokers: how many.
        seed: decides every random choice, of the clients and of the brokers.
        configs: options of brokers, by Kafka's names.
    """

    node_class: type[ClusterNode] = ClusterNode

    def __init__(self, *, brokers: int = 1, seed: int = 0, configs: Mapping[str, str] | None = None) -> None:
        super().__init__(seed=seed)
        self.state = ClusterState(range(1, brokers + 1), configs=configs, seed=seed, wall_ms=WALL_S * 1000.0)
        self.nodes: dict[int, ClusterNode] = {n: self.node_class(self, n) for n in range(1, brokers + 1)}
        self.calm_since_s = 0.0  # the time since which no fault has begun, ended or lasted
        self.reachable_since_s = 0.0  # the same for faults of brokers and of the network alone
        self.throttles: dict[int, int] = {}  # by broker: the throttle time of its responses, in ms
        self.is_busy = False  # the state handles a request, whose responses `ask` delivers
        self._asked: dict[Request, OnResponse] = {}
        self._due: TimerHandle | None = None
        self._moves = itertools.count(1)
        self._stale: dict[int, Any] = {}  # by broker that lags: its stale Metadata response
        self._denying: set[int] = set()  # lagging brokers that deny topics that they do not know yet
        self.state.interceptors.append(self._respond_stale)

    @property
    def links(self) -> dict[int, Link]:
        """The network to each broker."""
        return {number: self.link(number) for number in self.nodes}

    # --- requests

    def ask(self, request: Request, on_response: OnResponse) -> None:
        """Pass a request to the state, which responds now or later."""
        self._asked[request] = on_response
        self.is_busy = True
        dispatch.receive(self.state, request, self.loop.time() * 1000.0)
        self.is_busy = False
        self._take()

    def forget(self, request: Request) -> None:
        """Drop the response to this request: its connection has ended."""
        self._asked.pop(request, None)

    def in_flight(self) -> list[Request]:
        """Return the requests without a response yet."""
        return list(self._asked)

    def _take(self) -> None:
        """Deliver the responses that are ready."""
        # A delivered response can trigger another request.
        while replies := self.state.take_replies():
            for request, response in replies:
                on_response = self._asked.pop(request, None)
                if on_response is not None:
                    on_response(request, self._as_sent(request, response))
        self._arrange()

    def _as_sent(self, request: Request, response: Any) -> Any:
        if response is broker.HANG_UP:
            return HANGUP
        if response is broker.NO_RESPONSE:
            return _NO_RESPONSE
        throttle_ms = self.throttles.get(request.node, 0)
        kind: Any = type(response)
        if throttle_ms and _tells_throttle(kind, request.version):
            response.throttle_time_ms = throttle_ms
        return response

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
        """Deliver the responses that became due by a change of the state from outside."""
        self.state.advance(self.loop.time() * 1000.0)
        self._take()

    # --- brokers

    def kill(self, node: int, *, clean: bool = False) -> None:
        """Stop a broker, cleanly or not. Its partitions get other leaders, and its connections are reset."""
        self.changed()
        self.state.part(FetchSessions).of(node).sessions.clear()
        self.state.stop(node, clean=clean)
        self.break_connections(node)
        self.changed()

    def revive(self, node: int) -> None:
        """Start a broker again."""
        self.state.start(node)
        self.changed()

    def move_broker(self, node: int) -> None:
        """Give a broker another address from now on; connections to the old one end, and the lag of its metadata."""
        self._change_address(node)
        self.break_connections(node)

    def _change_address(self, node: int) -> None:
        """Give a broker another address, and end its lag.

        A broker of Kafka registers its address, and serves clients once its metadata contain that registration
        (`BrokerServer.startup`): it never returns its own former address.
        """
        self.nodes[node].host = f"10.0.{next(self._moves)}.{node}"
        self.catch_up(node)

    def lag(self, node: int, *, denies: bool = False) -> None:
        """Freeze the Metadata response of `node` at the present state until `catch_up`.

        `denies`: the broker responds that a newer topic does not exist. Otherwise a request for a topic shows it the
        topic.
        """
        if denies:
            self._denying.add(node)
        asked = Request(self.state.connect(node, LISTENER), protocol.MetadataRequest(topics=None), 13)
        self._asked[asked] = lambda _, response: self._stale.__setitem__(node, response)
        dispatch.receive(self.state, asked, self.loop.time() * 1000.0)
        self._take()

    def catch_up(self, node: int) -> None:
        """End the lag of a broker's metadata."""
        self._stale.pop(node, None)
        self._denying.discard(node)

    def _respond_stale(self, request: Request) -> Any:
        known = self._stale.get(request.node) if request.name == "Metadata" else None
        if known is None:
            return None
        response_type = protocol.MetadataResponse
        response = response_type(
            brokers=known.brokers, cluster_id=known.cluster_id, controller_id=known.controller_id, topics=known.topics
        )
        if request.message.topics is not None:
            wanted = {topic.name or topic.topic_id for topic in request.message.topics}
            response.topics = [topic for topic in known.topics if topic.name in wanted or topic.topic_id in wanted]
            if len(response.topics) < len(wanted) and request.node not in self._denying:
                return None  # the request shows the broker a topic that it did not know
            found = {each for topic in response.topics for each in (topic.name, topic.topic_id)}
            response.topics += [_unknown(each) for each in wanted if each not in found]
        return response


def _unknown(topic: str | uuid.UUID) -> Any:
    """Return the part of a Metadata response for a topic that the broker does not know."""
    part = protocol.MetadataResponse.MetadataResponseTopic
    if isinstance(topic, str):
        return part(error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=topic)
    return part(error_code=ErrorCode.UNKNOWN_TOPIC_ID, name=None, topic_id=topic)


@functools.cache
def _tells_throttle(kind: Any, version: int) -> bool:
    """True if a response of this version has a field for a throttle time, so that a client can heed it."""
    return any(
        field.name == "throttle_time_ms" and version in field.versions for field in getattr(kind, "__fields__", ())
    )
