"""`Admin`: the administration of a cluster."""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.calls.admin import AdminCalls
from kafwire.config import ClientConfig
from kafwire.config.checks import described_by
from kafwire.peer_names import ADMIN, ADMIN_ARGUMENTS, lookup, refuse_arguments
from kafwire.sync.admin.acls import AclAdmin
from kafwire.sync.admin.cluster import ClusterAdmin
from kafwire.sync.admin.configs import ConfigAdmin
from kafwire.sync.admin.group_offsets import GroupOffsetAdmin
from kafwire.sync.admin.groups import GroupAdmin
from kafwire.sync.admin.quorum import QuorumAdmin
from kafwire.sync.admin.quotas import QuotaAdmin
from kafwire.sync.admin.records import RecordAdmin
from kafwire.sync.admin.replicas import ReplicaAdmin
from kafwire.sync.admin.topics import TopicAdmin
from kafwire.sync.admin.transactions import TransactionAdmin
from kafwire.sync.admin.users import UserAdmin
from kafwire.sync.token_calls import TokenCalls


@refuse_arguments(ADMIN_ARGUMENTS, blocking=True)
@described_by(ClientConfig)
class Admin(
    AclAdmin,
    ClusterAdmin,
    ConfigAdmin,
    GroupOffsetAdmin,
    GroupAdmin,
    QuorumAdmin,
    QuotaAdmin,
    RecordAdmin,
    ReplicaAdmin,
    TopicAdmin,
    TransactionAdmin,
    UserAdmin,
    TokenCalls,
):
    """A connection to a cluster for its administration. Thread-safe; a context manager.

    It connects on the first call. Each call goes to the broker that serves it: the controller, a coordinator, the
    leaders of partitions, or any broker; its description says which. A moved controller, coordinator or leader is
    found again until the time limit. A call about several keys (topics, groups, partitions) has an outcome for each:
    one failure does not hide the results of the others, see `AdminError`.

    Args:
        bootstrap_servers: `host:port`, several of them separated by commas, or a list of them.
        engine: the engine to run on; None: the engine of this process. A simulated world has its own.
        options: fields of `kafwire.config.ClientConfig`, for example `request_timeout_ms=5000`.

    Raises:
        ConfigError: an option is unknown, of the wrong type or out of range.

    Example:
        >>> from kafwire.admin import NewTopic
        >>> with kafwire.Admin(bootstrap) as admin:
        ...     topics = admin.create_topics([NewTopic(new_topic, partitions=3)])
        >>> topics[new_topic].partitions
        3
    """

    _kind = AdminCalls
    _calls: AdminCalls
    if not TYPE_CHECKING:
        __getattr__ = lookup(ADMIN, blocking=True)
