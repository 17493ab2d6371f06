"""The calls of `AsyncAdmin` about ACLs."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.acls import AclBinding, AclFilter
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError


class AsyncAclAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def create_acls(
        self,
        bindings: Iterable[AclBinding],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[AclBinding, KafkaError], object] | None = None,
    ) -> None:
        """Create access rules, as `Admin.create_acls` does."""
        await self._by_key(self._calls.create_acls(bindings, timeout=timeout), on_error)

    async def describe_acls(
        self,
        filter: AclFilter | None = None,  # noqa: A002
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[AclBinding]:
        """List access rules, as `Admin.describe_acls` does."""
        return await self._run(self._calls.describe_acls(filter, timeout=timeout))

    async def delete_acls(
        self,
        filters: Iterable[AclFilter],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[AclFilter, KafkaError], object] | None = None,
    ) -> dict[AclFilter, list[AclBinding]]:
        """Delete access rules, as `Admin.delete_acls` does."""
        return await self._by_key(self._calls.delete_acls(filters, timeout=timeout), on_error)
