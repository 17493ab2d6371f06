"""The option names of other clients: the matching option of kafwire, or the reason why there is none.

The clients are Java's, librdkafka with confluent-kafka, aiokafka and kafka-python. The module is a table of facts and
its lookups; names are spelt with underscores here. The declarations of options have their other names (`option_names`).
`translate` serves `from_config`, and `hint` the errors for unknown options. Knows no configuration class.

An option is accepted without effect only if that cannot change the stored or delivered records, or their access
control. Otherwise it is refused, with the reason. Values are never part of a refusal: they may be passwords.
"""

from __future__ import annotations

import contextlib
import logging
import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from kafwire.config import compression_levels
from kafwire.config.checks import HIGHEST
from kafwire.config.option_names import OTHER_NAMES
from kafwire.errors import ConfigError
from kafwire.integers import PollOnly
from kafwire.secret import Secret
from kafwire.similar_names import similar

log = logging.getLogger("kafwire")


def _kib(value: Any) -> Any:
    """Convert kilobytes to bytes; a value that is no number is left to the option's own check."""
    try:
        return int(value) * 1024
    except (TypeError, ValueError):
        return value


def _zero_is_never(value: Any) -> Any:
    return HIGHEST if str(value) == "0" else value


def _minus_one_is_never(value: Any) -> Any:
    return HIGHEST if str(value) == "-1" else value


def _poll_only(value: Any) -> Any:
    """Make a limit of `poll` alone, as in Java. The check of the option refuses a value that is not a whole number."""
    try:
        return PollOnly(value) if isinstance(value, int | str) and not isinstance(value, bool) else value
    except ValueError:
        return value


def _own_level(value: Any) -> Any:
    """Convert librdkafka's -1, the codec's default level, to None."""
    return None if str(value) == "-1" else value


def _same(value: Any) -> Any:
    return value


# Conversions of values if the option's name is spelt with dots.
DOTTED: dict[str, Callable[[Any], Any]] = {"compression_level": _own_level, "max_poll_records": _poll_only}

# Conversions of values if the option has another name.
CONVERSIONS: dict[str, Callable[[Any], Any]] = {
    "message_timeout_ms": _zero_is_never,
    "queue_buffering_max_kbytes": _kib,
    "queued_max_messages_kbytes": _kib,
    "topic_metadata_refresh_interval_ms": _minus_one_is_never,
}

# Other names of options, and the conversions of their values.
ALIASES = {name: (option, CONVERSIONS.get(name, _same)) for name, option in OTHER_NAMES.items()}

# Other words for an option's value.
_RESETS = {"smallest": "earliest", "beginning": "earliest", "largest": "latest", "end": "latest"}
VALUES: dict[str, dict[str, str]] = {
    "auto_offset_reset": _RESETS,
    "auto_offset_reset_new_partitions": _RESETS,
    "compression_type": {"inherit": "none"},
    "group_protocol": {"CLASSIC": "classic", "CONSUMER": "consumer"},
    "ssl_endpoint_identification_algorithm": {"": "none", "HTTPS": "https"},
}

# Java's levels, one for each codec: the level of the chosen codec applies.
LEVELS = {f"compression_{codec}_level": codec for codec in compression_levels.LEVELS}

_JAVA = "org.apache.kafka.clients.producer."
PARTITIONER_CLASSES = {
    f"{_JAVA}RoundRobinPartitioner": "round_robin",
    f"{_JAVA}internals.DefaultPartitioner": "murmur2_random",
}

# Java's serializer classes, as values of `key_serializer` and the like; None: bytes, unchanged.
_SERIALIZATION = "org.apache.kafka.common.serialization."
SERIALIZER_CLASSES: dict[str, str | None] = {
    **{f"{_SERIALIZATION}{kind}{what}": None for kind in ("ByteArray", "ByteBuffer", "Bytes")
       for what in ("Serializer", "Deserializer")},
    f"{_SERIALIZATION}StringSerializer": "str",
    f"{_SERIALIZATION}StringDeserializer": "str",
}  # fmt: skip
SERIALIZERS = frozenset({"key_serializer", "value_serializer", "key_deserializer", "value_deserializer"})

