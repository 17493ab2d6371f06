"""A simulated world for `net/`: its clock, its connections and its brokers, in one thread, without sockets or waiting.

    with World(brokers=2) as world:
        world.create_topic("t", partitions=3)
        cluster = Cluster(world.engine, ClientConfig.build({"bootstrap_servers": world.bootstrap}))
        world.run(cluster.refresh(["t"]))

The loop's clock jumps to the next timer when nothing else can happen; `Stuck` is raised when nothing ever can again, so
a hang is a failure at once. Brokers are functions from a request message to a response message: `World.on` puts one
before the model's own, which keeps logs, leaders and producer states as Kafka does. A connection answers its requests
one after the other, as a broker's does.
"""

from __future__ import annotations

import asyncio
import errno
import functools
import itertools
import random
import struct
import uuid
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self, TypeVar, cast

import pytest

from kafwire import _io, _produce, protocol
from kafwire._buffer import Buffer
from kafwire.net.engine import Engine
from kafwire.net.transport import Receiver
from kafwire.records import RecordBatch, decode_batches, encode_batch

T = TypeVar("T")

START_S = 1_000.0
WALL_S = 1_700_000_000
LATENCY_S = 0.001
LONGEST_S = 100_000.0

OFFSET_OUT_OF_RANGE = 1
UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5
NOT_LEADER = 6
UNSUPPORTED_VERSION = 35
OUT_OF_ORDER = 45
INVALID_EPOCH = 47
UNKNOWN_TOPIC_ID = 100


class Stuck(AssertionError):
    """Nothing is due and nothing can come in: whoever still waits, waits for ever."""


class SimulatedLoop(asyncio.BaseEventLoop):
    """An asyncio loop whose time passes only when nothing is left to do; `poll` brings in what came from outside."""

    def __init__(self, poll: Callable[[], bool]) -> None:
        super().__init__()
        self._now = START_S
        self._poll = poll
        self._clock_resolution = 1e-9
        self._selector = self
        self.problems: list[dict[str, Any]] = []
        self.set_exception_handler(lambda _, context: self.problems.append(context))

    def time(self) -> float:
        return self._now

    def select(self, timeout: float | None) -> list[object]:
        """What BaseEventLoop asks its selector for."""
        if self._poll():
            return []
        if timeout is None:
            raise Stuck("nothing is due and nothing can come in")
        self._now += max(timeout, 0.0)
        if self._now > START_S + LONGEST_S:
            raise Stuck("a day of simulated time has passed")
        return []

    def _process_events(self, event_list: list[object]) -> None:
        assert not event_list

    def _write_to_self(self) -> None:
        """Nobody sleeps, so nobody has to be woken."""

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> asyncio.Future[Any]:  # type: ignore[override]
        """Run at once: there are no threads here."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


class SimulatedClock:
    """Stands in for the module `time` where a thread of the user's reads it."""

    def __init__(self, loop: SimulatedLoop) -> None:
        self._loop = loop

    def monotonic(self) -> float:
        return self._loop.time()

    def time_ns(self) -> int:
        return int((WALL_S + self._loop.time()) * 1e9)


@dataclass(slots=True)
class Call:
    """A request as a broker sees it."""

    at_ms: float
    node: int
    connection: int
    version: int
    correlation_id: int
    message: Any

    @property
    def name(self) -> str:
        return type(self.message).__name__.removesuffix("Request")


class Never:
    """An answer that does not come."""


class Hangup:
    """The broker closes the connection instead of answering."""


NEVER = Never()
HANGUP = Hangup()
# bytes: a raw frame after the correlation id. None: let the next handler, and at last the model, answer.
Answer = Any
Handler = Callable[[Call], Answer]


class Connection:
    """One connection, its broker's end included."""

    def __init__(self, world: World, node: Node, number: int, receiver: Receiver, max_frame: int) -> None:
        self.world = world
        self.node = node
        self.number = number
        self.receiver = receiver
        self.max_frame = max_frame
        self.closed = False
        self._requests: asyncio.Queue[tuple[int, int, bytes, bool]] = asyncio.Queue()
        self._server = world.loop.create_task(self._serve())

    def submit(
        self, token: int, correlation_id: int, segments: Sequence[bytes | Buffer], *, expect_response: bool
    ) -> None:
        if self.closed:
            raise BrokenPipeError(errno.EPIPE, "closed")
        self._requests.put_nowait((token, correlation_id, b"".join(map(bytes, segments)), expect_response))
        if not expect_response:
            self.world.loop.call_soon(self._report, self.receiver.on_sent, token)

    def set_max_frame(self, limit: int) -> None:
        self.max_frame = limit

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
            if answer is NEVER:
                await asyncio.get_running_loop().create_future()
            if expect_response:
                frame = _frame(call, answer)
                if len(frame) > self.max_frame:
                    self.break_off(errno.EMSGSIZE, "a frame that is too long")
                    return
                self.receiver.on_response(token, Buffer(frame))


