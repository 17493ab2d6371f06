"""A cluster of brokers as one state machine without clock, socket or randomness: `(state, request, now) -> responses`.

    dispatch.receive(state, request, now_ms)  # the last request of its connection has its response
    state.advance(now_ms)                     # time has passed: at `state.next_due_ms` at the latest
    for request, response in state.take_replies(): ...

Driven by sockets (`socket_server.py`), it is the embedded broker. Driven by a simulated network, it is a world for
tests (`kafwire.testing.simulation`). `dispatch.py` calls the handlers, which are one file per API, in `api/`.
"""

from __future__ import annotations

import random
import uuid
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from kafwire.broker.log.partition import Partition, PartitionTopic
from kafwire.broker.log.replication import Replication
from kafwire.broker.request import ClientConnection, Request, Response
from kafwire.broker.request_log import RequestLog
from kafwire.broker.security.acls import CLUSTER_NAME, Authorizer, Operation, ResourceType
from kafwire.broker.storage.journal import JournalWriter, NoJournal
from kafwire.broker.timers import Timer, Timers
from kafwire.broker.topics.configs import BROKER_CONFIGS, COARSER, TOPIC_CONFIGS
from kafwire.broker.topics.group_configs import GROUP_CONFIGS, broker_option
from kafwire.broker.topics.topics import Topics

if TYPE_CHECKING:
    from kafwire.broker.profiles import ServerProfile

WALL_MS = 1_700_000_000_000
INTERNAL_PARTITIONS = 50  # of __consumer_offsets and __transaction_state

# Called with a request before its handler. Returns a response in place of the handler's, or None.
Interceptor = Callable[[Request], Response | None]


@dataclass(slots=True)
class BrokerNode:
    """One broker of the cluster. `addresses`: (host, port) of each listener."""

    number: int
    addresses: dict[str, tuple[str, int]] = field(default_factory=dict)
    rack: str | None = None
    is_up: bool = True
    versions: dict[str, tuple[int, int]] = field(default_factory=dict)  # the advertised versions of APIs, where not all
    epoch: int = 1  # one more with every start
    is_registered: bool = True  # until UnregisterBroker, and from the next start on

    def address(self, listener: str) -> tuple[str, int]:
        """Return the address at which clients of this listener find it."""
        return self.addresses.get(listener) or next(iter(self.addresses.values()), ("", -1))