WITHOUT_EFFECT = frozenset(
    {
        # for a JVM, or for librdkafka's own threads and logs
        *("auto_include_jmx_reporter", "metric_reporters", "metrics_num_samples", "metrics_recording_level"),
        *("metrics_sample_window_ms", "statistics_interval_ms", "builtin_features", "debug"),
        *("log_level", "log_queue", "log_thread_name", "log_connection_close", "logger", "enabled_events", "opaque"),
        *("internal_termination_signal", "enable_random_seed", "consume_callback_max_messages"),
        *("metrics_enabled", "metric_group_prefix", "selector", "kafka_client", "loop"),
        # sockets and names
        "socket_options",
        *("send_buffer_bytes", "receive_buffer_bytes", "socket_send_buffer_bytes", "socket_receive_buffer_bytes"),
        *("socket_blocking_max_ms", "socket_keepalive_enable", "socket_nagle_disable", "socket_max_fails"),
        *("socket_connection_setup_timeout_max_ms", "client_dns_lookup"),
        *("bootstrap_resolve_timeout_ms", "bootstrap_timeout_ms"),
        *("broker_address_ttl", "broker_address_family", "reconnect_backoff_jitter_ms"),
        # kafwire negotiates versions, and looks up topics when they are needed
        "api_version",
        *("api_version_request", "api_version_request_timeout_ms", "api_version_fallback_ms"),
        *("broker_version_fallback", "topic_metadata_refresh_fast_interval_ms"),
        *("topic_metadata_refresh_fast_cnt", "topic_metadata_refresh_sparse", "topic_metadata_propagation_max_ms"),
        # batching of a producer: kafwire has batch_size, linger_ms and buffer_memory for it
        *("message_copy_max_bytes", "queue_buffering_max_messages", "queue_buffering_backpressure_threshold"),
        *("batch_num_messages", "sticky_partitioning_linger_ms", "delivery_report_only_error"),
        "produce_offset_report",
        # buffers of a consumer: kafwire has fetch_memory and chunk_bytes for it
        "enable_incremental_fetch_sessions",
        *("max_poll_records", "queued_min_messages", "fetch_queue_backoff_ms", "fetch_error_backoff_ms"),
        # members of a group, share consumers, and patterns, which never match Kafka's internal topics
        *("group_protocol_type", "coordinator_query_interval_ms", "exclude_internal_topics"),
        "share_acknowledgement_mode",
        *("share_acquire_mode", "internal_throw_on_fetch_stable_offset_unsupported"),
        # TLS: kafwire finds a file's format from its bytes; the rest chooses implementations of a JVM or a system
        *("ssl_provider", "ssl_keymanager_algorithm", "ssl_trustmanager_algorithm"),
        *("ssl_secure_random_implementation", "ssl_ca_certificate_stores"),
        # SASL: the system's own tools renew tickets; kafwire renews tokens after most of their lifetime
        *("sasl_kerberos_kinit_cmd", "sasl_kerberos_min_time_before_relogin", "sasl_kerberos_ticket_renew_jitter"),
        *("sasl_kerberos_ticket_renew_window_factor", "sasl_login_connect_timeout_ms", "sasl_login_read_timeout_ms"),
        *("sasl_login_refresh_buffer_seconds", "sasl_login_refresh_min_period_seconds"),
        *("sasl_login_refresh_window_factor", "sasl_login_refresh_window_jitter"),
        *("sasl_login_retry_backoff_max_ms", "sasl_login_retry_backoff_ms"),
        # checks of tokens by brokers
        *("sasl_oauthbearer_allow_unverified_audience", "sasl_oauthbearer_allow_unverified_issuer"),
        *("sasl_oauthbearer_clock_skew_seconds", "sasl_oauthbearer_expected_audience"),
        *("sasl_oauthbearer_expected_issuer", "sasl_oauthbearer_jwks_endpoint_refresh_ms"),
        *("sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms", "sasl_oauthbearer_jwks_endpoint_retry_backoff_ms"),
        *("sasl_oauthbearer_jwks_endpoint_url", "sasl_oauthbearer_scope_claim_name"),
        "sasl_oauthbearer_sub_claim_name",
        # offset files of librdkafka
        *("offset_store_path", "offset_store_sync_interval_ms"),
    }
)

