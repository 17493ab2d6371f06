"""Streams: records from a source through steps to a sink; their offsets are committed when they are processed.

A `Pipeline` declares the steps. It runs on any source and sink: `ConsumerSource` and `TopicSink`, or `MemorySource` and
`MemorySink` in tests. docs/streams.md describes it.

Names are loaded on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from kafwire.stream.consumer_source import ConsumerSource
    from kafwire.stream.errors import HandlerTimeoutError, NotNow, StreamError
    from kafwire.stream.failure_policy import RetryTopic
    from kafwire.stream.interfaces import Sink, Source, SourcePartition, TransactionalSink
    from kafwire.stream.memory import MemoryPartition, MemorySink, MemorySource
    from kafwire.stream.message import Message
    from kafwire.stream.monitor import StreamMonitor
    from kafwire.stream.pipeline import Pipeline
    from kafwire.stream.reducing import Reduced
    from kafwire.stream.sinks import FunctionSink, TopicSink
    from kafwire.stream.status import OldestRecord, PartitionStatus, StreamStatus
    from kafwire.stream.stop_request import StopRequest
    from kafwire.stream.summary import StreamSummary
    from kafwire.stream.topic_table import TopicTable

__all__ = [
    "ConsumerSource",
    "FunctionSink",
    "HandlerTimeoutError",
    "MemoryPartition",
    "MemorySink",
    "MemorySource",
    "Message",
    "NotNow",
    "OldestRecord",
    "PartitionStatus",
    "Pipeline",
    "Reduced",
    "RetryTopic",
    "Sink",
    "Source",
    "SourcePartition",
    "StopRequest",
    "StreamError",
    "StreamMonitor",
    "StreamStatus",
    "StreamSummary",
    "TopicSink",
    "TopicTable",
    "TransactionalSink",
]

_HOMES = {
    "ConsumerSource": "consumer_source",
    "FunctionSink": "sinks",
    "HandlerTimeoutError": "errors",
    "MemoryPartition": "memory",
    "MemorySink": "memory",
    "MemorySource": "memory",
    "Message": "message",
    "NotNow": "errors",
    "OldestRecord": "status",
    "PartitionStatus": "status",
    "Pipeline": "pipeline",
    "Reduced": "reducing",
    "RetryTopic": "failure_policy",
    "Sink": "interfaces",
    "Source": "interfaces",
    "SourcePartition": "interfaces",
    "StopRequest": "stop_request",
    "StreamError": "errors",
    "StreamMonitor": "monitor",
    "StreamStatus": "status",
    "StreamSummary": "summary",
    "TopicSink": "sinks",
    "TopicTable": "topic_table",
    "TransactionalSink": "interfaces",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any

    def __getattr__(name: str) -> Any:
        if name not in _HOMES:
            raise AttributeError(
                f"module 'kafwire.stream' has no attribute {name!r}", name=name, obj=import_module(__name__)
            )
        value = getattr(import_module(f"kafwire.stream.{_HOMES[name]}"), name)
        globals()[name] = value
        return value


def __dir__() -> list[str]:
    return __all__
