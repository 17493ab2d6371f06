"""How the clients of a run reach the cluster: the one place that makes their options, and counts their authentications.

The options travel to the worker processes in files that only their owner may read: a password is among them.
"""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable, Mapping
from typing import Any

from kafwire.broker.security.security import Security
from kafwire.testing.cluster import KafkaCluster
from tests.soak.matrix import CONTROL, KAFWIRE

PROTOCOLS = ("plaintext", "sasl_ssl")
PLAINTEXT, SASL_SSL = PROTOCOLS
# Shorter than an episode with its rest, so that sessions are renewed in the middle of every kind of fault.
REAUTH_MS = 10_000
AUTHENTICATIONS, RENEWALS = "authentications", "reauthentications"
# A closed client was counted at most this long ago: the count is less than the whole.
_COUNT_MS = 500


def security_of(protocol: str) -> Security | None:
    """The listener of the nodes that clients of a run use; None is the plain one."""
    if protocol == PLAINTEXT:
        return None
    return Security("SASL_SSL", ["SCRAM-SHA-512"], connections_max_reauth_ms=REAUTH_MS)


def options_of(cluster: KafkaCluster) -> dict[str, dict[str, str]]:
    """The options that clients need to reach the cluster, by the client, in its own spelling; as JSON can carry it."""
    own = {name.replace(".", "_"): value for name, value in cluster.client_options().items()}
    return {KAFWIRE: own, CONTROL: cluster.client_options(dialect="librdkafka")}


def shows_frames(options: Mapping[str, Mapping[str, str]]) -> bool:
    """True if the proxies see the frames of these clients."""
    return not options[KAFWIRE].get("security_protocol", "").endswith("SSL")


class Access:
    """Makes the options of a process's clients, those of one client library.

    `counts` has how often kafwire's connections were accepted by SASL, and how often that was not the first time on a
    socket.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        self._options = dict(options)
        self.counts = Counter({AUTHENTICATIONS: 0, RENEWALS: 0})
        self._lock = threading.Lock()

    def _add(self, accepted: int, connects: int) -> None:
        with self._lock:
            self.counts[AUTHENTICATIONS] += accepted
            self.counts[RENEWALS] += accepted - connects

    def options(self) -> dict[str, Any]:
        """Those of one client more."""
        if "sasl_mechanism" not in self._options:  # nothing to count; so too librdkafka's, which are dotted
            return dict(self._options)
        return {**self._options, "metrics_hook": _Count(self._add), "metrics_interval_ms": _COUNT_MS}


class _Count:
    """Counts the connections in one client's metrics."""

    def __init__(self, add: Callable[[int, int], object]) -> None:
        self._add = add
        self._seen: dict[tuple[object, ...], tuple[int, int]] = {}

    def __call__(self, metrics: dict[str, Any]) -> None:
        for connection in metrics["connections"]:
            which = tuple(connection[name] for name in ("node", "role", "host", "port"))
            now = connection["authentications"], connection["connects"]
            before = self._seen.get(which, (0, 0))
            self._seen[which] = now
            if now < before:  # another connection in the place of one that was given up
                before = (0, 0)
            self._add(now[0] - before[0], now[1] - before[1])
