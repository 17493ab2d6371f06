"""The calls of `AsyncAdmin` about groups and their members."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from kafwire.admin.group_types import GroupDescription, GroupListing, GroupMember
from kafwire.admin.groups import sorted_groups
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError

OnError = Callable[[str, KafkaError], object]


class AsyncGroupAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def list_groups(
        self,
        *,
        states: Iterable[str] | None = None,
        types: Iterable[str] | None = None,
        protocol_types: Iterable[str] | None = None,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
        on_error: Callable[[int, KafkaError], object] | None = None,
    ) -> list[GroupListing]:
        """List the groups of the cluster, as `Admin.list_groups` does."""
        work = self._calls.list_groups(states=states, types=types, protocol_types=protocol_types, timeout=timeout)
        return sorted_groups(await self._by_key(work, on_error))

    async def describe_groups(
        self,
        groups: Iterable[str],
        *,
        authorized_operations: bool = False,
        topology_description: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> dict[str, GroupDescription]:
        """Describe groups of any type, as `Admin.describe_groups` does."""
        work = self._calls.describe_groups(
            groups,
            authorized_operations=authorized_operations,
            topology_description=topology_description,
            timeout=timeout,
        )
        return await self._by_key(work, on_error)

    async def delete_groups(
        self,
        groups: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Delete groups of any type, as `Admin.delete_groups` does."""
        await self._by_key(self._calls.delete_groups(groups, timeout=timeout), on_error)

    async def remove_members(
        self,
        group: str,
        members: Iterable[str | GroupMember] | None = None,
        *,
        instance_ids: Iterable[str] | None = None,
        reason: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Remove members from a group, as `Admin.remove_members` does."""
        work = self._calls.remove_members(group, members, instance_ids=instance_ids, reason=reason, timeout=timeout)
        await self._by_key(work, on_error)