_NONE = ("", "None", "[]", "()")
_JVM_CLASS = "a Java class does not run here"
_NOT_CALLED = "it would never be called"
_OPENSSL = "OpenSSL's own configuration file sets it, or an ssl_context"

# Options that are accepted, without effect, with these values only; and the reason to refuse others.
ONLY: dict[str, tuple[Collection[str], str]] = {
    "interceptor_classes": (_NONE, f"{_JVM_CLASS}: do in your own code what it does to records"),
    "interceptors": (_NONE, "interceptors do not run here: do in your own code what they do to records"),
    "plugin_library_paths": (_NONE, "librdkafka's plugins do not run here"),
    "config_providers": (_NONE, f"{_JVM_CLASS}: give the values themselves"),
    "topic_blacklist": (_NONE, "kafwire excludes no topics: name the topics to read"),
    "enable_auto_offset_store": (
        ("true", "True"),
        "leave it out, set enable_auto_commit=False, and write consumer.commit(batch) for store_offsets(message)",
    ),
    "enable_partition_eof": (
        ("false", "False"),
        "there is no such event: batches(timeout) ends after a silence, and kafwire.scan at the end",
    ),
    "enable_gapless_guarantee": (
        ("false", "False"),
        "a batch that is given up leaves a gap, and its deliveries fail: check them",
    ),
    "partitioner_rack_aware": (("false", "False"), "partitions are chosen without a look at racks: give a partitioner"),
    **dict.fromkeys(
        ("ssl_truststore_type", "ssl_keystore_type"),
        (("PEM", "PKCS12", "JKS"), "a store is a PEM or PKCS#12 file"),
    ),
    "ssl_check_hostname": (("true", "True"), 'set ssl_endpoint_identification_algorithm="none"'),
    "ssl_protocol": (("TLS", "TLSv1.2", "TLSv1.3"), "set ssl_enabled_protocols to TLSv1.2, TLSv1.3 or both"),
    "sasl_oauthbearer_method": (("default", "oidc"), "give sasl_oauthbearer_token_provider, or a token endpoint"),
    "sasl_oauthbearer_metadata_authentication_type": (
        ("none",),
        "give sasl_oauthbearer_token_provider, a function that asks the metadata service",
    ),
    "enable_sasl_oauthbearer_unsecure_jwt": (("false", "False"), "tokens without a signature prove nothing"),
    "sasl_oauthbearer_header_urlencode": (("false", "False"), "client id and secret are sent as they are"),
    "sasl_login_callback_handler_class": (
        (
            "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
            "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
        ),
        f"{_JVM_CLASS}: give sasl_oauthbearer_token_provider",
    ),
    "sasl_client_callback_handler_class": (
        ("software.amazon.msk.auth.iam.IAMClientCallbackHandler",),
        f"{_JVM_CLASS}: give sasl_oauthbearer_token_provider, or the options of the mechanism",
    ),
    "offset_store_method": (("broker",), "offsets are kept by brokers only"),
    "queuing_strategy": (("fifo",), "records leave in the order in which they were sent"),
}

