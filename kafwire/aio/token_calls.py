"""The delegation token calls of `AsyncClient`."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.aio.bridge import on_engine
from kafwire.cluster.delegation_tokens import DelegationTokens
from kafwire.runtime.interfaces import Engine
from kafwire.secret import Secret
from kafwire.types import DelegationToken


class AsyncTokenCalls:
    """A part of `AsyncClient`, which has these attributes."""

    _engine: Engine
    _tokens: DelegationTokens
    _check: Callable[[], None]

    async def create_delegation_token(
        self, renewers: Iterable[str] = (), max_lifetime_ms: int | None = None, owner: str | None = None
    ) -> DelegationToken:
        """Ask the cluster for a delegation token, as `Client.create_delegation_token` does.

        Example:
            >>> async def main():
            ...     async with kafwire.AsyncClient(**sasl_options) as client:
            ...         return await client.create_delegation_token()
            >>> asyncio.run(main()).owner
            'User:admin'
        """
        self._check()
        return await on_engine(self._engine, self._tokens.create(renewers, max_lifetime_ms, owner)())

    async def renew_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Renew a delegation token, as `Client.renew_delegation_token` does."""
        self._check()
        return await on_engine(self._engine, self._tokens.renew(hmac, period_ms)())

    async def expire_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """End a delegation token early, as `Client.expire_delegation_token` does."""
        self._check()
        return await on_engine(self._engine, self._tokens.expire(hmac, period_ms)())

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """List the delegation tokens that this user may see, as `Client.describe_delegation_tokens` does."""
        self._check()
        return await on_engine(self._engine, self._tokens.describe(owners)())
