"""Topic lookup: how often topics are asked for, which ones the broker must create, and when to give up."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Sequence
from typing import Any, Protocol

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.metadata import Metadata, TopicInfo
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, ProtocolError, broker_error
from kafwire.runtime.interfaces import Engine
from kafwire.runtime.log import cluster_log as log
from kafwire.runtime.retrieval import retrieve

# Not every broker knows a new topic yet. A broker that shares its cores has been seen to take more than 0.7 s.
# (librdkafka waits 30 s, `topic.metadata.propagation.max.ms`; Java's producer all of `max.block.ms`.)
UNKNOWN_TOPIC_RESPONSES = 4
UNKNOWN_TOPIC_MS = 3_000
BROKER_RESOURCE = 4
AUTO_CREATE = "auto.create.topics.enable"
# A broker changes the setting only by a restart.
CREATION_SETTING_MS = 10_000


class UnknownResponses:
    """Responses that a topic or partition is unknown: believed after several, over some time."""

    def __init__(self) -> None:
        self._number = 0
        self._first_ms = 0.0
        self._last_ms = 0.0

    def count(self, now_ms: float) -> None:
        """Count a response."""
        if not self._number:
            self._first_ms = now_ms
        self._number += 1
        self._last_ms = now_ms

    @property
    def are_believed(self) -> bool:
        """True if a new topic would be known by now."""
        return self._number >= UNKNOWN_TOPIC_RESPONSES and self._last_ms - self._first_ms >= UNKNOWN_TOPIC_MS


class TopicCreation:
    """The requests that create topics: one at a time, and a topic in one of them, for all callers. Runs on the engine.

    Topics that callers add while a request is in flight share the next one.
    """

    def __init__(self, ask: Callable[[set[str]], Awaitable[None]]) -> None:
        """`ask` sends one request, and applies its response."""
        self._ask = ask
        self._last: asyncio.Task[None] | None = None
        self._gathered: set[str] = set()  # by the last request, which is not sent yet
        self._requests: dict[str, asyncio.Task[None]] = {}

    async def create(self, names: Collection[str]) -> None:
        """Wait for the responses to the requests with these topics."""
        if new := set(names) - self._requests.keys():
            if self._last is None or not self._gathered:
                self._last = asyncio.ensure_future(self._run(self._last))
                self._last.add_done_callback(retrieve)
            self._gathered |= new
            self._requests.update(dict.fromkeys(new, self._last))
        requests = {self._requests[name] for name in names}
        await asyncio.wait(requests)
        for request in requests:
            request.result()

    async def _run(self, before: asyncio.Task[None] | None) -> None:
        if before is not None:
            await asyncio.wait([before])
        names, self._gathered = self._gathered, set()
        try:
            await self._ask(names)
        finally:
            for name in names:
                del self._requests[name]


class CreationSetting:
    """Whether a broker's configuration lets it create topics on request. Runs on the engine.

    Callers share the request in flight; later ones use its result for `CREATION_SETTING_MS`.
    """

    def __init__(self, engine: Engine, known: Callable[[], list[BrokerConnection]]) -> None:
        """`known` lists the connections of brokers, in the order to ask them."""
        self._engine = engine
        self._known = known
        self._request: asyncio.Task[bool | None] | None = None
        self._ended_ms = 0.0

    async def read(self) -> bool | None:
        """Return the setting; None if the broker does not respond."""
        request = self._request
        if request is None or (request.done() and self._engine.now_ms() - self._ended_ms >= CREATION_SETTING_MS):
            request = self._request = asyncio.ensure_future(self._ask())
            request.add_done_callback(retrieve)
        await asyncio.wait([request])
        return request.result()

    async def _ask(self) -> bool | None:
        request: Any = protocol.DescribeConfigsRequest
        try:
            for connection in self._known()[:1]:
                resource = request.DescribeConfigsResource(
                    resource_type=BROKER_RESOURCE, resource_name=str(connection.node), configuration_keys=[AUTO_CREATE]
                )
                response = await connection.call(request(resources=[resource]))
                found = {entry.name: entry.value for result in response.results for entry in result.configs}
                return {"true": True, "false": False}.get(found.get(AUTO_CREATE) or "")
            return None
        except KafkaError:
            return None
        finally:
            self._ended_ms = self._engine.now_ms()


class SearchedCluster(Protocol):
    """The part of a cluster client that a search of topics needs."""

    metadata: Metadata
    engine: Engine
    creation_setting: CreationSetting

    @property
    def bootstrap(self) -> str:
        """The bootstrap servers, in words."""

    def has_seen(self, name: str) -> bool:
        """True if a response showed the topic `name` before."""

    async def create_missing(self, names: Collection[str]) -> None:
        """Request metadata of these topics; brokers may create them."""

    async def refresh(self, topics: Iterable[str] = (), *, at_once: bool = False) -> None:
        """Request metadata of these topics too."""


class TopicSearch:
    """The search of `Cluster.topics`, one attempt at a time."""

    def __init__(
        self, cluster: SearchedCluster, names: Sequence[str], *, patient: bool, fresh: bool, create: bool
    ) -> None:
        self._cluster = cluster
        self._names = names
        self._patient = patient
        self._settled = fresh or patient  # wanted without a doubtful id
        self._asked = not fresh
        self._create = {name for name in names if not cluster.has_seen(name)} if create else set()
        self._created: set[str] = set()  # topics that the broker was asked to create
        self._absent: set[str] = set()  # and that did not exist then
        self._unknown = UnknownResponses()

    async def attempt(self) -> list[TopicInfo]:
        """Return the topics; raise a retriable `BrokerError` until they are all available."""
        cluster, metadata = self._cluster, self._cluster.metadata
        if not (self._asked and not self._missing()):
            if self._create:
                await cluster.create_missing(self._create)
                self._created, self._create = self._create, set()
                self._absent = {name for name in self._created if name in metadata.errors}
                await self._check_creation()
                if rest := [name for name in self._names if name not in self._created]:
                    await cluster.refresh(rest)
            else:
                # The backoff slows requests that bring no change. This caller's first request has a reason: it would
                # wait up to `retry_backoff_max_ms` behind others, even for a topic that the client knows.
                await cluster.refresh(self._names, at_once=not self._asked)
        self._asked = True
        codes = {name: code for name in self._names if (code := metadata.errors.get(name, 0))}
        if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes.values():
            self._unknown.count(cluster.engine.now_ms())
            await self._believe({name for name, code in codes.items() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        problems = [broker_error(code, f"topic {name!r}", api="Metadata", topic=name) for name, code in codes.items()]
        if problems:
            raise min(problems, key=lambda problem: problem.retriable)  # permanent errors before all others
        for name in self._names:
            if not self._has_partitions(name):
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r} has no partitions")
            if name in self._missing():
                raise broker_error(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"topic {name!r} was recreated, and not all brokers know the new topic yet",
                )
        for name in self._absent:
            count = len(metadata.topics[name].partitions)
            log.info(
                "kafwire: topic %r did not exist: the broker has created it, with %d partition(s)",
                name,
                count,
                topic=name,
                partitions=count,
            )
        return [metadata.topics[name] for name in self._names]

    async def _check_creation(self) -> None:
        """Raise if a topic is missing and creating it is not permitted.

        A broker reports that with the same code as a topic without the Describe permission.
        """
        errors = self._cluster.metadata.errors
        denied = [n for n in self._created if errors.get(n) == ErrorCode.TOPIC_AUTHORIZATION_FAILED]
        if not denied:
            return
        await self._cluster.refresh(denied, at_once=True)
        for name in denied:
            if self._cluster.metadata.errors.get(name) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
                what = f"topic {name!r} does not exist"
                raise broker_error(ErrorCode.TOPIC_AUTHORIZATION_FAILED, what, api="CreateTopics", topic=name)

    def _missing(self) -> set[str]:
        """The names whose current metadata cannot be returned."""
        metadata = self._cluster.metadata
        doubts = metadata.doubts if self._settled else ()
        return {
            name for name in self._names if name in metadata.errors or name in doubts or not self._has_partitions(name)
        }

    def _has_partitions(self, name: str) -> bool:
        known = self._cluster.metadata.topics.get(name)
        return known is not None and bool(known.partitions)

    async def _believe(self, unknown: set[str]) -> None:
        """Raise if enough responses said that a topic does not exist, and no broker creates it."""
        if self._patient or not self._unknown.are_believed:
            return
        name = min(unknown)
        text = f"topic {name!r} does not exist on {self._cluster.bootstrap}"
        if unknown - self._created:
            name = min(unknown - self._created)
            text = f"topic {name!r} does not exist on {self._cluster.bootstrap}: create it, or check the name"
        elif await self._cluster.creation_setting.read() is False:
            text += (
                f", and brokers do not create topics ({AUTO_CREATE}=false): create it "
                f"(kafwire topics create {name}), or check the name"
            )
        else:
            self._patient = True
            log.info("kafwire: topic %r does not exist yet: waiting for the broker to create it", name, topic=name)
            return
        raise UnknownTopic(text, unknown)

    def not_in_time(self, name: str, within_ms: float) -> str:
        """Describe, for an error, a topic that was unknown when the time was up."""
        bootstrap = self._cluster.bootstrap
        what = f"topic {name!r} does not exist on {bootstrap}: create it, or check the name"
        if name in self._created:
            what = (
                f"topic {name!r} does not exist: {bootstrap} was asked to create it but did not; create it "
                f"(kafwire topics create {name}), or look for the cause in the broker's log"
            )
        return f"{what}; no other response within {round(within_ms / 1000, 2):g} s"


class UnknownTopic(ProtocolError):
    """Ends the retries of `Cluster.topics`."""

    def __init__(self, message: str, names: set[str]) -> None:
        """`names` do not exist."""
        super().__init__(message)
        self.names = names
