"""Names, addresses and connections: what the engine sends and receives by, and a broker's end of it."""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
import struct
from collections.abc import Awaitable, Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from kafwire import protocol
from kafwire.error_codes import ErrorCode
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
from kafwire.testing.simulation.kafka import DROPPED, HANGUP, NEVER, Answer, Call, request_classes
from kafwire.testing.simulation.links import LATENCY_S

if TYPE_CHECKING:
    from kafwire.testing.simulation.world import BaseWorld, World

CLOCK_S = 1e-6  # what times may be off by, as sums of fractions


class SimulatedResolver:
    """Addresses resolve to themselves, `names` to theirs. While it `hangs`, names are not answered."""

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


class Connection:
    """One connection, its broker's end included."""

    def __init__(self, world: BaseWorld, node: BaseNode, number: int, receiver: Receiver, max_frame: int) -> None:
        self.world = world
        self.node = node
        self.link = world.link(node.number)
        self.is_dead = False  # whatever is sent vanishes, and neither end is told
        self.serving: Any = None  # the request that is being answered
        self.number = number
        self.receiver = receiver
        self.max_frame = max_frame
        self.closed = False
        self.throttled_until = 0.0  # the client was told to send nothing before
        self.requests = RequestTable()
        # What all connections of one client have, and those of no other.
        owner: Any = getattr(receiver, "_connection", None)
        self._client: Hashable = id(receiver) if owner is None else owner._reach
        self._response_filter: ResponseFilter | None = None
        self._holding = False
        self._held: list[tuple[int, int, bytes, bool]] = []
        self._requests: asyncio.Queue[tuple[int, int, bytes, bool]] = asyncio.Queue()
        self._server = world.loop.create_task(self._serve())

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
        early_s = self.throttled_until - self.world.loop.time()
        if early_s > CLOCK_S:
            self.world.fail(
                AssertionError(f"sent to broker {self.node.number} {early_s:.3f} s before it may (KIP-219)")
            )
        request = token, correlation_id, b"".join(map(bytes, segments)), expect_response
        if self._holding and not past_hold:
            self._held.append(request)
        else:
            self._send(request)

    def _send(self, request: tuple[int, int, bytes, bool]) -> None:
        self._requests.put_nowait(request)
        token, _, frame, expect_response = request
        if self.world.conduct is not None:
            self.world.conduct.sent(self, self._client, self.node.number, frame)
        if not expect_response:
            self.world.loop.call_soon(self._report, self.receiver.on_sent, token)

    def hold(self, holding: bool) -> None:
        """See `Connection`."""
        self._holding = holding
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
        """End it; each end hears of it. Requests that the network holds may still arrive (`Link.runs_late`)."""
        if not self.closed:
            self.closed = True
            if not (self.link.runs_late and self.link.holds_requests):
                self._server.cancel()
            self.node.disconnected(self)
            if self.world.conduct is not None:
                self.world.conduct.closed(self)
            self.world.loop.call_soon(self.receiver.on_closed, number, reason)

    def _report(self, event: Callable[[int], None], token: int) -> None:
        if not self.closed:
            event(token)

    async def _serve(self) -> None:
        link = self.link
        await asyncio.sleep(link.latency_s)
        while link.holds_requests and not self.closed:
            await self.world.released(self.node.number)
        if self.node.silent:
            return
        if self.node.down or link.is_refusing:
            self.break_off(errno.ECONNREFUSED, "connection refused")
            return
        self.receiver.on_connected()
        is_cut = False
        while not self.closed or not self._requests.empty():
            token, correlation_id, data, expect_response = await self._requests.get()
            await asyncio.sleep(link.delay_s(len(data)))
            while link.holds_requests:
                await self.world.released(self.node.number)
            if self.is_dead:
                await asyncio.get_running_loop().create_future()
            try:
                call, answer = await self.node.answer(self, data)
            except Exception as error:  # noqa: BLE001
                self.world.fail(error)
                return
            assert call.correlation_id == correlation_id
            if self.closed:
                continue
            if self.is_dead:
                await asyncio.get_running_loop().create_future()
            if link.resets and link.takes_away(call.name):
                self.break_off()
                return
            while link.holds_responses:
                await self.world.released(self.node.number)
            if answer is HANGUP:
                self.break_off()
                return
            if answer is DROPPED:
                is_cut = True
                continue
            if is_cut and expect_response:  # not the answer that is owed
                self.break_off(errno.EPROTO, "an answer with another correlation id")
                return
            if answer is NEVER:
                await asyncio.get_running_loop().create_future()
            if expect_response:
                frame = frame_of(call, answer)
                slower_s = link.delay_s(len(frame)) - LATENCY_S
                if slower_s > 0:
                    await asyncio.sleep(slower_s)
                if len(frame) > self.max_frame:
                    self.break_off(errno.EMSGSIZE, "a frame that is too long")
                    return
                if self.world.conduct is not None:
                    self.world.conduct.answered(self, correlation_id, answer)
                answer_frame = Buffer(frame)
                throttle_s = getattr(answer, "throttle_time_ms", 0) / 1000
                if self._response_filter is not None:  # nobody sleeps here, so word is given at once
                    self._response_filter.deliver(token, answer_frame)
                    if lag_s := self.world.engine_lag_s():
                        await asyncio.sleep(lag_s)
                # What was sent before the client could know is served no later for it: only the client is to wait.
                self.throttled_until = max(self.throttled_until, self.world.loop.time() + throttle_s)
                try:
                    self.receiver.on_response(token, answer_frame)
                except Exception as error:  # noqa: BLE001  # the client's defect
                    self.world.fail(error)
                    return


