"""The calls of `Admin` about SCRAM users."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.users import ScramCredential, ScramDeletion, ScramUpsertion
from kafwire.errors import KafkaError
from kafwire.sync.admin.face import AdminFace


class UserAdmin(AdminFace):
    """A part of `Admin`."""

    def describe_user_scram_credentials(
        self,
        users: Iterable[str] | None = None,
        *,
        timeout: float | None = None,
        on_error: Callable[[str, KafkaError], object] | None = None,
    ) -> dict[str, list[ScramCredential]]:
        """Describe the SCRAM credentials of users, without their secrets. Any broker responds.

        Args:
            users: their names; None: all users that have credentials.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name and the error of each user that was not described. Without it, errors are
                raised.

        Returns:
            The credentials by user, one for each mechanism.

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: this client may not describe the cluster.
            BrokerError: the only user has no credential: RESOURCE_NOT_FOUND.
            AdminError: some of several users have none.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.describe_user_scram_credentials(["mallory"], on_error=lambda user, error: print(user))
            mallory
            {}
        """
        work = self._calls.describe_user_scram_credentials(users, timeout=timeout)
        return self._by_key(work, on_error)

    def alter_user_scram_credentials(
        self,
        alterations: Iterable[ScramUpsertion | ScramDeletion],
        *,
        timeout: float | None = None,
        on_error: Callable[[str, KafkaError], object] | None = None,
    ) -> None:
        """Set and delete SCRAM credentials. The controller executes the request.

        Passwords are salted here: no broker sees them. Brokers accept a new password a moment after the call.

        Args:
            alterations: the new passwords and the deletions, one for each user.
            timeout: seconds for all attempts; None: `default_api_timeout_ms`.
            on_error: called with the name and the error of each user that was not altered. Without it, errors are
                raised.

        Raises:
            ConfigError: an argument has a bad value, or names a user twice.
            BrokerError: the cluster refuses the alteration of the only user, for example RESOURCE_NOT_FOUND for the
                deletion of a credential that does not exist.
            AdminError: the cluster refuses the alterations of some of several users.
            KafkaTimeoutError: no response came in time.

        Example:
            >>> from kafwire.admin import ScramDeletion, ScramUpsertion
            >>> with kafwire.Admin(bootstrap) as admin:
            ...     admin.alter_user_scram_credentials([ScramUpsertion("ada", "SCRAM-SHA-512", "swordfish")])
            ...     admin.alter_user_scram_credentials([ScramDeletion("ada", "SCRAM-SHA-512")])
        """
        self._by_key(self._calls.alter_user_scram_credentials(alterations, timeout=timeout), on_error)