REFUSED: dict[str, str] = {
    "bootstrap_controllers": "kafwire talks to brokers: give bootstrap_servers",
    "default_topic_conf": "put a topic's options beside the others",
    "default_topic_config": "put a topic's options beside the others",
    "security_providers": f"{_JVM_CLASS}, and TLS is OpenSSL's",
    "ssl_engine_factory_class": f"{_JVM_CLASS}: give an ssl_context",
    **dict.fromkeys(("ssl_engine_id", "ssl_engine_location", "ssl_engine_callback_data", "ssl_providers"), _OPENSSL),
    **dict.fromkeys(("ssl_curves_list", "ssl_sigalgs_list"), _OPENSSL),
    "ssl_certificate_verify_cb": f"{_NOT_CALLED}: give an ssl_context",
    "ssl_ca": "give PEM text as ssl_ca_pem",
    "ssl_certificate": "give PEM text as ssl_certificate_pem",
    "ssl_key": "give PEM text as ssl_key_pem",
    **dict.fromkeys(("proxy_url", "socks5_proxy"), "kafwire supports no proxy: forward a port to each broker"),
    "sasl_kerberos_name": "give sasl_kerberos_service_name",
    "sasl_kerberos_domain_name": "tickets are for the host of each broker, as its address has it",
    "sasl_oauth_token_provider": "give sasl_oauthbearer_token_provider, a function that returns a token",
    "sasl_login_class": f"{_JVM_CLASS}: give the options of the mechanism",
    "sasl_oauthbearer_config": "tokens without a signature prove nothing: give sasl_oauthbearer_token_provider",
    **dict.fromkeys(("oauthbearer_token_refresh_cb", "oauth_cb"), "give sasl_oauthbearer_token_provider"),
    **dict.fromkeys(
        ("sasl_oauthbearer_jwt_retriever_class", "sasl_oauthbearer_jwt_validator_class"),
        f"{_JVM_CLASS}: give sasl_oauthbearer_token_provider",
    ),
    "msg_order_cmp": "records leave in the order in which they were sent",
    "partitioner_cb": "give the function as `partitioner`",
    "dr_cb": f"{_NOT_CALLED}: use what `send` returns (add_done_callback, result)",
    "dr_msg_cb": f"{_NOT_CALLED}: use what `send` returns (add_done_callback, result)",
    "on_delivery": f"{_NOT_CALLED}: use what `send` returns (add_done_callback, result)",
    "stats_cb": f"{_NOT_CALLED}: give a metrics_hook",
    "error_cb": f"{_NOT_CALLED}: errors are raised by the calls that they concern, and logged by 'kafwire'",
    "throttle_cb": f"{_NOT_CALLED}: a broker's throttling is in `metrics()`",
    "log_cb": f"{_NOT_CALLED}: the logger is 'kafwire' of the module logging",
    "consume_cb": f"{_NOT_CALLED}: loop over the consumer",
    "rebalance_cb": f"{_NOT_CALLED}: give on_assigned, on_revoked and on_lost",
    "offset_commit_cb": f"{_NOT_CALLED}: `commit` returns when the offsets are committed, or raises",
    "on_commit": f"{_NOT_CALLED}: `commit` returns when the offsets are committed, or raises",
    "default_offset_commit_callback": f"{_NOT_CALLED}: `commit` returns when the offsets are committed, or raises",
    **dict.fromkeys(
        ("background_event_cb", "socket_cb", "connect_cb", "closesocket_cb", "open_cb", "resolve_cb"), _NOT_CALLED
    ),
}

_JAAS = "sasl_jaas_config"
_RETRIES = ("retries", "message_send_max_retries")
_NO_RETRIES = "records are tried until delivery_timeout_ms is over: set that, or acks=0 where none may be sent twice"


def refusal(name: str) -> str | None:
    """Return why an option is refused with any value; None if it is not."""
    return REFUSED.get(name)


def is_known(name: str) -> bool:
    """Return True if the table has a name, which is spelt with underscores."""
    return (
        name in ALIASES or name in LEVELS or name in WITHOUT_EFFECT or name in ONLY or name in SERIALIZERS
        or name in _RETRIES or name in (_JAAS, "partitioner_class") or refusal(name) is not None
    )  # fmt: skip


