"""The calls of `Admin` about the cluster and its features."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.admin.cluster import ClusterDescription, FeatureDescription, FeatureUpdate
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace

OnError = Callable[[str, KafkaError], object]


class ClusterAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_cluster(
        self, *, fenced: bool = False, authorized_operations: bool = False, timeout: float | None = None
    ) -> ClusterDescription:
        """Describe the brokers of the cluster. Any broker responds, by Metadata before Kafka 2.8.

        Args:
            fenced: include brokers that are registered and do not serve clients, which needs Kafka 4.0.
            authorized_operations: request the operations on the cluster that ACLs allow this client.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The cluster's id, controller and brokers.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the broker is too old for an argument.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     cluster = admin.describe_cluster()
            >>> cluster.controller_id in cluster.brokers
            True
        """
        return self._run(
            self._calls.describe_cluster(fenced=fenced, authorized_operations=authorized_operations, timeout=timeout)
        )

    def describe_features(self, *, broker: int | None = None, timeout: float | None = None) -> FeatureDescription:
        """Describe the features that are in effect, and the levels that a broker supports. Any broker responds.

        During an upgrade of the cluster, brokers support different levels: ask each of them.

        Args:
            broker: the id of the broker to ask; None: any.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The finalized and the supported levels of features; both are empty for brokers before Kafka 2.7.

        Raises:
            ConfigError: an argument has a bad value, or the cluster has no such broker.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     features = admin.describe_features()
            >>> features.finalized["metadata.version"].max_version >= 7
            True
        """
        return self._run(self._calls.describe_features(broker=broker, timeout=timeout))

    def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        on_error: OnError | None = None,
    ) -> None:
        """Change the levels of features: all of them, or none. The controller executes the request.

        Brokers learn of the levels a moment later. A downgrade is a `FeatureUpdate` with its type.

        Args:
            updates: the new level of each feature; a number is an upgrade.
            validate_only: check the request, and change no level.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name and the error of each feature that was not changed. Without it, errors are
                raised. If the cluster refuses one feature, all have its error.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the broker is too old for an argument.
            BrokerError: the only feature cannot have the level, for example INVALID_UPDATE_VERSION.
            AdminError: several features were not changed.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     level = admin.describe_features().finalized["metadata.version"].max_version
            ...     admin.update_features({"metadata.version": level}, validate_only=True)
        """
        work = self._calls.update_features(updates, validate_only=validate_only, timeout=timeout)
        self._by_key(work, on_error)

    def unregister_broker(self, broker_id: int, *, timeout: float | None = None) -> None:
        """Remove the registration of a broker that will not come back. The controller executes the request.

        Stop the broker first: a broker that runs loses its registration, and serves no client until it is restarted.

        Args:
            broker_id: the id of the broker.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Raises:
            ConfigError: an argument has a bad value.
            ProtocolError: the cluster is older than Kafka 3.0, or has no KRaft.
            BrokerError: the request failed, with BROKER_ID_NOT_REGISTERED if there is no such broker.
            KafkaTimeoutError: no response came in time.
        """
        self._run(self._calls.unregister_broker(broker_id, timeout=timeout))
