"""Types of keyword options; `python -m scripts.option_types` writes them from the declarations of options."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Literal, TypedDict

from kafwire.secret import Secret
from kafwire.serialization import Deserializes, Serializes

__all__ = ["ClientOptions", "ConsumerOptions", "FetchOptions", "ProducerOptions", "ScanOptions", "ShareConsumerOptions"]


class ClientOptions(TypedDict, total=False):
    """Options of `kafwire.config.ClientConfig`, whose `help()` has the text of each."""

    security_protocol: Literal["PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL"]
    """Protocol of the brokers' listener: TLS or none, SASL or none. Values: "PLAINTEXT", "SSL", "SASL_PLAINTEXT",
    "SASL_SSL". Default: "PLAINTEXT". Other clients: security.protocol (Java, librdkafka)."""

    ssl_ca_location: str | None
    """PEM or PKCS#12 file with the CA certificates that the client trusts, or a folder of them. None: those of the
    system. Default: None. Other clients: ssl.ca.location (librdkafka); ssl.truststore.location (Java); ssl_cafile
    (kafka-python)."""

    ssl_ca_pem: str | None
    """CA certificates as PEM text, instead of ssl_ca_location. Default: None. Other clients: ssl.ca.pem (librdkafka);
    ssl.truststore.certificates (Java)."""

    ssl_ca_password: str | Secret | None
    """Password of a PKCS#12 file of CA certificates. Default: None. Other clients: ssl.truststore.password (Java)."""

    ssl_certificate_location: str | None
    """PEM file with the certificate of this client and the intermediate ones. Default: None. Other clients:
    ssl.certificate.location (librdkafka); ssl_certfile (kafka-python)."""

    ssl_certificate_pem: str | None
    """The same certificates as PEM text, instead of ssl_certificate_location. Default: None. Other clients:
    ssl.certificate.pem (librdkafka); ssl.keystore.certificate.chain (Java)."""

    ssl_key_location: str | None
    """PEM file with the private key of this client. Default: None. Other clients: ssl.key.location (librdkafka);
    ssl_keyfile (kafka-python)."""

    ssl_key_pem: str | Secret | None
    """The private key as PEM text, instead of ssl_key_location. Default: None. Other clients: ssl.key.pem (librdkafka);
    ssl.keystore.key (Java)."""

    ssl_key_password: str | Secret | None
    """Password of an encrypted private key. Default: None. Other clients: ssl.key.password (Java, librdkafka);
    ssl_password (kafka-python)."""

    ssl_keystore_location: str | None
    """PKCS#12 or PEM file with certificate and private key together. Default: None. Other clients:
    ssl.keystore.location (Java, librdkafka)."""

    ssl_keystore_password: str | Secret | None
    """Password of ssl_keystore_location. Default: None. Other clients: ssl.keystore.password (Java, librdkafka)."""

    ssl_crl_location: str | None
    """PEM file of certificate revocation lists. Default: None. Other clients: ssl.crl.location (librdkafka);
    ssl_crlfile (kafka-python)."""

    ssl_enabled_protocols: str | Iterable[str]
    """TLS versions that the client offers, as a list or with commas. Values: TLSv1.2, TLSv1.3 or both. Default:
    "TLSv1.2", "TLSv1.3". Other clients: ssl.enabled.protocols (Java)."""

    ssl_cipher_suites: str | None
    """OpenSSL's names of cipher suites, with colons between them; those of TLS 1.3 begin with TLS_. None: OpenSSL's
    defaults. Default: None. Other clients: ssl.cipher.suites (Java, librdkafka); ssl_ciphers (kafka-python)."""

    ssl_endpoint_identification_algorithm: str
    """With "https", the certificate of a broker must be for the host of the connection; "none" and "" disable this
    check. Values: "https", "none", "". Default: "https". Other clients: ssl.endpoint.identification.algorithm (Java,
    librdkafka)."""

    enable_ssl_certificate_verification: bool
    """False: the client accepts any certificate, so any server may pose as the broker. Default: True. Other clients:
    enable.ssl.certificate.verification (librdkafka)."""

    ssl_context: Any
    """`ssl.SSLContext` instead of all these options. TLS then uses Python's module ssl, under the GIL. Default:
    None."""

    sasl_mechanism: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI"] | None
    """SASL mechanism, which security_protocol SASL_PLAINTEXT and SASL_SSL need. Values: "PLAIN", "SCRAM-SHA-256",
    "SCRAM-SHA-512", "OAUTHBEARER", "AWS_MSK_IAM", "GSSAPI", or None. Default: None. Other clients: sasl.mechanism
    (Java, librdkafka); sasl.mechanisms (librdkafka)."""

    sasl_username: str | None
    """User name of PLAIN and SCRAM. Default: None. Other clients: sasl.username (librdkafka); sasl_plain_username
    (kafka-python, aiokafka)."""

    sasl_password: str | Secret | None
    """Password of PLAIN and SCRAM. Default: None. Other clients: sasl.password (librdkafka); sasl_plain_password
    (kafka-python, aiokafka)."""

    sasl_tokenauth: bool
    """The user name and password are the id and HMAC of a delegation token (KIP-48). Default: False."""

    sasl_oauthbearer_token_provider: Callable[[], Any] | None
    """Function that returns a token, or a future of one: text, or `kafwire.OAuthToken`. Default: None."""

    sasl_oauthbearer_token_endpoint_url: str | None
    """Address of the token endpoint, instead of a function. Default: None. Other clients:
    sasl.oauthbearer.token.endpoint.url (Java, librdkafka)."""

    sasl_oauthbearer_grant_type: Literal["client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer"]
    """Grant that the client presents to the token endpoint. Values: "client_credentials",
    "urn:ietf:params:oauth:grant-type:jwt-bearer". Default: "client_credentials". Other clients:
    sasl.oauthbearer.grant.type (librdkafka)."""

    sasl_oauthbearer_client_id: str | None
    """Id of this client at the token endpoint. Default: None. Other clients: sasl.oauthbearer.client.id (librdkafka);
    sasl.oauthbearer.client.credentials.client.id (Java, librdkafka)."""

    sasl_oauthbearer_client_secret: str | Secret | None
    """Secret of this client at the token endpoint. Default: None. Other clients: sasl.oauthbearer.client.secret
    (librdkafka); sasl.oauthbearer.client.credentials.client.secret (Java, librdkafka)."""

    sasl_oauthbearer_scope: str | None
    """Scope that the client requests from the token endpoint. Default: None. Other clients: sasl.oauthbearer.scope
    (Java, librdkafka)."""

    sasl_oauthbearer_extensions: str | Mapping[str, str] | None
    """SASL extensions for the brokers (KIP-342). Values: a mapping, or text: name=value,name=value. Default: None.
    Other clients: sasl.oauthbearer.extensions (librdkafka)."""

    sasl_oauthbearer_assertion_file: str | None
    """File with a signed JWT (RFC 7523), which is the grant (KIP-1139) or replaces the secret (KIP-1258). The client
    reads it for each token. Other options of assertions then have no effect. Default: None. Other clients:
    sasl.oauthbearer.assertion.file (Java, librdkafka)."""

    sasl_oauthbearer_assertion_algorithm: Literal["RS256", "ES256"]
    """Algorithm that signs assertions, which needs `pip install "kafwire[oauth]"`. Values: "RS256", "ES256". Default:
    "RS256". Other clients: sasl.oauthbearer.assertion.algorithm (Java, librdkafka)."""

    sasl_oauthbearer_assertion_private_key_file: str | None
    """PEM file with the key that signs assertions. The client reads it for each assertion. Default: None. Other
    clients: sasl.oauthbearer.assertion.private.key.file (Java, librdkafka)."""

    sasl_oauthbearer_assertion_private_key_pem: str | Secret | None
    """The key that signs assertions as PEM text, instead of a file. Default: None. Other clients:
    sasl.oauthbearer.assertion.private.key.pem (librdkafka)."""

    sasl_oauthbearer_assertion_private_key_passphrase: str | Secret | None
    """Passphrase of an encrypted key that signs assertions. Default: None. Other clients:
    sasl.oauthbearer.assertion.private.key.passphrase (Java, librdkafka)."""

    sasl_oauthbearer_assertion_jwt_template_file: str | None
    """JSON file with the `header` and `payload` from which each assertion starts. Default: None. Other clients:
    sasl.oauthbearer.assertion.jwt.template.file (librdkafka); sasl.oauthbearer.assertion.template.file (Java)."""

    sasl_oauthbearer_assertion_claim_aud: str | None
    """Audience of assertions. It replaces the claim of the template. Default: None. Other clients:
    sasl.oauthbearer.assertion.claim.aud (Java, librdkafka)."""

    sasl_oauthbearer_assertion_claim_iss: str | None
    """Issuer of assertions. It replaces the claim of the template. Default: None. Other clients:
    sasl.oauthbearer.assertion.claim.iss (Java, librdkafka)."""

    sasl_oauthbearer_assertion_claim_sub: str | None
    """Subject of assertions. It replaces the claim of the template. Default: None. Other clients:
    sasl.oauthbearer.assertion.claim.sub (Java, librdkafka)."""

    sasl_oauthbearer_assertion_claim_exp_seconds: int
    """Time after its creation for which an assertion is valid. Values: at least 1 s. Default: 300. Other clients:
    sasl.oauthbearer.assertion.claim.exp.seconds (Java, librdkafka)."""

    sasl_oauthbearer_assertion_claim_nbf_seconds: int
    """Time before its creation for which an assertion is valid, as clocks differ. Values: at least 0 s. Default: 60.
    Other clients: sasl.oauthbearer.assertion.claim.nbf.seconds (Java, librdkafka)."""

    sasl_oauthbearer_assertion_claim_jti_include: bool
    """Each assertion has an id. Default: False. Other clients: sasl.oauthbearer.assertion.claim.jti.include (Java,
    librdkafka)."""

    https_ca_location: str | None
    """PEM file with the CA certificates of the token endpoint. None: those of the system. Default: None. Other clients:
    https.ca.location (librdkafka)."""

    https_ca_pem: str | None
    """The same certificates as PEM text, instead of https_ca_location. Default: None. Other clients: https.ca.pem
    (librdkafka)."""

    sasl_kerberos_service_name: str
    """Kerberos service name of the brokers. Default: "kafka". Other clients: sasl.kerberos.service.name (Java,
    librdkafka)."""

    sasl_kerberos_principal: str | None
    """Kerberos principal of the client. None: that of the credential cache. Default: None. Other clients:
    sasl.kerberos.principal (librdkafka)."""

    sasl_kerberos_keytab: str | None
    """File with the key of the principal. None: tickets of the credential cache. Default: None. Other clients:
    sasl.kerberos.keytab (librdkafka)."""

    sasl_aws_region: str | None
    """AWS region, if the host names of the brokers do not have it. Default: None."""

    client_id: str | None
    """Name of this client in the logs, metrics and quotas of the brokers. None is the default. Default: "kafwire".
    Other clients: client.id (Java, librdkafka)."""

    request_timeout_ms: int
    """Time from the send of a request to its response. A request without a response closes the connection. Values: at
    least 1 ms. Default: 30,000. Other clients: request.timeout.ms (Java, librdkafka); socket.timeout.ms
    (librdkafka)."""

    default_api_timeout_ms: int
    """Time limit of a call, with all its retries. Values: at least 1 ms. Default: 60,000. Other clients:
    default.api.timeout.ms (Java)."""

    socket_connection_setup_timeout_ms: int
    """Time limit of each step of a new connection: the look-up of the host name, TCP, TLS, SASL. Values: at least 1 ms.
    Default: 10,000. Other clients: socket.connection.setup.timeout.ms (Java, librdkafka)."""

    retry_backoff_ms: int
    """Pause before the first retry. Each further pause is twice as long, +-20 % (KIP-580). Values: at least 0 ms.
    Default: 100. Other clients: retry.backoff.ms (Java, librdkafka)."""

    retry_backoff_max_ms: int
    """Longest pause between two retries. Values: at least 0 ms. Default: 1,000. Other clients: retry.backoff.max.ms
    (Java, librdkafka)."""

    reconnect_backoff_ms: int
    """Pause between the first failure to connect to a broker and the next attempt. Each further pause is twice as long,
    +-20 %. Values: at least 0 ms. Default: 50. Other clients: reconnect.backoff.ms (Java, librdkafka)."""

    reconnect_backoff_max_ms: int
    """Longest pause between two attempts to connect. Values: at least 0 ms. Default: 1,000. Other clients:
    reconnect.backoff.max.ms (Java, librdkafka)."""

    connections_max_idle_ms: int
    """The client closes a connection after this time without a request, unless a response is due, and opens it again
    when needed; 0 and -1: never. The default is below the limit of the brokers, 10 minutes, so that no request meets a
    closed connection. Values: at least -1 ms. Default: 540,000. Other clients: connections.max.idle.ms (Java,
    librdkafka)."""

    metadata_max_age_ms: int
    """The client refreshes metadata of this age. Values: at least 1 ms. Default: 300,000. Other clients:
    metadata.max.age.ms (Java, librdkafka); topic.metadata.refresh.interval.ms (librdkafka)."""

    metadata_recovery_strategy: Literal["rebootstrap", "none"]
    """With "rebootstrap", a client that reaches no known broker connects to the bootstrap servers again (KIP-899).
    Values: "rebootstrap", "none". Default: "rebootstrap". Other clients: metadata.recovery.strategy (Java,
    librdkafka)."""

    metadata_recovery_rebootstrap_trigger_ms: int
    """After this time without metadata from known brokers, the client connects to the bootstrap servers (KIP-1102).
    Values: at least 0 ms. Default: 300,000. Other clients: metadata.recovery.rebootstrap.trigger.ms (Java,
    librdkafka)."""

    metadata_cluster_check_enable: bool
    """Connections name cluster and node to each known broker, so that another broker at its address refuses them
    (KIP-1242, Kafka 4.4). The check is off if metadata_recovery_strategy is "none". Default: True. Other clients:
    metadata.cluster.check.enable (Java)."""

    client_rack: str | None
    """Rack of this client. Brokers may name a nearby replica to read from (KIP-392). None is the default. Default: "".
    Other clients: client.rack (Java, librdkafka)."""

    max_frame_bytes: int
    """Limit of one response. A longer frame closes the connection. Values: at least 1,024 bytes. Default: 100 MiB.
    Other clients: receive.message.max.bytes (librdkafka)."""

    enable_metrics_push: bool
    """The client pushes metrics to the cluster while brokers subscribe to them (KIP-714). Brokers without a plug-in for
    metrics of clients do not subscribe. Client and Admin push none by default, like Java's Admin. Default: False; of
    FetchOptions: True; of ProducerOptions: True; of ConsumerOptions: True; of ScanOptions: True; of
    ShareConsumerOptions: True. Other clients: enable.metrics.push (Java, librdkafka)."""


