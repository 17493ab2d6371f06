"""The calls of `Client` that are about delegation tokens."""

from __future__ import annotations

from collections.abc import Iterable

from kafwire.cluster.delegation_tokens import DelegationTokens
from kafwire.runtime.interfaces import Engine
from kafwire.secret import Secret
from kafwire.types import DelegationToken


class TokenCalls:
    """A part of `Client`."""

    _engine: Engine
    _tokens: DelegationTokens

    def create_delegation_token(
        self, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None, owner: str | None = None
    ) -> DelegationToken:
        """Ask the cluster for a delegation token (KIP-48): others authenticate by it as its owner, without a password.

        The connection has to be authenticated, by SASL or a client certificate, and not by a token. Brokers learn of a
        new token a moment after it was made: until then they refuse it, or do not find it. If the answer is lost on its
        way the request is sent again; a first token that was made nevertheless ends by itself.

        Args:
            renewers: users who may renew and expire the token, besides its owner: "alice" or "User:alice".
            max_lifetime_ms: milliseconds after which it can be renewed no more; None: the broker's limit
                (`delegation.token.max.lifetime.ms`), which is also the most.
            owner: the user whom the token stands for; None: the one who asks. Another one needs an ACL that permits
                CreateTokens on that user, and Kafka 3.3.

        Returns:
            The token. Its `hmac` is a secret.

        Raises:
            ConfigError: an argument has a bad value.
            AuthorizationError: a token for this owner is not permitted.
            BrokerError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED over such a connection, or DELEGATION_TOKEN_AUTH_DISABLED.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: there was no answer within `default_api_timeout_ms`.

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
        self._check()
        return self._engine.run(self._tokens.create(renewers, max_lifetime_ms, owner))

    def renew_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Put off the end of a delegation token. Its owner and its renewers may.

        Args:
            hmac: the token's `hmac`.
            period_ms: milliseconds from now; None: `delegation.token.expiry.time.ms` of the broker, which is also the
                most. No token outlives its `max_at_ms`.

        Returns:
            When the token expires now, in milliseconds since the epoch.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: DELEGATION_TOKEN_NOT_FOUND, DELEGATION_TOKEN_EXPIRED, or DELEGATION_TOKEN_OWNER_MISMATCH for
                others.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: there was no answer within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     for token in client.describe_delegation_tokens(owners=["admin"]):
            ...         assert client.renew_delegation_token(token.hmac) >= token.expires_at_ms
        """
        self._check()
        return self._engine.run(self._tokens.renew(hmac, period_ms))

    def expire_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """End a delegation token early. Its owner and its renewers may.

        New connections are refused then. Those that were made with it before last until its former end.

        Args:
            hmac: the token's `hmac`.
            period_ms: milliseconds from now; None: at once, and the token is forgotten.

        Returns:
            When the token expires now, in milliseconds since the epoch.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: as `renew_delegation_token` does.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: there was no answer within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     for token in client.describe_delegation_tokens(owners=["admin"]):
            ...         assert client.expire_delegation_token(token.hmac) <= token.expires_at_ms
        """
        self._check()
        return self._engine.run(self._tokens.expire(hmac, period_ms))

    def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """List the delegation tokens that this user may see, their secrets included.

        Those are the tokens that he owns, asked for or may renew, and those that ACLs permit to describe
        (Describe on a DelegationToken, DescribeTokens on a User). Others are left out, without an error.

        Args:
            owners: the users whose tokens are wanted: "alice" or "User:alice"; None: everybody's. Brokers count those
                who may renew a token among its owners here.

        Returns:
            The tokens.

        Raises:
            ConfigError: an argument has a bad value.
            BrokerError: DELEGATION_TOKEN_REQUEST_NOT_ALLOWED or DELEGATION_TOKEN_AUTH_DISABLED.
            KafkaConnectionError: no broker could be reached.
            KafkaTimeoutError: there was no answer within `default_api_timeout_ms`.

        Example:
            >>> with kafwire.Client(**sasl_options) as client:
            ...     client.describe_delegation_tokens(owners=["nobody"])
            []
        """
        self._check()
        return self._engine.run(self._tokens.describe(owners))

    def _check(self) -> None:
        raise NotImplementedError  # it is the client's
