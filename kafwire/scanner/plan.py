"""The read plan and budget of a scan: no fetch session, bytes within `fetch_memory`, each partition to its end."""

from __future__ import annotations

from dataclasses import replace

from kafwire.config import ScanConfig
from kafwire.consumer.fetch.budget import Budget
from kafwire.consumer.fetch.read_plan import Advice, ReadPlan
from kafwire.consumer.fetch.strategies import FetchStrategy
from kafwire.lazy_dataclass import dataclass

_SCAN = ReadPlan(
    # Full requests: each response then has the end of each partition. Served partitions move to the back.
    FetchStrategy(sessions=False),
    Advice(
        no_such_offset="scan again from 'earliest'",
        topic_recreated="scan it again",
        damaged="where the next batch begins is not known: scan from behind it",
    ),
    names_epochs=False,
    ends=True,
    fast_path=False,
    compacts=False,
)


def scan_plan(config: ScanConfig) -> ReadPlan:
    """Return the plan of a scan with these options: leaders name read replicas in the client's rack (KIP-392)."""
    return replace(_SCAN, rack=config.client_rack)


@dataclass(slots=True)
class ScanBudget(Budget):
    """The budget of a scan: as many requests of `fetch_max_bytes` as fit into the limit.

    One reader reads all partitions in turn, so no partition needs its own share.
    """

    @classmethod
    def of(cls, config: ScanConfig) -> ScanBudget:
        """Return the budget of a scan's options."""
        return cls(config.fetch_memory, config.fetch_max_bytes, config.fetch_max_bytes, max_prefetch=0)

    def request_bytes(self, broker_fetchers: int, free: int) -> int:  # noqa: ARG002
        """Return `fetch_max_bytes`, always."""
        return self.fetch_max_bytes

    @staticmethod
    def records_bytes(room: int) -> int:
        """Return all of `room`."""
        return room

    def partition_bytes(self, free: int, batch_bytes: int = 0) -> int:  # noqa: ARG002
        """Return `fetch_max_bytes`: one partition may fill a response."""
        return self.fetch_max_bytes

    def is_full(self, slices: int, size: int, free: int) -> bool:  # noqa: ARG002
        """Return False: a scan's buffer is never full."""
        return False
