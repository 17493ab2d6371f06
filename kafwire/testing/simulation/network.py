"""Names, addresses and connections of the simulated network: the engine's side, and a broker's end."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections import deque
from collections.abc import Callable, Hashable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from kafwire.broker.frames import write_response
from kafwire.memory._buffer import Buffer
from kafwire.runtime.interfaces import (
    Notifier,
    Receiver,
    RequestTable,
    ResponseFilter,
    SocketAddress,
    SslSource,
    StreamSource,
)
from kafwire.testing.simulation.calls import DROPPED, HANGUP, NEVER, Response
from kafwire.testing.simulation.conduct.throttling import Throttling
from kafwire.testing.simulation.links import LATENCY_S

if TYPE_CHECKING:
    from kafwire.testing.simulation.clock import SimulatedLoop
    from kafwire.testing.simulation.conduct.conduct import Conduct
    from kafwire.testing.simulation.links import Link


class SimulatedResolver:
    """Addresses resolve to themselves, and `names` to their addresses. While it `hangs`, names do not resolve."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.hangs = False

    async def resolve(self, host: str, port: int) -> list[tuple[int, SocketAddress]]:
        """See `Resolver`."""
        try:
            ipaddress.ip_address(host)
            found = [host]
        except ValueError:
            if self.hangs:
                await asyncio.get_running_loop().create_future()
            host.encode("idna")
            found = self.names.get(host, [])
        if not found:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        return [(socket.AF_INET, (address, port)) for address in found]


class _Sent(NamedTuple):
    """A request that was given to a connection."""

    token: int
    correlation_id: int
    frame: bytes
    expect_response: bool


class Network(Protocol):
    """The world of connections: its loop, its links, and the judge of all requests."""

    loop: SimulatedLoop
    conduct: Conduct | None
    engine_lag_s: Callable[[], float]

    def link(self, node: int) -> Link:
        """Return the network to a broker; an address without a broker has a network by itself."""
        ...

    def when_released(self, node: int, callback: Callable[[], None]) -> None:
        """Schedule `callback` for the time when held bytes of that broker go on."""
        ...

    def connect(self, address: SocketAddress, receiver: Receiver, max_frame: int) -> SimulatedConnection:
        """Connect a client to that address."""
        ...

    def fail(self, error: Exception) -> None:
        """Stop the loop with a broker's error."""
        ...


