"""The delegation token calls of `Client`."""

from __future__ import annotations

from collections.abc import Iterable

from kafwire.secret import Secret
from kafwire.sync.cluster_client import ClusterClient
from kafwire.types import DelegationToken


class TokenCalls(ClusterClient):
    """A part of `Client` and `Admin`."""

    def create_delegation_token(
        self, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None, owner: str | None = None
    ) -> DelegationToken:
        """Request a delegation token (KIP-48): with it, other clients authenticate as its owner, without a password.

        The connection must be authenticated, by SASL or a client certificate, and not by a token. The token reaches the
        other brokers a moment after its creation: until then they refuse it, or do not find it. If the response is
        lost, the request is sent again; a token of the first request then expires by itself.

        Args:
            renewers: further users that may renew and expire the token, besides its owner: "alice" or "User:alice".
            max_lifetime_ms: milliseconds after which it cannot be renewed any more; None: the broker's limit
                (`delegation.token.max.lifetime.ms`), which is also the maximum.
            owner: the user of the token; None: the user of this client. Another user needs an ACL that permits
                CreateTokens on that user, and Kafka 3.3.

        Returns:
            The token. Its `hmac` is a secret.

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: a token for this owner is not permitted.
            BrokerError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED over such a connection, or DELEGATION_TOKEN_AUTH_DISABLED.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     token = client.create_delegation_token(renewers=["alice"], max_lifetime_ms=3_600_000)
            >>> token.owner, token.renewers, token.hmac
            ('User:admin', ('User:alice',), Secret('***'))
            >>> by_token = {
            ...     **sasl_options,
            ...     "sasl_mechanism": "SCRAM-SHA-256",
            ...     "sasl_username": token.token_id,
            ...     "sasl_password": token.hmac,
            ...     "sasl_tokenauth": True,
            ... }
            >>> kafwire.Producer(**by_token).close()
        """
        return self._run(self._calls.create_delegation_token(renewers, max_lifetime_ms, owner))

    def renew_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Renew a delegation token: set a later expiry time. Its owner and its renewers may do this.

        Args:
            hmac: the token's `hmac`.
            period_ms: milliseconds from now; None: `delegation.token.expiry.time.ms` of the broker, which is also the
                maximum. No token outlives its `max_at_ms`.

        Returns:
            The new expiry time, in milliseconds since the epoch.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, or DELEGATION_TOKEN_OWNER_MISMATCH for
                other users.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     for token in client.describe_delegation_tokens(owners=["admin"]):
            ...         assert client.renew_delegation_token(token.hmac) >= token.expires_at_ms
        """
        return self._run(self._calls.renew_delegation_token(hmac, period_ms))

    def expire_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Expire a delegation token early. Its owner and its renewers may do this.

        New connections with it are refused then. Earlier connections last until its former expiry time.

        Args:
            hmac: the token's `hmac`.
            period_ms: milliseconds from now; None: at once, and brokers drop the token.

        Returns:
            The new expiry time, in milliseconds since the epoch.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: as `renew_delegation_token` does.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     for token in client.describe_delegation_tokens(owners=["admin"]):
            ...         assert client.expire_delegation_token(token.hmac) <= token.expires_at_ms
        """
        return self._run(self._calls.expire_delegation_token(hmac, period_ms))

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """List the delegation tokens that this user may see, their secrets included.

        Those are the tokens that the user owns, has requested or may renew, and those that ACLs permit to describe
        (Describe on a DelegationToken, DescribeTokens on a User). Other tokens are left out, without an error.

        Args:
            owners: list only tokens of these users: "alice" or "User:alice"; None: of all users. Brokers count the
                renewers of a token among its owners here.

        Returns:
            The tokens.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: no response came within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     client.describe_delegation_tokens(owners=["carol"])
            []
        """
        return self._run(self._calls.describe_delegation_tokens(owners))
