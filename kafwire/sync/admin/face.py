"""`AdminFace`: the part that all families of `Admin` share."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

from kafwire.admin.outcomes import Outcomes, settle
from kafwire.calls.admin import AdminCalls
from kafwire.errors import KafkaError
from kafwire.runtime.interfaces import Work
from kafwire.sync.cluster_client import ClusterClient

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class AdminFace(ClusterClient):
    """A part of `Admin`."""

    _calls: AdminCalls

    def _by_key(self, work: Work[Outcomes[K, V]], on_error: Callable[[K, KafkaError], object] | None) -> dict[K, V]:
        """Return the results by key, after `on_error` got the errors; raise them without it."""
        return settle(self._run(work), on_error)
