"""The calls of `AsyncAdmin` about topics."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.topic_descriptions import TopicDescription, TopicListing
from kafwire.admin.topics import CreatedTopic, NewPartitions, NewTopic
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError

OnError = Callable[[str, KafkaError], object]
OnTopicError = Callable[[str | uuid.UUID, KafkaError], object]


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
        topics: Iterable[str | uuid.UUID],
        *,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnTopicError | None = None,
    ) -> None:
        """Delete topics, as `Admin.delete_topics` does."""
        await self._by_key(self._calls.delete_topics(topics, timeout=timeout), on_error)

    async def create_partitions(
        self,
        counts: Mapping[str, int | NewPartitions],
        *,
        validate_only: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Add partitions to topics, as `Admin.create_partitions` does."""
        work = self._calls.create_partitions(counts, validate_only=validate_only, timeout=timeout)
        await self._by_key(work, on_error)

    async def list_topics(
        self,
        *,
        internal: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> dict[str, TopicListing]:
        """List the topics that the client may describe, as `Admin.list_topics` does."""
        return await self._run(self._calls.list_topics(internal=internal, timeout=timeout))

    async def describe_topics(
        self,
        topics: Iterable[str | uuid.UUID],
        *,
        authorized_operations: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnTopicError | None = None,
    ) -> dict[str | uuid.UUID, TopicDescription]:
        """Describe topics and their partitions, as `Admin.describe_topics` does."""
        work = self._calls.describe_topics(topics, authorized_operations=authorized_operations, timeout=timeout)
        return await self._by_key(work, on_error)
