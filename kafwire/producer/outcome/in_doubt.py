"""Settles batches in doubt: asks their leader about the producer, and if that is not enough, searches the log.

A batch is in doubt if a connection broke, or a broker reported an error that can follow an append. The leader's state
of the producer (DescribeProducers, one request for all partitions of a leader) mostly shows that sending again is safe.
If it has none, or reports a sequence out of order for a batch that may be stored, the log is read: from the last offset
acknowledged before the batch, to the log's end at that time. Batches in doubt lie within that span. If nothing was
acknowledged yet, the span begins with the first record that is not older than the batch's latest. That holds where
timestamps are the producer's, or the broker's clock is not behind.

Only committed records can be read, so a search waits for the high watermark to reach the end of its span.

Both DescribeProducers and Fetch need READ on the topic. With WRITE only, batches are sent again as other clients do it,
and reported as in doubt if a broker then reports them out of order.

`producer/outcome/sequencer.py` has the rules.
"""

from __future__ import annotations

import asyncio
import struct
from collections.abc import Callable, Coroutine, Hashable, Iterable
from typing import Any

from kafwire import protocol
from kafwire.cluster.broker_connection import BrokerConnection
from kafwire.cluster.cluster import Cluster
from kafwire.cluster.list_offsets import LATEST, Place, Time, number_of
from kafwire.cluster.metadata import NO_TOPIC_ID
from kafwire.config import ProducerConfig
from kafwire.errors import KafkaConnectionError, KafkaError, ProtocolError, broker_error
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._queues import PartitionQueue
from kafwire.producer.buffer.backlog import Where
from kafwire.producer.outcome.log_search import FoundBatch, LogSearch, Numbers
from kafwire.producer.outcome.sequencer import Fate, conclude
from kafwire.records.batches import MAX_TIMESTAMP_AT

READ_BYTES = 1 << 20
# Replica id that makes ListOffsets return the log's end, not the high watermark, as Kafka's own tools do.
DEBUGGING_REPLICA = -2
CONSUMER = -1

# Arguments: queue, batch, its fate, where it was found, why no more is known.
OnFate = Callable[[PartitionQueue, ProducerBatch, Fate, FoundBatch, str], object]
Run = Callable[[Hashable, Coroutine[Any, Any, None]], object]


class Unreadable(Exception):
    """The span to search cannot be read, now or later; the message has the reason."""


