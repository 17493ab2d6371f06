"""The calls of `Admin` about the quorum of controllers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kafwire.admin.quorum import MetadataQuorum, RaftVoterEndpoint
from kafwire.sync.admin.face import AdminFace


class QuorumAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_metadata_quorum(self, *, timeout: float | None = None) -> MetadataQuorum:
        """Describe the leader, the voters and the observers of the metadata log. The active controller responds.

        Args:
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The quorum, with the lag and the times of each node.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the cluster is older than Kafka 3.3, or has no KRaft.
            AuthorizationError: an ACL that permits Describe on the Cluster is missing.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     quorum = admin.describe_metadata_quorum()
            >>> quorum.leader_id in [voter.replica_id for voter in quorum.voters]
            True
        """
        return self._run(self._calls.describe_metadata_quorum(timeout=timeout))

    def add_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID | str,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Make a controller a voter of the metadata quorum (KIP-853). The active controller executes the request.

        The controller must run, as an observer. A quorum that was configured by `controller.quorum.voters` alone
        (`kraft.version` 0) refuses the request.

        Args:
            voter_id: the controller's id.
            directory_id: the id of its metadata directory: a UUID, or the text of `directory.id` in meta.properties.
            endpoints: its listeners for other controllers.
            cluster_id: the id that the cluster must have; None: any.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the cluster is older than Kafka 3.9, or has no KRaft.
            BrokerError: the quorum refuses the voter, for example with DUPLICATE_VOTER or UNSUPPORTED_VERSION.
            KafkaTimeoutError: no response came in time.
        """
        self._run(self._calls.add_raft_voter(voter_id, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout))

    def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID | str,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,
    ) -> None:
        """Remove a controller from the voters (KIP-853). The active controller executes the request.

        Args:
            voter_id: the controller's id.
            directory_id: the id of its metadata directory: a UUID, or the text of `directory.id` in meta.properties.
            cluster_id: the id that the cluster must have; None: any.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the cluster is older than Kafka 3.9, or has no KRaft.
            BrokerError: the quorum refuses the change, for example with VOTER_NOT_FOUND or UNSUPPORTED_VERSION.
            KafkaTimeoutError: no response came in time.
        """
        self._run(self._calls.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id, timeout=timeout))

    def unregister_controller(self, controller_id: int, *, timeout: float | None = None) -> None:
        """Remove the registration of a controller that will not come back. The active controller executes the request.

        Args:
            controller_id: the id of the controller.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the cluster is older than Kafka 4.4.
            BrokerError: the request failed, for example with CONTROLLER_ID_NOT_REGISTERED.
            KafkaTimeoutError: no response came in time.
        """
        self._run(self._calls.unregister_controller(controller_id, timeout=timeout))