@functools.cache
def _requests() -> dict[int, type[Any]]:
    classes = [protocol.MESSAGES[name] for name in protocol.MESSAGES if name.endswith("Request")]
    return {cast("Any", cls).api_key: cls for cls in classes}


def _frame(call: Call, answer: Any) -> bytes:
    head = struct.pack(">i", call.correlation_id)
    if isinstance(answer, bytes):
        return head + answer
    kind = type(call.message)
    version = call.version
    if call.name == "ApiVersions":
        if answer.error_code == UNSUPPORTED_VERSION:
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
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)

    async def answer(self, connection: int, data: bytes) -> tuple[Call, Answer]:
        api_key, version = struct.unpack_from(">hh", data)
        kind = _requests()[api_key]
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
        for handler in [*self.world.handlers.get(call.name, ()), getattr(self.world, f"_on_{call.name}")]:
            answer = handler(call)
            if isinstance(answer, Awaitable):
                answer = await answer
            if answer is not None:
                return call, answer
        raise AssertionError(f"nobody answers {call.name}")


@dataclass(slots=True)
class Stored:
    """One batch in a log: its offsets [base, next) and bytes."""

    base: int
    next: int
    data: bytes


@dataclass(slots=True)
class Log:
    """A partition: leader, batches, and what the broker remembers of producers."""

    leader: int
    epoch: int = 0
    batches: list[Stored] = field(default_factory=list)
    start: int = 0
    end: int = 0  # the high watermark; batches may end before it
    stable: int | None = None  # the last stable offset, if it is not the end
    aborted: list[tuple[int, int]] = field(default_factory=list)
    error: int = 0
    producers: dict[int, tuple[int, deque[tuple[int, int, int]]]] = field(default_factory=dict)

    def append(self, data: bytes, *, next_offset: int | None = None) -> None:
        """Store one encoded batch at the end; `next_offset` leaves a hole behind it."""
        batch = decode_batches(data)[0]
        stored = Stored(self.end, self.end + batch.last_offset - batch.base_offset + 1, _rebased(data, self.end))
        self.batches.append(stored)
        self.end = stored.next if next_offset is None else next_offset

    def append_values(self, values: Iterable[bytes]) -> None:
        self.append(encode_batch(list(values)))

    def values(self) -> list[bytes | None]:
        return [record.value for stored in self.batches for batch in decode_batches(stored.data) for record in batch]


def _rebased(data: bytes, offset: int) -> bytes:
    return struct.pack(">q", offset) + data[8:]


@dataclass(slots=True)
class Topic:
    name: str
    topic_id: uuid.UUID
    partitions: list[Log]


class SimulatedTransport:
    """What `NativeTransport` offers."""

    def __init__(self, world: World) -> None:
        self._world = world
        self._listeners: dict[int, Callable[[], object]] = {}
        self._cookies = itertools.count(1)

    def connect(self, family: int, address: tuple[Any, ...], receiver: Receiver, max_frame: int) -> Connection:
        del family
        return self._world.connect(address, receiver, max_frame)

    def listen(self, callback: Callable[[], object]) -> int:
        cookie = next(self._cookies)
        self._listeners[cookie] = callback
        return cookie

    def unlisten(self, cookie: int) -> None:
        self._listeners.pop(cookie, None)

    def poll(self) -> bool:
        """Deliver what was posted."""
        events = self._world.native.drain()
        for kind, _, cookie, _ in events:
            assert kind == _io.POSTED
            listener = self._listeners.get(cookie)
            if listener is not None:
                listener()
        return bool(events)


