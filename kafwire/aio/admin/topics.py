"""The calls of `AsyncAdmin` about topics."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.topics import CreatedTopic, NewTopic
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError

OnError = Callable[[str, KafkaError], object]


class AsyncTopicAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def create_topics(
        self,
        topics: Iterable[NewTopic | str],
        *,
        validate_only: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
        on_error: OnError | None = None,
    ) -> dict[str, CreatedTopic]:
        """Create topics, as `Admin.create_topics` does."""
        work = self._calls.create_topics(topics, validate_only=validate_only, timeout=timeout)
        return await self._by_key(work, on_error)

    async def delete_topics(
        self,
        topics: Iterable[str],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Delete topics, as `Admin.delete_topics` does."""
        await self._by_key(self._calls.delete_topics(topics, timeout=timeout), on_error)

    async def create_partitions(
        self,
        counts: Mapping[str, int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Add partitions to topics, as `Admin.create_partitions` does."""
        work = self._calls.create_partitions(counts, validate_only=validate_only, timeout=timeout)
        await self._by_key(work, on_error)