def hint(name: str, known: Collection[str], *, as_keyword: bool = False) -> str:
    """Return the text after "unknown option ...": the right name, the reason, or the nearest name, spelt as `name`."""
    dotted = "." in name and not as_keyword
    plain = name.replace(".", "_")
    if plain in known:
        return f": it is {plain!r} here; from_config takes names with dots"
    if plain in ALIASES and ALIASES[plain][0] in known:
        return f": it is {spelt(ALIASES[plain][0], dotted)!r} here"
    if plain in LEVELS and "compression_level" in known:
        return f": it is {spelt('compression_level', dotted)!r} here"
    if plain == "partitioner_class" and "partitioner" in known:
        return ": it is 'partitioner' here"
    if plain == _JAAS:
        return ": from_config reads it; as keyword arguments, give its options: sasl_username, sasl_password, ..."
    why = refusal(plain) or (ONLY[plain][1] if plain in ONLY else None)
    if why is not None:
        return f": {why}"
    if plain in _RETRIES and "delivery_timeout_ms" in known:
        return f": {_NO_RETRIES}"
    if is_known(plain):
        return ", which would have no effect here: leave it out"
    near = similar(plain, [*known, *ALIASES])
    if near:
        target = near[0] if near[0] in known else ALIASES[near[0]][0]
        if target in known:
            return f"; did you mean {spelt(target, dotted)!r}?"
    return f"; known: {', '.join(sorted(spelt(one, dotted) for one in known))}"


def spelt(name: str, dotted: bool) -> str:
    """Return a name in the user's spelling."""
    return name.replace("_", ".") if dotted else name


def translate(
    options: Mapping[str, Any], own: Collection[str], others: Collection[str]
) -> tuple[dict[str, Any], dict[str, str]]:
    """Translate option names of the Java client, librdkafka or kafwire to kafwire's own.

    Args: `own`, the names of this client's options and arguments; `others`, those of other clients, which have no
    effect here. Returns the options, and the user's spelling of each. Raises `ConfigError` for unknown and refused
    options. One warning names the options without effect.
    """
    found: dict[str, Any] = {}
    names: dict[str, str] = {}
    ignored: list[str] = []
    levels: list[tuple[str, str, Any]] = []
    jaas: list[tuple[str, Any]] = []

    def put(target: str, value: Any, name: str) -> None:
        words = VALUES.get(target, {})
        value = words.get(value, value) if isinstance(value, str) else value
        if target not in own:
            ignored.append(name)
        elif target in found and found[target] != value:
            raise ConfigError(f"options {names[target]} and {name} are the same: leave one of the two out")
        else:
            found[target], names[target] = value, name

    for given, value in options.items():
        name = str(given)
        plain = name.replace(".", "_")
        dotted = "." in name
        if plain in SERIALIZERS:
            serializer = _serializer(name, value)
            if serializer is not None:
                put(plain, serializer, name)
        elif plain in own:
            put(plain, DOTTED.get(plain, _same)(value) if dotted else value, name)
        elif value is None and is_known(plain):
            continue
        elif plain in ALIASES:
            target, convert = ALIASES[plain]
            put(target, convert(value), name)
        elif plain in LEVELS:
            levels.append((name, LEVELS[plain], value))
        elif plain == _JAAS:
            jaas.append((name, value))
        elif plain == "partitioner_class":
            put("partitioner", _partitioner(name, value), name)
        elif plain in _RETRIES:
            if str(value) == "0":
                raise ConfigError(f"option {name}=0 is not supported: {_spell(_NO_RETRIES, dotted, own)}")
            if str(value) != str(HIGHEST):
                ignored.append(name)
        elif plain in ONLY:
            allowed, why = ONLY[plain]
            if str(value) not in allowed:
                raise ConfigError(f"option {name} is not supported: {_spell(why, dotted, own)}")
        elif (reason := refusal(plain)) is not None:
            raise ConfigError(f"option {name} is not supported: {_spell(reason, dotted, own)}")
        elif plain in WITHOUT_EFFECT or plain in others:
            ignored.append(name)
        else:
            raise ConfigError(f"unknown option {name!r}{hint(name, own)}")
    for name, codec, value in levels:
        if found.get("compression_type") == codec and "compression_level" in own:
            put("compression_level", value, name)
        else:
            ignored.append(name)
    for name, value in jaas:
        for target, said in _said_by_jaas(name, value, found.get("sasl_mechanism")).items():
            put(target, said, name)
    _fit_message_timeout(found, names)
    if ignored:
        log.warning("options without effect: %s", ", ".join(sorted(ignored)))
    return found, names