class SimulatedEngine:
    """What the classes of `net/` ask of an engine."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.transport = SimulatedTransport(world)
        self.native = world.native
        self.members: list[object] = []

    def join(self, member: object) -> None:
        self.members.append(member)

    def now_ms(self) -> float:
        return self._world.loop.time() * 1000.0


class World:
    """Brokers, topics, and the loop that everything runs on."""

    def __init__(self, *, brokers: int = 1, topic_ids: bool = True, seed: int | None = None) -> None:
        self.seed = random.SystemRandom().randrange(1 << 32) if seed is None else seed
        print(f"seed={self.seed}")
        random.seed(self.seed)  # jitter, shuffles
        self.native = _io.Loop()
        self.loop = SimulatedLoop(self._poll)
        self._simulated_engine = SimulatedEngine(self)
        self.topic_ids = topic_ids
        self.nodes = {n: Node(self, n, f"10.0.0.{n}", 9092) for n in range(1, brokers + 1)}
        self.topics: dict[str, Topic] = {}
        self.calls: list[Call] = []
        self.connections: list[Connection] = []
        self.handlers: dict[str, list[Handler]] = {}
        self.refuse: Callable[[RecordBatch], int] = lambda _: 0  # an error code for what is never stored
        self.broken: Exception | None = None
        self._producer_ids = itertools.count(1000)
        self._patch = pytest.MonkeyPatch()
        self._patch.setattr(_produce, "time", SimulatedClock(self.loop))  # the threads of users read it there

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._patch.undo()
        self.run(self._end_tasks())
        self.loop.close()
        self.native.stop()
        if error is None:
            assert not self.loop.problems, self.loop.problems

    @property
    def engine(self) -> Engine:
        return cast("Engine", self._simulated_engine)

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{node.host}:{node.port}" for node in self.nodes.values())

    def _poll(self) -> bool:
        return self._simulated_engine.transport.poll()

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

    def create_topic(self, name: str, *, partitions: int = 1) -> Topic:
        """A topic, its leaders in turn."""
        nodes = list(self.nodes)
        logs = [Log(leader=nodes[i % len(nodes)]) for i in range(partitions)]
        topic_id = uuid.uuid5(uuid.NAMESPACE_DNS, name) if self.topic_ids else uuid.UUID(int=0)
        self.topics[name] = Topic(name, topic_id, logs)
        return self.topics[name]

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        log = self.topics[name].partitions[partition]
        log.leader = leader
        log.epoch += 1

    def connect(self, address: tuple[Any, ...], receiver: Receiver, max_frame: int) -> Connection:
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

    def kill(self, node: int) -> None:
        self.nodes[node].down = True
        self.break_connections(node)

    # ---- the model of Kafka

    def _on_ApiVersions(self, call: Call) -> Answer:
        versions = self.nodes[call.node].versions
        keys = []
        for key, kind in sorted(_requests().items()):
            name = kind.__name__.removesuffix("Request")
            low, high = versions.get(name, (kind.min_version, kind.max_version))
            keys.append(protocol.ApiVersionsResponse.ApiVersion(api_key=key, min_version=low, max_version=high))
        return protocol.ApiVersionsResponse(api_keys=keys)

    def _on_Metadata(self, call: Call) -> Answer:
        response = protocol.MetadataResponse
        asked = call.message.topics
        names = list(self.topics) if asked is None else [topic.name for topic in asked]
        topics = []
        for name in names:
            topic = self.topics.get(name)
            if topic is None:
                topics.append(response.MetadataResponseTopic(error_code=UNKNOWN_TOPIC, name=name))
                continue
            partitions = [
                response.MetadataResponsePartition(
                    error_code=LEADER_NOT_AVAILABLE if log.leader < 0 else 0,
                    partition_index=index,
                    leader_id=log.leader,
                    leader_epoch=log.epoch,
                )
                for index, log in enumerate(topic.partitions)
            ]
            topics.append(response.MetadataResponseTopic(name=name, topic_id=topic.topic_id, partitions=partitions))
        return response(
            cluster_id="simulated",
            controller_id=min(self.nodes),
            brokers=[
                response.MetadataResponseBroker(node_id=n.number, host=n.host, port=n.port)
                for n in self.nodes.values()
                if not n.down
            ],
            topics=topics,
        )

    def find(self, name: str, topic_id: uuid.UUID) -> Topic | None:
        if name:
            return self.topics.get(name)
        return next((t for t in self.topics.values() if t.topic_id == topic_id), None)

    def _on_ListOffsets(self, call: Call) -> Answer:
        response = protocol.ListOffsetsResponse
        topics = []
        for topic in call.message.topics:
            answers = []
            for asked in topic.partitions:
                log = self.topics[topic.name].partitions[asked.partition_index]
                answer = response.ListOffsetsPartitionResponse(partition_index=asked.partition_index)
                if log.leader != call.node:
                    answer.error_code = NOT_LEADER
                elif asked.timestamp == -1:
                    stable = log.stable if call.message.isolation_level else None
                    answer.offset = log.end if stable is None else stable
                elif asked.timestamp == -2:
                    answer.offset = log.start
                else:
                    answer.offset = next(
                        (
                            record.offset
                            for stored in log.batches
                            for batch in decode_batches(stored.data)
                            for record in batch
                            if (record.timestamp_ms or -1) >= asked.timestamp
                        ),
                        -1,
                    )
                answers.append(answer)
            topics.append(response.ListOffsetsTopicResponse(name=topic.name, partitions=answers))
        return response(topics=topics)

    def _on_InitProducerId(self, call: Call) -> Answer:
        del call
        return protocol.InitProducerIdResponse(producer_id=next(self._producer_ids), producer_epoch=0)

    async def _on_Fetch(self, call: Call) -> Answer:
        answer, size = self._fetch(call)
        if size < call.message.min_bytes:
            await asyncio.sleep(call.message.max_wait_ms / 1000)
            answer, _ = self._fetch(call)
        return answer

    def _fetch(self, call: Call) -> tuple[Any, int]:
        response = protocol.FetchResponse
        left = call.message.max_bytes
        total = 0
        errors = False
        topics = []
        for asked in call.message.topics:
            topic = self.find(asked.topic, asked.topic_id)
            parts = []
            for wanted in asked.partitions:
                part = response.PartitionData(partition_index=wanted.partition, high_watermark=-1, records=b"")
                parts.append(part)
                if topic is None:
                    part.error_code = UNKNOWN_TOPIC_ID if call.version >= 13 else UNKNOWN_TOPIC
                else:
                    log = topic.partitions[wanted.partition]
                    part.error_code = log.error or (NOT_LEADER if log.leader != call.node else 0)
                if topic is None or part.error_code:
                    errors = True
                    continue
                limit = log.stable if call.message.isolation_level and log.stable is not None else log.end
                part.high_watermark = log.end
                part.last_stable_offset = limit
                part.log_start_offset = log.start
                if not log.start <= wanted.fetch_offset <= log.end:
                    part.error_code = OFFSET_OUT_OF_RANGE
                    errors = True
                    continue
                if call.message.isolation_level:
                    part.aborted_transactions = [
                        response.AbortedTransaction(producer_id=p, first_offset=o) for p, o in log.aborted
                    ]
                batches = [b.data for b in log.batches if b.next > wanted.fetch_offset and b.base < limit]
                room = min(left, wanted.partition_max_bytes)
                blob = b"".join(batches)
                # The first partition that has data gives a whole batch, whatever its size; any other may end in a part.
                size = max(room, len(batches[0])) if batches and not total else room
                part.records = blob[: max(size, 0)]
                total += len(part.records)
                left = max(0, left - len(part.records))
            topics.append(response.FetchableTopicResponse(topic=asked.topic, topic_id=asked.topic_id, partitions=parts))
        return response(responses=topics), max(total, int(errors))

    def _on_Produce(self, call: Call) -> Answer:
        response = protocol.ProduceResponse
        topics = []
        for asked in call.message.topic_data:
            topic = self.find(asked.name, asked.topic_id)
            parts = []
            for data in asked.partition_data:
                part = response.PartitionProduceResponse(index=data.index, base_offset=-1)
                parts.append(part)
                if topic is None:
                    part.error_code = UNKNOWN_TOPIC_ID if call.version >= 13 else UNKNOWN_TOPIC
                    continue
                log = topic.partitions[data.index]
                if log.leader != call.node:
                    part.error_code = NOT_LEADER
                else:
                    part.error_code, part.base_offset = self._append(log, bytes(data.records))
            topics.append(
                response.TopicProduceResponse(name=asked.name, topic_id=asked.topic_id, partition_responses=parts)
            )
        return response(responses=topics)

    def _append(self, log: Log, data: bytes) -> tuple[int, int]:
        """As a broker takes a batch of an idempotent producer: (error code, base offset)."""
        batch = decode_batches(data)[0]
        refused = self.refuse(batch)
        if refused:
            return refused, -1
        if batch.producer_id >= 0:
            sequence, epoch = batch.base_sequence, batch.producer_epoch
            known, recent = log.producers.get(batch.producer_id, (-1, deque(maxlen=5)))
            if epoch < known:
                return INVALID_EPOCH, -1
            if epoch > known:
                if sequence:
                    return OUT_OF_ORDER, -1
                recent = deque(maxlen=5)
            for first, count, offset in recent:
                if (first, count) == (sequence, len(batch)):
                    return 0, offset
            if recent and sequence != (recent[-1][0] + recent[-1][1]) % 2**31:
                return OUT_OF_ORDER, -1
            recent.append((sequence, len(batch), log.end))
            log.producers[batch.producer_id] = (epoch, recent)
        base = log.end
        log.append(data)
        return 0, base
