"""The calls of `Admin` and `AsyncAdmin`: arguments checked, then requests on the engine. The families are in `admin`."""

from __future__ import annotations

from kafwire.admin.configs import ConfigCalls
from kafwire.admin.records import RecordCalls
from kafwire.admin.topics import TopicCalls
from kafwire.calls.tokens import TokenRequests

__all__ = ["AdminCalls"]


class AdminCalls(TopicCalls, ConfigCalls, RecordCalls, TokenRequests):
    """The calls of `Admin` and `AsyncAdmin`, which document them."""
