"""Streams: records from a source through steps to a sink; their offsets are committed when they are processed.

A `Pipeline` declares the steps. It runs on any source and sink: `ConsumerSource` and `TopicSink`, or `MemorySource` and
`MemorySink` in tests. docs/guide/streams.md describes it.

Names are loaded on first use.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from kafwire.lazy_names import lazy_names

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
    "ConsumerSource": "kafwire.stream.consumer_source",
    "FunctionSink": "kafwire.stream.sinks",
    "HandlerTimeoutError": "kafwire.stream.errors",
    "MemoryPartition": "kafwire.stream.memory",
    "MemorySink": "kafwire.stream.memory",
    "MemorySource": "kafwire.stream.memory",
    "Message": "kafwire.stream.message",
    "NotNow": "kafwire.stream.errors",
    "OldestRecord": "kafwire.stream.status",
    "PartitionStatus": "kafwire.stream.status",
    "Pipeline": "kafwire.stream.pipeline",
    "Reduced": "kafwire.stream.reducing",
    "RetryTopic": "kafwire.stream.failure_policy",
    "Sink": "kafwire.stream.interfaces",
    "Source": "kafwire.stream.interfaces",
    "SourcePartition": "kafwire.stream.interfaces",
    "StopRequest": "kafwire.stream.stop_request",
    "StreamError": "kafwire.stream.errors",
    "StreamMonitor": "kafwire.stream.monitor",
    "StreamStatus": "kafwire.stream.status",
    "StreamSummary": "kafwire.stream.summary",
    "TopicSink": "kafwire.stream.sinks",
    "TopicTable": "kafwire.stream.topic_table",
    "TransactionalSink": "kafwire.stream.interfaces",
}

if not TYPE_CHECKING:  # a type checker would take every name for an Any
    __getattr__ = lazy_names(__name__, _HOMES)


def __dir__() -> list[str]:
    return __all__
