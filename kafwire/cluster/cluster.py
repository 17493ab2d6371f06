"""The cluster client: bootstrap, metadata, routing to leaders, and calls with retries.

Each client object has its own. Connections are made on demand, named by their role; client objects never share sockets.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection, host_and_port
from kafwire.cluster.controller_requests import is_refused, needs_controller
from kafwire.cluster.hedging import failure_of, first_response
from kafwire.cluster.metadata import BrokerAddress, Metadata, TopicInfo, damage_of
from kafwire.cluster.metadata_refresh import Refresher
from kafwire.cluster.next_broker import NextBroker
from kafwire.cluster.node import Node
from kafwire.cluster.reachability_log import Reach
from kafwire.cluster.topic_lookup import CreationSetting, TopicCreation, TopicSearch, UnknownTopic
from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.protocol.api.metadata import MetadataRequest
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import cluster_log as log
from kafwire.security.client_security import ClientSecurity

_T = TypeVar("_T")

# In bytes: old request versions have two bytes for a string's length.
LONGEST_NAME = 0x7FFF

# The API of GetTelemetrySubscriptions, whose module only clients of a cluster with it load.
TELEMETRY_KEY = 71

UNREACHABLE = "no broker can be reached:"

# Called on the engine with the names of topics that changed.
OnChange = Callable[[set[str]], object]


class Cluster:
    """One client object's metadata of the cluster, and its connections."""

    def __init__(self, engine: Engine, config: ClientConfig) -> None:
        self.engine = engine
        self.config = config
        self.metadata = Metadata()
        self._closed = False
        self._nodes: dict[int, Node] = {}
        self._greetings: dict[tuple[str, int], int] = {}
        self._reach = Reach(engine)
        self._security = ClientSecurity(config)
        self._seeds = [self._make_seed(index) for index in range(len(config.bootstrap_servers))]
        self._features: tuple[int, dict[str, int]] = (-1, {})
        self._wanted: set[str] = set()
        self._seen: set[str] = set()
        self._refresher = Refresher(engine, config, self._refresh)
        self._creation = TopicCreation(self._create_topics)
        self.creation_setting = CreationSetting(engine, self.known)
        self._searches: Counter[str] = Counter()  # running searches by topic
        self.coordinators: dict[tuple[int, str], int] = {}  # broker ids, by key type and key
        self._next_broker = NextBroker(engine.random, lambda node: self._node(node).is_overdue)
        self._elsewhere = False  # the next refresh first asks a broker that has not responded lately
        self._watching: asyncio.Task[None] | None = None
        # The period in which no broker has returned metadata.
        self._failing_since_ms: float | None = None
        self._failed_ms = 0.0
        self._kept: set[str] = set()
        self._doubting: asyncio.TimerHandle | None = None
        self._listeners: dict[object, OnChange] = {}
        self._on_overdue: list[Callable[[BrokerConnection], object]] = []
        # Called once, at the first connection to a broker that takes metrics of clients (KIP-714).
        self.when_subscribable: Callable[[], object] | None = None
        self.connects = 0  # of all connections, those that were released too

    @property
    def is_closed(self) -> bool:
        """True after `close` or `shut`: no request can be sent any more."""
        return self._closed

    @property
    def connections(self) -> list[BrokerConnection]:
        """All connections, the bootstrap servers' first."""
        return [*self._seeds, *(connection for node in self._nodes.values() for connection in node.connections)]

    def connection(self, node: int, role: str) -> BrokerConnection:
        """Return the connection to a known broker for `role`, not opened yet when new.

        A role is any name: `control`, `fetch`, `produce`, or a caller's own like `fetch:topic-3`. Each role has a
        connection until it is released.
        """
        address = self.metadata.brokers.get(node)
        if address is None:
            known = ", ".join(str(n) for n in sorted(self.metadata.brokers)) or "none"
            raise KafkaConnectionError(f"broker {node} is not in the cluster's metadata (known: {known})")
        return self._node(node).connection(role, address)

    def listens(self, node: int, host: str, port: int) -> bool:
        """True if the metadata has that address for a broker."""
        address = self.metadata.brokers.get(node)
        return address is not None and (address.host, address.port) == (host, port)

    def believe(self, node: int, host: str, port: int) -> None:
        """Use an address from a response other than Metadata, if metadata lacks the broker or its own address fails.

        Two such responses do not show which one is older.
        """
        fails = any(connection.failures for connection in self._node(node).connections)
        if node not in self.metadata.brokers or fails:
            known = self.metadata.brokers.get(node)
            self.metadata.brokers[node] = BrokerAddress(host, port, None if known is None else known.rack)

    def _node(self, number: int) -> Node:
        node = self._nodes.get(number)
        if node is None:
            node = self._nodes[number] = Node(number, self._make)
        return node

    def _make(self, node: Node, address: BrokerAddress, role: str) -> BrokerConnection:
        connection = BrokerConnection(
            self.engine,
            self.config,
            address.host,
            address.port,
            role,
            node.number,
            greetings=self._greetings,
            reach=self._reach,
            blame=node.blame,
            on_overdue=self._watch_over,
            security=self._security,
            cluster_id=self._cluster_to_name,
            on_misdirected=self._on_misdirected,
            on_ready=self._on_ready,
        )
        if self._closed:
            connection.close()
        return connection

    def _make_seed(self, index: int) -> BrokerConnection:
        """Make the connection to a bootstrap server whose broker id is not known yet."""
        host, port = self.config.bootstrap_servers[index]
        return self._make(Node(-1 - index, self._make), BrokerAddress(host, port, None), "control")

    def feature(self, name: str) -> int:
        """The level of a finalised feature in the newest ApiVersions response (KIP-584); 0: none."""
        newest = max(
            (connection.features for connection in self.connections), key=lambda news: news[0], default=(-1, {})
        )
        self._features = max(self._features, newest, key=lambda news: news[0])
        return self._features[1].get(name, 0)

    def release(self, node: int, role: str) -> None:
        """Close and forget one connection; its pending requests fail.

        The next `connection` of that role is a new one.
        """
        self._node(node).release(role)

    async def call(
        self,
        message: Any,
        *,
        node: int | None = None,
        version: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """Send `message` to `node`, or to any broker; lost connections are retried until `default_api_timeout_ms`.

        Without a `node`, a request that only the controller executes is sent to the controller, which is looked up
        again after NOT_CONTROLLER. `version` overrides the negotiated version. The caller checks other error codes in
        the response.
        """

        async def attempt() -> Any:
            if node is None:
                return await self.call_once(message, version=version)
            if node not in self.metadata.brokers:
                await self.refresh()
            return await self.connection(node, "control").call(message, version=version)

        return await self.retrying(attempt, f"{type(message).__name__}", timeout_ms)

    async def call_once(self, message: Any, *, version: int | None = None) -> Any:
        """Send `message` to a broker that responds, or to the controller: one attempt of `call`."""
        if needs_controller(message):
            return await self._call_controller(message, version)
        return await self._call_any(message, version)

    async def retrying(
        self, attempt: Callable[[], Awaitable[_T]], what: str | Callable[[], str], timeout_ms: float | None = None
    ) -> _T:
        """Run `attempt` until it succeeds, with backoff; stop on permanent errors, and at the time limit.

        A callable `what` returns, at the time limit, the name of the part that did not succeed.
        """
        limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
        deadline = self.engine.now_ms() + limit_ms
        failures = 0
        last: KafkaError | None = None
        while True:
            try:
                async with asyncio.timeout(max(0.001, (deadline - self.engine.now_ms()) / 1000)):
                    return await attempt()
            except (KafkaConnectionError, KafkaTimeoutError, BrokerError) as error:
                if self._closed or (isinstance(error, BrokerError) and not error.retriable):
                    raise
                last = error
            except TimeoutError:  # the time limit of all attempts, not of one request
                break
            failures += 1
            wait = self.backoff_ms(failures)
            if self.engine.now_ms() + wait >= deadline:
                break
            await asyncio.sleep(wait / 1000)
        waiting = [text for connection in self.connections if (text := connection.waits_for) is not None]
        because = f": {last if last is not None else '; '.join(waiting) or f'no response from {self.bootstrap}'}"
        kind = type(last) if isinstance(last, KafkaConnectionError) else KafkaTimeoutError
        text = what if isinstance(what, str) else what()
        raise kind(f"{text} did not succeed within {round(limit_ms / 1000, 2):g} s{because}")

    def backoff_ms(self, failures: int) -> float:
        """Return the back-off after `failures` failures in a row, by `retry_backoff_ms`."""
        base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
        return delay_ms(failures, base, limit, self.engine.random.random())

    def known(self, *, first: int = -1) -> list[BrokerConnection]:
        """List the control connections of all known brokers, in the order to ask them; broker `first` comes first."""
        known = [self.connection(node, "control") for node in self.metadata.brokers]
        return self._next_broker.order(known, first=first)

    def _bootstrap_connections(self) -> list[BrokerConnection]:
        """List the bootstrap servers' connections; none if `metadata_recovery_strategy` forbids another bootstrap."""
        if self.metadata.brokers and not self._may_rebootstrap:
            return []
        return self._next_broker.seeds(self._seeds)

    @property
    def _may_rebootstrap(self) -> bool:
        return self.config.metadata_recovery_strategy == "rebootstrap"

    async def _call_any(self, message: Any, version: int | None = None, *, first: int = -1) -> Any:
        """Ask brokers until one responds, at last the bootstrap servers.

        A request that changes something is sent to one broker that has just responded: it must not be sent twice.
        """
        known = self.known(first=first)
        problems: list[KafkaError] = []
        is_reading = _only_reads(message)

        async def ask(connection: BrokerConnection) -> tuple[BrokerConnection, Any]:
            if is_reading:
                return connection, await connection.call(message, version=version)
            await connection.check()
            return connection, None

        found = await first_response(known, ask, problems) or await first_response(
            self._bootstrap_connections(), ask, problems
        )
        if found is None:
            raise failure_of(problems, UNREACHABLE)
        connection, response = found
        if connection not in known and known:
            # No known broker responded, but a bootstrap server did: the metadata is outdated (KIP-899).
            self._refresher.begin()
        return response if is_reading else await connection.call(message, version=version)

    async def _call_controller(self, message: Any, version: int | None) -> Any:
        """Ask the controller, or another broker if the controller does not respond.

        The other broker forwards the request, or refuses it: KRaft brokers name any broker as the controller.
        """
        if self.metadata.controller not in self.metadata.brokers:
            await self.refresh()
        controller = self.metadata.controller
        try:
            response = await self._call_any(message, version, first=controller)
        except (KafkaConnectionError, KafkaTimeoutError):
            await self._find_controller()
            raise
        if is_refused(response):
            await self._find_controller()
            raise broker_error(ErrorCode.NOT_CONTROLLER, f"{type(message).__name__}, controller {controller}")
        return response

    async def _find_controller(self) -> None:
        """Ask another broker than last time for metadata: the controller moved.

        The caller raises the error of its request in any case, and retries find the controller later.
        """
        with contextlib.suppress(KafkaError):
            await self.refresh(at_once=True, elsewhere=True)

    def hasten(self) -> None:
        """Shorten the backoff of the next refresh to its first step, even of one already waited for.

        For callers with a new reason to refresh.
        """
        self._refresher.hasten()

    async def refresh(self, topics: Iterable[str] = (), *, at_once: bool = False, elsewhere: bool = False) -> None:
        """Fetch metadata of all topics this client has asked for; concurrent calls share one request.

        Requests that bring no change get an exponential backoff that all callers share; new topics do not wait
        for it. `at_once`: this caller does not wait for it either, needs the response to a request sent after this
        call, and limits its own rate. `elsewhere`: first ask another broker than last time, as it may lag less.
        """
        self._elsewhere |= elsewhere
        new = set(topics) - self._wanted
        for name in new:
            _check_name(name)
        self._wanted |= new
        await self._refresher.refresh(at_once=at_once or bool(new))

    async def _refresh(self) -> bool:
        """Send one metadata request; True if the response changed the metadata."""
        asked = set(self._wanted)
        elsewhere, self._elsewhere = self._elsewhere, False
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(asked)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._ask_metadata(request, elsewhere=elsewhere)
        return self._take_in(response, asked - self._wanted)

    async def look_up_ids(self, topic_ids: Iterable[uuid.UUID]) -> None:
        """Add the topics with these ids to the metadata, if a broker shows them.

        The next call asks another broker first.

        Raises `KafkaConnectionError`, `BrokerError`.
        """
        topics = [MetadataRequest.MetadataRequestTopic(topic_id=each, name=None) for each in topic_ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._ask_metadata(request, elsewhere=True)
        self._wanted |= {topic.name for topic in response.topics if topic.name and not topic.error_code}
        self._take_in(response)

    def _take_in(self, response: Any, forgotten: Iterable[str] = ()) -> bool:
        """Apply a metadata response, except topics `forgotten` since its request, and notify the listeners of changes.

        Returns True if topics or brokers changed.
        """
        errors, brokers = dict(self.metadata.errors), self.metadata.brokers
        changed = self.metadata.update(response, self.engine.now_ms())
        self._seen.update(topic.name for topic in response.topics if topic.name is not None and not topic.error_code)
        self.metadata.forget(forgotten)
        self._ask_again_in_doubt()
        self._adopt_seeds()
        self._leave_departed()
        now = self.metadata.errors
        changed.update(name for name in {*errors, *now} if errors.get(name) != now.get(name))
        if changed:
            self._tell(changed)
        return bool(changed) or brokers != self.metadata.brokers

    def _ask_again_in_doubt(self) -> None:
        """Schedule a refresh for the time when a topic's doubtful id can be decided."""
        if self._doubting is not None:
            self._doubting.cancel()
            self._doubting = None
        until_ms = self.metadata.doubted_until_ms()
        if until_ms is not None and not self._closed:
            wait = max(until_ms - self.engine.now_ms(), self.config.retry_backoff_ms)
            begin = partial(self._refresher.begin, at_once=True)
            self._doubting = asyncio.get_running_loop().call_later(wait / 1000, begin)

    async def _ask_metadata(self, request: Any, *, elsewhere: bool = False) -> Any:
        """Return the response of a known broker, or at last of a bootstrap server.

        Bootstrap servers are trusted in any case, as the user named them. Known brokers are not: their addresses may
        now belong to another cluster.
        """
        now = self.engine.now_ms()
        trigger_ms = self.config.metadata_recovery_rebootstrap_trigger_ms
        if self._failing_since_ms is None or now - self._failed_ms > trigger_ms:  # no request was made for so long
            self._failing_since_ms = self._failed_ms = now
        left_s = (self._failing_since_ms + trigger_ms - now) / 1000

        async def ask_known(connection: BrokerConnection) -> Any:
            response = await _metadata_of(connection, request)
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
                self._leave_all(f"{connection.where} required it")
                raise KafkaConnectionError(f"{connection.where} requires its clients to bootstrap again")
            if response.error_code:
                raise broker_error(response.error_code, f"asking {connection.where} for metadata", api="Metadata")
            if not self.metadata.is_of(response):
                connection.fail(f"it belongs to cluster {response.cluster_id}, not {self.metadata.cluster_id}")
                raise KafkaConnectionError(f"{connection.where} now belongs to another cluster, {response.cluster_id}")
            self._next_broker.note_metadata(connection.node)
            return response

        known = self.known()
        if elsewhere:
            known = self._next_broker.elsewhere(known)
        problems: list[KafkaError] = []
        ask_seed = partial(self._ask_seed, request)
        may_leave = self._may_rebootstrap and bool(self.metadata.brokers)
        try:
            try:
                async with asyncio.timeout(max(0.0, left_s) if may_leave else None):
                    response = await first_response(known, ask_known, problems)
                    if response is None:
                        response = await first_response(self._bootstrap_connections(), ask_seed, problems)
            except TimeoutError:
                self._leave_all(f"no known broker has given metadata for {trigger_ms} ms")
                response = await first_response(self._bootstrap_connections(), ask_seed, problems)
        finally:
            self._failed_ms = self.engine.now_ms()
        if response is None:
            raise failure_of(problems, UNREACHABLE)
        self._failing_since_ms = None
        return response

    async def _ask_seed(self, request: Any, connection: BrokerConnection) -> Any:
        response = await _metadata_of(connection, request)
        if response.error_code:
            # Other servers behind the same name may know more.
            connection.fail("it has no metadata")
            raise KafkaConnectionError(
                str(broker_error(response.error_code, f"asking {connection.where} for metadata", api="Metadata"))
            )
        if not self.metadata.is_of(response):
            log.warning(
                "kafwire: %s now belongs to cluster %s, no longer to %s: the old metadata is dropped",
                connection.where,
                response.cluster_id,
                self.metadata.cluster_id,
                node=connection.node,
                cluster_id=response.cluster_id,
            )
            self._leave_all("its cluster was replaced", but=connection)
        return response

    def _leave_all(self, why: str, *, but: BrokerConnection | None = None) -> None:
        """Forget all broker addresses, and close every connection; the next request uses the bootstrap servers."""
        log.info("kafwire: bootstrapping again from %s: %s", self.bootstrap, why, bootstrap=self.bootstrap, reason=why)
        self.metadata.brokers.clear()
        nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            node.close(f"the client bootstraps again, as {why}")
        for seed in self._seeds:
            if seed is not but and seed.is_ready:
                seed.fail("the client bootstraps again")

    def _cluster_to_name(self) -> str | None:
        """The cluster id that connections send to their brokers; None: none."""
        is_checked = self._may_rebootstrap and self.config.metadata_cluster_check_enable
        return self.metadata.cluster_id if is_checked else None

    def _on_misdirected(self, connection: BrokerConnection) -> None:
        """Bootstrap again: a broker's address leads to another broker (KIP-1242), so the addresses are outdated."""
        if self._closed or connection.node not in self.metadata.brokers:
            return
        self._leave_all(f"{connection.where} is now another broker")
        self._refresher.begin()

    def _on_ready(self, connection: BrokerConnection) -> None:
        self.connects += 1
        if self.when_subscribable is not None and TELEMETRY_KEY in connection.versions and not self._closed:
            begin, self.when_subscribable = self.when_subscribable, None
            begin()

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Call `callback` after each refresh with the names of changed topics; return a function that ends that.

        Changes are new partitions, leaders, replicas and ids, and whether the brokers have the topic at all (see
        `metadata.errors`). Changes by `metadata.update_leader` are not reported: its caller knows them.
        """
        key = object()
        self._listeners[key] = callback

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    def on_overdue(self, callback: Callable[[BrokerConnection], object]) -> Callable[[], None]:
        """Call `callback` repeatedly with a connection whose response is overdue; return a function that ends that."""
        self._on_overdue.append(callback)

        def stop() -> None:
            if callback in self._on_overdue:
                self._on_overdue.remove(callback)

        return stop

    def _watch_over(self, connection: BrokerConnection) -> None:
        """Refresh metadata while a response is overdue: the broker may hang, and others may lead its partitions.

        Nothing else would show that before the request times out.
        """
        if self._watching is None and self._wanted and not self._closed:
            self._watching = asyncio.ensure_future(self._watch())
        for callback in list(self._on_overdue):
            callback(connection)

    async def _watch(self) -> None:
        try:
            self.hasten()
            while any(connection.is_overdue for connection in self.connections) and not self._closed:
                try:
                    await self.refresh()
                except KafkaError as error:
                    log.debug("kafwire: metadata could not be refreshed: %s", error, error=error)
        finally:
            self._watching = None

    def _tell(self, changed: set[str]) -> None:
        for callback in list(self._listeners.values()):
            try:
                callback(set(changed))
            except Exception:
                # One listener's defect must not keep the news from the others, nor from callers that wait for the
                # refresh.
                log.exception(
                    "kafwire: a change of topics %s could not be handled", sorted(changed), topics=sorted(changed)
                )

    def keep_fresh(self, topics: Iterable[str]) -> None:
        """Refresh these topics every `metadata_max_age_ms` from now on, and forget those kept fresh so far.

        A failed refresh is retried with backoff. No request is sent at once, unless the metadata is stale. An empty set
        ends it, and so does closing the client.
        """
        kept = set(topics)
        self.forget(self._kept - kept)
        self._kept = kept
        self._wanted |= kept
        if kept and not self._closed:
            self._refresher.begin_timer()

    def forget(self, topics: Iterable[str]) -> None:
        """Stop refreshing these topics, and drop their metadata."""
        names = set(topics)
        self._kept -= names
        self._wanted -= names
        self.metadata.forget(names)
        if not self._kept:
            self._refresher.end_timer()

    def _leave_departed(self) -> None:
        """Close the idle connections of brokers that left the cluster, or moved to another address.

        Requests in flight may still get a response: a lagging broker may omit a live one. Those connections are checked
        again after the next refresh.
        """
        for number, node in list(self._nodes.items()):
            address = self.metadata.brokers.get(number)
            node.leave_departed(address)
            if address is None and not node.connections:
                del self._nodes[number]

    def _adopt_seeds(self) -> None:
        """Reuse a bootstrap connection as the control connection of the broker it turned out to be."""
        for index, seed in enumerate(self._seeds):
            for number, address in self.metadata.brokers.items():
                if seed.is_ready and seed.is_to(address) and self._node(number).find("control") is None:
                    self._node(number).adopt(seed)
                    self._seeds[index] = self._make_seed(index)
                    break

    @property
    def is_stale(self) -> bool:
        """True if `metadata_max_age_ms` has passed since the last refresh."""
        return self._refresher.age_ms > self.config.metadata_max_age_ms

    async def topic(
        self,
        name: str,
        *,
        timeout_ms: float | None = None,
        patient: bool = False,
        fresh: bool = False,
        create: bool = False,
    ) -> TopicInfo:
        """Return one topic; see `topics`."""
        (info,) = await self.topics([name], timeout_ms=timeout_ms, patient=patient, fresh=fresh, create=create)
        return info

    async def topics(
        self,
        names: Sequence[str],
        *,
        timeout_ms: float | None = None,
        patient: bool = False,
        fresh: bool = False,
        create: bool = False,
    ) -> list[TopicInfo]:
        """Return topics with at least one partition each.

        An unknown topic may have been created a moment ago: it is asked for again for 3 s, or, if `patient`, until the
        time is up. With `patient` or `fresh`, the call waits until it is decided which of two topics of a name is the
        newer one. With `create`, the first request makes the broker create topics that this client has never seen; the
        call waits for them as long, unless the broker reports that it creates none.
        """
        search = TopicSearch(self, names, patient=patient, fresh=fresh, create=create)
        what = f"finding topic {names[0]!r}" if len(names) == 1 else f"finding {len(names)} topics"
        self._searches.update(set(names))
        unknown: Collection[str] = ()
        try:
            return await self.retrying(search.attempt, what, timeout_ms)
        except UnknownTopic as error:
            unknown = error.names
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error.message) from None
        except KafkaTimeoutError:
            unknown = [name for name in names if self.metadata.errors.get(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            if unknown:
                limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
                text = search.not_in_time(unknown[0], limit_ms)
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text) from None
            raise
        finally:
            self._searches -= Counter(set(names))
            in_vain = {name for name in names if name in unknown or name not in self.metadata.topics}
            # Stop refreshing names that were not found: mistyped ones, and topics without the Describe permission. Keep
            # those of other running searches: dropping one makes its next refresh skip the backoff.
            self._wanted -= in_vain - self._kept - self._searches.keys()

    async def create_missing(self, names: Collection[str]) -> None:
        """Make a broker create those of these topics that do not exist.

        No other request creates topics, and this one names no topic that was seen before: a deleted topic stays
        deleted.
        """
        for name in names:
            _check_name(name)
        self._wanted |= set(names)
        await self._creation.create(names)

    async def _create_topics(self, names: set[str]) -> None:
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
        response = await self._ask_metadata(MetadataRequest(topics=topics, allow_auto_topic_creation=True))
        self._take_in(response, names - self._wanted)

    def has_seen(self, name: str) -> bool:
        """True if this client ever saw a topic of that name."""
        return name in self._seen

    async def partitions(self, name: str) -> set[int]:
        """Return the partitions of a topic, by a new metadata request: some may have been added."""
        return set((await self.topic(name, fresh=True)).partitions)

    async def leader(self, topic: str, partition: int) -> int:
        """Return the broker that leads a partition; wait for an election to end."""

        async def attempt() -> int:
            leader = self.metadata.leader(topic, partition)
            if leader < 0:
                await self.refresh([topic])
                leader = self.metadata.leader(topic, partition)
            if leader < 0:
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
            return leader

        return await self.retrying(attempt, f"finding the leader of {topic}-{partition}")

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers as the user gave them."""
        return ",".join(host_and_port(host, port) for host, port in self.config.bootstrap_servers)

    async def close(self) -> None:
        """Like `shut`, as a coroutine."""
        self.shut()

    def shut(self) -> None:
        """Close every connection; pending requests fail."""
        self._closed = True
        self._listeners.clear()
        self.when_subscribable = None
        self._on_overdue.clear()
        self._refresher.stop()
        if self._doubting is not None:
            self._doubting.cancel()
        for connection in self.connections:
            connection.close()


async def _metadata_of(connection: BrokerConnection, request: Any) -> Any:
    """Return the metadata of a broker; raise `ProtocolError` for partition numbers that cannot be right."""
    response = await connection.call(request)
    if damage := damage_of(response):
        connection.fail("its metadata is damaged")
        raise ProtocolError(f"{connection.where} sent a response with {damage}", api="MetadataResponse")
    return response


def _only_reads(message: Any) -> bool:
    """True if a request may be sent to several brokers: it changes nothing. An unused producer id counts as nothing."""
    name = type(message).__name__
    if name == "InitProducerIdRequest":
        return message.transactional_id is None
    return name.startswith(("ApiVersions", "Describe", "FindCoordinator", "List", "Metadata"))


def _check_name(topic: str) -> None:
    """Raise for a name that no request can carry: it would break the requests for all topics."""
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"topic {topic!r}: a name with a lone surrogate cannot be sent") from None
    if size > LONGEST_NAME:
        raise ConfigError(f"topic {topic[:40]!r}...: a name of {size} bytes cannot be sent; Kafka's have at most 249")
