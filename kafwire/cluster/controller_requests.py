"""Requests that only the controller of a cluster with ZooKeeper executes, and its refusal by any other broker. Pure.

Brokers with KRaft forward such requests, and name any of the brokers as the controller in their metadata (KIP-590).

The list is that of Java's `KafkaAdminClient` (as of Kafka 4.0): the calls with a `ControllerNodeProvider`. That asks
the broker which the metadata names, and after NOT_CONTROLLER, anywhere in a response, the one that the next metadata
names. Two rules differ: Java does not retry ElectLeaders, and waits for a controller that does not respond, where
`Cluster.call` asks another broker, which forwards the request or refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafwire.error_codes import ErrorCode

# Any broker executes what concerns configurations, ACLs, quotas and delegation tokens.
CONTROLLER_REQUESTS = frozenset(
    f"{name}Request"
    for name in (
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "ElectLeaders"),
        *("AlterPartitionReassignments", "ListPartitionReassignments"),
        *("AlterUserScramCredentials", "UpdateFeatures"),
    )
)


def needs_controller(message: Any) -> bool:
    """Whether a request is for the controller."""
    return type(message).__name__ in CONTROLLER_REQUESTS


def is_refused(response: Any) -> bool:
    """Whether a broker refused the request because it is not the controller."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    return any(part.error_code == ErrorCode.NOT_CONTROLLER for part in _parts(response))


def _parts(response: Any) -> Iterable[Any]:
    for name in ("topics", "responses", "results"):
        for part in getattr(response, name, ()):
            if hasattr(part, "error_code"):
                yield part
