"""Types of keyword options; `python -m scripts.option_types` writes them from `kafwire.config`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from kafwire.secret import Secret
from kafwire.serialization import Deserializes, Serializes

__all__ = ["ClientOptions", "ConsumerOptions", "FetchOptions", "ProducerOptions", "ScanOptions", "ShareConsumerOptions"]


class ClientOptions(TypedDict, total=False):
    """Options of `kafwire.config.ClientConfig`."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    ssl_ca_location: str | None
    ssl_ca_pem: str | None
    ssl_ca_password: str | Secret | None
    ssl_certificate_location: str | None
    ssl_certificate_pem: str | None
    ssl_key_location: str | None
    ssl_key_pem: str | Secret | None
    ssl_key_password: str | Secret | None
    ssl_keystore_location: str | None
    ssl_keystore_password: str | Secret | None
    ssl_crl_location: str | None
    ssl_enabled_protocols: str | Iterable[str]
    ssl_cipher_suites: str | None
    ssl_endpoint_identification_algorithm: str
    enable_ssl_certificate_verification: bool
    ssl_context: Any
    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"] | None
    sasl_username: str | None
    sasl_password: str | Secret | None
    sasl_tokenauth: bool
    sasl_oauthbearer_token_provider: Callable[[], Any] | None
    sasl_oauthbearer_token_endpoint_url: str | None
    sasl_oauthbearer_grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]
    sasl_oauthbearer_client_id: str | None
    sasl_oauthbearer_client_secret: str | Secret | None
    sasl_oauthbearer_scope: str | None
    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    sasl_oauthbearer_assertion_file: str | None
    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    sasl_oauthbearer_assertion_private_key_file: str | None
    sasl_oauthbearer_assertion_private_key_pem: str | Secret | None
    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    sasl_oauthbearer_assertion_jwt_template_file: str | None
    sasl_oauthbearer_assertion_claim_aud: str | None
    sasl_oauthbearer_assertion_claim_iss: str | None
    sasl_oauthbearer_assertion_claim_sub: str | None
    sasl_oauthbearer_assertion_claim_exp_seconds: int
    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    sasl_oauthbearer_assertion_claim_jti_include: bool
    https_ca_location: str | None
    https_ca_pem: str | None
    sasl_kerberos_service_name: str
    sasl_kerberos_principal: str | None
    sasl_kerberos_keytab: str | None
    sasl_aws_region: str | None
    client_id: str | None
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
    metadata_cluster_check_enable: bool
    client_rack: str | None
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
    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    compression_level: int | None
    linger_ms: float
    batch_size: int
    max_request_size: int
    buffer_memory: int
    max_block_ms: int
    metadata_max_idle_ms: int
    delivery_timeout_ms: int
    max_in_flight_requests_per_connection: int
    transactional_id: str | None
    transaction_timeout_ms: int
    transaction_two_phase_commit_enable: bool
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
        | None
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
    max_poll_records: int | None
    fetch_strategy: Literal["hybrid", "per_partition", "per_node"]
    single_socket: bool
    auto_offset_reset: str
    auto_offset_reset_new_partitions: str
    group_id: str | None
    group_instance_id: str | None
    group_protocol: Literal["auto", "classic", "consumer"]
    group_remote_assignor: str | None
    partition_assignment_strategy: str | Iterable[str]
    session_timeout_ms: int
    heartbeat_interval_ms: int
    rebalance_timeout_ms: int
    on_revocation: Literal["finish", "discard"]
    revocation_timeout_ms: int | None
    max_poll_interval_ms: int | None
    consumer_timeout_ms: float | None
    enable_auto_commit: bool
    auto_commit_interval_ms: int
    max_uncommitted: int
    allow_auto_create_topics: bool
    metrics_hook: Callable[[dict[str, Any]], object] | None
    metrics_interval_ms: int


class ScanOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ScanConfig`."""


class ShareConsumerOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ShareConsumerConfig`."""

    group_id: str
    fetch_min_bytes: int
    max_poll_records: int
    share_acknowledgement_mode: Literal["implicit", "explicit"]
    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    max_deliveries: int | None
