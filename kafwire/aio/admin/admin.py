"""`AsyncAdmin`: `Admin` for asyncio."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.aio.admin.acls import AsyncAclAdmin
from kafwire.aio.admin.cluster import AsyncClusterAdmin
from kafwire.aio.admin.configs import AsyncConfigAdmin
from kafwire.aio.admin.group_offsets import AsyncGroupOffsetAdmin
from kafwire.aio.admin.groups import AsyncGroupAdmin
from kafwire.aio.admin.quorum import AsyncQuorumAdmin
from kafwire.aio.admin.quotas import AsyncQuotaAdmin
from kafwire.aio.admin.records import AsyncRecordAdmin
from kafwire.aio.admin.replicas import AsyncReplicaAdmin
from kafwire.aio.admin.topics import AsyncTopicAdmin
from kafwire.aio.admin.transactions import AsyncTransactionAdmin
from kafwire.aio.admin.users import AsyncUserAdmin
from kafwire.aio.token_calls import AsyncTokenCalls
from kafwire.calls.admin import AdminCalls
from kafwire.config import ClientConfig
from kafwire.config.checks import described_by
from kafwire.peer_names import ADMIN, ADMIN_ARGUMENTS, lookup, refuse_arguments


@refuse_arguments(ADMIN_ARGUMENTS, blocking=False)
@described_by(ClientConfig)
class AsyncAdmin(
    AsyncAclAdmin,
    AsyncClusterAdmin,
    AsyncConfigAdmin,
    AsyncGroupOffsetAdmin,
    AsyncGroupAdmin,
    AsyncQuorumAdmin,
    AsyncQuotaAdmin,
    AsyncRecordAdmin,
    AsyncReplicaAdmin,
    AsyncTopicAdmin,
    AsyncTransactionAdmin,
    AsyncUserAdmin,
    AsyncTokenCalls,
):
    """`kafwire.Admin` for asyncio. An async context manager.

    It connects on the first call. It may be created outside a running loop, and used from several loops and threads. A
    call that is cancelled ends at once; the broker may still execute the request.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ClientConfig`, for example `request_timeout_ms=5000`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.

    Example:
        >>> async def main():
        ...     async with kafwire.AsyncAdmin(bootstrap) as admin:
        ...         return await admin.create_topics([new_topic])
        >>> list(asyncio.run(main())) == [new_topic]
        True
    """

    _kind = AdminCalls
    _calls: AdminCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(ADMIN, blocking=False)
