"""The calls of `AsyncAdmin` about the offsets of groups."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.group_offsets import GroupOffset
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition


class AsyncGroupOffsetAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def list_group_offsets(
        self,
        groups: Mapping[str, Iterable[tuple[str, int]] | None] | Iterable[str],
        *,
        require_stable: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
        on_error: Callable[[str, KafkaError], object] | None = None,
    ) -> dict[str, dict[TopicPartition, GroupOffset | None]]:
        """List the offsets of groups of any type, as `Admin.list_group_offsets` does."""
        work = self._calls.list_group_offsets(groups, require_stable=require_stable, timeout=timeout)
        return await self._by_key(work, on_error)

    async def alter_group_offsets(
        self,
        group: str,
        offsets: Mapping[TopicPartition, int | tuple[int, str]],
        *,
        type: str | None = None,  # noqa: A002  # Kafka's word
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[TopicPartition, KafkaError], object] | None = None,
    ) -> None:
        """Set the offsets of a group, as `Admin.alter_group_offsets` does."""
        await self._by_key(self._calls.alter_group_offsets(group, offsets, type=type, timeout=timeout), on_error)

    async def delete_group_offsets(
        self,
        group: str,
        partitions: Iterable[tuple[str, int] | str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: Callable[[TopicPartition | str, KafkaError], object] | None = None,
    ) -> None:
        """Delete offsets of a group, as `Admin.delete_group_offsets` does."""
        await self._by_key(self._calls.delete_group_offsets(group, partitions, timeout=timeout), on_error)