class ClusterState:
    """The state of a cluster's brokers, and their responses.

    Args:
        nodes: the brokers' ids.
        configs: broker options, by Kafka's names; see `configs.py`.
        seed: the seed of ids.
        wall_ms: the wall clock's time when the monotonic one is 0, in milliseconds.
        authorizer: enforce ACLs (`acls.py`), as with the option `authorizer.class.name`.
        profile: the server that the brokers are like; None: Kafka.
    """

    def __init__(
        self,
        nodes: Iterable[int] = (1,),
        *,
        configs: Mapping[str, str] | None = None,
        seed: int = 0,
        wall_ms: float = WALL_MS,
        authorizer: bool = False,
        profile: ServerProfile | None = None,
    ) -> None:
        self.profile = profile
        self.random = random.Random(seed)
        self.now_ms = 0.0
        self.wall_offset_ms = wall_ms
        self.timers = Timers()
        self.nodes = {number: BrokerNode(number) for number in nodes}
        self.configs: dict[str, str] = {**(profile.configs if profile else {}), **(configs or {})}
        self.group_configs: dict[str, dict[str, str]] = {}  # options of single groups
        self.cluster_id = self.make_cluster_id()
        self.topics = Topics(lambda: [n.number for n in self.nodes.values() if n.is_up] or [*self.nodes], self.make_id)
        self.interceptors: list[Interceptor] = []
        self.journal: JournalWriter = NoJournal()  # for persistent state
        self.requests = RequestLog(self.topics)
        self.coordinators: dict[str, int] = {}  # of moved groups and transactional ids; -1: no coordinator
        self.coordinator_watchers: list[Callable[[], object]] = []  # called when coordinators may have changed
        self.disconnect_watchers: list[Callable[[ClientConnection], object]] = []  # called with each that ends
        # The finalised levels of features, and the supported ones (KIP-584): `transaction.version` 2 is KIP-890's.
        # `group.version` 1 has the consumer protocol (KIP-848), `share.version` 1 share groups (KIP-932).
        # `streams.version` 1 has streams groups (KIP-1071).
        self.features = {
            "metadata.version": 33,
            "transaction.version": 2,
            "group.version": 1,
            "share.version": 2,
            "streams.version": 1,
        }
        self.supported_features = {
            "metadata.version": (7, 33),
            "transaction.version": (0, 2),
            "group.version": (0, 1),
            "share.version": (0, 2),
            "streams.version": (0, 1),
        }
        if profile is not None:
            self.features = dict(profile.features)
            self.supported_features = {
                name: (self.supported_features[name][0], level) for name, level in profile.features.items()
            }
        self.features_epoch = 1
        self.creation_ms = 0.0  # from the request for a missing topic to its creation
        self.before_4 = False  # True if coordinators behave like Kafka 3.9, else like 4.4
        # The batches of each producer that a broker remembers after a crash: up to 5 where no snapshot covers a log's
        # end.
        self.kept_after_crash = 1
        self.on_reply: Callable[[], object] = lambda: None  # called with each response that is ready
        self._replies: deque[tuple[Request, Response]] = deque()
        self._connections = 0
        self._parts: dict[type[Any], Any] = {}
        self.authorizer: Authorizer = self.part(Authorizer)
        self.authorizer.is_enabled = authorizer or bool(self.config("authorizer.class.name").strip())

    # --- time, ids, parts

    def part(self, kind: type[Any]) -> Any:
        """Return the one object of a class with state for an API, created by `kind(state)` at the first call."""
        found = self._parts.get(kind)
        if found is None:
            found = self._parts[kind] = kind(self)
        return found

    @property
    def wall_ms(self) -> int:
        """The brokers' wall-clock time."""
        return int(self.wall_offset_ms + self.now_ms)

    def after(self, delay_ms: float, call: Callable[[], object]) -> Timer:
        """Call `call` after this many milliseconds."""
        return self.timers.at(self.now_ms + delay_ms, call)

    def make_id(self) -> uuid.UUID:
        """Return a new topic id."""
        return uuid.UUID(int=self.random.getrandbits(128), version=4)

    def make_cluster_id(self) -> str:
        """Return a new cluster id of 22 characters, like Kafka's."""
        import base64

        return base64.urlsafe_b64encode(self.make_id().bytes).decode().rstrip("=")

    def config(self, name: str) -> str:
        """Return a broker option."""
        value = self.configs.get(name)
        if value is not None:
            return value
        for coarser, ms in COARSER.get(name, {}).items():
            if coarser in self.configs:
                return str(max(-1, int(self.configs[coarser]) * ms))
        return BROKER_CONFIGS[name].default

    def config_int(self, name: str) -> int:
        """Return an integer broker option."""
        return int(self.config(name))

    def config_is(self, name: str) -> bool:
        """Return a boolean broker option."""
        return self.config(name).strip().lower() == "true"

    def replication_factor(self, asked: int = -1) -> int:
        """Return the replication factor of a new topic; -1: the default is asked for."""
        if self.profile is not None and self.profile.replication_factor is not None:
            return self.profile.replication_factor
        return self.config_int("default.replication.factor") if asked == -1 else asked

    def set_features(self, levels: Mapping[str, int]) -> None:
        """Change the finalised levels of features; the caller has checked them."""
        self.features |= levels
        self.features_epoch += 1
        self.journal.write("features", "", [self.features, self.features_epoch])

    def group_config(self, group_id: str, name: str) -> str:
        """Return a group option: its own, or the brokers' of that name, or else the default."""
        own = self.group_configs.get(group_id, {}).get(name)
        if own is not None:
            return own
        option = broker_option(name)
        return GROUP_CONFIGS[name].default if option is None else self.config(option)

    def group_config_int(self, group_id: str, name: str) -> int:
        """Return an integer group option."""
        return int(self.group_config(group_id, name))

    def topic_config(self, topic: PartitionTopic, name: str) -> str:
        """Return a topic option: its own, or the broker's."""
        found = topic.configs.get(name)
        if found is not None:
            return found
        known = TOPIC_CONFIGS[name]
        return self.config(known.broker_name) if known.broker_name else known.default

    def allows(
        self, request: Request, operation: Operation, resource_type: ResourceType, name: str = CLUSTER_NAME
    ) -> bool:
        """True if ACLs allow the client of a request an operation on a resource; without a name, on the cluster."""
        authorizer, connection = self.authorizer, request.connection
        return not authorizer.is_enabled or authorizer.allows(
            connection.principal, connection.peer, operation, resource_type, name
        )

    # --- requests

    def connect(
        self, node: int, listener: str = "PLAINTEXT", peer: str = "127.0.0.1", *, secured: bool = False
    ) -> ClientConnection:
        """Return the connection of a new client. `secured`: it must authenticate by SASL first."""
        self._connections += 1
        return ClientConnection(self._connections, node, listener, peer, is_ready=not secured, profile=self.profile)

    def disconnect(self, connection: ClientConnection) -> None:
        """Note the end of a client's connection: its responses are dropped."""
        connection.is_open = False
        for watcher in self.disconnect_watchers:
            watcher(connection)

    def reply(self, request: Request, response: Response) -> None:
        """Queue a response, after the changes of fault scripts."""
        edits, request.edits = request.edits, []
        for edit in edits:
            response = edit(response)
        if request.delay_ms > 0:
            delay_ms, request.delay_ms = request.delay_ms, 0.0
            self.after(delay_ms, lambda: self.reply(request, response))
        elif request.connection.is_open:
            self._replies.append((request, response))
            self.on_reply()

    def advance(self, now_ms: float) -> None:
        """Let time pass, and call due timers."""
        while (timer := self.timers.take_due(now_ms)) is not None:
            self.now_ms = max(self.now_ms, timer.at_ms)
            if timer.call is not None:
                timer.call()
        self.now_ms = max(self.now_ms, now_ms)

    @property
    def next_due_ms(self) -> float | None:
        """The time of the next due timer, or None."""
        return self.timers.next_ms

    def take_replies(self) -> list[tuple[Request, Response]]:
        """Return the responses since the last call, in order."""
        taken = list(self._replies)
        self._replies.clear()
        return taken

    # --- leaders and coordinators

    @property
    def controller_id(self) -> int:
        """The number of the broker that is the controller; -1 if no broker is up."""
        return min((node.number for node in self.nodes.values() if node.is_up), default=-1)

    def coordinator(self, key: str) -> int:
        """The number of the broker that coordinates a group or transactional id; -1: none."""
        moved = self.coordinators.get(key)
        if moved is not None:
            return moved
        up = [node.number for node in self.nodes.values() if node.is_up]
        return up[java_hash(key) % INTERNAL_PARTITIONS % len(up)] if up else -1

    def move_coordinator(self, key: str, node: int) -> None:
        """Make `node` the coordinator of a group or transactional id; -1: it has no coordinator."""
        self.coordinators[key] = node
        self._tell_coordinator_watchers()

    def _tell_coordinator_watchers(self) -> None:
        for watcher in self.coordinator_watchers:
            watcher()

    def move_leader(self, topic: str, partition: int, node: int) -> None:
        """Make another broker the leader of a partition, in the next epoch; -1: the partition has no leader."""
        self._partition(topic, partition).lead(node)

    def lose_records(self, topic: str, partition: int, node: int, offset: int) -> None:
        """Elect `node`, which lacks the records from `offset` on, in an unclean election (KIP-320)."""
        self._partition(topic, partition).lead(node, end=offset)

    def _partition(self, topic: str, index: int) -> Partition:
        found = self.topics.partition(topic, index)
        if found is None:
            raise KeyError(f"there is no partition {topic}-{index}")
        return found

    @property
    def replication(self) -> Replication:
        """The part that elects leaders and moves followers."""
        found: Replication = self.part(Replication)
        return found

    def stop(self, number: int, *, clean: bool = True) -> None:
        """Stop a broker; other in-sync replicas lead its partitions where there are any.

        `clean`: the broker saved the state of producers. After an unclean stop it rebuilds this from its logs.
        """
        self.nodes[number].is_up = False
        self.forget_producers(number, 1 if clean else self.kept_after_crash)
        self.replication.leave(number)
        self._tell_coordinator_watchers()

    def start(self, number: int) -> None:
        """Start a broker again; it leads partitions that had no leader, and follows the others."""
        node = self.nodes[number]
        node.is_up = node.is_registered = True
        node.epoch += 1
        self.replication.come(number)
        self._tell_coordinator_watchers()

    def forget_producers(self, number: int, kept: int) -> None:
        """Make a broker remember only the last `kept` batches of each producer. See `ProducerStates.restart`."""
        for topic in self.topics:
            for partition in topic.partitions:
                partition.producers.restart(number, kept, partition.log.end_offset)


def java_hash(text: str) -> int:
    """Return `String.hashCode` of a text without its sign, by which Kafka picks an internal topic's partition."""
    value = 0
    for unit in memoryview(text.encode("utf-16-le")).cast("H"):
        value = (31 * value + unit) & 0xFFFFFFFF
    value = value - (1 << 32) if value & 0x80000000 else value
    return 0 if value == -(1 << 31) else abs(value)
