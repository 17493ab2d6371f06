"""A simulated cluster that tests script: handlers in place of a broker's own, and changes of its state in one call.

    with World(brokers=2) as world:
        world.create_topic("t", partitions=2)
        world.on("Produce", lambda call: HANGUP if call.node == 1 else None)

`World` is `ClusterWorld`, so the embedded broker responds unless a handler does. Leaders move only by `move_leader`: a
broker that is down keeps its partitions, until it is up again. The first broker coordinates all groups and
transactional ids.
"""

from __future__ import annotations

import asyncio
import functools
import struct
import uuid
from collections import defaultdict
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

from kafwire import protocol
from kafwire.broker.api.fetch import FetchSessions
from kafwire.broker.groups.offsets import OffsetStore
from kafwire.broker.log.batch_header import BatchHeader
from kafwire.broker.log.log import MemoryLog
from kafwire.broker.log.partition import Partition
from kafwire.broker.log.producer_state import Aborted
from kafwire.broker.request import ClientConnection, Request
from kafwire.broker.topics.topics import NO_TOPIC_ID, Topic
from kafwire.broker.transactions.transactions import Transactions
from kafwire.protocol.framing import request_header_version
from kafwire.testing.simulation.calls import Call, Handler, Response
from kafwire.testing.simulation.cluster import LISTENER, ClusterNode, ClusterWorld
from kafwire.testing.simulation.network import OnResponse


@dataclass(slots=True)
class Stored:
    """One batch in a log: its header and bytes."""

    header: BatchHeader
    data: bytes

    @property
    def base(self) -> int:
        """Its first offset."""
        return self.header.base_offset

    @property
    def next(self) -> int:
        """The offset after its last record."""
        return self.header.next_offset


class Log(Partition):
    """A partition with short names for its state, which tests change freely. Followers that lag are out of sync."""

    __slots__ = ()

    @property
    def high_watermark(self) -> int:
        """The high watermark: the log's end, unless a test sets it by `held_at`."""
        return self.end if self.held_at is None else min(self.end, self.held_at)

    @property
    def start(self) -> int:
        """The first offset."""
        return self.log.start_offset

    @property
    def end(self) -> int:
        """The offset after the last record; the last batch may end before it."""
        return self.log.end_offset

    @property
    def batches(self) -> list[Stored]:
        """The stored batches. A list of fewer or other batches replaces them; the log's end stays."""
        return [Stored(each, cast("bytes", self.log.read(each.base_offset, each.size))) for each in self.log.headers(0)]

    @batches.setter
    def batches(self, batches: list[Stored]) -> None:
        end = self.log.end_offset
        self.log.truncate(0)
        for stored in batches:
            stored.header.size = len(stored.data)
            self.log.append(stored.data, [stored.header])
        self.log.end_offset = end

    def lead(self, node: int, epoch: int | None = None, *, end: int | None = None) -> None:
        """Make `node` the leader with all records, or with those before `end`, in the next epoch or in this one."""
        if epoch is not None:
            self.leader_epoch = epoch - 1
        super().lead(node, end=self.end if end is None else end)

    def replace(self, index: int, data: bytes) -> None:
        """Replace the bytes of the batch with that number, which keeps its offsets."""
        batches = self.batches
        batches[index].data = data
        self.batches = batches

    def append(
        self,
        data: bytes | bytearray,
        headers: list[BatchHeader] | None = None,
        *,
        next_offset: int | None = None,
    ) -> int:
        """See `Partition`; `next_offset` leaves a hole after the batches."""
        base = super().append(data, headers)
        if next_offset is not None:
            self.log.end_offset = next_offset
        return base

    def abort(self, producer_id: int, first_offset: int) -> None:
        """Note an aborted transaction, which ends with the producer's next marker, or never."""
        marks = (
            each.last_offset
            for each in self.log.headers(first_offset)
            if each.is_control and each.producer_id == producer_id
        )
        self.producers.aborted.append(Aborted(producer_id, first_offset, next(marks, 1 << 62)))


class ScriptedTopic(Topic):
    """A topic and its partitions' logs."""

    partitions: list[Log]  # type: ignore[assignment]


class _KeptLog(MemoryLog):
    """The log of a partition, whose records tests read after the deletion of its topic."""

    def delete(self) -> None:
        """Keep the records."""


class _TopicIds(dict[uuid.UUID, Topic]):
    """The topics by their ids, which tests change."""

    def __init__(self, by_name: dict[str, Topic]) -> None:
        super().__init__()
        self._by_name = by_name

    def get(self, topic_id: uuid.UUID, default: Any = None) -> Any:
        """Return the topic that has the id now."""
        return next((topic for topic in self._by_name.values() if topic.topic_id == topic_id), default)

    def __contains__(self, topic_id: object) -> bool:
        return any(topic.topic_id == topic_id for topic in self._by_name.values())

    def __getitem__(self, topic_id: uuid.UUID) -> Topic:
        found: Topic | None = self.get(topic_id)
        if found is None:
            raise KeyError(topic_id)
        return found

    def __delitem__(self, topic_id: uuid.UUID) -> None:
        """Do nothing: a deleted topic has no name any more."""


