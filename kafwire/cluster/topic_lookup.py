"""Looking for topics: how often they are asked for, which the broker is asked to create, and when to give up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from kafwire import protocol
from kafwire.cluster.metadata import TopicInfo
from kafwire.error_codes import ErrorCode
from kafwire.errors import KafkaError, ProtocolError, broker_error
from kafwire.runtime.log import log

if TYPE_CHECKING:
    from kafwire.cluster.cluster import Cluster

# A topic made a moment ago is not known to every broker yet. A broker that shares its cores has been seen to take more
# than 0.7 s. (librdkafka waits 30 s, `topic.metadata.propagation.max.ms`; Java's producer all of `max.block.ms`.)
UNKNOWN_TOPIC_ANSWERS = 4
UNKNOWN_TOPIC_MS = 3_000
BROKER_RESOURCE = 4
AUTO_CREATE = "auto.create.topics.enable"


class UnknownAnswers:
    """Answers that there is no such topic or partition: one is believed after several, over some time."""

    def __init__(self) -> None:
        self._number = 0
        self._first_ms = 0.0
        self._last_ms = 0.0

    def count(self, now_ms: float) -> None:
        """One more answer."""
        if not self._number:
            self._first_ms = now_ms
        self._number += 1
        self._last_ms = now_ms

    @property
    def are_believed(self) -> bool:
        """Whether a topic made a moment ago would be known by now."""
        return self._number >= UNKNOWN_TOPIC_ANSWERS and self._last_ms - self._first_ms >= UNKNOWN_TOPIC_MS


class TopicSearch:
    """What `Cluster.topics` looks for, attempt by attempt."""

    def __init__(self, cluster: Cluster, names: Sequence[str], *, patient: bool, fresh: bool, create: bool) -> None:
        self._cluster = cluster
        self._names = names
        self._patient = patient
        self._settled = fresh or patient  # wanted without a doubt
        self._asked = not fresh
        self._create = {name for name in names if not cluster.has_seen(name)} if create else set()
        self._created: set[str] = set()  # those that the broker was asked to create
        self._absent: set[str] = set()  # and did not have then
        self._unknown = UnknownAnswers()

    async def attempt(self) -> list[TopicInfo]:
        """The topics; raises a `BrokerError` that may be retried until they are there."""
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
                # The backoff paces requests that bring no news. The first one of this caller has its own reason: a
                # running client would wait up to `retry_backoff_max_ms` for a topic that it knows.
                await cluster.refresh(self._names, at_once=not self._asked)
        self._asked = True
        codes = {name: code for name in self._names if (code := metadata.errors.get(name, 0))}
        if ErrorCode.UNKNOWN_TOPIC_OR_PARTITION in codes.values():
            self._unknown.count(cluster.engine.now_ms())
            await self._believe({name for name, code in codes.items() if code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION})
        problems = [broker_error(code, f"topic {name!r}", api="Metadata", topic=name) for name, code in codes.items()]
        if problems:
            raise min(problems, key=lambda problem: problem.retriable)  # what no retry mends before all others
        for name in self._names:
            if not self._has_partitions(name):
                raise broker_error(ErrorCode.LEADER_NOT_AVAILABLE, f"topic {name!r} has no partitions")
            if name in self._missing():
                raise broker_error(
                    ErrorCode.LEADER_NOT_AVAILABLE,
                    f"topic {name!r} was recreated, and not all brokers know the new one yet",
                )
        for name in self._absent:
            count = len(metadata.topics[name].partitions)
            log.info("kafwire: topic %r did not exist: the broker has created it, with %d partition(s)", name, count)
        return [metadata.topics[name] for name in self._names]

    async def _check_creation(self) -> None:
        """Raise if a topic may be described, and does not exist, but must not be created: a broker calls that the same
        as one that must not be described.
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
        """Those that cannot be given out as they are known now."""
        metadata = self._cluster.metadata
        doubts = metadata.doubts if self._settled else ()
        return {
            name for name in self._names if name in metadata.errors or name in doubts or not self._has_partitions(name)
        }

    def _has_partitions(self, name: str) -> bool:
        known = self._cluster.metadata.topics.get(name)
        return known is not None and bool(known.partitions)

    async def _believe(self, unknown: set[str]) -> None:
        """Raise if enough answers said that a topic does not exist, and nobody creates it."""
        if self._patient or not self._unknown.are_believed:
            return
        name = min(unknown)
        text = f"topic {name!r} does not exist on {self._cluster.bootstrap}"
        if unknown - self._created:
            name = min(unknown - self._created)
            text = f"topic {name!r} does not exist on {self._cluster.bootstrap}: create it, or check the name"
        elif await self._creates_topics() is False:
            text += (
                f", and the broker does not create topics ({AUTO_CREATE}=false): create it "
                f"(kafwire topics create {name}), or check the name"
            )
        else:
            self._patient = True
            log.info("kafwire: topic %r does not exist yet: waiting for the broker to create it", name)
            return
        raise UnknownTopic(text, unknown)

    async def _creates_topics(self) -> bool | None:
        """Whether a broker creates topics on request, by its configuration; None when it does not tell."""
        request: Any = protocol.DescribeConfigsRequest
        for connection in self._cluster.known()[:1]:
            resource = request.DescribeConfigsResource(
                resource_type=BROKER_RESOURCE, resource_name=str(connection.node), configuration_keys=[AUTO_CREATE]
            )
            try:
                answer = await connection.call(request(resources=[resource]))
            except KafkaError:
                return None
            found = {entry.name: entry.value for result in answer.results for entry in result.configs}
            return {"true": True, "false": False}.get(found.get(AUTO_CREATE) or "")
        return None

    def not_in_time(self, name: str, within_ms: float) -> str:
        """For an error: what became of a topic that was unknown when the time was up."""
        bootstrap = self._cluster.bootstrap
        what = f"topic {name!r} does not exist on {bootstrap}: create it, or check the name"
        if name in self._created:
            what = (
                f"topic {name!r} does not exist: {bootstrap} was asked to create it and has not done so; create it "
                f"(kafwire topics create {name}), or look into the broker's log for why"
            )
        return f"{what}; no other answer within {round(within_ms / 1000, 2):g} s"


class UnknownTopic(ProtocolError):
    """Ends the retries of `Cluster.topics`."""

    def __init__(self, message: str, names: set[str]) -> None:
        """`names` do not exist."""
        super().__init__(message)
        self.names = names
