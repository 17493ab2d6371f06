"""kafwire: a Kafka client that owns the wire.

Public names are loaded when they are first used: `import kafwire` starts nothing and imports neither asyncio nor
pyarrow.
"""

from __future__ import annotations

from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would cost a third of the import

if TYPE_CHECKING:
    from typing import Any

    from kafwire import errors, protocol, records
    from kafwire.aio.client import AsyncClient
    from kafwire.aio.consumer import AsyncConsumer
    from kafwire.aio.producer import AsyncProducer
    from kafwire.aio.scan import AsyncScan
    from kafwire.errors import KafkaError
    from kafwire.records import Batch, Record, RecordBatch
    from kafwire.structs import ConsumerGroupMetadata, RecordMetadata, TopicPartition
    from kafwire.sync.client import Client
    from kafwire.sync.consumer import Consumer
    from kafwire.sync.producer import Producer
    from kafwire.sync.scan import Scan, Split, scan

__version__ = "0.1.0"

__all__ = [
    "AsyncClient",
    "AsyncConsumer",
    "AsyncProducer",
    "AsyncScan",
    "Batch",
    "Client",
    "Consumer",
    "ConsumerGroupMetadata",
    "KafkaError",
    "Producer",
    "Record",
    "RecordBatch",
    "RecordMetadata",
    "Scan",
    "Split",
    "TopicPartition",
    "errors",
    "protocol",
    "records",
    "scan",
]

_HOMES = {
    "AsyncClient": "kafwire.aio.client",
    "AsyncConsumer": "kafwire.aio.consumer",
    "AsyncProducer": "kafwire.aio.producer",
    "AsyncScan": "kafwire.aio.scan",
    "Batch": "kafwire.records",
    "Client": "kafwire.sync.client",
    "Consumer": "kafwire.sync.consumer",
    "ConsumerGroupMetadata": "kafwire.structs",
    "KafkaError": "kafwire.errors",
    "Producer": "kafwire.sync.producer",
    "Record": "kafwire.records",
    "RecordBatch": "kafwire.records",
    "RecordMetadata": "kafwire.structs",
    "Scan": "kafwire.sync.scan",
    "Split": "kafwire.sync.scan",
    "TopicPartition": "kafwire.structs",
    "scan": "kafwire.sync.scan",
}
_MODULES = frozenset({"errors", "protocol", "records"})


def __getattr__(name: str) -> Any:
    if name in _MODULES:
        return import_module(f"kafwire.{name}")
    if name in _HOMES:
        value = getattr(import_module(_HOMES[name]), name)
        globals()[name] = value
        return value
    raise AttributeError(f"module 'kafwire' has no attribute {name!r}")


def __dir__() -> list[str]:
    return __all__