class _Coordinators(dict[str, int]):
    """The coordinators of groups and transactional ids: the first broker, unless moved."""

    def get(self, key: str, default: Any = None) -> Any:
        """Return the coordinator's number."""
        return super().get(key, 1 if default is None else default)


class ScriptedNode(ClusterNode):
    """One broker. A test stops it by `down`, and sets its rack and its versions."""

    @property
    def down(self) -> bool:
        """True if the broker is stopped."""
        return not self._world.state.nodes[self.number].is_up

    @down.setter
    def down(self, down: bool) -> None:
        self._world.state.nodes[self.number].is_up = not down

    @property
    def rack(self) -> str | None:
        """Its rack."""
        return self._world.state.nodes[self.number].rack

    @rack.setter
    def rack(self, rack: str | None) -> None:
        self._world.state.nodes[self.number].rack = rack

    @property
    def versions(self) -> dict[str, tuple[int, int]]:
        """The advertised versions of APIs, where not all."""
        return self._world.state.nodes[self.number].versions

    @versions.setter
    def versions(self, versions: dict[str, tuple[int, int]]) -> None:
        self._world.state.nodes[self.number].versions = versions

    def read(self, connection: ClientConnection, data: bytes) -> Request:
        """See `ClusterNode`. A test's handlers serve APIs and versions that the broker does not."""
        key, version, correlation_id = struct.unpack_from(">hhi", data)
        kind = request_classes()[key]
        header, used = protocol.RequestHeader.plan(request_header_version(kind, version)).decode_prefix(data)
        message = kind.decode(data[used:], version)
        return Request(connection, message, version, correlation_id, header.client_id, size=len(data))


@functools.cache
def request_classes() -> dict[int, type[Any]]:
    """Return the classes of requests, by API key."""
    classes: list[Any] = [protocol.MESSAGES[name] for name in protocol.MESSAGES if name.endswith("Request")]
    return {cls.api_key: cls for cls in classes}


