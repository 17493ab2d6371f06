"""A simulated world: its clock and connections, in one thread, without sockets or waiting.

The loop's clock jumps to the next timer when nothing else can happen. The loop raises `Stuck` when nothing ever can
again, so a hang is a failure at once. `cluster.py` has the brokers, `scripted.py` the handlers of tests. A connection
serves its requests one after the other, as a broker's does. A client that sends before the `throttle_time_ms` of a
response has passed fails the test (KIP-219): a broker that mutes the connection would hide this.
"""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from dataclasses import dataclass
from types import TracebackType
from typing import Any, ParamSpec, Self, TypeVar

from kafwire.cluster.broker_connection import host_and_port
from kafwire.errors import FORKED, KafkaError
from kafwire.runtime.callbacks import InlineCallbacks
from kafwire.runtime.foreign_loop import outcome_of
from kafwire.runtime.interfaces import Receiver, SocketAddress
from kafwire.runtime.reports import InlineReports
from kafwire.testing.simulation.clock import SimulatedClock, SimulatedLoop, SimulatedWaiter
from kafwire.testing.simulation.conduct.conduct import Conduct
from kafwire.testing.simulation.links import Link
from kafwire.testing.simulation.network import (
    BaseNode,
    OnResponse,
    SimulatedConnection,
    SimulatedResolver,
    SimulatedTransport,
)

T = TypeVar("T")
P = ParamSpec("P")


class SimulatedEngine:
    """An engine on the world's loop. `forked`: its clients are older than a fork; `ended`: the interpreter ends."""

    def __init__(self, world: BaseWorld, seed: int) -> None:
        self._world = world
        self.clock = SimulatedClock(world.loop)
        self.random = random.Random(seed)
        self.resolver = SimulatedResolver()
        self.transport = SimulatedTransport(world)
        self.waiter = SimulatedWaiter(world.loop)
        self.callbacks = InlineCallbacks()
        self.reports = InlineReports()
        self.members: list[object] = []
        self.forked = self.ended = False

    def in_thread(self, name: str, function: Callable[..., T], *args: object) -> asyncio.Future[T]:
        """See `Engine`."""
        del name
        return self._world.loop.run_in_executor(None, function, *args)

    def in_loop(self, function: Callable[[], Awaitable[Any]]) -> asyncio.Future[tuple[Any, BaseException | None]]:
        """See `Engine`."""
        return asyncio.ensure_future(outcome_of(function))

    def expect(self, call: object) -> None:
        """See `Engine`. A world ends with its test, so this does nothing."""

    def forget(self, call: object) -> None:
        """See `Engine`."""

    def join(self, member: object) -> None:
        """See `Engine`."""
        self.members.append(member)

    def start(self, function: Callable[..., object], *args: object) -> bool:
        """See `Engine`."""
        if self._world.loop.is_closed():
            return False
        self._world.loop.call_soon(function, *args)
        return True

    def now_ms(self) -> float:
        """See `Engine`."""
        return self._world.loop.time() * 1000.0

    @property
    def is_foreign(self) -> bool:
        """See `Engine`."""
        return self.forked

    @property
    def is_over(self) -> bool:
        """See `Engine`."""
        return self.forked or self.ended

    def check_process(self) -> None:
        """See `Engine`."""
        if self.forked:
            raise KafkaError(FORKED)

    def check_caller(self) -> None:
        """See `Engine`."""
        self.check_process()
        if self.ended:
            raise KafkaError("the interpreter is ending")
        if self.callbacks.is_current:
            raise KafkaError("a blocking call was made from a delivery callback: hand the work to another thread")

    def run(self, function: Callable[P, Coroutine[Any, Any, T]], /, *args: P.args, **kwargs: P.kwargs) -> T:
        """See `Engine`."""
        self.check_caller()
        return self._world.run(function(*args, **kwargs))


class BaseWorld:
    """An event loop for everything, and the network between clients and brokers. Subclasses supply the brokers.

    `nodes`: the brokers, by their ids.
    """

    nodes: Mapping[int, BaseNode]

    def __init__(self, *, seed: int = 0) -> None:
        self.seed = seed
        self.loop = SimulatedLoop(lambda: self.engine.transport.poll())  # noqa: PLW0108 - the engine is made later
        self.engine = SimulatedEngine(self, seed)
        self.connections: list[SimulatedConnection] = []
        self.conduct: Conduct | None = None  # judges all requests of clients
        # Delay until the engine looks at data that the I/O thread received.
        self.engine_lag_s: Callable[[], float] = lambda: 0.0
        self._links: dict[int, Link] = {}
        self._held: dict[int, list[Callable[[], None]]] = {}

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._end_tasks())
        self.loop.close()
        if error is None:
            assert not self.loop.problems, self.loop.problems
            if self.loop.broken is not None:
                raise self.loop.broken

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers of clients: all brokers."""
        return ",".join(host_and_port(node.host, node.port) for node in self.nodes.values())

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` to its end; an error in a broker ends it at once."""
        try:
            return self.loop.run_until_complete(coroutine)
        except RuntimeError:
            if self.loop.broken is None:
                raise
            raise self.loop.broken from None

    def fail(self, error: Exception) -> None:
        """Stop the loop with a broker's error: its handler's assertion fails the test."""
        self.loop.broken = error
        self.loop.stop()

    async def _end_tasks(self) -> None:
        # Some tasks start others as they end.
        while tasks := asyncio.all_tasks() - {asyncio.current_task()}:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    def pass_time(self, seconds: float) -> None:
        """Let this much time pass."""
        self.run(asyncio.sleep(seconds))

    def connect(self, address: SocketAddress, receiver: Receiver, max_frame: int) -> SimulatedConnection:
        """Connect a client to that address."""
        where = (address[0], address[1])
        node = next((n for n in self.nodes.values() if (n.host, n.port) == where), None)
        connection = SimulatedConnection(self, node or NoBroker(*where), len(self.connections), receiver, max_frame)
        self.connections.append(connection)
        return connection

    def break_connections(self, node: int) -> None:
        """Reset every connection to `node`."""
        for connection in self.connections:
            if connection.node.number == node:
                connection.break_off()

    # --- the network

    def link(self, node: int) -> Link:
        """Return the network to a broker; an address without a broker has a network by itself."""
        return self._links.setdefault(node, Link()) if node >= 0 else Link()

    def when_released(self, node: int, callback: Callable[[], None]) -> None:
        """Schedule `callback` for the next `deliver_held` of that broker."""
        waiting = self._held.setdefault(node, [])
        if callback not in waiting:
            waiting.append(callback)

    def deliver_held(self, node: int) -> None:
        """Let held bytes go on, unless the network still holds them."""
        for callback in self._held.pop(node, []):
            self.loop.call_soon(callback)

    def deaden_connections(self, node: int) -> None:
        """Make all connections to a broker half open: sent bytes vanish, and neither end gets an error."""
        for connection in self.connections:
            if connection.node.number == node and not connection.closed:
                connection.is_dead = True


@dataclass
class NoBroker:
    """An address without a broker."""

    host: str
    port: int
    number: int = -1
    down: bool = True
    silent: bool = False

    def receive(self, connection: SimulatedConnection, data: bytes, on_response: OnResponse) -> None:  # noqa: ARG002
        """Raise an AssertionError, as this address has no broker."""
        raise AssertionError(f"no broker listens at {self.host}")

    def disconnected(self, connection: SimulatedConnection) -> None:
        """Do nothing."""
