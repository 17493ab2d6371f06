"""The cluster client: bootstrap, metadata, routing to leaders, and calls that are tried again.

One per client object. Lanes are made on demand, named by their role; sockets are never shared between client objects.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable, Iterable
from typing import Any, TypeVar

from kafwire import protocol
from kafwire.config import ClientConfig
from kafwire.errors import (
    BrokerError,
    ConfigError,
    KafkaConnectionError,
    KafkaError,
    KafkaTimeoutError,
    ProtocolError,
    broker_error,
)
from kafwire.logic.backoff import delay_ms
from kafwire.logic.metadata import Metadata, TopicInfo
from kafwire.net.engine import Engine
from kafwire.net.lane import Lane, host_and_port

_T = TypeVar("_T")

UNKNOWN_TOPIC = 3
LEADER_NOT_AVAILABLE = 5
REBOOTSTRAP_REQUIRED = 129
# A topic made a moment ago is not known to every broker yet: so many answers of "unknown" are needed to believe one.
UNKNOWN_TOPIC_ANSWERS = 4
# In bytes: older versions of requests have two bytes for a text's length.
LONGEST_NAME = 0x7FFF

# Called on the engine with the names of topics that changed.
OnChange = Callable[[set[str]], object]

log = logging.getLogger("kafwire")


class Cluster:
    """What one client object knows of the cluster, and its connections to it."""

    def __init__(self, engine: Engine, config: ClientConfig) -> None:
        self.engine = engine
        self.config = config
        self.metadata = Metadata()
        self._lanes: dict[tuple[int, str], Lane] = {}
        self._seeds = [
            Lane(engine, config, h, p, "control", -1 - i) for i, (h, p) in enumerate(config.bootstrap_servers)
        ]
        self._features: tuple[int, dict[str, int]] = (-1, {})
        self._wanted: set[str] = set()
        self._refreshed_ms = -1.0e12
        self._refreshing: asyncio.Task[None] | None = None
        # Since when, and until when, no broker has given any metadata.
        self._failing_since_ms: float | None = None
        self._failed_ms = 0.0
        self._kept: set[str] = set()
        self._keeping: asyncio.Task[None] | None = None
        self._listeners: dict[object, OnChange] = {}
        self._closed = False

    @property
    def lanes(self) -> list[Lane]:
        """All lanes, the bootstrap servers' first."""
        return [*self._seeds, *self._lanes.values()]

    def lane(self, node: int, role: str) -> Lane:
        """The lane of a known broker for `role`, not opened yet when new.

        A role is any name: `control`, `fetch`, `produce`, or one of a caller's own like `fetch:topic-3`. Each is a
        connection, until it is released.
        """
        address = self.metadata.brokers.get(node)
        if address is None:
            known = ", ".join(str(n) for n in sorted(self.metadata.brokers)) or "none"
            raise KafkaConnectionError(f"broker {node} is not in the cluster's metadata (known: {known})")
        lane = self._lanes.get((node, role))
        if lane is not None and (lane.host, lane.port) != (address.host, address.port):
            lane.close(f"broker {node} has moved")
            lane = None
        if lane is None:
            lane = Lane(self.engine, self.config, address.host, address.port, role, node)
            if self._closed:
                lane.close()
            self._lanes[node, role] = lane
        return lane

    def feature(self, name: str) -> int:
        """The level of a finalised feature, as the newest answer to ApiVersions told (KIP-584); 0: none."""
        newest = max((lane.features for lane in self.lanes), key=lambda news: news[0], default=(-1, {}))
        self._features = max(self._features, newest, key=lambda news: news[0])
        return self._features[1].get(name, 0)

    def release(self, node: int, role: str) -> None:
        """Close one lane and forget it; what is pending on it fails. The next `lane` of that name is a new one."""
        lane = self._lanes.pop((node, role), None)
        if lane is not None:
            lane.close(f"the {role} lane was released")

    async def call(
        self,
        message: Any,
        *,
        node: int | None = None,
        version: int | None = None,
        timeout_ms: float | None = None,
    ) -> Any:
        """Send `message` to `node`, or to any broker; lost connections are retried until `default_api_timeout_ms`.

        In the version negotiated, unless `version` says another. Error codes in the answer are the caller's to read.
        """

        async def attempt() -> Any:
            if node is None:
                return await self._call_any(message, version)
            if node not in self.metadata.brokers:
                await self.refresh()
            return await self.lane(node, "control").call(message, version=version)

        return await self.retrying(attempt, f"{type(message).__name__}", timeout_ms)

    async def retrying(self, attempt: Callable[[], Awaitable[_T]], what: str, timeout_ms: float | None = None) -> _T:
        """Run `attempt` until it succeeds, with backoff; gives up on errors that no retry mends, and in time."""
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
            wait = delay_ms(failures, self.config.retry_backoff_ms, self.config.retry_backoff_max_ms, random.random())
            if self.engine.now_ms() + wait >= deadline:
                break
            await asyncio.sleep(wait / 1000)
        because = f": {last if last is not None else f'no answer from {self.bootstrap}'}"
        kind = type(last) if isinstance(last, KafkaConnectionError) else KafkaTimeoutError
        raise kind(f"{what} did not succeed within {round(limit_ms / 1000, 2):g} s{because}")

    def _known(self) -> list[Lane]:
        """The control lanes of all known brokers, in the order to ask them: connected ones first, failing ones last."""
        known = [self.lane(node, "control") for node in self.metadata.brokers]
        random.shuffle(known)
        known.sort(key=lambda lane: (not lane.is_ready, lane.failures))
        return known

    def _bootstrap_lanes(self) -> list[Lane]:
        """The bootstrap servers', unless they may not be asked again."""
        if self.metadata.brokers and not self._may_rebootstrap:
            return []
        return sorted(self._seeds, key=lambda lane: not lane.is_ready)

    @property
    def _may_rebootstrap(self) -> bool:
        return self.config.metadata_recovery_strategy == "rebootstrap"

    async def _call_any(self, message: Any, version: int | None = None) -> Any:
        """Ask one broker after the other, at last the bootstrap servers, until one answers."""
        known = self._known()
        problems: list[str] = []
        for lane in [*known, *self._bootstrap_lanes()]:
            try:
                response = await lane.call(message, version=version)
            except (KafkaConnectionError, KafkaTimeoutError) as error:
                problems.append(str(error))
            else:
                if known and lane not in known:
                    # No known broker answered, yet one does: what is known is out of date (KIP-899).
                    self._begin_refresh()
                return response
        raise _unreachable(problems)

    async def refresh(self, topics: Iterable[str] = ()) -> None:
        """Fetch metadata, of all topics this client has asked for; concurrent calls share one request."""
        new = set(topics) - self._wanted
        for name in new:
            _check_name(name)
        self._wanted |= new
        if self._refreshing is not None and new:  # it asks without them
            await asyncio.wait([self._refreshing])
        await asyncio.shield(self._begin_refresh())

    def _begin_refresh(self) -> asyncio.Task[None]:
        if self._refreshing is None:
            self._refreshing = asyncio.ensure_future(self._refresh())
            self._refreshing.add_done_callback(self._on_refreshed)
        return self._refreshing

    def _on_refreshed(self, task: asyncio.Task[None]) -> None:
        # Not where it is awaited: whoever waited may have been cancelled, and the next must not find a task that ended
        # long ago.
        self._refreshing = None
        if not task.cancelled():
            task.exception()

    async def _refresh(self) -> None:
        asked = set(self._wanted)
        topics = [protocol.MetadataRequest.MetadataRequestTopic(name=name) for name in sorted(asked)]
        request = protocol.MetadataRequest(topics=topics, allow_auto_topic_creation=False)
        response = await self._ask_metadata(request)
        errors = dict(self.metadata.errors)
        changed = self.metadata.update(response)
        self.metadata.forget(asked - self._wanted)  # meanwhile
        self._refreshed_ms = self.engine.now_ms()
        self._adopt_seeds()
        self._leave_departed()
        now = self.metadata.errors
        changed.update(name for name in {*errors, *now} if errors.get(name) != now.get(name))
        if changed:
            self._tell(changed)

    async def _ask_metadata(self, request: Any) -> Any:
        """The answer of one known broker after the other; at last, that of a bootstrap server.

        Bootstrap servers are believed whatever they tell, as the user named them. Known brokers are not: their
        addresses may have come to belong to another cluster.
        """
        now = self.engine.now_ms()
        trigger_ms = self.config.metadata_recovery_rebootstrap_trigger_ms
        if self._failing_since_ms is None or now - self._failed_ms > trigger_ms:  # nobody has asked for so long
            self._failing_since_ms = self._failed_ms = now
        deadline = self._failing_since_ms + trigger_ms
        problems: list[str] = []
        try:
            for lane in self._known():
                left_s = (deadline - self.engine.now_ms()) / 1000
                if self._may_rebootstrap and left_s <= 0:
                    self._leave_all(f"no known broker has given metadata for {trigger_ms} ms")
                    break
                try:
                    async with asyncio.timeout(left_s if self._may_rebootstrap else None):
                        response = await lane.call(request)
                except (KafkaConnectionError, KafkaTimeoutError) as error:
                    problems.append(str(error))
                    continue
                except TimeoutError:
                    problems.append(f"no answer from {lane.where} yet")
                    continue
                if response.error_code == REBOOTSTRAP_REQUIRED and self._may_rebootstrap:
                    self._leave_all(f"{lane.where} said so")
                    break
                if response.error_code:
                    raise broker_error(response.error_code, f"asking {lane.where} for metadata")
                if self.metadata.is_of(response):
                    self._failing_since_ms = None
                    return response
                lane.fail(f"it answers for cluster {response.cluster_id}, not {self.metadata.cluster_id}")
                problems.append(f"{lane.where} belongs to another cluster now, {response.cluster_id}")
            for lane in self._bootstrap_lanes():
                try:
                    response = await lane.call(request)
                except (KafkaConnectionError, KafkaTimeoutError) as error:
                    problems.append(str(error))
                    continue
                if response.error_code:
                    # Behind the same name may be others that know more.
                    lane.fail("it has no metadata to give")
                    problems.append(str(broker_error(response.error_code, f"asking {lane.where} for metadata")))
                    continue
                if not self.metadata.is_of(response):
                    log.warning(
                        "kafwire: %s is of cluster %s now, no longer of %s: what was known is forgotten",
                        lane.where,
                        response.cluster_id,
                        self.metadata.cluster_id,
                    )
                    self._leave_all("its cluster was replaced", but=lane)
                self._failing_since_ms = None
                return response
        finally:
            self._failed_ms = self.engine.now_ms()
        raise _unreachable(problems)

    def _leave_all(self, why: str, *, but: Lane | None = None) -> None:
        """Forget where brokers are, and close every connection; bootstrap servers are looked up and asked next."""
        log.info("kafwire: bootstrapping again from %s: %s", self.bootstrap, why)
        self.metadata.brokers.clear()
        lanes, self._lanes = self._lanes, {}
        for lane in lanes.values():
            lane.close(f"the client bootstraps again, as {why}")
        for seed in self._seeds:
            if seed is not but and seed.is_ready:
                seed.fail("the client bootstraps again")

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
        failures = 0
        while True:
            wait = self._refreshed_ms + self.config.metadata_max_age_ms - self.engine.now_ms()
            if wait > 0:  # somebody else may refresh meanwhile
                await asyncio.sleep(wait / 1000)
                continue
            try:
                await self.refresh()
                failures = 0
            except KafkaError as error:
                log.debug("kafwire: metadata could not be refreshed: %s", error)
                failures += 1
                base, limit = self.config.retry_backoff_ms, self.config.retry_backoff_max_ms
                await asyncio.sleep(delay_ms(failures, base, limit, random.random()) / 1000)

    def _leave_departed(self) -> None:
        """Close the idle lanes of brokers that left the cluster, or listen elsewhere now.

        What is in flight may still be answered: a broker can be missing from the news of one that lags. Those lanes are
        looked at again after the next refresh.
        """
        for (node, role), lane in list(self._lanes.items()):
            address = self.metadata.brokers.get(node)
            stays = address is not None and (address.host, address.port) == (lane.host, lane.port)
            if not stays and not lane.in_flight:
                del self._lanes[node, role]
                lane.close(f"broker {node} has left the cluster" if address is None else f"broker {node} has moved")

    def _adopt_seeds(self) -> None:
        """A bootstrap connection goes on as the control lane of the broker that it turned out to be."""
        for index, seed in enumerate(self._seeds):
            for node, address in self.metadata.brokers.items():
                same = (seed.host, seed.port) == (address.host, address.port)
                if same and seed.is_ready and (node, "control") not in self._lanes:
                    seed.node = node
                    self._lanes[node, "control"] = seed
                    self._seeds[index] = Lane(self.engine, self.config, seed.host, seed.port, "control", -1 - index)
                    break

    @property
    def is_stale(self) -> bool:
        """Whether `metadata_max_age_ms` has passed since the last refresh."""
        return self.engine.now_ms() - self._refreshed_ms > self.config.metadata_max_age_ms

    async def topic(
        self, name: str, *, timeout_ms: float | None = None, patient: bool = False, fresh: bool = False
    ) -> TopicInfo:
        """A topic with at least one partition.

        An unknown one may have been made a moment ago: it is asked for again a few times, or, if `patient`, until the
        time is up.
        """
        answers = 0
        asked = not fresh

        async def attempt() -> TopicInfo:
            nonlocal answers, asked
            known = self.metadata.topics.get(name)
            if asked and known is not None and known.partitions and name not in self.metadata.errors:
                return known
            await self.refresh([name])
            asked = True
            code = self.metadata.errors.get(name, 0)
            if code == UNKNOWN_TOPIC:
                answers += 1
                if answers >= UNKNOWN_TOPIC_ANSWERS and not patient:
                    raise _Unknown(f"topic {name!r} does not exist on {self.bootstrap}: create it, or check the name")
                raise broker_error(code, f"topic {name!r}")
            if code:
                raise broker_error(code, f"topic {name!r}")
            known = self.metadata.topics.get(name)
            if known is None or not known.partitions:
                raise broker_error(LEADER_NOT_AVAILABLE, f"topic {name!r} has no partitions")
            return known

        try:
            return await self.retrying(attempt, f"finding topic {name!r}", timeout_ms)
        except _Unknown as error:
            if name not in self._kept:
                self._wanted.discard(name)  # or each name that was ever mistaken would be asked for again and again
            raise broker_error(UNKNOWN_TOPIC, str(error)) from None
        except KafkaTimeoutError as error:
            if self.metadata.errors.get(name) == UNKNOWN_TOPIC:
                raise broker_error(UNKNOWN_TOPIC, str(error)) from None
            raise

    async def leader(self, topic: str, partition: int) -> int:
        """The broker that leads a partition; waits for an election to end."""

        async def attempt() -> int:
            leader = self.metadata.leader(topic, partition)
            if leader < 0:
                await self.refresh([topic])
                leader = self.metadata.leader(topic, partition)
            if leader < 0:
                raise broker_error(LEADER_NOT_AVAILABLE, f"{topic}-{partition} has no leader")
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
        """Close every lane; what is pending fails."""
        self._closed = True
        self._listeners.clear()
        if self._keeping is not None:
            self._keeping.cancel()
            self._keeping = None
        for lane in self.lanes:
            lane.close()


def _unreachable(problems: Iterable[str]) -> KafkaConnectionError:
    return KafkaConnectionError(f"no broker can be reached: {'; '.join(dict.fromkeys(problems))}")


class _Unknown(ProtocolError):
    """Ends the retries of `Cluster.topic`."""


def _check_name(topic: str) -> None:
    """Refuse a name that no request can carry: it would spoil those of all other topics too."""
    try:
        size = len(topic.encode())
    except UnicodeEncodeError:
        raise ConfigError(f"topic {topic!r}: a name with a lone surrogate cannot be sent") from None
    if size > LONGEST_NAME:
        raise ConfigError(f"topic {topic[:40]!r}...: a name of {size} bytes cannot be sent; Kafka's have at most 249")
