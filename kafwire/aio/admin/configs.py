"""The calls of `AsyncAdmin` about configurations."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from kafwire.admin.config_resources import ConfigResource
from kafwire.admin.configs import Change, ConfigEntry
from kafwire.aio.admin.face import AsyncAdminFace
from kafwire.errors import KafkaError

OnError = Callable[[ConfigResource, KafkaError], object]


class AsyncConfigAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_configs(
        self,
        resources: Iterable[ConfigResource],
        *,
        names: Iterable[str] | None = None,
        synonyms: bool = False,
        documentation: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
        on_error: OnError | None = None,
    ) -> dict[ConfigResource, dict[str, ConfigEntry]]:
        """Describe the configurations of resources, as `Admin.describe_configs` does."""
        work = self._calls.describe_configs(
            resources, names=names, synonyms=synonyms, documentation=documentation, timeout=timeout
        )
        return await self._by_key(work, on_error)

    async def alter_configs(
        self,
        changes: Mapping[ConfigResource, Mapping[str, Change]],
        *,
        validate_only: bool = False,
        timeout: float | None = None,  # noqa: ASYNC109
        on_error: OnError | None = None,
    ) -> None:
        """Change options of resources, as `Admin.alter_configs` does."""
        work = self._calls.alter_configs(changes, validate_only=validate_only, timeout=timeout)
        await self._by_key(work, on_error)

    async def list_config_resources(
        self,
        types: Iterable[str] | None = None,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> list[ConfigResource]:
        """List the resources that may have a configuration, as `Admin.list_config_resources` does."""
        return await self._run(self._calls.list_config_resources(types, timeout=timeout))
