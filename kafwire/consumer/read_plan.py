"""A read plan: what a read is, as far as the fetch engine treats reads differently.

`fetcher.py` and `broker_fetcher.py` are the only fetch engine. A consumer's plan and a scan's are data for it.
"""

from __future__ import annotations

from typing import NamedTuple

from kafwire.config import ConsumerConfig
from kafwire.consumer.fetch_budget import Budget
from kafwire.consumer.fetch_strategies import FetchStrategy, strategy_of
from kafwire.lazy_dataclass import dataclass


class Advice(NamedTuple):
    """What errors that no retry mends tell the user to do."""

    no_such_offset: str
    topic_made_anew: str
    damaged: str


CONSUMER_ADVICE = Advice(
    no_such_offset="seek to another, or choose an auto_offset_reset",
    topic_made_anew="its offsets are those of other records now; assign it again to read them",
    damaged="where the next batch begins is not known: seek past it",
)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """What is asked of brokers, and what errors end."""

    strategy: FetchStrategy
    advice: Advice = CONSUMER_ADVICE
    # A broker that has fewer bytes keeps the request for longer.
    min_bytes: int = 1
    # Leaders send who names a rack to a replica there (KIP-392).
    rack: str = ""
    # Requests name leader epochs, so that brokers tell of logs that were cut (KIP-320).
    names_epochs: bool = True
    # Where to go on if there is no such offset: an `auto_offset_reset`.
    reset: str = "error"
    # The read is done when all its partitions are. So an error of one ends it, and one that is tried again does after
    # `default_api_timeout_ms`.
    ends: bool = False
    # The I/O thread queues what an answer brings, before the engine looks at it.
    fast_path: bool = True
    # What is queued of a frame that is mostly read is copied out of it, so that a slow reader does not hold the rest.
    compacts: bool = True


def consumer_plan(config: ConsumerConfig) -> ReadPlan:
    """What a consumer's options say."""
    return ReadPlan(
        strategy_of(config.fetch_strategy, single_socket=config.single_socket),
        min_bytes=config.fetch_min_bytes,
        rack=config.client_rack,
        reset=config.auto_offset_reset,
    )


def consumer_budget(config: ConsumerConfig) -> Budget:
    """What a consumer may fetch ahead."""
    return Budget(
        config.fetch_memory, config.fetch_max_bytes, config.max_partition_fetch_bytes, config.max_prefetch_batches
    )
