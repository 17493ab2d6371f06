"""Types of keyword options; `python -m scripts.option_types` writes them from `kafwire.config`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal, TypedDict

from kafwire.serialization import Deserializes, Serializes

__all__ = ["ClientOptions", "ConsumerOptions", "FetchOptions", "ProducerOptions", "ScanOptions"]


class ClientOptions(TypedDict, total=False):
    """Options of `kafwire.config.ClientConfig`."""

    client_id: str
    security_protocol: str
    request_timeout_ms: int
    default_api_timeout_ms: int
    socket_connection_setup_timeout_ms: int
    retry_backoff_ms: int
    retry_backoff_max_ms: int
    reconnect_backoff_ms: int
    reconnect_backoff_max_ms: int
    connections_max_idle_ms: int
    metadata_max_age_ms: int
    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    metadata_recovery_rebootstrap_trigger_ms: int
    client_rack: str
    max_frame_bytes: int


class FetchOptions(ClientOptions, total=False):
    """Options of `kafwire.config.FetchConfig`."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    fetch_memory: int
    fetch_max_bytes: int
    fetch_max_wait_ms: int
    chunk_bytes: int
    max_decompressed: int
    check_crcs: bool
    on_corrupt: Literal["error", "skip"]
    key_deserializer: Deserializes
    value_deserializer: Deserializes


class ProducerOptions(ClientOptions, total=False):
    """Options of `kafwire.config.ProducerConfig`."""

    acks: Literal["all"] | int
    enable_idempotence: bool | None
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"]
    compression_level: int | None
    linger_ms: int
    batch_size: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    metadata_max_idle_ms: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: int
    partitioner: (
        Literal[
            "murmur2_random",
            "murmur2",
            "consistent_random",
            "consistent",
            "fnv1a_random",
            "fnv1a",
            "random",
            "round_robin",
        ]
        | Callable[..., int]
    )
    partitioner_adaptive_partitioning_enable: bool
    partitioner_availability_timeout_ms: int
    partitioner_ignore_keys: bool
    allow_auto_create_topics: bool
    key_serializer: Serializes
    value_serializer: Serializes
    metrics_hook: Callable[[dict[str, Any]], object] | None
    metrics_interval_ms: int


class ConsumerOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ConsumerConfig`."""

    fetch_min_bytes: int
    max_partition_fetch_bytes: int
    max_prefetch_batches: int
    fetch_strategy: Literal["hybrid", "per_partition", "per_node"]
    single_socket: bool
    auto_offset_reset: str
    group_id: str | None
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    allow_auto_create_topics: bool
    metrics_hook: Callable[[dict[str, Any]], object] | None
    metrics_interval_ms: int


class ScanOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ScanConfig`."""
