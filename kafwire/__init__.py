"""kafwire: a Kafka client with its own implementation of the protocol.

Public names are loaded at their first use: `import kafwire` starts no thread, and imports neither asyncio nor pyarrow.
"""

from __future__ import annotations

import sys
from importlib import import_module

TYPE_CHECKING = False  # `typing` alone would cost a third of the import

if TYPE_CHECKING:
    from typing import Any

    from kafwire import admin, errors, protocol, records, schemas, stream, telemetry
    from kafwire._version import __version__ as __version__
    from kafwire.aio.admin.admin import AsyncAdmin
    from kafwire.aio.client import AsyncClient
    from kafwire.aio.consumer import AsyncConsumer
    from kafwire.aio.deliveries import AsyncBatchDelivery, AsyncDelivery
    from kafwire.aio.partition_stream import AsyncPartitionStream
    from kafwire.aio.producer import AsyncProducer
    from kafwire.aio.scan import AsyncScan
    from kafwire.aio.share_consumer import AsyncShareConsumer
    from kafwire.config.typed_options import (
        ClientOptions,
        ConsumerOptions,
        ProducerOptions,
        ScanOptions,
        ShareConsumerOptions,
    )
    from kafwire.consumer.share.share_batch import ShareBatch
    from kafwire.errors import (
        AdminError,
        AuthenticationError,
        AuthorizationError,
        BrokerError,
        CommitFailedError,
        ConfigError,
        CorruptBatchError,
        DecodeError,
        FramingError,
        KafkaConnectionError,
        KafkaError,
        KafkaTimeoutError,
        LogTruncatedError,
        OffsetsFencedError,
        PollIntervalError,
        ProducerFencedError,
        ProtocolError,
        PurgedError,
        RecordTooLargeError,
        SchemaError,
        SchemaRegistryError,
        SerializationError,
        TransactionAbortableError,
        TransactionAbortedError,
        TransactionError,
        TransactionFatalError,
        TransactionStateError,
        TransactionTimeoutError,
        UnknownSchemaError,
    )
    from kafwire.producer.buffer._batch import BatchDelivery, Delivery
    from kafwire.records import Batch, Record, RecordBatch
    from kafwire.registry.client import SchemaRegistry
    from kafwire.schemas.avro import Avro
    from kafwire.schemas.json import Json
    from kafwire.schemas.json_schema import JsonSchema
    from kafwire.schemas.protobuf import Protobuf
    from kafwire.schemas.text import Text
    from kafwire.secret import Secret
    from kafwire.security.oauth_token import OAuthToken
    from kafwire.sync.admin.admin import Admin
    from kafwire.sync.client import Client
    from kafwire.sync.consumer import Consumer
    from kafwire.sync.partition_stream import PartitionStream
    from kafwire.sync.producer import Producer
    from kafwire.sync.scan import Scan, Split, scan
    from kafwire.sync.share_consumer import ShareConsumer
    from kafwire.types import (
        BrokerMetadata,
        ClusterMetadata,
        CommittedOffset,
        ConsumerGroupMetadata,
        DelegationToken,
        Offset,
        PartitionMetadata,
        RecordMetadata,
        Tail,
        TopicMetadata,
        TopicPartition,
        TransactionHandle,
    )


def _check_free_threading() -> None:
    """Tell the interpreter that the extensions need the GIL; raise ImportError if it is forced off."""
    import os
    import warnings

    forced = sys._xoptions.get("gil") or (None if sys.flags.ignore_environment else os.environ.get("PYTHON_GIL"))
    if forced == "0":
        raise ImportError(
            "kafwire's extensions need the GIL, which PYTHON_GIL=0 or -X gil=0 forces off: leave that out, and "
            "importing kafwire turns the GIL on",
            name=__name__,
        )
    if not sys._is_gil_enabled():  # type: ignore[attr-defined]
        warnings.warn("importing kafwire turns the GIL on: its extensions need it", RuntimeWarning, stacklevel=3)


if "t" in getattr(sys, "abiflags", ""):
    _check_free_threading()

__all__ = [
    "Admin",
    "AdminError",
    "AsyncAdmin",
    "AsyncBatchDelivery",
    "AsyncClient",
    "AsyncConsumer",
    "AsyncDelivery",
    "AsyncPartitionStream",
    "AsyncProducer",
    "AsyncScan",
    "AsyncShareConsumer",
    "AuthenticationError",
    "AuthorizationError",
    "Avro",
    "Batch",
    "BatchDelivery",
    "BrokerError",
    "BrokerMetadata",
    "Client",
    "ClientOptions",
    "ClusterMetadata",
    "CommitFailedError",
    "CommittedOffset",
    "ConfigError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "CorruptBatchError",
    "DecodeError",
    "DelegationToken",
    "Delivery",
    "FramingError",
    "Json",
    "JsonSchema",
    "KafkaConnectionError",
    "KafkaError",
    "KafkaTimeoutError",
    "LogTruncatedError",
    "OAuthToken",
    "Offset",
    "OffsetsFencedError",
    "PartitionMetadata",
    "PartitionStream",
    "PollIntervalError",
    "Producer",
    "ProducerFencedError",
    "ProducerOptions",
    "Protobuf",
    "ProtocolError",
    "PurgedError",
    "Record",
    "RecordBatch",
    "RecordMetadata",
    "RecordTooLargeError",
    "Scan",
    "ScanOptions",
    "SchemaError",
    "SchemaRegistry",
    "SchemaRegistryError",
    "Secret",
    "SerializationError",
    "ShareBatch",
    "ShareConsumer",
    "ShareConsumerOptions",
    "Split",
    "Tail",
    "Text",
    "TopicMetadata",
    "TopicPartition",
    "TransactionAbortableError",
    "TransactionAbortedError",
    "TransactionError",
    "TransactionFatalError",
    "TransactionHandle",
    "TransactionStateError",
    "TransactionTimeoutError",
    "UnknownSchemaError",
    "admin",
    "errors",
    "protocol",
    "records",
    "scan",
    "schemas",
    "stream",
    "telemetry",
]