def frame_of(call: Call, answer: Any) -> bytes:
    """The bytes of an answer, from the correlation id on."""
    head = struct.pack(">i", call.correlation_id)
    if isinstance(answer, bytes):
        return head + answer
    kind = type(call.message)
    version = call.version
    if call.name == "ApiVersions":
        if answer.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
    elif version >= kind.flexible_from:
        head += b"\0"
    return head + bytes(answer.encode(version))


class BaseNode(Protocol):
    """A broker, as connections need it. `down` refuses them, `silent` leaves them unanswered."""

    number: int
    host: str
    port: int
    silent: bool

    @property
    def down(self) -> bool:
        """Whether nobody is there."""

    async def answer(self, connection: Connection, data: bytes) -> tuple[Any, Answer]:
        """Have a request answered: the request, which has a `correlation_id`, and its answer."""

    def disconnected(self, connection: Connection) -> None:
        """A connection has ended."""


@dataclass
class Node:
    """A broker of the model: where it listens and how it feels."""

    world: World
    number: int
    host: str
    port: int
    down: bool = False
    silent: bool = False
    rack: str | None = None
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)

    def disconnected(self, connection: Connection) -> None:
        """The model keeps nothing of connections."""

    async def answer(self, connection: Connection | int, data: bytes) -> tuple[Call, Answer]:
        """Have a request answered: by the first of its handlers that does, else by the model."""
        number = connection if isinstance(connection, int) else connection.number
        api_key, version = struct.unpack_from(">hh", data)
        kind = request_classes()[api_key]
        header_plan = protocol.RequestHeader.plan(2 if version >= kind.flexible_from else 1)
        header, used = header_plan.decode_prefix(data)
        call = Call(
            at_ms=self.world.engine.now_ms(),
            node=self.number,
            connection=number,
            version=version,
            correlation_id=header.correlation_id,
            message=kind.decode(data[used:], version),
        )
        self.world.calls.append(call)
        model = getattr(self.world, f"_on_{call.name}", lambda _: None)
        for handler in [*self.world.handlers.get(call.name, ()), model]:
            answer = handler(call)
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                return call, answer
        raise AssertionError(f"nobody answers {call.name}")


class SimulatedTransport:
    """Connections to the world's brokers."""

    def __init__(self, world: BaseWorld) -> None:
        self._world = world
        self._listeners: dict[Notifier, Callable[[], object]] = {}

    def connect(
        self,
        family: int,
        address: SocketAddress,
        receiver: Receiver,
        max_frame: int,
        stream: StreamSource | SslSource | None = None,
    ) -> Connection:
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
        """Call whoever listens to what was notified."""
        notified = [callback for notifier, callback in self._listeners.items() if notifier.take()]
        for callback in notified:
            callback()
        return bool(notified)
