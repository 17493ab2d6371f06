"""Adapts partition weights to the batches that wait: a partition with fewer gets more records (KIP-794)."""

from __future__ import annotations

from kafwire.cluster.metadata import Metadata
from kafwire.producer.buffer._accumulator import Accumulator
from kafwire.producer.buffer._partitioner import PartitionWeights
from kafwire.producer.buffer.partitioner import Balance
from kafwire.producer.outcome.incomplete_batches import IncompleteBatches


def adapt_weights(accumulator: Accumulator, balance: Balance, batches: IncompleteBatches, metadata: Metadata) -> None:
    """Set the weights by the batches that wait now."""
    topics = accumulator.topics
    backlogs: dict[str, dict[int, int]] = {name: {} for name in balance.uneven}
    for (name, partition), queue in batches.waiting.items():
        if name not in backlogs and topics[name].sticky < 0:
            continue  # no record draws a partition
        waiting = len(queue.sequencer.retries) + len(queue.advance())
        if waiting:
            backlogs.setdefault(name, {})[partition] = waiting
    for name, backlog in backlogs.items():
        slow = frozenset(p for p in backlog if balance.is_slow(metadata.leader(name, p)))
        split = balance.weights(name, backlog, slow)
        if split is not None:
            accumulator.set_weights(name, PartitionWeights(*split))