class FetchOptions(ClientOptions, total=False):
    """Options of `kafwire.config.FetchConfig`, whose `help()` has the text of each."""

    isolation_level: Literal["read_uncommitted", "read_committed"]
    """With "read_committed", reads skip the records of aborted transactions and stop before those of open ones. Values:
    "read_uncommitted", "read_committed". Default: "read_uncommitted". Other clients: isolation.level (Java,
    librdkafka)."""

    fetch_memory: int
    """Limit of the fetched bytes that are not decoded yet. A single larger batch may exceed it. Values: 1 to
    1,099,511,627,776 bytes. Default: 32 MiB; of ConsumerOptions: 64 MiB. Other clients: queued.max.messages.kbytes
    (librdkafka)."""

    fetch_max_bytes: int
    """Limit of one response. A consumer uses the largest power of two up to it, as its buffers have such sizes. Values:
    at least 1 byte. Default: 8 MiB. Other clients: fetch.max.bytes (Java, librdkafka)."""

    fetch_max_wait_ms: int
    """A broker without new records parks a fetch request for this time at most. Values: at least 0 ms. Default: 500.
    Other clients: fetch.max.wait.ms (Java); fetch.wait.max.ms (librdkafka)."""

    chunk_bytes: int
    """Approximate decoded size of a `Batch`: it ends with the wire batch that reaches this size. Values: 1 to
    1,073,741,824 bytes. Default: 4 MiB."""

    max_decompressed: int
    """Limit of one decompressed wire batch. A larger one is an error. Values: 1 to 1,099,511,627,776 bytes. Default:
    256 MiB."""

    check_crcs: bool
    """The decoder compares the checksum of each batch with its bytes. Default: True. Other clients: check.crcs (Java,
    librdkafka)."""

    on_corrupt: Literal["error", "skip"]
    """A batch with a wrong checksum or contradictory bytes raises `CorruptBatchError`. With "skip", the client logs the
    batch and skips it. Values: "error", "skip". Default: "error"."""

    key_deserializer: Deserializes
    """Deserializer of keys that are not null: `str`, "json", a type of msgspec or pydantic, a function, or a
    `Deserializer`. None: they stay bytes. Default: None. Other clients: key.deserializer (Java)."""

    value_deserializer: Deserializes
    """Deserializer of values that are not null: `str`, "json", a type of msgspec or pydantic, a function, or a
    `Deserializer`. None: they stay bytes. Default: None. Other clients: value.deserializer (Java)."""

    key: Deserializes
    """Format of keys, such as `kafwire.Text()`; another name of the option key_deserializer. Default: None."""

    value: Deserializes
    """Format of values, such as `kafwire.Text()`; another name of the option value_deserializer. Default: None."""


