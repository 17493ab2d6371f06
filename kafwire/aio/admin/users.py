"""The calls of `AsyncAdmin` about SCRAM users."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.users import ScramCredential, ScramDeletion, ScramUpsertion
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError


class AsyncUserAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_user_scram_credentials(
        self,
        users: Iterable[str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[str, KafkaError], object] | None = None,
    ) -> dict[str, list[ScramCredential]]:
        """Describe SCRAM credentials, as `Admin.describe_user_scram_credentials` does."""
        work = self._calls.describe_user_scram_credentials(users, timeout=timeout)
        return await self._by_key(work, on_error)

    async def alter_user_scram_credentials(
        self,
        alterations: Iterable[ScramUpsertion | ScramDeletion],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[str, KafkaError], object] | None = None,
    ) -> None:
        """Set and delete SCRAM credentials, as `Admin.alter_user_scram_credentials` does."""
        await self._by_key(self._calls.alter_user_scram_credentials(alterations, timeout=timeout), on_error)