_HOMES = {
    "Admin": "kafwire.sync.admin.admin",
    "AdminError": "kafwire.errors",
    "AsyncAdmin": "kafwire.aio.admin.admin",
    "AsyncBatchDelivery": "kafwire.aio.deliveries",
    "AsyncClient": "kafwire.aio.client",
    "AsyncConsumer": "kafwire.aio.consumer",
    "AsyncDelivery": "kafwire.aio.deliveries",
    "AsyncPartitionStream": "kafwire.aio.partition_stream",
    "AsyncProducer": "kafwire.aio.producer",
    "AsyncScan": "kafwire.aio.scan",
    "AsyncShareConsumer": "kafwire.aio.share_consumer",
    "AuthenticationError": "kafwire.errors",
    "AuthorizationError": "kafwire.errors",
    "Avro": "kafwire.schemas.avro",
    "Batch": "kafwire.records",
    "BatchDelivery": "kafwire.producer.buffer._batch",
    "BrokerError": "kafwire.errors",
    "BrokerMetadata": "kafwire.types",
    "Client": "kafwire.sync.client",
    "ClientOptions": "kafwire.config.typed_options",
    "ClusterMetadata": "kafwire.types",
    "CommitFailedError": "kafwire.errors",
    "CommittedOffset": "kafwire.types",
    "ConfigError": "kafwire.errors",
    "Consumer": "kafwire.sync.consumer",
    "ConsumerGroupMetadata": "kafwire.types",
    "ConsumerOptions": "kafwire.config.typed_options",
    "CorruptBatchError": "kafwire.errors",
    "DecodeError": "kafwire.errors",
    "DelegationToken": "kafwire.types",
    "Delivery": "kafwire.producer.buffer._batch",
    "FramingError": "kafwire.errors",
    "Json": "kafwire.schemas.json",
    "JsonSchema": "kafwire.schemas.json_schema",
    "KafkaConnectionError": "kafwire.errors",
    "KafkaError": "kafwire.errors",
    "KafkaTimeoutError": "kafwire.errors",
    "LogTruncatedError": "kafwire.errors",
    "OAuthToken": "kafwire.security.oauth_token",
    "Offset": "kafwire.types",
    "OffsetsFencedError": "kafwire.errors",
    "PartitionMetadata": "kafwire.types",
    "PartitionStream": "kafwire.sync.partition_stream",
    "PollIntervalError": "kafwire.errors",
    "Producer": "kafwire.sync.producer",
    "ProducerFencedError": "kafwire.errors",
    "ProducerOptions": "kafwire.config.typed_options",
    "Protobuf": "kafwire.schemas.protobuf",
    "ProtocolError": "kafwire.errors",
    "PurgedError": "kafwire.errors",
    "Record": "kafwire.records",
    "RecordBatch": "kafwire.records",
    "RecordMetadata": "kafwire.types",
    "RecordTooLargeError": "kafwire.errors",
    "SchemaError": "kafwire.errors",
    "SchemaRegistry": "kafwire.registry.client",
    "SchemaRegistryError": "kafwire.errors",
    "Scan": "kafwire.sync.scan",
    "ScanOptions": "kafwire.config.typed_options",
    "Secret": "kafwire.secret",
    "SerializationError": "kafwire.errors",
    "ShareBatch": "kafwire.consumer.share.share_batch",
    "ShareConsumer": "kafwire.sync.share_consumer",
    "ShareConsumerOptions": "kafwire.config.typed_options",
    "Split": "kafwire.sync.scan",
    "Tail": "kafwire.types",
    "Text": "kafwire.schemas.text",
    "TopicMetadata": "kafwire.types",
    "TopicPartition": "kafwire.types",
    "TransactionHandle": "kafwire.types",
    "TransactionAbortableError": "kafwire.errors",
    "TransactionAbortedError": "kafwire.errors",
    "TransactionError": "kafwire.errors",
    "TransactionFatalError": "kafwire.errors",
    "TransactionStateError": "kafwire.errors",
    "TransactionTimeoutError": "kafwire.errors",
    "UnknownSchemaError": "kafwire.errors",
    "__version__": "kafwire._version",
    "scan": "kafwire.sync.scan",
}
_MODULES = frozenset({"admin", "errors", "protocol", "records", "schemas", "stream", "telemetry"})


def _is_source(module: str) -> bool:
    """True if a module lies here as Cython's source: Python finds the folder of a checkout before an installation."""
    from pathlib import Path  # for errors only

    package, *names = module.split(".")
    return package == "kafwire" and Path(__path__[0], *names).with_suffix(".pyx").exists()


if not TYPE_CHECKING:  # a type checker would treat every name as Any

    def __getattr__(name: str) -> Any:
        if name in _MODULES:
            return import_module(f"kafwire.{name}")
        if name in _HOMES:
            try:
                value = getattr(import_module(_HOMES[name]), name)
            except ModuleNotFoundError as error:
                if not _is_source(error.name or ""):
                    raise
                text = (
                    f"{__path__[0]} has the sources of kafwire, and {error.name} is not compiled: run Python in "
                    "another folder to use an installed kafwire, or compile here with `make build`"
                )
                raise ModuleNotFoundError(text, name=error.name) from error
            globals()[name] = value
            return value
        from kafwire.peer_names import missing_name  # for errors only

        raise missing_name(sys.modules[__name__], name)


def __dir__() -> list[str]:
    return __all__
