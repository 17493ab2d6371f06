"""The calls of `Admin` about replicas: log directories, reassignments, and elections of leaders."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.replica_arguments import Directories, Reassigned, TopicPartitionReplica
from kafwire.admin.replicas import LogDirDescription, PartitionReassignment, ReplicaLogDirs
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace
from kafwire.types import TopicPartition

OnBrokerError = Callable[[int, KafkaError], object]
OnReplicaError = Callable[[TopicPartitionReplica, KafkaError], object]
OnPartitionError = Callable[[TopicPartition, KafkaError], object]


class ReplicaAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_log_dirs(
        self,
        brokers: Iterable[int] | None = None,
        *,
        timeout: float | None = None,
        on_error: OnBrokerError | None = None,
    ) -> dict[int, dict[str, LogDirDescription]]:
        """Describe the log directories of brokers, with their replicas and volumes. Each broker responds for itself.

        Args:
            brokers: the ids of the brokers; None: all brokers of the cluster.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the id and the error of each broker that failed; the result lacks them. Without it,
                errors are raised.

        Returns:
            For each broker its directories by path. A directory that is offline has an `error`.

        Raises:
            ConfigError: an argument has a bad value, or the cluster has no such broker.
            BrokerError: the only broker refuses the request.
            AdminError: some of several brokers failed; it has the results and the errors by id.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     by_broker = admin.describe_log_dirs()
            >>> any(partition in log_dir.replicas for dirs in by_broker.values() for log_dir in dirs.values())
            True
        """
        return self._by_key(self._calls.describe_log_dirs(brokers, timeout=timeout), on_error)

    def describe_replica_log_dirs(
        self,
        replicas: Iterable[tuple[str, int, int]],
        *,
        timeout: float | None = None,
        on_error: OnReplicaError | None = None,
    ) -> dict[TopicPartitionReplica, ReplicaLogDirs]:
        """Find the log directories of replicas, and those into which they move. The replicas' brokers respond.

        Args:
            replicas: `TopicPartitionReplica`s, or tuples (topic, partition, broker).
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the replica and the error of each replica whose broker failed; the result lacks them.
                Without it, errors are raised.

        Returns:
            The directories by replica. A replica that its broker does not have, or that is offline, has none.

        Raises:
            ConfigError: an argument has a bad value, or the cluster has no such broker.
            BrokerError: the broker of the only replica refuses the request.
            AdminError: the brokers of some of several replicas failed.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     found = admin.describe_replica_log_dirs([(topic, 0, 1)])
            >>> found[topic, 0, 1].future_dir is None
            True
        """
        return self._by_key(self._calls.describe_replica_log_dirs(replicas, timeout=timeout), on_error)

    def alter_replica_log_dirs(
        self,
        assignment: Directories,
        *,
        timeout: float | None = None,
        on_error: OnReplicaError | None = None,
    ) -> None:
        """Begin to move replicas between the log directories of their brokers. The replicas' brokers respond.

        The move ends later, see `describe_replica_log_dirs`. A broker without the replica creates it in the directory
        later, if it gets one, and reports REPLICA_NOT_AVAILABLE.

        Args:
            assignment: the absolute path of a directory of the broker, by `TopicPartitionReplica` or by tuple (topic,
                partition, broker).
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the replica and the error of each replica that does not move. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value, or the cluster has no such broker.
            BrokerError: the only replica does not move, for example with LOG_DIR_NOT_FOUND.
            AdminError: some of several replicas do not move.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     place = admin.describe_replica_log_dirs([(topic, 0, 1)])[topic, 0, 1]
            ...     admin.alter_replica_log_dirs({(topic, 0, 1): place.current_dir})
        """
        self._by_key(self._calls.alter_replica_log_dirs(assignment, timeout=timeout), on_error)

    def alter_partition_reassignments(
        self,
        reassignments: Reassigned,
        *,
        allow_replication_factor_change: bool = True,
        timeout: float | None = None,
        on_error: OnPartitionError | None = None,
    ) -> None:
        """Begin to move partitions to other brokers, or cancel their moves. The controller executes the request.

        The move ends once the added replicas are in sync, see `list_partition_reassignments`.

        Args:
            reassignments: the ids of the brokers that are to have a replica, the preferred leader first, by partition;
                None cancels the partition's reassignment.
            allow_replication_factor_change: False: refuse another number of replicas, which needs Kafka 4.1.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the partition and the error of each partition that is refused. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the broker is too old for an argument.
            BrokerError: the only partition is refused, for example with NO_REASSIGNMENT_IN_PROGRESS.
            AdminError: some of several partitions are refused.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.alter_partition_reassignments({(topic, 0): [1]})
        """
        work = self._calls.alter_partition_reassignments(
            reassignments, allow_replication_factor_change=allow_replication_factor_change, timeout=timeout
        )
        self._by_key(work, on_error)

    def list_partition_reassignments(
        self, partitions: Iterable[tuple[str, int]] | None = None, *, timeout: float | None = None
    ) -> dict[TopicPartition, PartitionReassignment]:
        """List the reassignments in progress. The controller responds.

        Args:
            partitions: the partitions; None: all of the cluster.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The reassignments by partition. Partitions that do not move, or do not exist, are not in it.

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: an ACL that permits Describe on the Cluster is missing.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.list_partition_reassignments([(topic, 0)])
            {}
        """
        return self._run(self._calls.list_partition_reassignments(partitions, timeout=timeout))

    def elect_leaders(
        self,
        election_type: str,
        partitions: Iterable[tuple[str, int]] | None = None,
        *,
        timeout: float | None = None,
        on_error: OnPartitionError | None = None,
    ) -> list[TopicPartition]:
        """Elect leaders of partitions. The controller executes the request.

        Args:
            election_type: "preferred": the first of a partition's replicas is to lead. "unclean": any running replica
                leads a partition without a leader, which may lose records.
            partitions: the partitions; None: all that need an election.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the partition and the error of each partition without an election. Without it, errors
                are raised.

        Returns:
            The partitions with a new leader.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only partition got no leader, for example PREFERRED_LEADER_NOT_AVAILABLE. A partition that
                `partitions` names has ELECTION_NOT_NEEDED if the wanted leader leads already.
            AdminError: some of several partitions got no leader.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     topic in {each.topic for each in admin.elect_leaders("preferred")}
            False
        """
        return list(self._by_key(self._calls.elect_leaders(election_type, partitions, timeout=timeout), on_error))
