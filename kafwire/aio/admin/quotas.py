"""The calls of `AsyncAdmin` about client quotas."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.admin.quotas import QuotaEntity, QuotaFilter
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError


class AsyncQuotaAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_client_quotas(
        self,
        filter: QuotaFilter | None = None,  # noqa: A002
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> dict[QuotaEntity, dict[str, float]]:
        """Describe quotas, as `Admin.describe_client_quotas` does."""
        return await self._run(self._calls.describe_client_quotas(filter, timeout=timeout))

    async def alter_client_quotas(
        self,
        quotas: Mapping[QuotaEntity, Mapping[str, float | None]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[QuotaEntity, KafkaError], object] | None = None,
    ) -> None:
        """Set and remove quotas, as `Admin.alter_client_quotas` does."""
        work = self._calls.alter_client_quotas(quotas, validate_only=validate_only, timeout=timeout)
        await self._by_key(work, on_error)
