"""The calls of `Admin` and `AsyncAdmin`: arguments checked, then requests on the engine. The families are in `admin`."""

from __future__ import annotations

from kafwire.admin.hanging_transactions import HangingTransactionCalls
from kafwire.admin.topics import TopicCalls
from kafwire.calls.tokens import TokenRequests

__all__ = ["AdminCalls"]


class AdminCalls(TopicCalls, HangingTransactionCalls, TokenRequests):
    """The calls of `Admin` and `AsyncAdmin`, which document them."""
