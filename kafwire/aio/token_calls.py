"""The delegation token calls of `AsyncClient`."""

from __future__ import annotations

from collections.abc import Iterable

from kafwire.aio.cluster_client import AsyncClusterClient
from kafwire.secret import Secret
from kafwire.types import DelegationToken


class AsyncTokenCalls(AsyncClusterClient):
    """A part of `AsyncClient` and `AsyncAdmin`."""

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
        return await self._run(self._calls.create_delegation_token(renewers, max_lifetime_ms, owner))

    async def renew_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """Renew a delegation token, as `Client.renew_delegation_token` does."""
        return await self._run(self._calls.renew_delegation_token(hmac, period_ms))

    async def expire_delegation_token(self, hmac: Secret | str, period_ms: int | None = None) -> int:
        """End a delegation token early, as `Client.expire_delegation_token` does."""
        return await self._run(self._calls.expire_delegation_token(hmac, period_ms))

    async def describe_delegation_tokens(self, owners: Iterable[str] | None = None) -> list[DelegationToken]:
        """List the delegation tokens that this user may see, as `Client.describe_delegation_tokens` does."""
        return await self._run(self._calls.describe_delegation_tokens(owners))
