"""The cluster client: bootstrap, metadata, routing to leaders, and calls that are tried again.

One per client object. connections are made on demand, named by their role; sockets are never shared between client
objects.
"""

from __future__ import annotations

import asyncio
import contextlib
import uuid
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from functools import partial
from typing import Any, TypeVar

from kafwire.cluster.backoff import delay_ms
from kafwire.cluster.broker_connection import BrokerConnection, host_and_port
from kafwire.cluster.controller_requests import is_refused, needs_controller
from kafwire.cluster.hedging import first_answer
from kafwire.cluster.metadata import BrokerAddress, Metadata, TopicInfo
from kafwire.cluster.metadata_refresh import Refresher
from kafwire.cluster.node import Node
from kafwire.cluster.reachability_log import Reach
from kafwire.cluster.topic_lookup import TopicSearch, UnknownTopic
from kafwire.config import ClientConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    broker_error,
)
from kafwire.protocol.api.metadata import MetadataRequest
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import log
from kafwire.security.client_security import ClientSecurity

_T = TypeVar("_T")

# In bytes: older versions of requests have two bytes for a text's length.
LONGEST_NAME = 0x7FFF

# Called on the engine with the names of topics that changed.
OnChange = Callable[[set[str]], object]


class Cluster:
    """What one client object knows of the cluster, and its connections to it."""

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
        self._refreshed_ms = -1.0e12
        self._refresher = Refresher(engine, config, self._refresh)
        self.coordinators: dict[tuple[int, str], int] = {}  # brokers, by kind of key and key
        self._responses: dict[int, int] = {}  # by broker: the number of its last metadata response
        self._elsewhere = False  # whether the next refresh asks first the brokers that have not responded lately
        self._watching: asyncio.Task[None] | None = None
        # Since when, and until when, no broker has given any metadata.
        self._failing_since_ms: float | None = None
        self._failed_ms = 0.0
        self._kept: set[str] = set()
        self._keeping: asyncio.Task[None] | None = None
        self._doubting: asyncio.TimerHandle | None = None
        self._listeners: dict[object, OnChange] = {}
        self._on_overdue: list[Callable[[BrokerConnection], object]] = []

    @property
    def connections(self) -> list[BrokerConnection]:
        """All connections, the bootstrap servers' first."""
        return [*self._seeds, *(connection for node in self._nodes.values() for connection in node.connections)]

    def connection(self, node: int, role: str) -> BrokerConnection:
        """The connection of a known broker for `role`, not opened yet when new.

        A role is any name: `control`, `fetch`, `produce`, or one of a caller's own like `fetch:topic-3`. Each is a
        connection, until it is released.
        """
        address = self.metadata.brokers.get(node)
        if address is None:
            known = ", ".join(str(n) for n in sorted(self.metadata.brokers)) or "none"
            raise KafkaConnectionError(f"broker {node} is not in the cluster's metadata (known: {known})")
        return self._node(node).connection(role, address)

    def listens(self, node: int, host: str, port: int) -> bool:
        """Whether that is where a broker listens, as far as the metadata knows."""
        address = self.metadata.brokers.get(node)
        return address is not None and (address.host, address.port) == (host, port)

    def believe(self, node: int, host: str, port: int) -> None:
        """Take in where a broker listens, told beside metadata, if these do not know it or it cannot be reached there.

        Neither of two such answers says which one is older.
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
        )
        if self._closed:
            connection.close()
        return connection

    def _make_seed(self, index: int) -> BrokerConnection:
        """The connection to a bootstrap server, as long as nobody knows which broker that is."""
        host, port = self.config.bootstrap_servers[index]
        return self._make(Node(-1 - index, self._make), BrokerAddress(host, port, None), "control")

    def feature(self, name: str) -> int:
        """The level of a finalised feature, as the newest answer to ApiVersions told (KIP-584); 0: none."""
        newest = max(
            (connection.features for connection in self.connections), key=lambda news: news[0], default=(-1, {})
        )
        self._features = max(self._features, newest, key=lambda news: news[0])
        return self._features[1].get(name, 0)

    def release(self, node: int, role: str) -> None:
        """Close one connection and forget it; what is pending on it fails. The next `connection` of that name is a new
        one.
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

        Without a `node`, a request that only the controller executes goes to the controller, which is looked up again
        after NOT_CONTROLLER. In the version negotiated, unless `version` says another. Other error codes in the
        response are the caller's to read.
        """

        async def attempt() -> Any:
            if node is None and needs_controller(message):
                return await self._call_controller(message, version)
            if node is None:
                return await self._call_any(message, version)
            if node not in self.metadata.brokers:
                await self.refresh()
            return await self.connection(node, "control").call(message, version=version)

        return await self.retrying(attempt, f"{type(message).__name__}", timeout_ms)

    async def retrying(
        self, attempt: Callable[[], Awaitable[_T]], what: str | Callable[[], str], timeout_ms: float | None = None
    ) -> _T:
        """Run `attempt` until it succeeds, with backoff; gives up on errors that no retry mends, and in time.

        A callable `what` names, when the time is up, the part that did not succeed.
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
            except TimeoutError:  # the time for all attempts, not that of one request
                break
            failures += 1
            wait = delay_ms(
                failures, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, self.engine.random.random()
            )
            if self.engine.now_ms() + wait >= deadline:
                break
            await asyncio.sleep(wait / 1000)
        waiting = [text for connection in self.connections if (text := connection.waits_for) is not None]
        because = f": {last if last is not None else '; '.join(waiting) or f'no answer from {self.bootstrap}'}"
        kind = type(last) if isinstance(last, KafkaConnectionError) else KafkaTimeoutError
        text = what if isinstance(what, str) else what()
        raise kind(f"{text} did not succeed within {round(limit_ms / 1000, 2):g} s{because}")

    def known(self) -> list[BrokerConnection]:
        """The control connections of all known brokers, in the order to ask them.

        Connected ones come first, those that have nothing to do before others; then those that failed, and at last
        those that owe somebody an answer for long.
        """
        known = [self.connection(node, "control") for node in self.metadata.brokers]
        self.engine.random.shuffle(known)
        known.sort(
            key=lambda connection: (
                self._node(connection.node).is_overdue,
                not connection.is_ready,
                connection.failures,
                connection.in_flight > 0,
            )
        )
        return known

    def _bootstrap_connections(self) -> list[BrokerConnection]:
        """The bootstrap servers', unless they may not be asked again."""
        if self.metadata.brokers and not self._may_rebootstrap:
            return []
        return sorted(self._seeds, key=lambda connection: not connection.is_ready)

    @property
    def _may_rebootstrap(self) -> bool:
        return self.config.metadata_recovery_strategy == "rebootstrap"

    async def _call_any(self, message: Any, version: int | None = None, *, first: int = -1) -> Any:
        """Have one broker answer, at last a bootstrap server.

        What changes something goes to one that has just given a sign of life: it must not be sent twice to find out.
        """
        known = self.known()
        known.sort(key=lambda connection: connection.node != first)
        problems: list[str] = []
        is_reading = _only_reads(message)

        async def ask(connection: BrokerConnection) -> tuple[BrokerConnection, Any]:
            if is_reading:
                return connection, await connection.call(message, version=version)
            await connection.check()
            return connection, None

        found = await first_answer(known, ask, problems) or await first_answer(
            self._bootstrap_connections(), ask, problems
        )
        if found is None:
            raise _unreachable(problems)
        connection, response = found
        if connection not in known and known:
            # No known broker answered, yet one does: what is known is out of date (KIP-899).
            self._refresher.begin()
        return response if is_reading else await connection.call(message, version=version)

    async def _call_controller(self, message: Any, version: int | None) -> Any:
        """Have the controller respond, or another broker where the controller gives no sign of life.

        That one forwards the request, or refuses it: brokers with KRaft name any broker as the controller.
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
        """Ask another broker than the last time for metadata: the controller moved."""
        with contextlib.suppress(KafkaConnectionError, KafkaTimeoutError, BrokerError):
            await self.refresh(at_once=True, elsewhere=True)

    def hasten(self) -> None:
        """Have the next refresh, one that is waited for already too, wait for the first step of its backoff at most.

        For who has a cause to ask that was not there before.
        """
        self._refresher.hasten()

    async def refresh(self, topics: Iterable[str] = (), *, at_once: bool = False, elsewhere: bool = False) -> None:
        """Fetch metadata, of all topics this client has asked for; concurrent calls share one request.

        Requests that bring no news come with an exponential backoff, which all callers share; topics that were never
        asked for do not wait for it. `at_once`: neither does the caller, who needs the answer to a request sent after
        this call, and paces himself. `elsewhere`: another broker is asked first than the last time, which may lag less.
        """
        self._elsewhere |= elsewhere
        new = set(topics) - self._wanted
        for name in new:
            _check_name(name)
        self._wanted |= new
        await self._refresher.refresh(at_once=at_once or bool(new))

    async def _refresh(self) -> bool:
        """One request; whether its answer was news."""
        asked = set(self._wanted)
        elsewhere, self._elsewhere = self._elsewhere, False
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(asked)]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._ask_metadata(request, elsewhere=elsewhere)
        self._refreshed_ms = self.engine.now_ms()
        return self._take_in(response, asked - self._wanted)

    async def look_up_ids(self, topic_ids: Iterable[uuid.UUID]) -> None:
        """Take in the topics with these ids, as far as a broker shows them; the next call asks another broker first.

        Raises `KafkaConnectionError`, `BrokerError`.
        """
        topics = [MetadataRequest.MetadataRequestTopic(topic_id=each, name=None) for each in topic_ids]
        request = MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._ask_metadata(request, elsewhere=True)
        self._wanted |= {topic.name for topic in response.topics if topic.name and not topic.error_code}
        self._take_in(response)

    def _take_in(self, response: Any, forgotten: Iterable[str] = ()) -> bool:
        """Believe an answer, but for what was `forgotten` since it was asked for, and tell who listens what changed.

        Returns whether anything did.
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
        """Refresh once it may be decided which of two ids is that of a topic."""
        if self._doubting is not None:
            self._doubting.cancel()
            self._doubting = None
        until_ms = self.metadata.doubted_until_ms()
        if until_ms is not None and not self._closed:
            wait = max(until_ms - self.engine.now_ms(), self.config.retry_backoff_ms)
            begin = partial(self._refresher.begin, at_once=True)
            self._doubting = asyncio.get_running_loop().call_later(wait / 1000, begin)

    async def _ask_metadata(self, request: Any, *, elsewhere: bool = False) -> Any:
        """The answer of a known broker; at last, that of a bootstrap server.

        Bootstrap servers are believed whatever they tell, as the user named them. Known brokers are not: their
        addresses may have come to belong to another cluster.
        """
        now = self.engine.now_ms()
        trigger_ms = self.config.metadata_recovery_rebootstrap_trigger_ms
        if self._failing_since_ms is None or now - self._failed_ms > trigger_ms:  # nobody has asked for so long
            self._failing_since_ms = self._failed_ms = now
        left_s = (self._failing_since_ms + trigger_ms - now) / 1000

        async def ask_known(connection: BrokerConnection) -> Any:
            response = await connection.call(request)
            if response.error_code == ErrorCode.REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
                self._leave_all(f"{connection.where} said so")
                raise KafkaConnectionError(f"{connection.where} wants its clients to bootstrap again")
            if response.error_code:
                raise broker_error(response.error_code, f"asking {connection.where} for metadata", api="Metadata")
            if not self.metadata.is_of(response):
                connection.fail(f"it answers for cluster {response.cluster_id}, not {self.metadata.cluster_id}")
                raise KafkaConnectionError(f"{connection.where} belongs to another cluster now, {response.cluster_id}")
            self._responses[connection.node] = max(self._responses.values(), default=0) + 1
            return response

        known = self.known()
        if elsewhere:
            known.sort(
                key=lambda connection: (
                    self._node(connection.node).is_overdue,
                    connection.failures,
                    self._responses.get(connection.node, 0),
                )
            )

        problems: list[str] = []
        ask_seed = partial(self._ask_seed, request)
        may_leave = self._may_rebootstrap and bool(self.metadata.brokers)
        try:
            try:
                async with asyncio.timeout(max(0.0, left_s) if may_leave else None):
                    response = await first_answer(known, ask_known, problems)
                    if response is None:
                        response = await first_answer(self._bootstrap_connections(), ask_seed, problems)
            except TimeoutError:
                self._leave_all(f"no known broker has given metadata for {trigger_ms} ms")
                response = await first_answer(self._bootstrap_connections(), ask_seed, problems)
        finally:
            self._failed_ms = self.engine.now_ms()
        if response is None:
            raise _unreachable(problems)
        self._failing_since_ms = None
        return response

    async def _ask_seed(self, request: Any, connection: BrokerConnection) -> Any:
        response = await connection.call(request)
        if response.error_code:
            # Behind the same name may be others that know more.
            connection.fail("it has no metadata to give")
            raise KafkaConnectionError(
                str(broker_error(response.error_code, f"asking {connection.where} for metadata", api="Metadata"))
            )
        if not self.metadata.is_of(response):
            log.warning(
                "kafwire: %s is of cluster %s now, no longer of %s: what was known is forgotten",
                connection.where,
                response.cluster_id,
                self.metadata.cluster_id,
            )
            self._leave_all("its cluster was replaced", but=connection)
        return response

    def _leave_all(self, why: str, *, but: BrokerConnection | None = None) -> None:
        """Forget where brokers are, and close every connection; bootstrap servers are looked up and asked next."""
        log.info("kafwire: bootstrapping again from %s: %s", self.bootstrap, why)
        self.metadata.brokers.clear()
        nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            node.close(f"the client bootstraps again, as {why}")
        for seed in self._seeds:
            if seed is not but and seed.is_ready:
                seed.fail("the client bootstraps again")

    def _cluster_to_name(self) -> str | None:
        """The cluster that connections name to its brokers; None: they name none."""
        is_checked = self._may_rebootstrap and self.config.metadata_cluster_check_enable
        return self.metadata.cluster_id if is_checked else None

    def _on_misdirected(self, connection: BrokerConnection) -> None:
        """A known broker's address leads to another broker (KIP-1242): the known addresses are out of date."""
        if self._closed or connection.node not in self.metadata.brokers:
            return
        self._leave_all(f"{connection.where} is another broker now")
        self._refresher.begin()

    def on_change(self, callback: OnChange) -> Callable[[], None]:
        """Have `callback` called after each refresh with the names of topics that changed; returns what ends that.

        Changed are new partitions, leaders, replicas and ids, and whether the brokers have the topic at all (see
        `metadata.errors`). What `metadata.update_leader` takes in is not told: its caller knows.
        """
        key = object()
        self._listeners[key] = callback

        def stop() -> None:
            self._listeners.pop(key, None)

        return stop

    def on_overdue(self, callback: Callable[[BrokerConnection], object]) -> Callable[[], None]:
        """Have `callback` called with a connection that owes an answer for long, again and again; returns what ends
        that.
        """
        self._on_overdue.append(callback)

        def stop() -> None:
            if callback in self._on_overdue:
                self._on_overdue.remove(callback)

        return stop

    def _watch_over(self, connection: BrokerConnection) -> None:
        """A broker that owes an answer for long may hang, and others may lead its partitions by now.

        Nothing else says so before the request's time is up.
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
                    log.debug("kafwire: metadata could not be refreshed: %s", error)
        finally:
            self._watching = None

    def _tell(self, changed: set[str]) -> None:
        for callback in list(self._listeners.values()):
            try:
                callback(set(changed))
            except Exception:
                # One listener's defect must not keep the news from the others, nor from who waits for the refresh.
                log.exception("kafwire: a change of topics %s could not be handled", sorted(changed))

    def keep_fresh(self, topics: Iterable[str]) -> None:
        """Refresh these topics each `metadata_max_age_ms` from now on, and forget those kept fresh so far.

        A refresh that fails is tried again with backoff. Nothing is asked at once, unless the metadata is stale. No
        topics end it, and so does the client's end.
        """
        kept = set(topics)
        self.forget(self._kept - kept)
        self._kept = kept
        self._wanted |= kept
        if kept and self._keeping is None and not self._closed:
            self._keeping = asyncio.ensure_future(self._keep_fresh())

    def forget(self, topics: Iterable[str]) -> None:
        """Ask for these topics no more, and drop what is known of them."""
        names = set(topics)
        self._kept -= names
        self._wanted -= names
        self.metadata.forget(names)
        if not self._kept and self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None

    async def _keep_fresh(self) -> None:
        while True:
            wait = self._refreshed_ms + self.config.metadata_max_age_ms - self.engine.now_ms()
            if wait > 0:  # somebody else may refresh meanwhile
                await asyncio.sleep(wait / 1000)
                continue
            try:
                await self.refresh()
            except KafkaError as error:
                log.debug("kafwire: metadata could not be refreshed: %s", error)

    def _leave_departed(self) -> None:
        """Close the idle connections of brokers that left the cluster, or listen elsewhere now.

        What is in flight may still be answered: a broker can be missing from the news of one that lags. Those
        connections are looked at again after the next refresh.
        """
        for number, node in list(self._nodes.items()):
            address = self.metadata.brokers.get(number)
            node.leave_departed(address)
            if address is None and not node.connections:
                del self._nodes[number]

    def _adopt_seeds(self) -> None:
        """A bootstrap connection goes on as the control connection of the broker that it turned out to be."""
        for index, seed in enumerate(self._seeds):
            for number, address in self.metadata.brokers.items():
                if seed.is_ready and seed.is_to(address) and self._node(number).find("control") is None:
                    self._node(number).adopt(seed)
                    self._seeds[index] = self._make_seed(index)
                    break

    @property
    def is_stale(self) -> bool:
        """Whether `metadata_max_age_ms` has passed since the last refresh."""
        return self.engine.now_ms() - self._refreshed_ms > self.config.metadata_max_age_ms

    async def topic(
        self,
        name: str,
        *,
        timeout_ms: float | None = None,
        patient: bool = False,
        fresh: bool = False,
        create: bool = False,
    ) -> TopicInfo:
        """One topic; see `topics`."""
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
        """Topics with at least one partition each.

        An unknown one may have been made a moment ago: it is asked for again for 3 s, or, if `patient`, until the time
        is up. With `patient` or `fresh`, doubts which of two topics of that name is the newer one are waited out.
        With `create` the first request has the broker create those that this client has never seen, and they are waited
        for as long, unless the broker says that it creates none.
        """
        search = TopicSearch(self, names, patient=patient, fresh=fresh, create=create)
        what = f"finding topic {names[0]!r}" if len(names) == 1 else f"finding {len(names)} topics"
        try:
            return await self.retrying(search.attempt, what, timeout_ms)
        except UnknownTopic as error:
            for name in error.names - self._kept:
                self._wanted.discard(name)  # or each name that was ever mistaken would be asked for again and again
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, error.message) from None
        except BrokerError as error:
            if not error.retriable:  # neither would one that must not be described
                self._wanted -= {n for n in names if n in self.metadata.errors and n not in self.metadata.topics}
                self._wanted |= self._kept
            raise
        except KafkaTimeoutError:
            unknown = [name for name in names if self.metadata.errors.get(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION]
            if unknown:
                limit_ms = self.config.default_api_timeout_ms if timeout_ms is None else timeout_ms
                text = search.not_in_time(unknown[0], limit_ms)
                raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text) from None
            raise

    async def create_missing(self, names: Collection[str]) -> None:
        """One request for these topics alone, which has a broker create those that do not exist.

        No other request asks for that, and this one names no topic that was seen before: what somebody deletes stays
        deleted.
        """
        for name in names:
            _check_name(name)
        topics = [MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(names)]
        self._wanted |= set(names)
        self._take_in(await self._ask_metadata(MetadataRequest(topics=topics, allow_auto_topic_creation=True)))

    def has_seen(self, name: str) -> bool:
        """Whether this client ever learnt of a topic of that name."""
        return name in self._seen

    async def partitions(self, name: str) -> set[int]:
        """The partitions of a topic, by metadata that are asked for now: some may have been added."""
        return set((await self.topic(name, fresh=True)).partitions)

    async def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; waits for an election to end."""

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
        """`shut`, for who can await."""
        self.shut()

    def shut(self) -> None:
        """Close every connection; what is pending fails."""
        self._closed = True
        self._listeners.clear()
        self._on_overdue.clear()
        self._refresher.stop()
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        if self._doubting is not None:
            self._doubting.cancel()
        for connection in self.connections:
            connection.close()


def _unreachable(problems: Iterable[str]) -> KafkaConnectionError:
    return KafkaConnectionError(f"no broker can be reached: {'; '.join(dict.fromkeys(problems))}")


def _only_reads(message: Any) -> bool:
    """Whether a request may go to several brokers at once, as it changes nothing; an unused producer id is nothing."""
    name = type(message).__name__
    if name == "InitProducerIdRequest":
        return message.transactional_id is None
    return name.startswith(("ApiVersions", "Describe", "FindCoordinator", "List", "Metadata"))


def _check_name(topic: str) -> None:
    """Refuse a name that no request can carry: it would spoil those of all other topics too."""
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"topic {topic!r}: a name with a lone surrogate cannot be sent") from None
    if size > LONGEST_NAME:
        raise ConfigError(f"topic {topic[:40]!r}...: a name of {size} bytes cannot be sent; Kafka's have at most 249")
