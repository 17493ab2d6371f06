"""Recreated topics: batches for the old topic move to the new one of the same name, in order.

They move once all batches in flight to the old topic returned, and no thread adds rows to it any more. Until then
nothing is sent to the new one. docs/design.md has the reasons.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from operator import attrgetter

from kafwire.errors import KafkaError
from kafwire.producer.buffer._batch import ProducerBatch
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer._queues import PartitionQueue, Topic
from kafwire.producer.buffer.backlog import Backlog, Where
from kafwire.producer.outcome.outcomes import Outcomes
from kafwire.producer.outcome.sequencer import BatchOutcome, Sequencer
from kafwire.producer.send.direct_send import DirectSends
from kafwire.runtime.log import producer_log as log


class RecreatedTopics:
    """The recreated topics of one producer. Runs on the engine."""

    def __init__(self, backlog: Backlog, outcomes: Outcomes, direct_send: DirectSends | None) -> None:
        self._accumulator = backlog.accumulator
        self._deleted = backlog.deleted
        self._outcomes = outcomes
        self._direct_send = direct_send
        # the last sequencer of each partition of old topics
        self._sequencers: dict[Where, Sequencer[ProducerBatch]] = {}

    def replace(self, topic: Topic, partitions: int, weights: PartitionWeights) -> None:
        """Replace a recreated topic: new records go to the new one."""
        log.info(
            "kafwire: topic %r was recreated, with %d partitions; it had %d",
            topic.name,
            partitions,
            len(topic.queues),
            topic=topic.name,
            partitions=partitions,
        )
        if self._direct_send is not None:
            self._direct_send.revoke_all()
        for queue in topic.queues:
            where = (queue.topic, queue.partition)
            self._outcomes.forget(where)
            if queue.sequencer is not None:
                self._sequencers[where] = queue.sequencer
        self._accumulator.replace_topic(topic.name, partitions, weights)
        self._deleted.setdefault(topic.name, []).append(topic)

    def add(self, topic: Topic) -> None:
        """Note that an old topic has batches: a thread that began before the change still appends to it."""
        topics = self._deleted.setdefault(topic.name, [])
        if topic not in topics:
            topics.append(topic)

    def next_sequencer(self, where: Where) -> Sequencer[ProducerBatch] | None:
        """Return the sequencer for a partition of the new topic; None: no batch was ever sent to the old partition."""
        sequencer = self._sequencers.pop(where, None)
        return None if sequencer is None else sequencer.restarted()

    def move_over(self) -> Iterator[PartitionQueue]:
        """Move the batches of old topics to the new ones when that is possible; yield the queues that got batches."""
        for name, topics in list(self._deleted.items()):
            queues = [queue for topic in topics for queue in topic.queues]
            if any(queue.sequencer is not None and queue.sequencer.in_flight for queue in queues):
                continue
            if any(topic.passes for topic in topics):
                continue
            moved: dict[PartitionQueue, list[ProducerBatch]] = {}
            # Oldest first: partitions may have been added, so a key's records may be in two of them.
            for batch in heapq.merge(*map(self.take_out, queues), key=attrgetter("created_ms")):
                for to, part in self._place_again(batch):
                    moved.setdefault(to, []).append(part)
            for to, batches in moved.items():
                to.fresh.extendleft(reversed(batches))  # before the batches that came since
                yield to
            del self._deleted[name]

    def take_out(self, queue: PartitionQueue) -> list[ProducerBatch]:
        """Remove and return the batches of a queue that are certainly not in its log; fail those that may be."""
        found = []
        for batch in [] if queue.sequencer is None else list(queue.sequencer.retries):
            if queue.sequencer.give_up(batch) is BatchOutcome.DOUBTFUL:
                problem = KafkaError(
                    f"topic {queue.topic!r} was recreated before {batch.count} record(s) to {queue.name} were "
                    f"acknowledged: they may or may not be in the log; last: {batch.last_error}"
                )
                self._outcomes.give_up(batch, problem, in_doubt=True)
            else:
                self._outcomes.sent.pop(batch, None)
                found.append(batch)
        return found + self._accumulator.empty(queue)

    def _place_again(self, batch: ProducerBatch) -> list[tuple[PartitionQueue, ProducerBatch]]:
        try:
            return self._accumulator.place_again(batch)
        except (KafkaError, MemoryError) as error:
            problem = error if isinstance(error, KafkaError) else KafkaError(f"{batch.queue.name}: {error}")
            self._outcomes.give_up(batch, problem, numbered=batch.attempts > 0)
            return []