class World(ClusterWorld):
    """A cluster that a test scripts.

    Args:
        brokers: how many.
        topic_ids: give topics ids.
        seed: decides every random choice, of the clients and of the brokers.
    """

    nodes: dict[int, ScriptedNode]  # type: ignore[assignment]
    node_class = ScriptedNode

    def __init__(self, *, brokers: int = 1, topic_ids: bool = True, seed: int = 0) -> None:
        super().__init__(brokers=brokers, seed=seed, configs={"auto.create.topics.enable": "false"})
        self.topic_ids = topic_ids
        self.calls: list[Call] = []
        self.handlers: dict[str, list[Handler]] = {}
        self.topics = cast("dict[str, ScriptedTopic]", self.state.topics.by_name)
        self._tasks: dict[Request, asyncio.Future[Response]] = {}
        self.state.cluster_id = "simulated"
        self.state.coordinators = _Coordinators()
        self.state.on_reply = self._later
        self.state.topics.by_id = _TopicIds(self.state.topics.by_name)
        self.state.topics.partition_class = Log
        self.state.topics.make_log = lambda topic, index: _KeptLog()  # noqa: ARG005
        made = self.state.topics.make_id
        self.state.topics.make_id = lambda: made() if self.topic_ids else NO_TOPIC_ID
        self._offsets: OffsetStore = self.state.part(OffsetStore)
        self.transactions: Transactions = self.state.part(Transactions)
        self.transactions.marker_delay_ms = 0.5  # less than the network's latency

    # --- requests

    def on(self, api: str, handler: Handler) -> None:
        """Put `handler` before all other handlers of requests to `api`."""
        self.handlers.setdefault(api, []).insert(0, handler)

    def off(self, api: str) -> None:
        """Leave `api` to the broker again."""
        self.handlers.pop(api, None)

    def made(self, api: str) -> list[Call]:
        """Return the requests of `api` so far."""
        return [call for call in self.calls if call.name == api]

    def ask(self, request: Request, on_response: OnResponse) -> None:
        """Pass a request to the first handler with a response, else to the broker."""
        via = request.connection
        now_ms, number = self.engine.now_ms(), request.correlation_id
        call = Call(now_ms, via.node, via.number, request.version, number, request.message, request)
        self.calls.append(call)
        self._respond(
            request, iter([partial(handler, call) for handler in self.handlers.get(call.name, ())]), on_response
        )

    def _respond(self, request: Request, handlers: Iterator[Callable[[], Response]], on_response: OnResponse) -> None:
        for handler in handlers:
            response = handler()
            if isinstance(response, Awaitable):
                task = self._tasks[request] = asyncio.ensure_future(response, loop=self.loop)
                task.add_done_callback(lambda task: self._found(request, handlers, on_response, task))
                return
            if response is not None:
                on_response(request, response)
                return
        super().ask(request, on_response)

    def _found(
        self, request: Request, handlers: Iterator[Any], on_response: OnResponse, task: asyncio.Future[Any]
    ) -> None:
        if task.cancelled() or self._tasks.pop(request, None) is None:
            return
        try:
            response = task.result()
            if response is None:
                self._respond(request, handlers, on_response)
            else:
                on_response(request, response)
        except Exception as error:  # noqa: BLE001 - a handler's defect
            self.fail(error)

    def forget(self, request: Request) -> None:
        """See `ClusterWorld`."""
        super().forget(request)
        task = self._tasks.pop(request, None)
        if task is not None:
            task.cancel()

    def serve(self, call: Call) -> Any:
        """Return the broker's own response to a request, or a future if it comes later."""
        sent, future = call.request, asyncio.Future[Response](loop=self.loop)
        if sent is None or not sent.connection.is_open:  # a broker drops the responses of an ended connection
            connection = self.state.connect(call.node, LISTENER)
        else:
            connection = sent.connection
        client_id = None if sent is None else sent.client_id
        request = Request(connection, call.message, call.version, call.correlation_id, client_id)

        def on_response(_: Any, response: Response) -> None:
            if not future.done():
                future.set_result(response)

        super().ask(request, on_response)
        return future.result() if future.done() else future

    async def response_to(self, call: Call) -> Any:
        """Return the broker's own response to a request when it comes."""
        response = self.serve(call)
        return await response if isinstance(response, asyncio.Future) else response

    def _later(self) -> None:
        """Deliver a response to a change that a test made."""
        if not self.is_busy:
            self.loop.call_soon(self.changed)

    # --- topics and their logs

    def create_topic(self, name: str, *, partitions: int = 1, replicas: int = 1) -> ScriptedTopic:
        """Create a topic; partitions get leaders in turn, the next nodes follow. A recreated topic has another id."""
        if name in self.topics:
            self.delete_topic(name)
        self.state.topics.create(name, 0)
        self.add_partitions(name, partitions, replicas=replicas)
        return self.topics[name]

    def add_partitions(self, name: str, count: int, *, replicas: int = 1) -> None:
        """Add `count` partitions."""
        topic, nodes = self.topics[name], list(self.nodes)
        first = len(topic.partitions)
        placed = [
            [nodes[(index + i) % len(nodes)] for i in range(min(replicas, len(nodes)))]
            for index in range(first, first + count)
        ]
        self.state.topics.add_partitions(topic, count, assignments=placed)

    def delete_topic(self, name: str) -> None:
        """Delete a topic."""
        self.state.topics.delete(self.topics[name])

    def log(self, name: str, partition: int = 0) -> Log:
        """Return the log of a partition."""
        return self.topics[name].partitions[partition]

    def move_leader(self, name: str, partition: int, leader: int) -> None:
        """Make another broker the leader of a partition, with all records, in the next epoch."""
        self.log(name, partition).lead(leader)

    def lose_records(self, name: str, partition: int, leader: int, offset: int) -> None:
        """Make `leader`, which has no records from `offset` on, the leader by an unclean election (KIP-320)."""
        self.log(name, partition).lead(leader, end=offset)

    def forget_producers(self, node: int, kept: int) -> None:
        """Restart `node`, which then remembers `kept` batches of each producer."""
        self.state.forget_producers(node, kept)

    # --- brokers, groups and transactions

    def kill(self, node: int, *, clean: bool = False) -> None:  # noqa: ARG002
        """End a broker, which keeps its partitions; its fetch sessions end with it."""
        self.nodes[node].down = True
        self.sessions(node).sessions.clear()
        self.break_connections(node)

    def move_broker(self, node: int) -> None:
        """Give a broker another address from now on; connections to the old one stay and are served."""
        self._change_address(node)

    def sessions(self, node: int) -> Any:
        """Return the fetch sessions that `node` keeps; clear its `sessions` to make the broker forget them."""
        return self.state.part(FetchSessions).of(node)

    def move_coordinator(self, key: str, node: int) -> None:
        """Make `node` the coordinator of a group or a transactional id; -1: it has no coordinator."""
        self.state.move_coordinator(key, node)

    @property
    def committed(self) -> defaultdict[str, dict[tuple[str, int], Any]]:
        """The committed offsets, by group and by partition."""
        return self._offsets.committed

    @property
    def transaction_version(self) -> int:
        """The finalised level of the feature."""
        return self.state.features["transaction.version"]

    @transaction_version.setter
    def transaction_version(self, level: int) -> None:
        self.state.features["transaction.version"] = level
