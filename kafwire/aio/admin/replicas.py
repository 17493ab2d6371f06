"""The calls of `AsyncAdmin` about replicas: log directories, reassignments, and elections of leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.replica_arguments import Directories, Reassigned, TopicPartitionReplica
from kafwire.admin.replicas import LogDirDescription, PartitionReassignment, ReplicaLogDirs
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition

OnBrokerError = Callable[[int, KafkaError], object]
OnReplicaError = Callable[[TopicPartitionReplica, KafkaError], object]
OnPartitionError = Callable[[TopicPartition, KafkaError], object]


class AsyncReplicaAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
        on_error: OnBrokerError | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Describe log directories, as `Admin.describe_log_dirs` does."""
        return await self._by_key(self._calls.describe_log_dirs(brokers, timeout=timeout), on_error)

    async def describe_replica_log_dirs(
        self,
        replicas: Iterable[tuple[str, int, int]],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnReplicaError | None = None,
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs]:
        """Find the log directories of replicas, as `Admin.describe_replica_log_dirs` does."""
        return await self._by_key(self._calls.describe_replica_log_dirs(replicas, timeout=timeout), on_error)

    async def alter_replica_log_dirs(
        self,
        assignment: Directories,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnReplicaError | None = None,
    ) -> None:
        """Begin to move replicas between log directories, as `Admin.alter_replica_log_dirs` does."""
        await self._by_key(self._calls.alter_replica_log_dirs(assignment, timeout=timeout), on_error)

    async def alter_partition_reassignments(
        self,
        reassignments: Reassigned,
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnPartitionError | None = None,
    ) -> None:
        """Begin to move partitions to other brokers, as `Admin.alter_partition_reassignments` does."""
        work = self._calls.alter_partition_reassignments(
            reassignments, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        )
        await self._by_key(work, on_error)

    async def list_partition_reassignments(
        self,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> dict[TopicPartition, PartitionReassignment]:
        """List the reassignments in progress, as `Admin.list_partition_reassignments` does."""
        return await self._run(self._calls.list_partition_reassignments(partitions, timeout=timeout))

    async def elect_leaders(
        self,
        election_type: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnPartitionError | None = None,
    ) -> list[TopicPartition]:
        """Elect leaders of partitions, as `Admin.elect_leaders` does."""
        work = self._calls.elect_leaders(election_type, partitions, timeout=timeout)
        return list(await self._by_key(work, on_error))
