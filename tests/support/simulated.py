"""A simulated world: its clock, its connections and its brokers, in one thread, without sockets or waiting.

    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        world.run(cluster.refresh(["t"]))

The loop's clock jumps to the next timer when nothing else can happen; `Stuck` is raised when nothing ever can again, so
a hang is a failure at once. Brokers are functions from a request message to a response message: `World.on` puts one
before the model's own, which keeps logs, leaders, sessions and producer states as Kafka does. A connection answers its
requests one after the other, as a broker's does. Who was told to wait (`throttle_time_ms`) and sends before that time
has passed fails the test (KIP-219): a broker that mutes the connection would hide it.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import itertools
import random
import socket
import struct
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import dataclass, field, replace
from types import TracebackType
from typing import Any, Self, TypeVar

from kafwire import protocol
from kafwire.cluster.broker_connection import host_and_port
from kafwire.errors import ErrorCode, KafkaError
from kafwire.memory._buffer import Buffer
from kafwire.runtime.engine import FORKED
from kafwire.runtime.interfaces import (
    Clock,
    Notifier,
    Receiver,
    RequestTable,
    ResponseFilter,
    SocketAddress,
    Waiter,
)
from tests.support import seeds
from tests.support.simulated_kafka import DROPPED, HANGUP, NEVER, Answer, Call, Handler, Kafka, request_classes

T = TypeVar("T")

START_S = 1_000.0
WALL_S = 1_700_000_000
LATENCY_S = 0.001
CLOCK_S = 1e-6  # what times may be off by, as sums of fractions
LONGEST_S = 100_000.0
LONGEST_BLOCK_S = 1.0


class Stuck(AssertionError):
    """Nothing is due and nothing can come in: whoever still waits, waits for ever."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An asyncio loop whose time passes only when nothing is left to do; `poll` brings in what came from outside."""

    def __init__(self, poll: Callable[[], bool]) -> None:
        super().__init__()
        self._now = START_S
        self._poll = poll
        self._steps = False
        self.blocked_s = 0.0  # that the call in an executor would have waited
        self._clock_resolution = 1e-9
        self._selector = self
        self.problems: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[object]:
        """What BaseEventLoop asks its selector for."""
        if self._steps:
            self._steps = False
            self.stop()
        if self._poll():
            return []
        if timeout is None:
            raise Stuck("nothing is due and nothing can come in")
        self._now += max(timeout, 0.0)
        if self._now > START_S + LONGEST_S:
            raise Stuck("a day of simulated time has passed")
        return []

    def step(self) -> None:
        """Run what is due next, and no more."""
        self._steps = True
        self.run_forever()

    def _process_events(self, event_list: list[object]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody sleeps, so nobody has to be woken."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run at once: there are no threads here. If it would have blocked, its outcome comes as much later."""
        future = self.create_future()
        self.blocked_s = 0.0
        try:
            result, problem = func(*args), None
        except Exception as error:
            result, problem = None, error

        def end() -> None:
            if future.done():
                return
            if problem is None:
                future.set_result(result)
            else:
                future.set_exception(problem)

        if self.blocked_s:
            self.call_later(self.blocked_s, end)
        else:
            end()
        return future


class SimulatedClock(Clock):
    """The loop's time. `wall_s`: what a clock on the wall showed when that was 0."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop
        self.wall_s: float = WALL_S

    def monotonic(self) -> float:
        return self._loop.time()

    def time_ns(self) -> int:
        return int((self.wall_s + self._loop.time()) * 1e9)


class SimulatedWaiter(Waiter):
    """Who waits has the world go on meanwhile."""

    def __init__(self, world: World) -> None:
        self._world = world

    def wait(self, attempt: Callable[[float | None], T], timeout_s: float | None) -> T:
        loop = self._world.loop
        if loop.is_running():  # in what stands for another thread: the loop cannot go on from within it
            found = attempt(0.0)
            loop.blocked_s += 0.0 if found is not None else LONGEST_BLOCK_S if timeout_s is None else timeout_s
            return found
        until = None if timeout_s is None else loop.time() + timeout_s
        while (found := attempt(0.0)) is None and (until is None or loop.time() < until):
            self._world.step(until)
        return found


class SimulatedResolver:
    """Addresses resolve to themselves, `names` to theirs. While it `hangs`, names are not answered."""

    def __init__(self) -> None:
        self.names: dict[str, list[str]] = {}
        self.hangs = False

    async def resolve(self, host: str, port: int) -> list[tuple[int, SocketAddress]]:
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

    def __init__(self, world: World, node: Node, number: int, receiver: Receiver, max_frame: int) -> None:
        self.world = world
        self.node = node
        self.number = number
        self.receiver = receiver
        self.max_frame = max_frame
        self.closed = False
        self.throttled_until = 0.0  # the client was told to send nothing before
        self.requests = RequestTable()
        self._response_filter: ResponseFilter | None = None
        self._requests: asyncio.Queue[tuple[int, int, bytes, bool]] = asyncio.Queue()
        self._server = world.loop.create_task(self._serve())

    def submit(
        self, token: int, correlation_id: int, segments: Sequence[bytes | Buffer], *, expect_response: bool
    ) -> None:
        if self.closed:
            raise BrokenPipeError(errno.EPIPE, "closed")
        early_s = self.throttled_until - self.world.loop.time()
        if early_s > CLOCK_S:
            self.world.fail(
                AssertionError(f"sent to broker {self.node.number} {early_s:.3f} s before it may (KIP-219)")
            )
        self._requests.put_nowait((token, correlation_id, b"".join(map(bytes, segments)), expect_response))
        if not expect_response:
            self.world.loop.call_soon(self._report, self.receiver.on_sent, token)

    def set_max_frame(self, limit: int) -> None:
        self.max_frame = limit

    def set_response_filter(self, response_filter: ResponseFilter) -> None:
        self._response_filter = response_filter

    def close(self) -> None:
        self.break_off(errno.ECANCELED, "closed")

    def break_off(self, number: int = errno.ECONNRESET, reason: str = "reset by the broker") -> None:
        """End it; each end hears of it."""
        if not self.closed:
            self.closed = True
            self._server.cancel()
            self.world.loop.call_soon(self.receiver.on_closed, number, reason)

    def _report(self, event: Callable[[int], None], token: int) -> None:
        if not self.closed:
            event(token)

    async def _serve(self) -> None:
        await asyncio.sleep(LATENCY_S)
        if self.node.silent:
            return
        if self.node.down:
            self.break_off(errno.ECONNREFUSED, "connection refused")
            return
        self.receiver.on_connected()
        is_cut = False
        while True:
            token, correlation_id, data, expect_response = await self._requests.get()
            await asyncio.sleep(LATENCY_S)
            try:
                call, answer = await self.node.answer(self.number, data)
            except Exception as error:
                self.world.fail(error)
                return
            assert call.correlation_id == correlation_id
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
                frame = _frame(call, answer)
                if len(frame) > self.max_frame:
                    self.break_off(errno.EMSGSIZE, "a frame that is too long")
                    return
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
                except Exception as error:  # the client's defect
                    self.world.fail(error)
                    return


def _frame(call: Call, answer: Any) -> bytes:
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


@dataclass
class Node:
    """A broker: where it listens and how it feels. `down` refuses connections, `silent` leaves them unanswered."""

    world: World
    number: int
    host: str
    port: int
    down: bool = False
    silent: bool = False
    rack: str | None = None
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)

    async def answer(self, connection: int, data: bytes) -> tuple[Call, Answer]:
        api_key, version = struct.unpack_from(">hh", data)
        kind = request_classes()[api_key]
        header_plan = protocol.RequestHeader.plan(2 if version >= kind.flexible_from else 1)
        header, used = header_plan.decode_prefix(data)
        call = Call(
            at_ms=self.world.engine.now_ms(),
            node=self.number,
            connection=connection,
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

    def __init__(self, world: World) -> None:
        self._world = world
        self._listeners: dict[Notifier, Callable[[], object]] = {}

    def connect(self, family: int, address: SocketAddress, receiver: Receiver, max_frame: int) -> Connection:
        del family
        return self._world.connect(address, receiver, max_frame)

    def listen(self, callback: Callable[[], object]) -> Notifier:
        notifier = Notifier()
        self._listeners[notifier] = callback
        return notifier

    def unlisten(self, notifier: Notifier) -> None:
        self._listeners.pop(notifier, None)

    def poll(self) -> bool:
        """Call whoever listens to what was notified."""
        notified = [callback for notifier, callback in self._listeners.items() if notifier.take()]
        for callback in notified:
            callback()
        return bool(notified)


class SimulatedEngine:
    """An engine on the world's loop. `forked`: its clients were made before a fork; `ended`: the interpreter ends."""

    def __init__(self, world: World, seed: int) -> None:
        self._world = world
        self.clock = SimulatedClock(world.loop)
        self.random = random.Random(seed)
        self.resolver = SimulatedResolver()
        self.transport = SimulatedTransport(world)
        self.waiter = SimulatedWaiter(world)
        self.members: list[object] = []
        self.forked = self.ended = False

    def in_thread(self, name: str, function: Callable[..., T], *args: object) -> asyncio.Future[T]:
        del name
        return self._world.loop.run_in_executor(None, function, *args)

    def join(self, member: object) -> None:
        self.members.append(member)

    def start(self, function: Callable[..., object], *args: object) -> bool:
        if self._world.loop.is_closed():
            return False
        self._world.loop.call_soon(function, *args)
        return True

    def now_ms(self) -> float:
        return self._world.loop.time() * 1000.0

    @property
    def is_foreign(self) -> bool:
        return self.forked

    @property
    def is_over(self) -> bool:
        return self.forked or self.ended

    def check_process(self) -> None:
        if self.forked:
            raise KafkaError(FORKED)

    def check_caller(self) -> None:
        self.check_process()
        if self.ended:
            raise KafkaError("the interpreter is ending")

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        try:
            self.check_caller()
        except KafkaError:
            coroutine.close()
            raise
        return self._world.run(coroutine)


class World(Kafka):
    """Brokers, topics, and the loop that everything runs on."""

    nodes: dict[int, Node]
    loop: SimulatedLoop

    def __init__(self, *, brokers: int = 1, topic_ids: bool = True, seed: int | None = None) -> None:
        if seed is None:
            seed = seeds.of_test()
        else:
            print(f"seed={seed}")
        self.seed = seed
        self.loop = SimulatedLoop(self._poll)
        self.engine = SimulatedEngine(self, seed)
        super().__init__(topic_ids=topic_ids)
        self._moves = itertools.count(1)
        self.nodes = {n: Node(self, n, f"10.0.0.{n}", 9092) for n in range(1, brokers + 1)}
        self.calls: list[Call] = []
        self.connections: list[Connection] = []
        self.handlers: dict[str, list[Handler]] = {}
        self.broken: Exception | None = None
        self.engine_lag_s: Callable[[], float] = lambda: 0.0  # until the engine looks at what the I/O thread received

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.run(self._end_tasks())
        self.loop.close()
        if error is None:
            assert not self.loop.problems, self.loop.problems
            if self.broken is not None:
                raise self.broken

    @property
    def bootstrap(self) -> str:
        return ",".join(host_and_port(node.host, node.port) for node in self.nodes.values())

    def _poll(self) -> bool:
        return self.engine.transport.poll()

    def run(self, coroutine: Coroutine[Any, Any, T]) -> T:
        """Run `coroutine` to its end; an error in a broker ends it at once."""
        try:
            return self.loop.run_until_complete(coroutine)
        except RuntimeError:
            if self.broken is None:
                raise
            raise self.broken from None

    def fail(self, error: Exception) -> None:
        """A broker cannot go on: its handler's assertion is the test's failure."""
        self.broken = error
        self.loop.stop()

    async def _end_tasks(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def step(self, until: float | None) -> None:
        """Let what is due next happen, at `until` at the latest."""
        timer = None if until is None else self.loop.call_at(until, lambda: None)
        self.loop.step()
        if timer is not None:
            timer.cancel()
        if self.broken is not None:
            raise self.broken

    def pass_time(self, seconds: float) -> None:
        """Let so much time go by."""
        self.run(asyncio.sleep(seconds))

    def on(self, api: str, handler: Handler) -> None:
        """Ask `handler` before all others for answers to `api`."""
        self.handlers.setdefault(api, []).insert(0, handler)

    def off(self, api: str) -> None:
        """Leave `api` to the model again."""
        self.handlers.pop(api, None)

    def made(self, api: str) -> list[Call]:
        """The requests of `api` so far."""
        return [call for call in self.calls if call.name == api]

    def connect(self, address: SocketAddress, receiver: Receiver, max_frame: int) -> Connection:
        where = (address[0], address[1])
        node = next((n for n in self.nodes.values() if (n.host, n.port) == where), None)
        if node is None:
            node = Node(self, -1, *where, down=True)
        connection = Connection(self, node, len(self.connections), receiver, max_frame)
        self.connections.append(connection)
        return connection

    def break_connections(self, node: int) -> None:
        """Every connection to `node` is reset."""
        for connection in self.connections:
            if connection.node.number == node:
                connection.break_off()

    def move_broker(self, node: int) -> None:
        """A broker listens at another address from now on; what is connected to the old one stays, and is served."""
        moved = self.nodes[node]
        self.nodes[node] = replace(moved, host=f"10.0.{next(self._moves)}.{node}")

    def kill(self, node: int) -> None:
        """End a broker; its fetch sessions end with it."""
        self.nodes[node].down = True
        self.sessions(node).sessions.clear()
        self.break_connections(node)
