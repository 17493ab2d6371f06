"""A small Kafka server that follows a test's script: it responds wrongly, late, in part, or not at all.

    with ScriptedBroker({"t": 2}) as broker:
        broker.script("Produce", lose_response, error(6))  # what becomes of the first and the second Produce request
        kafwire.Producer(broker.bootstrap)

It keeps logs in memory, speaks the APIs that a producer and a scan need with kafwire's own messages, checks sequence
numbers as a broker does, and records every request. A script's steps are used up in order, one for each request of that
API; with none left the broker behaves.
"""

import contextlib
import socket
import struct
import threading
import time
import uuid
from collections import defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from types import TracebackType
from typing import Any, NamedTuple, Self

from kafwire import protocol, records
from kafwire.errors import ErrorCode
from kafwire.protocol.framing import request_header_version
from tests.support.socket_server import SocketServer, receive_frame

EARLIEST = -2
BATCHES_REMEMBERED = 5
SERVED = ("ApiVersions", "Metadata", "DescribeConfigs", "ListOffsets", "InitProducerId", "Fetch", "Produce")


class Request(NamedTuple):
    """One request as it arrived."""

    api: str
    version: int
    message: Any
    node: int
    at: float


class Stored(NamedTuple):
    """One batch in a log."""

    base_offset: int
    next_offset: int
    max_timestamp_ms: int
    data: bytes


class Exchange:
    """A request that waits for its response, as a step of a script sees it."""

    def __init__(
        self, broker: "ScriptedBroker", request: Request, correlation_id: int, connection: socket.socket
    ) -> None:
        self.broker = broker
        self.request = request
        self.correlation_id = correlation_id
        self._connection = connection

    def execute(self) -> Any:
        """Execute the request, and return the right response; None for a produce request without acks."""
        return self.broker.handle(self.request)

    def frame(self, response: Any, correlation_id: int | None = None) -> bytes:
        """The response as bytes, its size first."""
        api_versions = self.request.api == "ApiVersions"
        version = self.request.version
        if api_versions and response.error_code == ErrorCode.UNSUPPORTED_VERSION:
            version = 0
        flexible = version >= type(response).flexible_from and not api_versions
        number = self.correlation_id if correlation_id is None else correlation_id
        body: bytes = struct.pack(">i", number) + (b"\0" if flexible else b"") + response.encode(version)
        return struct.pack(">i", len(body)) + body

    def frame_of_response(self) -> bytes:
        """The right response as bytes."""
        return self.frame(self.execute())

    def send(self, data: bytes) -> None:
        """Put bytes on the connection."""
        with contextlib.suppress(OSError):
            self._connection.sendall(data)

    def close(self) -> None:
        """End the connection."""
        with contextlib.suppress(OSError):
            self._connection.shutdown(socket.SHUT_RDWR)


Step = Callable[[Exchange], None]


# -- the steps of a script


def behave(exchange: Exchange) -> None:
    """Respond as a broker does."""
    response = exchange.execute()
    if response is not None:
        exchange.send(exchange.frame(response))


def error(code: int, message: str | None = None) -> Step:
    """Do nothing, and respond with an error code for all that was requested."""

    def step(exchange: Exchange) -> None:
        exchange.send(exchange.frame(exchange.broker.refuse(exchange.request, code, message)))

    return step


def after(wait: float | threading.Event, then: Step = behave) -> Step:
    """Go on after some seconds, or when an event is set; the connection reads nothing in the meantime, as Kafka's."""

    def step(exchange: Exchange) -> None:
        stopped = exchange.broker.stopped
        if isinstance(wait, int | float):
            stopped.wait(wait)
        else:
            while not wait.wait(0.02) and not stopped.is_set():
                pass
        then(exchange)

    return step


def no_response(exchange: Exchange) -> None:
    """Never respond, and read nothing more from this connection."""
    exchange.broker.stopped.wait()


def close(exchange: Exchange) -> None:
    """Close without doing anything."""
    exchange.close()


def lose_response(exchange: Exchange) -> None:
    """Execute the request, and close instead of responding."""
    exchange.execute()
    exchange.close()


