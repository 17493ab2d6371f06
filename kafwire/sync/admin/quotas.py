"""The calls of `Admin` about client quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.admin.quotas import QuotaEntity, QuotaFilter
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace


class QuotaAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_client_quotas(
        self,
        filter: QuotaFilter | None = None,  # noqa: A002
        *,
        timeout: float | None = None,
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Describe the quotas of users, client ids and addresses. Any broker responds.

        Args:
            filter: the entities to describe; None: all that have quotas.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The quotas by entity, by Kafka's names: `producer_byte_rate`, `consumer_byte_rate` (bytes per second),
            `request_percentage`, `controller_mutation_rate` (partitions per second), and of addresses
            `connection_creation_rate` (connections per second).

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: this client may not describe the cluster's configuration.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import QuotaFilter, QuotaMatch
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.describe_client_quotas(QuotaFilter(user=QuotaMatch.ANY))
            {}
        """
        return self._run(self._calls.describe_client_quotas(filter, timeout=timeout))

    def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,
        on_error: Callable[[QuotaEntity, KafkaError], object] | None = None,
    ) -> None:
        """Set and remove quotas. Any broker executes the request, or forwards it to the controller.

        The cluster changes all quotas of an entity, or none. Quotas that are not named stay.

        Args:
            quotas: for each entity, values by Kafka's names, see `describe_client_quotas`; None removes a quota.
            validate_only: check whether the quotas could be changed, and change none.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the entity and the error of each entity whose quotas the cluster does not change.
                Without it, errors are raised.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the cluster refuses the change of the only entity, for example INVALID_REQUEST for an unknown
                quota or a value of 0.
            AdminError: the cluster refuses the changes of some of several entities.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import QuotaEntity
            >>> alice = QuotaEntity(user="alice")
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.alter_client_quotas({alice: {"producer_byte_rate": 1_000_000}}, validate_only=True)
        """
        work = self._calls.alter_client_quotas(quotas, validate_only=validate_only, timeout=timeout)
        self._by_key(work, on_error)
