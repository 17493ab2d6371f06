"""Read plans: the differences between reads (of consumers and scans) that the fetch engine handles.

`engine.py` and `broker_fetcher.py` are the only engine of Fetch requests. A consumer's plan and a scan's are data for
it. A share consumer sends other requests, in a loop of its own (`share/share_fetcher.py`), with this engine's search
for leaders, rules of sessions, and choice of errors to retry.
"""

from __future__ import annotations

from typing import NamedTuple

from kafwire.config import ConsumerConfig
from kafwire.consumer.fetch.budget import Budget
from kafwire.consumer.fetch.strategies import FetchStrategy, strategy_of
from kafwire.lazy_dataclass import dataclass

# The number of partitions that keep their constant columns from batch to batch; a thousand would keep gigabytes.
LASTING_LAYOUTS = 16


class Advice(NamedTuple):
    """The advice to the user in errors that no retry fixes."""

    no_such_offset: str
    topic_recreated: str
    damaged: str


CONSUMER_ADVICE = Advice(
    no_such_offset="seek to another, or choose an auto_offset_reset",
    topic_recreated="its offsets are those of other records now; assign it again to read them",
    damaged="where the next batch begins is not known: seek past it",
)


@dataclass(frozen=True, slots=True)
class ReadPlan:
    """The options of a read: requests to brokers, and the effect of errors."""

    strategy: FetchStrategy
    advice: Advice = CONSUMER_ADVICE
    # The broker parks a request until it has this many bytes.
    min_bytes: int = 1
    # The client's rack: leaders then name a read replica in that rack (KIP-392).
    rack: str = ""
    # Requests name leader epochs, so that brokers report truncated logs (KIP-320).
    names_epochs: bool = True
    # The `auto_offset_reset` of a position that is out of range.
    reset: str = "error"
    # The read ends when all its partitions do (a scan). So the error of one partition fails the read: at once, or after
    # retries for `default_api_timeout_ms`.
    ends: bool = False
    # The I/O thread queues the records of a response before the engine reads it.
    fast_path: bool = True
    # Queued slices are copied out of a frame that is mostly read, so that a slow reader does not keep the whole frame.
    compacts: bool = True


def consumer_plan(config: ConsumerConfig) -> ReadPlan:
    """Return the read plan of a consumer's options."""
    return ReadPlan(
        strategy_of(config.fetch_strategy, single_socket=config.single_socket),
        min_bytes=config.fetch_min_bytes,
        rack=config.client_rack,
        reset=config.auto_offset_reset,
    )


def consumer_budget(config: ConsumerConfig) -> Budget:
    """Return the prefetch budget of a consumer's options."""
    return Budget(
        config.fetch_memory, config.fetch_max_bytes, config.max_partition_fetch_bytes, config.max_prefetch_batches
    )
