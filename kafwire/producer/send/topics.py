"""The topics of a producer: passes metadata on to the accumulator, and forgets idle topics."""

from __future__ import annotations

import uuid

from kafwire.cluster.cluster import Cluster
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ProducerConfig
from kafwire.error_codes import ErrorCode
from kafwire.errors import AuthenticationError, ConfigError, KafkaTimeoutError, UnknownPartition, broker_error
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer._queues import Topic
from kafwire.producer.buffer.backlog import Backlog
from kafwire.producer.outcome.outcomes import Outcomes
from kafwire.producer.send.recreated_topics import RecreatedTopics
from kafwire.producer.send.turns import Turns
from kafwire.runtime.log import producer_log as log

# After the response to this many metadata requests, a WARNING names the partition that a caller waits for.
SAID_AFTER = 3


class Topics:
    """The topics of one producer. Runs on the engine."""

    def __init__(
        self,
        cluster: Cluster,
        config: ProducerConfig,
        backlog: Backlog,
        outcomes: Outcomes,
        *,
        recreated: RecreatedTopics,
        turns: Turns,
    ) -> None:
        self._cluster = cluster
        self._config = config
        self._accumulator = backlog.accumulator
        self._backlog = backlog
        self._outcomes = outcomes
        self._recreated = recreated
        self._turns = turns
        self._ids: dict[str, uuid.UUID] = {}
        self._used_ms: dict[str, float] = {}  # when a record was last sent to a topic
        self._idle: dict[str, Topic] = {}  # forgotten topics: their partitions' sequence numbers go on

    async def ensure(self, names: list[str], timeout_ms: float) -> None:
        """Add the partitions of topics to the accumulator; wait for topics that are being created."""
        try:
            await self._cluster.topics(names, timeout_ms=timeout_ms, create=self._config.allow_auto_create_topics)
        finally:
            for name in names:
                if name not in self._cluster.metadata.errors:
                    self.take_in(name)

    async def ensure_partition(self, missing: UnknownPartition, timeout_ms: float) -> None:
        """Wait for an added partition of a known topic; repeat the metadata request with back-off.

        Raises a `ConfigError` if the topic still lacks the partition when the time is up.
        """
        name, number = missing.topic, missing.partition
        asked = 0

        async def attempt() -> None:
            nonlocal asked
            asked += 1
            await self._cluster.refresh([name])
            metadata = self._cluster.metadata
            if code := metadata.errors.get(name, 0):
                raise broker_error(code, f"topic {name!r}", api="Metadata", topic=name)
            self.take_in(name)
            topic = self._accumulator.topics.get(name)
            if topic is None or number < len(topic.queues):
                return
            if asked == SAID_AFTER:
                log.warning(
                    "kafwire: %s: waiting for the partition, for at most max_block_ms", missing, partition=missing
                )
            raise broker_error(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, str(missing))

        try:
            await self._cluster.retrying(attempt, f"finding partition {number} of topic {name!r}", timeout_ms)
        except KafkaTimeoutError as error:
            if asked and name not in self._cluster.metadata.errors:
                waited = f"after {asked} request(s) for metadata within max_block_ms ({self._config.max_block_ms})"
                raise ConfigError(f"{missing}, {waited}") from error
            raise

    def take_in(self, name: str) -> None:
        """Update the accumulator from the metadata of a topic."""
        info = self._cluster.metadata.topics.get(name)
        if info is not None and info.partitions:
            if name in self._idle:
                self._remember(name)
            self._used_ms.setdefault(name, self._cluster.engine.now_ms())
            leaders = [self._cluster.metadata.leader(name, partition) for partition in range(max(info.partitions) + 1)]
            weights = PartitionWeights(*self._backlog.balance.lead(name, leaders))
            before = self._ids.get(name, NO_TOPIC_ID)
            self._ids[name] = info.topic_id
            topic = self._accumulator.topics.get(name)
            # Without topic ids, fewer partitions mean a recreated topic. Topics get their first id when brokers are
            # upgraded.
            is_another = before != info.topic_id and NO_TOPIC_ID not in (before, info.topic_id)
            if topic is not None and (is_another or len(leaders) < len(topic.queues)):
                self._recreated.replace(topic, len(leaders), weights)
                self._turns.wake_in(0)  # the next turn moves the batches of the old topic
            else:
                self._accumulator.set_topic(name, len(leaders), weights)

    def look_up(self, name: str) -> None:
        """Refresh metadata in the background: a partition's leader is unknown or outdated."""
        self._turns.run("metadata", self._refresh(name), self._on_no_metadata)

    async def _refresh(self, name: str) -> None:
        await self._cluster.refresh([name])
        for known in self._accumulator.topics:  # a broker may be gone although no topic has changed
            self.take_in(known)

    def _on_no_metadata(self, error: BaseException) -> None:
        """Fail batches that wait for a leader after an authentication error; see `Leaders`."""
        if isinstance(error, AuthenticationError):
            for where, queue in list(self._backlog.waiting.items()):
                if self._cluster.metadata.leader(*where) < 0:
                    self._outcomes.give_up_waiting(where, queue, error)

    def refresh_if_stale(self) -> None:
        """Refresh the metadata of topics in use if it is `metadata_max_age_ms` old."""
        if self._cluster.is_stale and self._accumulator.topics:
            self._forget_idle()
        if self._cluster.is_stale and self._accumulator.topics:
            self.look_up(next(iter(self._accumulator.topics)))

    def _forget_idle(self) -> None:
        """Stop refreshing topics without a record for `metadata_max_idle_ms`; the next record looks them up again."""
        now = self._cluster.engine.now_ms()
        busy = {batch.queue.topic for batch in self._outcomes.sent}
        busy |= {topic for topic, _ in self._backlog.waiting}
        busy |= self._backlog.deleted.keys()
        for name, topic in list(self._accumulator.topics.items()):
            if name in busy or any(not queue.is_empty or queue.direct_send is not None for queue in topic.queues):
                self._used_ms[name] = now
            elif now - self._used_ms.setdefault(name, now) > self._config.metadata_max_idle_ms:
                del self._used_ms[name]
                self._idle[name] = self._accumulator.topics.pop(name)
                self._cluster.forget([name])

    def use(self, name: str) -> None:
        """Note that a record is to be sent to a topic."""
        if name in self._idle:  # a thread that still knew the topic did not look it up
            self._remember(name)
        self._used_ms[name] = self._cluster.engine.now_ms()

    def _remember(self, name: str) -> None:
        """Restore a forgotten topic."""
        self._accumulator.topics[name] = self._idle.pop(name)
