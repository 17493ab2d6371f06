"""The calls of `Admin` and `AsyncAdmin`: checked arguments, then requests; `admin` has the families."""

from __future__ import annotations

from kafwire.admin.acls import AclCalls
from kafwire.admin.cluster import ClusterCalls
from kafwire.admin.configs import ConfigCalls
from kafwire.admin.group_offsets import GroupOffsetCalls
from kafwire.admin.groups import GroupCalls
from kafwire.admin.hanging_transactions import HangingTransactionCalls
from kafwire.admin.quorum import QuorumCalls
from kafwire.admin.quotas import QuotaCalls
from kafwire.admin.records import RecordCalls
from kafwire.admin.replicas import ReplicaCalls
from kafwire.admin.topics import TopicCalls
from kafwire.admin.users import UserCalls
from kafwire.calls.tokens import TokenRequests

__all__ = ["AdminCalls"]


class AdminCalls(
    AclCalls,
    ClusterCalls,
    ConfigCalls,
    GroupOffsetCalls,
    GroupCalls,
    HangingTransactionCalls,
    QuorumCalls,
    QuotaCalls,
    RecordCalls,
    ReplicaCalls,
    TopicCalls,
    UserCalls,
    TokenRequests,
):
    """The calls of `Admin` and `AsyncAdmin`, which document them."""