class Doubts:
    """Settles batches in doubt of one producer.

    `run` runs one coroutine per name at a time, and again after a failure.
    """

    def __init__(self, cluster: Cluster, config: ProducerConfig, run: Run, on_fate: OnFate) -> None:
        self._cluster = cluster
        self._config = config
        self._run = run
        self._on_fate = on_fate
        self._leaders: set[int] = set()
        self._searched: set[PartitionQueue] = set()

    def note(self, leader: int, queue: PartitionQueue) -> None:
        """Note that only batches in doubt keep a partition from sending to its leader."""
        if queue not in self._searched:
            self._leaders.add(leader)

    def settle(self, waiting: Iterable[PartitionQueue]) -> None:
        """Ask the noted leaders about all these partitions of theirs, unless that is running."""
        if not self._leaders:
            return
        asked: dict[int, list[PartitionQueue]] = {}
        for queue in waiting:
            leader = self._cluster.metadata.leader(queue.topic, queue.partition)
            if leader in self._leaders and queue not in self._searched and queue.sequencer.doubts:
                asked.setdefault(leader, []).append(queue)
        self._leaders.clear()
        for leader, queues in asked.items():
            self._run(f"ask {leader}", self._ask(leader, queues))

    async def _ask(self, leader: int, queues: list[PartitionQueue]) -> None:
        connection = self._cluster.connection(leader, "control")
        via = self._cluster.connection(leader, "produce").socket
        try:
            await connection.open()
            problem = await self._describe(connection, via, queues)
        except KafkaConnectionError:
            await self._cluster.refresh({queue.topic for queue in queues})
            raise
        if problem is not None:
            await self._cluster.refresh({queue.topic for queue in queues})
            raise problem

    async def _describe(
        self, connection: BrokerConnection, via: object, queues: list[PartitionQueue]
    ) -> KafkaError | None:
        """Ask about the producers of these partitions; return an error if some must be asked again."""
        by_topic: dict[str, list[int]] = {}
        for queue in queues:
            by_topic.setdefault(queue.topic, []).append(queue.partition)
        request = protocol.DescribeProducersRequest
        topics = [request.TopicRequest(name=name, partition_indexes=parts) for name, parts in by_topic.items()]
        described: dict[Where, Any] = {}
        is_spoken = request.api_key in connection.versions
        if is_spoken:
            response = await connection.call(request(topics=topics))
            described = {(t.name, part.partition_index): part for t in response.topics for part in t.partitions}
        problem: KafkaError | None = None
        for queue in queues:
            producers = described.get((queue.topic, queue.partition))
            doubts = queue.sequencer.doubts
            if not doubts:
                continue
            if is_spoken and producers is None:
                problem = KafkaConnectionError(f"{connection.where} did not report the producers of {queue.name}")
                continue
            error = None
            if producers is not None:
                what = f"the producers of {queue.name}"
                error = broker_error(producers.error_code, what, api="DescribeProducers", topic=queue.topic)
            if error is not None and error.code and error.retriable:
                problem = error
                continue
            producer_id = (doubts[0].producer or (-1, -1))[0]
            remembered = None
            for state in producers.active_producers if producers is not None else ():
                if state.producer_id == producer_id:
                    remembered = state.producer_epoch, state.last_sequence
            left = queue.sequencer.consult(remembered, via, asked=producers is not None and not producers.error_code)
            for batch in [batch for batch, said in left if said is Fate.ABSENT]:
                self._on_fate(queue, batch, Fate.ABSENT, NOWHERE, "")
            searched: dict[ProducerBatch, Fate] = {batch: said for batch, said in left if said is not Fate.ABSENT}
            if searched:
                self._searched.add(queue)
                self._run(("search", queue), self._search(queue, searched))
        return problem

    async def _search(self, queue: PartitionQueue, said: dict[ProducerBatch, Fate]) -> None:
        why = "its sequence number was taken by a batch that is not in the log"
        found: dict[ProducerBatch, FoundBatch] = {}
        is_whole = False
        try:
            leader = self._cluster.metadata.leader(queue.topic, queue.partition)
            if leader < 0:
                raise KafkaConnectionError(f"{queue.name} has no leader")
            search = await self._read(queue, self._cluster.connection(leader, "control"), list(said))
            found, is_whole = search.found, search.is_whole
            if len(found) < len(said):
                await self._check_topic(queue)
            if not is_whole:
                why = "records are missing from the part of the log where they would be"
        except Unreadable as problem:
            why = str(problem)
        except KafkaError:
            await self._cluster.refresh([queue.topic])
            raise
        finally:
            self._searched.discard(queue)
        for batch, evidence in said.items():
            if batch in queue.sequencer.doubts:  # else it was given up meanwhile
                known = True if batch in found else False if is_whole else None
                self._on_fate(queue, batch, conclude(evidence, known), found.get(batch, NOWHERE), why)

    async def _check_topic(self, queue: PartitionQueue) -> None:
        """Raise if the topic may have been recreated: then the search by name may have read another log."""
        await self._cluster.refresh([queue.topic], at_once=True)
        if queue.owner.retired or queue.topic in self._cluster.metadata.doubts:
            raise KafkaConnectionError(f"topic {queue.topic!r} may have been recreated")

    async def _read(
        self, queue: PartitionQueue, connection: BrokerConnection, batches: list[ProducerBatch]
    ) -> LogSearch[ProducerBatch]:
        """Search the log from the batches' first possible place to its end; raise `Unreadable` if that fails."""
        await connection.open()
        end = await self._offset(queue, connection, LATEST, DEBUGGING_REPLICA)
        floor = queue.sequencer.floor
        if floor is None:
            floor = await self._first_place(queue, connection, batches), -1
        start, epoch = floor
        wanted = {
            batch: Numbers(*batch.producer, batch.sequence, batch.count)
            for batch in batches
            if batch.producer is not None
        }
        search = LogSearch(wanted, start)
        is_read = False
        while not search.is_over and search.position < end:
            if not any(batch in queue.sequencer.doubts for batch in batches):
                break
            part = await self._fetch(queue, connection, search.position, epoch)
            is_read = True
            if part.diverging_epoch.end_offset >= 0:  # the last acknowledged record is no longer in the log (KIP-320)
                epoch = part.diverging_epoch.epoch
                search = LogSearch(wanted, min(part.diverging_epoch.end_offset, search.position - 1))
                continue
            epoch = -1
            try:
                moved = search.feed(part.records or b"")
            except ProtocolError as error:
                connection.fail(f"the log of {queue.name} could not be read: {error}")
                raise KafkaConnectionError(f"{connection.where}, the log of {queue.name}: {error}") from None
            if not moved:
                await asyncio.sleep(self._config.retry_backoff_ms / 1000)
        if not is_read:  # ListOffsets names the topic, which may have been recreated; a fetch has the topic's id
            await self._fetch(queue, connection, search.position, -1)
        return search

    async def _first_place(
        self, queue: PartitionQueue, connection: BrokerConnection, batches: list[ProducerBatch]
    ) -> int:
        """Return an offset at or before all of the batches, by the earliest of their latest timestamps."""
        end = await self._offset(queue, connection, LATEST, CONSUMER)  # first: records committed later lie behind it
        latest = min(struct.unpack_from(">q", batch.payload(), MAX_TIMESTAMP_AT)[0] for batch in batches)
        offset = await self._offset(queue, connection, Time(max(0, latest)), CONSUMER)
        return offset if offset >= 0 else end

    async def _offset(self, queue: PartitionQueue, connection: BrokerConnection, place: Place, who: int) -> int:
        request: Any = protocol.ListOffsetsRequest
        asked = request.ListOffsetsPartition(
            partition_index=queue.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(queue.topic, queue.partition),
            timestamp=number_of(place),
        )
        topic = request.ListOffsetsTopic(name=queue.topic, partitions=[asked])
        response = await connection.call(request(replica_id=who, isolation_level=0, topics=[topic]))
        for part in (part for topic in response.topics for part in topic.partitions):
            self._check(part.error_code, f"offsets of {queue.name}", "ListOffsets", queue)
            return int(part.offset)
        raise KafkaConnectionError(f"{connection.where} sent no offset for {queue.name}")

    async def _fetch(self, queue: PartitionQueue, connection: BrokerConnection, offset: int, last_epoch: int) -> Any:
        request: Any = protocol.FetchRequest
        topic_id = self._cluster.metadata.topics[queue.topic].topic_id
        asked = request.FetchPartition(
            partition=queue.partition,
            current_leader_epoch=self._cluster.metadata.leader_epoch(queue.topic, queue.partition),
            fetch_offset=offset,
            last_fetched_epoch=last_epoch,
            partition_max_bytes=READ_BYTES,
        )
        topic = request.FetchTopic(topic=queue.topic, topic_id=topic_id, partitions=[asked])
        at_most = request.BY_TOPIC_ID - 1 if topic_id == NO_TOPIC_ID else None
        response = await connection.call(
            request(max_wait_ms=0, min_bytes=0, max_bytes=READ_BYTES, topics=[topic]),
            version=connection.version_of(request, at_most=at_most),
        )
        self._check(response.error_code, f"reading {queue.name}", "Fetch", queue)
        for part in (part for topic in response.responses for part in topic.partitions):
            self._check(part.error_code, f"reading {queue.name} at offset {offset}", "Fetch", queue)
            return part
        raise KafkaConnectionError(f"{connection.where} sent no records for {queue.name}")

    @staticmethod
    def _check(code: int, what: str, api: str, queue: PartitionQueue) -> None:
        if not code:
            return
        error = broker_error(code, what, api=api, topic=queue.topic)
        if error.retriable:
            raise error
        raise Unreadable(str(error))


NOWHERE = FoundBatch(-1)
