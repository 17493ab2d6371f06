"""The calls of `AsyncAdmin` about records and offsets."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.admin.records import ListedOffset, Spec
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError
from kafwire.types import TopicPartition

OnError = Callable[[TopicPartition, KafkaError], object]


class AsyncRecordAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def delete_records(
        self,
        offsets: Mapping[TopicPartition, int | str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
        on_error: OnError | None = None,
    ) -> dict[TopicPartition, int]:
        """Delete the records of partitions before an offset, as `Admin.delete_records` does."""
        return await self._by_key(self._calls.delete_records(offsets, timeout=timeout), on_error)

    async def list_offsets(
        self,
        offsets: Mapping[TopicPartition, Spec],
        *,
        isolation_level: str = "read_uncommitted",
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> dict[TopicPartition, ListedOffset]:
        """Find offsets by the end of the log, by time, or by storage, as `Admin.list_offsets` does."""
        work = self._calls.list_offsets(offsets, isolation_level=isolation_level, timeout=timeout)
        return await self._by_key(work, on_error)
