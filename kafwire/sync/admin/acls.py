"""The calls of `Admin` about ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.acls import AclBinding, AclFilter
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace


class AclAdmin(AdminFace):
    """A part of `Admin`."""

    def create_acls(
        self,
        bindings: Iterable[AclBinding],
        *,
        timeout: float | None = None,
        on_error: Callable[[AclBinding, KafkaError], object] | None = None,
    ) -> None:
        """Create access rules. Any broker executes the request, or forwards it to the controller.

        A rule that exists already is no error. Brokers enforce a rule a moment after its creation.

        Args:
            bindings: the rules. The texts of an `AuthorizationError` are those of the rule that is missing.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the binding and the error of each rule that the cluster refuses. Without it, errors
                are raised.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the cluster refuses the only rule, for example SECURITY_DISABLED without an authorizer.
            AdminError: the cluster refuses some of several rules; it has the errors by binding.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import AclBinding
            >>> def let_read(admin: kafwire.Admin, topic: str, user: str) -> None:
            ...     admin.create_acls([AclBinding("Topic", topic, f"User:{user}", "Read")])
        """
        self._by_key(self._calls.create_acls(bindings, timeout=timeout), on_error)

    def describe_acls(
        self,
        filter: AclFilter | None = None,  # noqa: A002
        *,
        timeout: float | None = None,
    ) -> list[AclBinding]:
        """List access rules. Any broker responds; rules reach it a moment after their creation.

        Args:
            filter: the rules to list; None: all.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.

        Returns:
            The rules. A value that only a newer Kafka has is "Unknown".

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: this client may not describe the cluster.
            BrokerError: the cluster has no authorizer, for example.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import AclFilter
            >>> def rules_about(admin: kafwire.Admin, topic: str) -> list[str]:
            ...     return [str(each) for each in admin.describe_acls(AclFilter("Topic", topic, pattern_type="Match"))]
        """
        return self._run(self._calls.describe_acls(filter, timeout=timeout))

    def delete_acls(
        self,
        filters: Iterable[AclFilter],
        *,
        timeout: float | None = None,
        on_error: Callable[[AclFilter, KafkaError], object] | None = None,
    ) -> dict[AclFilter, list[AclBinding]]:
        """Delete access rules. Any broker executes the request, or forwards it to the controller.

        The request is sent again after a lost connection. The result lacks rules that the first attempt deleted.

        Args:
            filters: the rules to delete; `AclBinding.to_filter` is the filter of one rule. `AclFilter()` matches all.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the filter and the error of each filter that failed, wholly or for some of its rules;
                the result lacks it. Without it, errors are raised.

        Returns:
            The deleted rules by filter; none if no rule matched. A rule may match several filters.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: the only filter failed.
            AdminError: some of several filters failed; or some rules of a filter were not deleted: `results` has the
                deleted ones, `errors` the errors of the others, by binding.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import AclFilter
            >>> def forget(admin: kafwire.Admin, user: str) -> int:
            ...     (deleted,) = admin.delete_acls([AclFilter(principal=f"User:{user}")]).values()
            ...     return len(deleted)
        """
        return self._by_key(self._calls.delete_acls(filters, timeout=timeout), on_error)
