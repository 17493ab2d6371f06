"""The calls of `AsyncAdmin` about the quorum of controllers."""

from __future__ import annotations

import uuid
from collections.abc import Iterable

from kafwire.admin.quorum import MetadataQuorum, RaftVoterEndpoint
from kafwire.aio.admin.face import AsyncAdminFace


class AsyncQuorumAdmin(AsyncAdminFace):
    """A part of `AsyncAdmin`."""

    async def describe_metadata_quorum(
        self,
        *,
        timeout: float | None = None,  # noqa: ASYNC109  # bounds the retries, and names the cause at the end
    ) -> MetadataQuorum:
        """Describe the metadata quorum, as `Admin.describe_metadata_quorum` does."""
        return await self._run(self._calls.describe_metadata_quorum(timeout=timeout))

    async def add_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID | str,
        endpoints: Iterable[RaftVoterEndpoint],
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Make a controller a voter, as `Admin.add_raft_voter` does."""
        await self._run(
            self._calls.add_raft_voter(voter_id, directory_id, endpoints, cluster_id=cluster_id, timeout=timeout)
        )

    async def remove_raft_voter(
        self,
        voter_id: int,
        directory_id: uuid.UUID | str,
        *,
        cluster_id: str | None = None,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Remove a controller from the voters, as `Admin.remove_raft_voter` does."""
        await self._run(self._calls.remove_raft_voter(voter_id, directory_id, cluster_id=cluster_id, timeout=timeout))

    async def unregister_controller(
        self,
        controller_id: int,
        *,
        timeout: float | None = None,  # noqa: ASYNC109
    ) -> None:
        """Remove the registration of a controller, as `Admin.unregister_controller` does."""
        await self._run(self._calls.unregister_controller(controller_id, timeout=timeout))
