"""The calls of `Admin` and `AsyncAdmin`: arguments checked, then requests on the engine. The families are in `admin`."""

from __future__ import annotations

from kafwire.admin.acls import AclCalls
from kafwire.admin.quotas import QuotaCalls
from kafwire.admin.topics import TopicCalls
from kafwire.admin.users import UserCalls
from kafwire.calls.tokens import TokenRequests

__all__ = ["AdminCalls"]


class AdminCalls(AclCalls, QuotaCalls, TopicCalls, UserCalls, TokenRequests):
    """The calls of `Admin` and `AsyncAdmin`, which document them."""