class SimulatedConnection:
    """One connection, its broker's end included.

    A broker serves its requests one after the other, like Kafka: it starts the next one when a response is in transit.
    Responses arrive in order too.
    """

    def __init__(self, world: Network, node: BaseNode, number: int, receiver: Receiver, max_frame: int) -> None:
        self.world = world
        self.node = node
        self.link = world.link(node.number)
        self.is_dead = False  # sent bytes vanish, and neither end gets an error
        self.number = number
        self.receiver = receiver
        self.max_frame = max_frame
        self.closed = False
        self._throttling = Throttling()
        self.requests = RequestTable()
        # The object that all connections of one client share, and no other client has.
        owner: Any = getattr(receiver, "_connection", None)
        self._client: Hashable = id(receiver) if owner is None else owner._reach
        self._response_filter: ResponseFilter | None = None
        self._is_holding = False
        self._held: list[_Sent] = []
        self._sent: deque[_Sent] = deque()  # requests in transit
        self._is_arriving = False  # the first of them is on its way
        self._served: _Sent | None = None
        self._is_cut = False  # a response was left out, so the next one has the wrong correlation id
        self._responses: deque[tuple[int, int, Any, bytes]] = (
            deque()
        )  # responses in transit: token, correlation id, response, frame
        self._is_late = False  # a broker serves requests of a connection that has ended
        world.loop.call_later(self.link.latency_s, self._connect)

    # --- the client's end

    def submit(
        self,
        token: int,
        correlation_id: int,
        segments: Sequence[bytes | Buffer],
        *,
        expect_response: bool,
        past_hold: bool = False,
    ) -> None:
        """See `Connection`."""
        if self.closed:
            raise BrokenPipeError(errno.EPIPE, "closed")
        if early := self._throttling.early(self.world.loop.time(), self.node.number):
            self.world.fail(early)
        request = _Sent(token, correlation_id, b"".join(map(bytes, segments)), expect_response)
        if self._is_holding and not past_hold:
            self._held.append(request)
        else:
            self._send(request)

    def _send(self, request: _Sent) -> None:
        loop = self.world.loop
        if self.world.conduct is not None:
            self.world.conduct.sent(self, self._client, self.node.number, request.frame)
        if not request.expect_response:
            loop.call_soon(self._report, self.receiver.on_sent, request.token)
        self._sent.append(request)
        if self._served is None:
            self._go_on()

    def hold(self, holding: bool) -> None:
        """See `Connection`."""
        self._is_holding = holding
        while self._held and not holding:
            self._send(self._held.pop(0))

    def set_max_frame(self, limit: int) -> None:
        """See `Connection`."""
        self.max_frame = limit

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        """See `Connection`."""
        self._response_filter = response_filter

    def close(self) -> None:
        """See `Connection`."""
        self.break_off(errno.ECANCELED, "closed")

    def break_off(self, number: int = errno.ECONNRESET, reason: str = "reset by the broker") -> None:
        """End the connection at both ends. Requests that the network holds may still arrive (`Link.runs_late`)."""
        if not self.closed:
            self.closed = True
            self._is_late = self.link.runs_late and self.link.holds_requests
            if not self._is_late:
                self._sent.clear()
            self._responses.clear()
            self.node.disconnected(self)
            if self.world.conduct is not None:
                self.world.conduct.closed(self)
            self.world.loop.call_soon(self.receiver.on_closed, number, reason)

    def _report(self, event: Callable[[int], None], token: int) -> None:
        if not self.closed:
            event(token)

    # --- the broker's end

    def _connect(self) -> None:
        if self.closed or self.node.silent:
            return
        if self.link.holds_requests:
            self.world.when_released(self.node.number, self._connect)
        elif self.node.down or self.link.is_refusing:
            self.break_off(errno.ECONNREFUSED, "connection refused")
        else:
            self._call(self.receiver.on_connected)

    def _go_on(self) -> None:
        """Send the next request. Its transit starts when the broker has served the one before."""
        if self._sent and not self._is_arriving:
            self._is_arriving = True
            self.world.loop.call_later(self.link.delay_s(len(self._sent[0].frame)), self._serve)

    def _serve(self) -> None:
        """Pass an arrived request to the broker, unless the network holds it."""
        if self._sent and self.link.holds_requests and not self.is_dead:
            self.world.when_released(self.node.number, self._serve)
            return
        self._is_arriving = False
        if not self._sent or self.is_dead:
            return
        request = self._served = self._sent.popleft()
        try:
            self.node.receive(self, request.frame, self._on_response)
        except Exception as error:  # noqa: BLE001 - a broker's defect
            self.world.fail(error)

    def _on_response(self, call: Any, response: Response) -> None:
        """Take a broker's response, or `NEVER`."""
        request, self._served = self._served, None
        assert request is not None
        assert call.correlation_id == request.correlation_id
        if self.closed:
            self._go_on()
        elif response is HANGUP or (self.link.resets and not self.is_dead and self.link.takes_away(call.name)):
            self.break_off()
        elif response is NEVER or self.is_dead:
            self._served = request
        elif response is DROPPED:
            self._is_cut = True
            self._go_on()
        elif self._is_cut and request.expect_response:
            self.break_off(errno.EPROTO, "a response with another correlation id")
        else:
            if request.expect_response:
                frame = write_response(call, response)
                self._responses.append((request.token, request.correlation_id, response, frame))
                if len(self._responses) == 1:
                    self._travel()
            self._go_on()

    def _travel(self) -> None:
        """Send the next response; the least latency of a response counts as part of its request's time."""
        slower_s = self.link.delay_s(len(self._responses[0][3])) - LATENCY_S
        if slower_s > 0:
            self.world.loop.call_later(slower_s, self._deliver)
        else:
            self._deliver()

    def _deliver(self) -> None:
        if self.closed or self.is_dead or not self._responses:
            return
        if self.link.holds_responses:
            self.world.when_released(self.node.number, self._deliver)
            return
        token, correlation_id, response, frame = self._responses[0]
        if len(frame) > self.max_frame:
            self.break_off(errno.EMSGSIZE, "a frame that is too long")
            return
        if self.world.conduct is not None:
            self.world.conduct.on_response(self, correlation_id, response)
        arrived = Buffer(frame)
        throttle_s = getattr(response, "throttle_time_ms", 0) / 1000
        if self._response_filter is not None:  # nothing sleeps here, so the filter runs at once
            self._response_filter.deliver(token, arrived)
            if lag_s := self.world.engine_lag_s():
                self.world.loop.call_later(lag_s, self._take_in, token, arrived, throttle_s)
                return
        self._take_in(token, arrived, throttle_s)

    def _take_in(self, token: int, frame: Buffer, throttle_s: float) -> None:
        if self.closed:
            return
        self._responses.popleft()
        self._throttling.on_response(self.world.loop.time(), throttle_s)
        self._call(self.receiver.on_response, token, frame)
        if self._responses and not self.closed:
            self._travel()

    def _call(self, event: Callable[..., None], *args: object) -> None:
        try:
            event(*args)
        except Exception as error:  # noqa: BLE001 - the client's defect
            self.world.fail(error)


OnResponse = Callable[[Any, Response], None]


class BaseNode(Protocol):
    """A broker as connections need it. `down` refuses them, `silent` leaves them without a response."""

    number: int
    host: str
    port: int
    silent: bool

    @property
    def down(self) -> bool:
        """True if the broker is stopped."""

    def receive(self, connection: SimulatedConnection, data: bytes, on_response: OnResponse) -> None:
        """Serve a request: call `on_response` with an object that has its `correlation_id`, and with the response."""

    def disconnected(self, connection: SimulatedConnection) -> None:
        """Note that a connection has ended."""


class SimulatedTransport:
    """Connections to the world's brokers."""

    def __init__(self, world: Network) -> None:
        self._world = world
        self._listeners: dict[Notifier, Callable[[], object]] = {}

    def connect(
        self,
        family: int,
        address: SocketAddress,
        receiver: Receiver,
        max_frame: int,
        stream: StreamSource | SslSource | None = None,
    ) -> SimulatedConnection:
        """See `Transport`."""
        del family, stream
        return self._world.connect(address, receiver, max_frame)

    def listen(self, callback: Callable[[], object]) -> Notifier:
        """See `Transport`."""
        notifier = Notifier()
        self._listeners[notifier] = callback
        return notifier

    def unlisten(self, notifier: Notifier) -> None:
        """See `Transport`."""
        self._listeners.pop(notifier, None)

    def poll(self) -> bool:
        """Call the listeners of all notifiers that were notified."""
        notified = [callback for notifier, callback in self._listeners.items() if notifier.take()]
        for callback in notified:
            callback()
        return bool(notified)