def _fit_message_timeout(found: dict[str, Any], names: Mapping[str, str]) -> None:
    """Let the request timeout yield to `message.timeout.ms`, as in librdkafka.

    The Java client refuses two such times, and so does kafwire under its own names.
    """
    if names.get("delivery_timeout_ms", "").replace(".", "_") != "message_timeout_ms":
        return
    with contextlib.suppress(TypeError, ValueError, KeyError):  # a bad value is left for the option's own check
        least = math.ceil(float(found.get("linger_ms", 0))) + int(found["request_timeout_ms"])
        if least > int(found["delivery_timeout_ms"]):
            del found["request_timeout_ms"]  # the default then yields


def respell(text: str, names: Mapping[str, str], own: Collection[str]) -> str:
    """Return a message about options with their names in the user's spelling."""
    import re

    dotted = any("." in name for name in names.values())
    known = {one: names.get(one, spelt(one, dotted)) for one in own}
    return re.sub(r"(?<![\w.'\"])[a-z]+(?:_[a-z]+)*(?=[\s=,:;)]|$)", lambda m: known.get(m[0], m[0]), text)


def _spell(text: str, dotted: bool, own: Collection[str]) -> str:
    return respell(text, {"": "."} if dotted else {}, own)


def _partitioner(name: str, value: Any) -> str:
    if not isinstance(value, str) or value not in PARTITIONER_CLASSES:
        more = " and set partitioner_ignore_keys" if str(value).endswith("UniformStickyPartitioner") else ""
        raise ConfigError(
            f"option {name} is not supported: {_JVM_CLASS}: name one of kafwire's as `partitioner`, or give a function"
            f"{more}"
        )
    return PARTITIONER_CLASSES[value]


def _said_by_jaas(name: str, value: Any, mechanism: Any) -> Mapping[str, Any]:
    """Return the options of a JAAS text, with the mechanism if the login module has only one."""
    if not isinstance(value, str | Secret):
        raise ConfigError(f"option {name}: text is needed")
    from kafwire.config.jaas import parse_jaas  # here, as few users give a JAAS text

    entry = parse_jaas(value)
    if mechanism is not None and mechanism not in entry.mechanisms:
        raise ConfigError(f"option {name} has a login module for {' or '.join(entry.mechanisms)}, not for {mechanism}")
    return (
        entry.options
        if mechanism or len(entry.mechanisms) > 1
        else {"sasl_mechanism": entry.mechanisms[0], **entry.options}
    )


def _serializer(name: str, value: Any) -> Any:
    """Return kafwire's name of a Java serializer class; None for bytes, unchanged."""
    if value is None or (isinstance(value, str) and SERIALIZER_CLASSES.get(value, "") is None):
        return None
    if isinstance(value, str) and value in SERIALIZER_CLASSES:
        return SERIALIZER_CLASSES[value]
    if isinstance(value, str) and "." in value:
        raise ConfigError(
            f'option {name} is not supported: {_JVM_CLASS}: give str, "json", a type of msgspec or pydantic, or '
            "a function"
        )
    return value