def close_in_mid_frame(exchange: Exchange) -> None:
    """Execute the request, send half of the response, and close."""
    response = exchange.frame_of_response()
    exchange.send(response[: len(response) // 2])
    exchange.close()


def wrong_correlation_id(exchange: Exchange) -> None:
    """Respond under a number that no request has."""
    exchange.send(exchange.frame(exchange.execute(), exchange.correlation_id + 1000))


def truncated(size: int) -> Step:
    """Respond with the last `size` bytes missing, in a frame that is whole."""

    def step(exchange: Exchange) -> None:
        body = exchange.frame_of_response()[4:-size]
        exchange.send(struct.pack(">i", len(body)) + body)

    return step


def too_long(extra: bytes) -> Step:
    """Respond with bytes left over."""

    def step(exchange: Exchange) -> None:
        body = exchange.frame_of_response()[4:] + extra
        exchange.send(struct.pack(">i", len(body)) + body)

    return step


def garbage(body: bytes) -> Step:
    """Respond with the right number and a senseless body."""

    def step(exchange: Exchange) -> None:
        body_ = struct.pack(">i", exchange.correlation_id) + body
        exchange.send(struct.pack(">i", len(body_)) + body_)

    return step


def giant_frame(size: int = 0x7FFFFFFF) -> Step:
    """Claim a response of `size` bytes."""
    return lambda exchange: exchange.send(struct.pack(">i", size) + b"\0" * 64)


def changed_records(change: Callable[[bytes], bytes]) -> Step:
    """Respond to a fetch request with its records changed, all else as it should be."""

    def step(exchange: Exchange) -> None:
        response = exchange.execute()
        for topic in response.responses:
            for part in topic.partitions:
                if part.records:
                    part.records = change(bytes(part.records))
        exchange.send(exchange.frame(response))

    return step


def flipped(position: int) -> Step:
    """Respond to a fetch request with one byte of the records flipped; a negative position counts from their end."""

    def change(data: bytes) -> bytes:
        broken = bytearray(data)
        broken[position] ^= 0xFF
        return bytes(broken)

    return changed_records(change)


class ScriptedBroker:
    """One or more nodes with topics in memory; `leaders` maps (topic, partition) to a node, node 1 by default."""

    def __init__(self, topics: Mapping[str, int] | None = None, *, nodes: int = 1, topic_ids: bool = True) -> None:
        self.topics = dict(topics or {})
        self.topic_ids = topic_ids
        self.leaders: dict[tuple[str, int], int] = {}
        self.epochs: dict[tuple[str, int], int] = defaultdict(int)
        self.logs: dict[tuple[str, int], list[Stored]] = defaultdict(list)
        self.log_starts: dict[tuple[str, int], int] = defaultdict(int)
        self.requests: list[Request] = []
        self.connections = 0
        self.max_versions: dict[str, int] = {}
        self.stopped = threading.Event()
        self._producers: dict[tuple[str, int, int], tuple[int, deque[tuple[int, int, int]]]] = {}
        self._next_producer_id = 1000
        self._scripts: dict[tuple[str, int | None], deque[Step]] = defaultdict(deque)
        self._always: dict[tuple[str, int | None], Step] = {}
        self._changed = threading.Condition()
        self._servers = {node: SocketServer(partial(self._serve, node)) for node in range(1, nodes + 1)}

    # -- what a test says and asks

    @property
    def bootstrap(self) -> str:
        """All nodes' addresses."""
        return ",".join(server.address for server in self._servers.values())

    def script(self, api: str, *steps: Step, node: int | None = None) -> None:
        """Set the steps of the next requests of an API, in order; at one node, or wherever they arrive."""
        with self._changed:
            self._scripts[api, node].extend(steps)

    def always(self, api: str, step: Step | None, node: int | None = None) -> None:
        """Set the step of every request of an API without a script left; None: the right response again."""
        with self._changed:
            self._always[api, node] = step or behave

    def lead(self, topic: str, partition: int, node: int) -> None:
        """Move a partition's leadership."""
        with self._changed:
            self.leaders[topic, partition] = node
            self.epochs[topic, partition] += 1

    def seen(self, api: str) -> list[Request]:
        """The requests of an API that arrived so far."""
        with self._changed:
            return [request for request in self.requests if request.api == api]

    def wait_for(self, condition: Callable[[], object], timeout: float = 10.0) -> None:
        """Return when a condition on this broker holds; fails the test when it does not in time."""
        with self._changed:
            assert self._changed.wait_for(condition, timeout), "the broker did not get to see what the test waits for"

    def wait_for_requests(self, api: str, count: int = 1, timeout: float = 10.0) -> None:
        """Return when `count` requests of an API have arrived in all."""
        self.wait_for(lambda: sum(request.api == api for request in self.requests) >= count, timeout)

    def values(self, topic: str, partition: int = 0) -> list[bytes | None]:
        """The values in a log, in order."""
        data = b"".join(stored.data for stored in self.logs[topic, partition])
        return [record.value for batch in records.decode_batches(data) for record in batch]

    def append(self, topic: str, partition: int, batch: bytes) -> int:
        """Put a batch at the end of a log as it is, but for its base offset, which is returned."""
        with self._changed:
            log = self.logs[topic, partition]
            base = log[-1].next_offset if log else self.log_starts[topic, partition]
            (delta,) = struct.unpack_from(">i", batch, 23)
            (timestamp,) = struct.unpack_from(">q", batch, 35)
            data = struct.pack(">q", base) + batch[8:12] + struct.pack(">i", self.epochs[topic, partition]) + batch[16:]
            log.append(Stored(base, base + delta + 1, timestamp, data))
            self._changed.notify_all()
            return base

    # -- life

    def start(self, node: int = 1) -> None:
        """Listen again, at the port it had before, after `stop`."""
        self._servers[node].start()

    def stop(self, node: int = 1) -> None:
        """Close the node's port and all of its connections; what it knows stays."""
        self._servers[node].stop()

    def shut(self) -> None:
        """End everything."""
        self.stopped.set()
        for server in self._servers.values():
            server.stop()
        for server in self._servers.values():
            server.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, problem: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.shut()

    def _serve(self, node: int, connection: socket.socket) -> None:
        with self._changed:
            self.connections += 1
            self._changed.notify_all()
        while not self.stopped.is_set() and (body := receive_frame(connection)) is not None:
            self._take(node, connection, body)

    def _take(self, node: int, connection: socket.socket, body: bytes) -> None:
        key, version, correlation_id = struct.unpack_from(">hhi", body)
        api = next(name for name in SERVED if _request_class(name).api_key == key)
        request_class = _request_class(api)
        if api == "ApiVersions" and version > self.max_versions.get(api, request_class.max_version):
            message = None
        else:
            header_class = protocol.RequestHeader.plan(request_header_version(request_class, version))
            _, used = header_class.decode_prefix(body)
            message = request_class.decode(body[used:], version)
        request = Request(api, version, message, node, time.monotonic())
        with self._changed:
            self.requests.append(request)
            step = self._next_step(api, node)
            self._changed.notify_all()
        step(Exchange(self, request, correlation_id, connection))

    def _next_step(self, api: str, node: int) -> Step:
        for key in ((api, node), (api, None)):
            if self._scripts[key]:
                return self._scripts[key].popleft()
        return self._always.get((api, node)) or self._always.get((api, None)) or behave

    # -- what the APIs do

    def handle(self, request: Request) -> Any:
        """Execute a request, and return the response."""
        handler: Callable[[Request], Any] = getattr(self, f"_{_snake(request.api)}")
        return handler(request)

    def refuse(self, request: Request, code: int, message: str | None = None) -> Any:
        """A response with an error code wherever the API has room for one."""
        asked = request.message
        response_class: Any = _request_class(request.api).response
        if request.api == "Metadata":
            response = self._metadata(request)
            for topic in response.topics:
                topic.error_code = code
                topic.partitions = []
            return response
        if request.api == "ListOffsets":
            return _list_offsets_response(asked, lambda _topic, _partition, _timestamp: (code, -1))
        if request.api == "Fetch":
            return self._fetch_response(request, lambda _where, _offset: (code, b""))
        if request.api == "Produce":
            return self._produce_response(request, lambda _where, _data: (code, -1), message)
        return response_class(error_code=code)

    def topic_id(self, name: str) -> uuid.UUID:
        """The id that a topic has for ever."""
        return uuid.uuid5(uuid.NAMESPACE_DNS, name) if self.topic_ids else uuid.UUID(int=0)

    def _api_versions(self, request: Request) -> Any:
        response_class = protocol.ApiVersionsResponse
        api_keys = []
        for name in SERVED:
            api = _request_class(name)
            high = self.max_versions.get(name, api.max_version - bool(getattr(api, "latest_unstable", False)))
            api_keys.append(
                response_class.ApiVersion(api_key=api.api_key, min_version=min(api.min_version, high), max_version=high)
            )
        code = ErrorCode.UNSUPPORTED_VERSION if request.message is None else ErrorCode.NONE
        return response_class(error_code=code, api_keys=api_keys)

    def _metadata(self, request: Request) -> Any:
        response_class = protocol.MetadataResponse
        asked = request.message.topics
        names = list(self.topics) if asked is None else [topic.name for topic in asked]
        topics = []
        for name in names:
            if name not in self.topics:
                topics.append(
                    response_class.MetadataResponseTopic(
                        error_code=ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, name=name, partitions=[]
                    )
                )
                continue
            partitions = [
                response_class.MetadataResponsePartition(
                    partition_index=index,
                    leader_id=self.leaders.get((name, index), 1),
                    leader_epoch=self.epochs[name, index],
                )
                for index in range(self.topics[name])
            ]
            topics.append(
                response_class.MetadataResponseTopic(name=name, topic_id=self.topic_id(name), partitions=partitions)
            )
        brokers = [
            response_class.MetadataResponseBroker(node_id=node, host="127.0.0.1", port=server.port)
            for node, server in self._servers.items()
        ]
        return response_class(brokers=brokers, cluster_id="scripted", controller_id=1, topics=topics)

    def _describe_configs(self, request: Request) -> Any:
        """Report that the broker does not create topics automatically."""
        response_class: Any = protocol.DescribeConfigsResponse
        entry = response_class.DescribeConfigsResourceResult(name="auto.create.topics.enable", value="false")
        (asked,) = request.message.resources
        result = response_class.DescribeConfigsResult(
            resource_type=asked.resource_type, resource_name=asked.resource_name, configs=[entry]
        )
        return response_class(results=[result])

    def _list_offsets(self, request: Request) -> Any:
        def find(topic: str, partition: int, timestamp: int) -> tuple[int, int]:
            if partition >= self.topics.get(topic, 0):
                return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1
            if self.leaders.get((topic, partition), 1) != request.node:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            if timestamp == EARLIEST:
                return ErrorCode.NONE, self.log_starts[topic, partition]
            if timestamp < 0:
                return ErrorCode.NONE, self._end(topic, partition)
            late = [stored for stored in self.logs[topic, partition] if stored.max_timestamp_ms >= timestamp]
            return ErrorCode.NONE, late[0].base_offset if late else -1

        with self._changed:
            return _list_offsets_response(request.message, find)

    def _init_producer_id(self, _request: Request) -> Any:
        with self._changed:
            self._next_producer_id += 1
            return protocol.InitProducerIdResponse(producer_id=self._next_producer_id, producer_epoch=0)

    def _end(self, topic: str, partition: int) -> int:
        log = self.logs[topic, partition]
        return log[-1].next_offset if log else self.log_starts[topic, partition]

    def _fetch(self, request: Request) -> Any:
        limit = request.message.max_bytes

        def read(where: tuple[str, int], offset: int) -> tuple[int, bytes]:
            nonlocal limit
            if self.leaders.get(where, 1) != request.node:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER, b""
            if not self.log_starts[where] <= offset <= self._end(*where):
                return ErrorCode.OFFSET_OUT_OF_RANGE, b""
            data = b""
            for stored in self.logs[where]:
                if stored.next_offset <= offset:
                    continue
                if data and len(data) + len(stored.data) > limit:
                    break
                data += stored.data
            limit = max(0, limit - len(data))
            return ErrorCode.NONE, data

        deadline = time.monotonic() + request.message.max_wait_ms / 1000
        with self._changed:
            while True:
                response = self._fetch_response(request, read)
                parts = [part for topic in response.responses for part in topic.partitions]
                left = deadline - time.monotonic()
                if any(part.records or part.error_code for part in parts) or left <= 0:
                    return response
                self._changed.wait(min(left, 0.05))

    def _fetch_response(self, request: Request, read: Callable[[tuple[str, int], int], tuple[int, bytes]]) -> Any:
        response_class = protocol.FetchResponse
        topics = []
        for topic in request.message.topics:
            name = self._name_of(topic.topic, topic.topic_id)
            partitions = []
            for part in topic.partitions:
                known = name is not None and part.partition < self.topics[name]
                code, data = (
                    read((name or "", part.partition), part.fetch_offset)
                    if known
                    else (ErrorCode.UNKNOWN_TOPIC_ID, b"")
                )
                end = self._end(name or "", part.partition)
                partitions.append(
                    response_class.PartitionData(
                        partition_index=part.partition,
                        error_code=code,
                        high_watermark=end,
                        last_stable_offset=end,
                        log_start_offset=self.log_starts[name or "", part.partition],
                        aborted_transactions=[],
                        records=data,
                    )
                )
            topics.append(
                response_class.FetchableTopicResponse(topic=topic.topic, topic_id=topic.topic_id, partitions=partitions)
            )
        return response_class(responses=topics)

    def _produce(self, request: Request) -> Any:
        def write(where: tuple[str, int], data: bytes) -> tuple[int, int]:
            if self.leaders.get(where, 1) != request.node:
                return ErrorCode.NOT_LEADER_OR_FOLLOWER, -1
            (batch,) = records.decode_batches(data)
            if batch.producer_id < 0:
                return ErrorCode.NONE, self.append(*where, data)
            return self._write_once(where, batch, data)

        with self._changed:
            response = self._produce_response(request, write)
        return None if request.message.acks == 0 else response

    def _write_once(self, where: tuple[str, int], batch: Any, data: bytes) -> tuple[int, int]:
        """Append a batch as brokers do: a producer's last batches are recognised, and others follow them (KIP-98).

        A producer that the partition does not know may begin with any number.
        """
        producer = (*where, batch.producer_id)
        first = (batch.producer_epoch, deque[tuple[int, int, int]](maxlen=BATCHES_REMEMBERED))
        epoch, known = self._producers.get(producer, first)
        if batch.producer_epoch > epoch:
            known = first[1]
        for sequence, count, offset in known:
            if (sequence, count) == (batch.base_sequence, len(batch)):
                return ErrorCode.NONE, offset
        unheard_of = producer not in self._producers
        following = (known[-1][0] + known[-1][1]) % 2**31 if known else 0
        expected = batch.base_sequence if unheard_of else following
        if batch.base_sequence != expected:
            return ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER, -1
        offset = self.append(*where, data)
        known.append((batch.base_sequence, len(batch), offset))
        self._producers[producer] = (batch.producer_epoch, known)
        return ErrorCode.NONE, offset

    def _produce_response(
        self, request: Request, write: Callable[[tuple[str, int], bytes], tuple[int, int]], message: str | None = None
    ) -> Any:
        response_class = protocol.ProduceResponse
        topics = []
        for topic in request.message.topic_data:
            name = self._name_of(topic.name, topic.topic_id)
            parts = []
            for part in topic.partition_data:
                known = name is not None and part.index < self.topics[name]
                where = (name or "", part.index)
                code, offset = (
                    write(where, bytes(part.records)) if known else (ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, -1)
                )
                parts.append(
                    response_class.PartitionProduceResponse(
                        index=part.index, error_code=code, base_offset=offset, error_message=message
                    )
                )
            topics.append(
                response_class.TopicProduceResponse(name=topic.name, topic_id=topic.topic_id, partition_responses=parts)
            )
        return response_class(responses=topics)

    def _name_of(self, name: str, topic_id: uuid.UUID) -> str | None:
        if name:
            return name if name in self.topics else None
        return next((known for known in self.topics if self.topic_id(known) == topic_id), None)


def _list_offsets_response(asked: Any, find: Callable[[str, int, int], tuple[int, int]]) -> Any:
    response_class = protocol.ListOffsetsResponse
    topics = []
    for topic in asked.topics:
        partitions = []
        for part in topic.partitions:
            code, offset = find(topic.name, part.partition_index, part.timestamp)
            partitions.append(
                response_class.ListOffsetsPartitionResponse(
                    partition_index=part.partition_index, error_code=code, offset=offset
                )
            )
        topics.append(response_class.ListOffsetsTopicResponse(name=topic.name, partitions=partitions))
    return response_class(topics=topics)


def _request_class(api: str) -> Any:
    return protocol.MESSAGES[f"{api}Request"]


def _snake(name: str) -> str:
    return "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name).lstrip("_")


@contextlib.contextmanager
def black_hole() -> Iterator[str]:
    """The address of a socket that takes connections and never says a word."""
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen(64)
        yield f"127.0.0.1:{listener.getsockname()[1]}"


def closed_port() -> str:
    """An address that no server listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return f"127.0.0.1:{probe.getsockname()[1]}"


def batch_of(values: Sequence[bytes], **options: Any) -> bytes:
    """A wire batch of values."""
    return records.encode_batch(list(values), **options)
