"""The calls of `AsyncAdmin` about the cluster and its features."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kafwire.admin.cluster import ClusterDescription, FeatureDescription, FeatureUpdate
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError

OnError = Callable[[str, KafkaError], object]


class AsyncClusterAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_cluster(
        self,
        *,
        fenced: bool = False,
        authorized_operations: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
    ) -> ClusterDescription:
        """Describe the brokers of the cluster, as `Admin.describe_cluster` does."""
        return await self._run(
            self._calls.describe_cluster(fenced=fenced, authorized_operations=authorized_operations, timeout=timeout)
        )

    async def describe_features(
        self,
        *,
        broker: int | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> FeatureDescription:
        """Describe features, as `Admin.describe_features` does."""
        return await self._run(self._calls.describe_features(broker=broker, timeout=timeout))

    async def update_features(
        self,
        updates: Mapping[str, FeatureUpdate | int],
        *,
        validate_only: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Change the levels of features, as `Admin.update_features` does."""
        work = self._calls.update_features(updates, validate_only=validate_only, timeout=timeout)
        await self._by_key(work, on_error)

    async def unregister_broker(
        self,
        broker_id: int,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Remove the registration of a broker, as `Admin.unregister_broker` does."""
        await self._run(self._calls.unregister_broker(broker_id, timeout=timeout))
