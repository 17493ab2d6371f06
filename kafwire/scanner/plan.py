"""A scan, as the fetch engine is to read it: without a session, within `fetch_memory`, every partition to its end."""

from __future__ import annotations

from dataclasses import replace

from kafwire.config import ScanConfig
from kafwire.consumer.fetch_budget import Budget
from kafwire.consumer.fetch_strategies import FetchStrategy
from kafwire.consumer.read_plan import Advice, ReadPlan
from kafwire.lazy_dataclass import dataclass

_SCAN = ReadPlan(
    # Full requests: an answer then tells where each partition ends. Who was served goes to the back of the next one.
    FetchStrategy(sessions=False),
    Advice(
        no_such_offset="scan again from 'earliest'",
        topic_made_anew="scan it again",
        damaged="where the next batch begins is not known: scan from behind it",
    ),
    names_epochs=False,
    ends=True,
    fast_path=False,
    compacts=False,
)


def scan_plan(config: ScanConfig) -> ReadPlan:
    """The plan of a scan with its options: leaders name replicas in the rack of the client (KIP-392)."""
    return replace(_SCAN, rack=config.client_rack)


@dataclass(slots=True)
class ScanBudget(Budget):
    """Requests of `fetch_max_bytes`, for whichever partitions have data, as many as fit into the limit.

    One reader takes all partitions in turn, so none needs a share of its own.
    """

    @classmethod
    def of(cls, config: ScanConfig) -> ScanBudget:
        """As the options of a scan say."""
        return cls(config.fetch_memory, config.fetch_max_bytes, config.fetch_max_bytes, max_prefetch=0)

    def request_bytes(self, broker_fetchers: int, free: int) -> int:  # noqa: ARG002
        """Always as much."""
        return self.fetch_max_bytes

    @staticmethod
    def records_bytes(room: int) -> int:
        """All of it."""
        return room

    def partition_bytes(self, free: int, batch_bytes: int = 0) -> int:  # noqa: ARG002
        """All of a request."""
        return self.fetch_max_bytes

    def is_full(self, slices: int, size: int, free: int) -> bool:  # noqa: ARG002
        """Never."""
        return False