class ProducerOptions(ClientOptions, total=False):
    """Options of `kafwire.config.ProducerConfig`, whose `help()` has the text of each."""

    acks: Literal["all"] | int
    """Replicas that must have a record before the broker confirms it: all in-sync ones ("all"), the leader (1) or none
    (0). Values: "all", 1, 0. Default: "all". Other clients: acks (Java, librdkafka); request.required.acks
    (librdkafka)."""

    enable_idempotence: bool | None
    """Retries store no record twice. None: True, unless acks or max_in_flight_requests_per_connection forbid it; with
    True, that is an error. Default: None. Other clients: enable.idempotence (Java, librdkafka)."""

    compression_type: Literal["none", "gzip", "snappy", "lz4", "zstd"] | None
    """Codec of the batches. None is "none". Values: "none", "gzip", "snappy", "lz4", "zstd", or None. Default: "none".
    Other clients: compression.type (Java, librdkafka); compression.codec (librdkafka)."""

    compression_level: int | None
    """Level of the codec: gzip 1 to 9, lz4 0 to 17 (above 12 as 12), zstd -131,072 to 22; other codecs have none. None:
    the default of the codec. Java has an option for each codec: compression.gzip.level and so on. Values: the levels of
    compression_type, or None. Default: None. Other clients: compression.level (librdkafka)."""

    linger_ms: float
    """Time that a batch waits for more records. A fraction counts as the next whole millisecond: 0.5 lingers, 0 does
    not. Values: at least 0 ms. Default: 5. Other clients: linger.ms (Java, librdkafka); queue.buffering.max.ms
    (librdkafka)."""

    batch_size: int
    """Uncompressed size at which a batch is full, at most max_request_size. The default is larger than in other
    clients: each batch costs a few switches of the interpreter, whatever its size. Values: 1 to 1,073,741,824 bytes.
    Default: 1 MiB. Other clients: batch.size (Java, librdkafka); max_batch_size (aiokafka)."""

    max_request_size: int
    """Limit of a record. A request of this size gets no more batches. Values: 1 to 1,073,741,824 bytes. Default: 1 MiB.
    Other clients: max.request.size (Java); message.max.bytes (librdkafka)."""

    buffer_memory: int
    """Limit of all records that are not acknowledged. `send` waits for room. Values: 1 to 1,099,511,627,776 bytes.
    Default: 32 MiB. Other clients: buffer.memory (Java); queue.buffering.max.kbytes (librdkafka)."""

    max_block_ms: int
    """Time limit of `send`, which waits for metadata and room, and of a transactional call. Values: at least 0 ms.
    Default: 60,000. Other clients: max.block.ms (Java)."""

    metadata_max_idle_ms: int
    """The producer drops the metadata of a topic after this time without a record for it. The next record requests it
    again. Values: at least 5,000 ms. Default: 300,000. Other clients: metadata.max.idle.ms (Java)."""

    delivery_timeout_ms: int
    """Time from `send` to the outcome. The producer awaits a request in flight first. Values: at least 1 ms. Default:
    120,000. Other clients: delivery.timeout.ms (Java, librdkafka); message.timeout.ms (librdkafka)."""

    max_in_flight_requests_per_connection: int
    """Batches of a partition in flight at one time. Values: at least 1. Default: 5. Other clients:
    max.in.flight.requests.per.connection (Java, librdkafka); max.in.flight (librdkafka)."""

    transactional_id: str | None
    """Id of a transactional producer, which sends records in transactions only. One producer at a time has the id
    (KIP-98). None: no transactions. Default: None. Other clients: transactional.id (Java, librdkafka)."""

    transaction_timeout_ms: int
    """The coordinator aborts a transaction that is open for longer, and fences the producer. Values: at least 1 ms.
    Default: 60,000. Other clients: transaction.timeout.ms (Java, librdkafka)."""

    transaction_two_phase_commit_enable: bool
    """Transactions never time out (KIP-939). An abandoned transaction stays open, and readers of committed records wait
    behind it. Brokers need `unstable.api.versions.enable` and `transaction.two.phase.commit.enable`, the principal
    TWO_PHASE_COMMIT on the TransactionalId. Default: False. Other clients: transaction.two.phase.commit.enable
    (Java)."""

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
    """Partitioner of records without `partition=`: one of librdkafka's, round_robin, or a function (topic, key,
    partitions, available) -> partition. The default places keys as Java does. None is the default. Values:
    "murmur2_random", "murmur2", "consistent_random", "consistent", "fnv1a_random", "fnv1a", "random", "round_robin", a
    function, or None. Default: "murmur2_random". Other clients: partitioner (librdkafka)."""

    partitioner_adaptive_partitioning_enable: bool
    """Records without a key prefer partitions with fewer waiting batches (KIP-794). Default: True. Other clients:
    partitioner.adaptive.partitioning.enable (Java)."""

    partitioner_availability_timeout_ms: int
    """Records without a key avoid partitions of brokers that accept no request for this time; 0: they avoid none.
    Values: at least 0 ms. Default: 0. Other clients: partitioner.availability.timeout.ms (Java)."""

    partitioner_ignore_keys: bool
    """The partitioner treats all records as if they had no key. Default: False. Other clients: partitioner.ignore.keys
    (Java)."""

    allow_auto_create_topics: bool
    """The broker creates a topic that this producer first sends to. Default: True."""

    key_serializer: Serializes
    """Serializer of keys that are not None: `str`, "json", a type of msgspec or pydantic, a function, or a
    `Serializer`. None: they are bytes. Default: None. Other clients: key.serializer (Java)."""

    value_serializer: Serializes
    """Serializer of values that are not None: `str`, "json", a type of msgspec or pydantic, a function, or a
    `Serializer`. None: they are bytes. Default: None. Other clients: value.serializer (Java)."""

    key: Serializes
    """Format of keys, such as `kafwire.Text()`; another name of the option key_serializer. Default: None."""

    value: Serializes
    """Format of values, such as `kafwire.Text()`; another name of the option value_serializer. Default: None."""

    metrics_hook: Callable[[dict[str, Any]], object] | None
    """Function that gets the result of `metrics()`, in a separate thread. kafwire skips a call while the last one still
    runs. None: no calls. Default: None."""

    metrics_interval_ms: int
    """Time between two calls of metrics_hook. Values: at least 1 ms. Default: 30,000."""


class ConsumerOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ConsumerConfig`, whose `help()` has the text of each."""

    fetch_min_bytes: int
    """A broker with fewer bytes waits for more, up to fetch_max_wait_ms. Values: at least 0 bytes. Default: 1. Other
    clients: fetch.min.bytes (Java, librdkafka)."""

    max_partition_fetch_bytes: int
    """Limit of one partition in a response. Only the first batch of a response may exceed it, so keep the limit above a
    usual batch. Values: at least 1 byte. Default: 8 MiB. Other clients: max.partition.fetch.bytes (Java, librdkafka);
    fetch.message.max.bytes (librdkafka)."""

    max_prefetch_batches: int
    """The consumer stops fetching a partition whose buffer has this number of responses. Values: at least 1. Default:
    4."""

    max_poll_records: int | None
    """Most records of `poll`, and of a batch of a loop or a stream; None: no limit. As `max.poll.records` of
    `from_config` it limits `poll` alone, as in the Java client. Values: at least 1, or None. Default: None. Other
    clients: max.poll.records (Java)."""

    fetch_strategy: Literal["hybrid", "per_partition", "per_node"]
    """Connections of fetch requests. "hybrid": partitions of a broker share one, and a second one serves partitions
    that need records at once. "per_partition": each partition has its own. "per_node": each request names all
    partitions of a broker. Values: "hybrid", "per_partition", "per_node". Default: "hybrid"."""

    single_socket: bool
    """One connection per broker carries all requests. A broker then parks a fetch for at most 100 ms, as other requests
    wait behind it. Default: False."""

    auto_offset_reset: str
    """Start of a partition without a committed offset, or whose offset is out of range. "by_duration:PT1H" is an hour
    ago (KIP-1106). "error", in Kafka "none", raises. Values: "earliest", "latest", "by_duration:<ISO 8601 duration>",
    "error". Default: "latest". Other clients: auto.offset.reset (Java, librdkafka)."""

    auto_offset_reset_new_partitions: str
    """Start of partitions that are new to a running consumer. "auto": added partitions and recreated topics from their
    beginning; a topic that the consumer first sees, where "latest" would apply, from the last metadata without it.
    Values: "auto", and the values of auto_offset_reset. Default: "auto"."""

    group_id: str | None
    """Group of the consumer: it divides `topics` among its members, and keeps offsets. None: no group. Default: None.
    Other clients: group.id (Java, librdkafka)."""

    group_instance_id: str | None
    """Id of a static member, which keeps its partitions while it is away for less than its session (KIP-345). Default:
    None. Other clients: group.instance.id (Java, librdkafka)."""

    group_protocol: Literal["auto", "classic", "consumer"]
    """Assigns partitions: the broker with "consumer" (KIP-848), a member with "classic", the default of other clients.
    "auto" is "consumer" if the cluster supports it, unless a partition_assignment_strategy is given or the group has
    classic members. Values: "auto", "classic", "consumer". Default: "auto". Other clients: group.protocol (Java,
    librdkafka)."""

    group_remote_assignor: str | None
    """Assignor of the broker in the "consumer" protocol, "uniform" or "range". None: the choice of the broker. Default:
    None. Other clients: group.remote.assignor (Java, librdkafka)."""

    partition_assignment_strategy: str | Iterable[str]
    """Assignors of the "classic" protocol, preferred ones first. Members agree on one that all support. Values:
    "range", "roundrobin", "sticky", "cooperative-sticky" or classes of Java, as a list or with commas. Default:
    "range", "cooperative-sticky". Other clients: partition.assignment.strategy (Java, librdkafka)."""

    session_timeout_ms: int
    """The coordinator removes a member after this time without a heartbeat. With group_protocol="consumer" the option
    is an error: the group or the broker sets this time. Values: at least 1 ms. Default: 45,000. Other clients:
    session.timeout.ms (Java, librdkafka)."""

    heartbeat_interval_ms: int
    """Time between two heartbeats of a member. With group_protocol="consumer" the option is an error: the group or the
    broker sets this time. Values: at least 1 ms. Default: 3,000. Other clients: heartbeat.interval.ms (Java,
    librdkafka)."""

    rebalance_timeout_ms: int
    """The coordinator removes a member that does not give up revoked partitions within this time. In other clients,
    max.poll.interval.ms limits that too. Values: at least 1 ms. Default: 300,000."""

    on_revocation: Literal["finish", "discard"]
    """A revocation waits until records in hand are processed, and commits them. With "discard", it does not wait.
    Values: "finish", "discard". Default: "finish"."""

    revocation_timeout_ms: int | None
    """Longest wait of a revocation for records in hand. None: nine tenths of rebalance_timeout_ms. Values: at least 0
    ms, or None. Default: None."""

    max_poll_interval_ms: int | None
    """The member leaves its group after this time without a read. None: never. The default of other clients is 300,000.
    Values: at least 1 ms, or None. Default: None. Other clients: max.poll.interval.ms (Java, librdkafka)."""

    consumer_timeout_ms: float | None
    """`for record in consumer` ends after this time without records, as in kafka-python, and a new loop continues; None
    and -1: never. `AsyncConsumer` logs that the option has no effect: in aiokafka it has another meaning. Values: at
    least 0 ms, -1 or None. Default: None."""

    enable_auto_commit: bool
    """The consumer commits processed offsets, every auto_commit_interval_ms. Other clients commit delivered ones.
    Default: True. Other clients: enable.auto.commit (Java, librdkafka); auto.commit.enable (librdkafka)."""

    auto_commit_interval_ms: int
    """Time between two automatic commits. Values: at least 1 ms. Default: 5,000. Other clients: auto.commit.interval.ms
    (Java, librdkafka)."""

    max_uncommitted: int
    """An explicit stream delivers this number of offsets at most beyond the first one that is not completed. Values: at
    least 1. Default: 10,000."""

    allow_auto_create_topics: bool
    """The broker creates topics that do not exist when this consumer first requests them (KIP-361). Default: False.
    Other clients: allow.auto.create.topics (Java, librdkafka)."""

    metrics_hook: Callable[[dict[str, Any]], object] | None
    """Function that gets the result of `metrics()`, in a separate thread. kafwire skips a call while the last one still
    runs. None: no calls. Default: None."""

    metrics_interval_ms: int
    """Time between two calls of metrics_hook. Values: at least 1 ms. Default: 30,000."""


class ScanOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ScanConfig`, whose `help()` has the text of each."""


class ShareConsumerOptions(FetchOptions, total=False):
    """Options of `kafwire.config.ShareConsumerConfig`, whose `help()` has the text of each."""

    group_id: str
    """Share group of the consumer, which is required. Default: "". Other clients: group.id (Java, librdkafka)."""

    fetch_min_bytes: int
    """A broker with fewer bytes waits for more, up to fetch_max_wait_ms. Values: at least 0 bytes. Default: 1. Other
    clients: fetch.min.bytes (Java, librdkafka)."""

    max_poll_records: int
    """Approximate number of records that each broker acquires at once. With share_acquire_mode="record_limit", the
    limit of all brokers together. Values: at least 1. Default: 500. Other clients: max.poll.records (Java,
    librdkafka)."""

    share_acknowledgement_mode: Literal["implicit", "explicit"]
    """With "implicit", the next read accepts the delivered records; with "explicit", the user acknowledges each.
    Values: "implicit", "explicit". Default: "implicit". Other clients: share.acknowledgement.mode (Java,
    librdkafka)."""

    share_acquire_mode: Literal["batch_optimized", "record_limit"]
    """Brokers acquire whole batches as producers made them, or at most max_poll_records records (KIP-1206). Values:
    "batch_optimized", "record_limit". Default: "batch_optimized". Other clients: share.acquire.mode (Java)."""

    max_deliveries: int | None
    """The consumer rejects records that were delivered more often, instead of delivering them. None: no limit. Values:
    at least 1, or None. Default: None."""
