"""Requests that only the controller of a ZooKeeper cluster executes, and other brokers' refusal of them. Pure.

KRaft brokers forward such requests, and name any broker as the controller in their metadata (KIP-590).

The list is that of Java's `KafkaAdminClient` (as of Kafka 4.0): the calls with a `ControllerNodeProvider`. It asks the
broker that the metadata names, and after NOT_CONTROLLER, anywhere in a response, the broker that the next metadata
names. Two rules differ: Java does not retry ElectLeaders, and waits for a controller that does not respond, where
`Cluster.call` asks another broker, which forwards the request or refuses it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from kafwire.error_codes import ErrorCode

# Any broker executes requests about configurations, ACLs, quotas and delegation tokens.
CONTROLLER_REQUESTS = frozenset(
    f"{name}Request"
    for name in (
        *("CreateTopics", "DeleteTopics", "CreatePartitions", "ElectLeaders"),
        *("AlterPartitionReassignments", "ListPartitionReassignments"),
        *("AlterUserScramCredentials", "UpdateFeatures"),
    )
)


def needs_controller(message: Any) -> bool:
    """True if only the controller executes a request."""
    return type(message).__name__ in CONTROLLER_REQUESTS


def is_refused(response: Any) -> bool:
    """True if a broker refused the request because it is not the controller."""
    if getattr(response, "error_code", 0) == ErrorCode.NOT_CONTROLLER:
        return True
    return any(part.error_code == ErrorCode.NOT_CONTROLLER for part in _parts(response))


def _parts(response: Any) -> Iterable[Any]:
    for name in ("topics", "responses", "results"):
        for part in getattr(response, name, ()):
            if hasattr(part, "error_code"):
                yield part
