"""Checks of the placement of replicas, with Kafka's words, and of the number of in-sync replicas."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from kafwire.errors import ErrorCode

if TYPE_CHECKING:
    from kafwire.broker.log.partition import Partition
    from kafwire.broker.state import ClusterState

Problem = tuple[ErrorCode, str]


def assignment_problem(state: ClusterState, replicas: Sequence[int], factor: int | None = None) -> Problem | None:
    """Return the fault of a partition's list of replicas, of which there must be `factor`; None: no fault."""
    code = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    if not replicas:
        return code, "The manual partition assignment includes an empty replica list."
    previous = None
    for node in sorted(replicas):
        if node not in state.nodes or not state.nodes[node].is_registered:
            return code, f"The manual partition assignment includes broker {node}, but no such broker is registered."
        if node == previous:
            return code, f"The manual partition assignment includes the broker {node} more than once."
        previous = node
    if factor is not None and len(replicas) != factor:
        return code, (
            f"The manual partition assignment includes a partition with {len(replicas)} replica(s), but this is not "
            f"consistent with previous partitions, which have {factor} replica(s)."
        )
    return None


def fenced_problem(state: ClusterState, replicas: Sequence[int], partition: int) -> Problem | None:
    """Return an error if none of a new partition's replicas is up; otherwise None."""
    if any(state.nodes[node].is_up for node in replicas):
        return None
    return ErrorCode.INVALID_REPLICA_ASSIGNMENT, (
        f"All brokers specified in the manual partition assignment for partition {partition} are fenced or in "
        "controlled shutdown."
    )


def factor_problem(state: ClusterState, factor: int) -> Problem | None:
    """Return an error if the cluster cannot have this replication factor; otherwise None."""
    code, where = ErrorCode.INVALID_REPLICATION_FACTOR, f"Unable to replicate the partition {factor} time(s): "
    if not any(node.is_up for node in state.nodes.values()):
        return code, where + "All brokers are currently fenced."
    registered = sum(node.is_registered for node in state.nodes.values())
    if factor > registered:
        return code, where + (
            f"The target replication factor of {factor} cannot be reached because only {registered} broker(s) "
            "are registered or some brokers have all their log directories cordoned."
        )
    return None


def has_enough_replicas(state: ClusterState, partition: Partition) -> bool:
    """True if enough replicas for acks=all are in sync: `min.insync.replicas`, or all if there are fewer."""
    least = int(state.topic_config(partition.topic, "min.insync.replicas"))
    return len(partition.isr) >= min(least, len(partition.replicas))
