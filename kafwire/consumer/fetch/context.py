"""The facts that all parts of one fetch engine share: its cluster, options, buffer, cursors, and times of retries."""

from __future__ import annotations

from collections.abc import Mapping

from kafwire.cluster.cluster import Cluster
from kafwire.config import FetchConfig
from kafwire.consumer.fetch._fetch_buffer import FetchBuffer
from kafwire.consumer.fetch.cursor import FetchCursor
from kafwire.consumer.fetch.error_log import FetchErrorLog
from kafwire.consumer.fetch.read_plan import ReadPlan
from kafwire.consumer.fetch.tasks import FetchTasks
from kafwire.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class FetchContext:
    """The facts of one fetch engine."""

    cluster: Cluster
    config: FetchConfig
    plan: ReadPlan
    queue: FetchBuffer
    # By topic and partition, and by place in the queue. The engine adds and removes cursors.
    cursors: Mapping[tuple[str, int], FetchCursor]
    numbered: Mapping[int, FetchCursor]
    parting: Mapping[FetchCursor, None]  # those whose readers closed, for one last request
    tasks: FetchTasks
    errors: FetchErrorLog

    @property
    def committed_only(self) -> bool:
        """True if records of open and aborted transactions are not read (`isolation_level="read_committed"`)."""
        return self.config.isolation_level == "read_committed"

    def is_failing_for_long(self, cursor: FetchCursor) -> bool:
        """Return True if retries of a cursor have failed for longer than `default_api_timeout_ms`."""
        return cursor.failing_ms(self.cluster.engine.now_ms()) > self.config.default_api_timeout_ms

    @property
    def patience_s(self) -> float:
        """`default_api_timeout_ms` in seconds."""
        return self.config.default_api_timeout_ms / 1000
